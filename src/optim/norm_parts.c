/* The first level of the gradient norm where every rank has the sums of its own gradients only (tensor/params.h, charl__param_parts).
 *
 * The norm adds the squares of blocks of the arena in a fixed order, and must have the same bits however gradients are divided. So a
 * rank sends the others the sums of the blocks that it has completely, and its gradients of the other blocks, which each rank then
 * adds up. The record of a rank: these gradients, then the sums.
 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "optim/optimizer.h"

enum { LANES = 16 };

struct charl__norm_parts {
    const charl__param_parts *parts; /* borrowed */
    charl__buffer *record;           /* this rank's */
    charl__buffer *bad;              /* uint64: the first gradient that is not finite; ~0: there is none */
    int64_t loose, length, most;     /* floats of this rank's record: gradients; all; the most of a rank */
    int64_t n;                       /* blocks of the arena */
    int *slot;                       /* [n]: for a block that no rank has completely, its place in `values`; else -1 */
    int n_slots;
    float *values;     /* [n_slots][CHARL_NORM_RANGE] */
    float *mine, *all; /* records: this rank's, of all [ranks][most] */
    float *sums;       /* [n] */
};

/* A range that a rank owns: the elements before and after its whole blocks, and these. */
typedef struct told {
    charl__param_range head, whole, tail;
} told;

static told told_of(charl__param_range own)
{
    const int64_t end = own.begin + own.count, block = CHARL_NORM_RANGE;
    const int64_t first = (own.begin + block - 1) / block * block, last = end / block * block;

    if (first >= last) {
        return (told){.head = own};
    }
    return (told){{own.begin, first - own.begin}, {first, last - first}, {last, end - last}};
}

static void count_record(const charl__param_ranges *own, int64_t *loose, int64_t *length)
{
    int64_t sums = 0;

    *loose = 0;
    for (int i = 0; i < own->n; i++) {
        const told t = told_of(own->range[i]);

        *loose += t.head.count + t.tail.count;
        sums += t.whole.count / CHARL_NORM_RANGE;
    }
    *length = *loose + sums;
}

/* Assign places in `values` to the blocks of `loose` gradients. */
static void add_slots(charl__norm_parts *p, charl__param_range loose)
{
    const int64_t end = loose.begin + loose.count;

    for (int64_t b = loose.begin / CHARL_NORM_RANGE; b * CHARL_NORM_RANGE < end; b++) {
        if (p->slot[b] < 0) {
            p->slot[b] = p->n_slots++;
        }
    }
}

static charl_status layout(charl__norm_parts *p)
{
    for (int64_t b = 0; b < p->n; b++) {
        p->slot[b] = -1;
    }
    for (int r = 0; r < p->parts->ranks; r++) {
        int64_t loose, length;

        count_record(&p->parts->of[r], &loose, &length);
        p->most = length > p->most ? length : p->most;
        if (r == p->parts->rank) {
            p->loose = loose;
            p->length = length;
        }
        for (int i = 0; i < p->parts->of[r].n; i++) {
            const told t = told_of(p->parts->of[r].range[i]);

            add_slots(p, t.head);
            add_slots(p, t.tail);
        }
    }
    CHARL_TRY(charl__alloc_array(p->most, sizeof *p->mine, &p->mine));
    CHARL_TRY(charl__alloc_array(p->most * p->parts->ranks, sizeof *p->all, &p->all));
    return charl__alloc_array((int64_t)p->n_slots * CHARL_NORM_RANGE, sizeof *p->values, &p->values);
}

charl_status charl__norm_parts_create(charl_optimizer *o)
{
    charl_status st = CHARL_OK;
    charl__norm_parts *p = NULL;

    CHARL_TRY_CLEANUP(charl__alloc(sizeof *p, &p));
    p->parts = o->set->parts;
    p->n = o->set->elements / CHARL_NORM_RANGE;
    CHARL_TRY_CLEANUP(charl__alloc_array(p->n, sizeof *p->slot, &p->slot));
    CHARL_TRY_CLEANUP(charl__alloc_array(p->n, sizeof *p->sums, &p->sums));
    CHARL_TRY_CLEANUP(layout(p));
    CHARL_TRY_CLEANUP(charl__buffer_create(o->set->dev, (size_t)p->length * 4, "gradient norm", &p->record));
    CHARL_TRY_CLEANUP(charl__buffer_create(o->set->dev, sizeof(uint64_t), "gradient norm", &p->bad));
    o->parts = p;
    p = NULL;
cleanup:
    charl__norm_parts_destroy(p);
    return st;
}

void charl__norm_parts_destroy(charl__norm_parts *p)
{
    if (p) {
        charl__buffer_release(p->record);
        charl__buffer_release(p->bad);
        charl_free(p->slot);
        charl_free(p->values);
        charl_free(p->mine);
        charl_free(p->all);
        charl_free(p->sums);
        charl_free(p);
    }
}

charl__buffer *charl__norm_parts_bad(const charl__norm_parts *p)
{
    return p->bad;
}

static charl_status copy(const charl_optimizer *o, charl__param_range from, int64_t *to)
{
    const charl_shape shape = {1, {from.count}};
    CHARL_SCOPED(charl__tensor_left) charl_tensor *src = NULL, *dst = NULL;

    if (from.count == 0) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__tensor_view(charl__optimizer_gradients(o), CHARL_F32, &shape, from.begin, &src));
    CHARL_TRY(charl__tensor_view(o->parts->record, CHARL_F32, &shape, *to, &dst));
    *to += from.count;
    return charl_tensor_copy(src, dst);
}

charl_status charl__norm_parts_enqueue(const charl_optimizer *o)
{
    const charl__param_ranges *own = &o->parts->parts->of[o->parts->parts->rank];
    int64_t loose = 0, sums = o->parts->loose;

    for (int i = 0; i < own->n; i++) {
        const told t = told_of(own->range[i]);

        CHARL_TRY(copy(o, t.head, &loose));
        CHARL_TRY(copy(o, t.tail, &loose));
        if (t.whole.count > 0) {
            charl__arg in = charl__raw(CHARL_ARG_IN, charl__optimizer_gradients(o));

            in.v.offset = t.whole.begin;
            CHARL_TRY(charl__grad_norm_sums(o, in, t.whole.count, o->parts->record, sums));
            sums += t.whole.count / CHARL_NORM_RANGE;
        }
    }
    return CHARL_OK;
}

/* As charl_range_sum of kernels/optim/grad_norm.cl. */
static float sum_block(const float *x)
{
    float part[LANES] = {0};

    for (int i = 0; i < CHARL_NORM_RANGE; i++) {
        part[i % LANES] = fmaf(x[i], x[i], part[i % LANES]);
    }
    for (int width = LANES / 2; width > 0; width /= 2) {
        for (int l = 0; l < width; l++) {
            part[l] += part[l + width];
        }
    }
    return part[0];
}

static void take_loose(charl__norm_parts *p, charl__param_range range, const float **from)
{
    for (int64_t i = range.begin; i < range.begin + range.count; i++) {
        p->values[(int64_t)p->slot[i / CHARL_NORM_RANGE] * CHARL_NORM_RANGE + i % CHARL_NORM_RANGE] = *(*from)++;
    }
}

/* Of all records. */
static void take_all(charl__norm_parts *p)
{
    for (int r = 0; r < p->parts->ranks; r++) {
        const charl__param_ranges *own = &p->parts->of[r];
        const float *loose = p->all + p->most * r, *sums;
        int64_t n_loose, length;

        count_record(own, &n_loose, &length);
        sums = loose + n_loose;
        for (int i = 0; i < own->n; i++) {
            const told t = told_of(own->range[i]);
            const int64_t blocks = t.whole.count / CHARL_NORM_RANGE;

            take_loose(p, t.head, &loose);
            take_loose(p, t.tail, &loose);
            if (blocks > 0) {
                memcpy(p->sums + t.whole.begin / CHARL_NORM_RANGE, sums, (size_t)blocks * sizeof *sums);
                sums += blocks;
            }
        }
    }
    for (int64_t b = 0; b < p->n; b++) {
        if (p->slot[b] >= 0) {
            p->sums[b] = sum_block(p->values + (int64_t)p->slot[b] * CHARL_NORM_RANGE);
        }
    }
}

/* This rank's first gradient that is not finite in a block whose sum is not finite; ~0: there is none. */
static charl_status find_bad(const charl_optimizer *o, uint64_t *out)
{
    const charl__norm_parts *p = o->parts;
    const charl__param_ranges *own = &p->parts->of[p->parts->rank];
    float v[CHARL_NORM_RANGE];

    *out = UINT64_MAX;
    for (int i = 0; i < own->n; i++) {
        const int64_t end = own->range[i].begin + own->range[i].count;
        int64_t next;

        for (int64_t at = own->range[i].begin; at < end; at = next) {
            next = (at / CHARL_NORM_RANGE + 1) * CHARL_NORM_RANGE;
            next = next < end ? next : end;
            if (isfinite(p->sums[at / CHARL_NORM_RANGE])) {
                continue;
            }
            CHARL_TRY(charl__buffer_read(CHARL_QUEUE_COMPUTE, charl__optimizer_gradients(o), (size_t)at * sizeof *v, v,
                                         (size_t)(next - at) * sizeof *v, true));
            for (int64_t k = at; k < next; k++) {
                if (!isfinite(v[k - at])) {
                    *out = (uint64_t)k;
                    return CHARL_OK;
                }
            }
        }
    }
    return CHARL_OK;
}

/* The first of all ranks. */
static charl_status find_first_bad(const charl_optimizer *o, uint64_t *out)
{
    const charl__param_parts *parts = o->parts->parts;
    CHARL_SCOPED_FREE uint64_t *all = NULL;
    uint64_t mine;

    *out = UINT64_MAX;
    CHARL_TRY(charl__alloc_array(parts->ranks, sizeof *all, &all));
    CHARL_TRY(find_bad(o, &mine));
    CHARL_TRY(parts->gather(parts->ctx, &mine, sizeof mine, all));
    for (int r = 0; r < parts->ranks; r++) {
        *out = all[r] < *out ? all[r] : *out;
    }
    return CHARL_OK;
}

charl_status charl__norm_parts_exchange(const charl_optimizer *o)
{
    charl__norm_parts *p = o->parts;
    bool is_finite = true;
    uint64_t bad = UINT64_MAX;

    if (p->length > 0) {
        CHARL_TRY(
            charl__buffer_read(CHARL_QUEUE_COMPUTE, p->record, 0, p->mine, (size_t)p->length * sizeof *p->mine, true));
    }
    CHARL_TRY(p->parts->gather(p->parts->ctx, p->mine, (size_t)p->most * sizeof *p->mine, p->all));
    take_all(p);
    for (int64_t b = 0; b < p->n; b++) {
        is_finite = is_finite && isfinite(p->sums[b]);
    }
    CHARL_TRY(is_finite ? CHARL_OK : find_first_bad(o, &bad));
    CHARL_TRY(charl__buffer_write(CHARL_QUEUE_COMPUTE, p->bad, 0, &bad, sizeof bad, true));
    return charl__buffer_write(CHARL_QUEUE_COMPUTE, o->partial, 0, p->sums, (size_t)p->n * sizeof *p->sums, true);
}
