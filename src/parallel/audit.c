/* Audits: runs of the graphs on slices of other ranks, hashes, and the vote. */
#include "parallel/audit.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/numeric/hash.h"
#include "base/numeric/tree.h"
#include "base/text/text.h"
#include "dist/consensus.h"
#include "parallel/data_parallel.h"

enum { BLOCK = 1 << 16, SHOWN = 4 }; /* floats that are read at a time; ranks in a message */

typedef enum run_kind {
    ORDINARY, /* a step without an audit */
    SUMS,     /* own slices, for the sums in the middle of a step */
    OTHER,    /* slices of another rank, with those sums */
    OWN       /* the step itself, with those sums */
} run_kind;

/* Hashes of the results for some slices. The sums in the middle of a step are those of the run SUMS, whose hash is `batch`. */
typedef struct result {
    uint32_t batch; /* of the inputs of sums in the middle of the step */
    uint32_t gradient, loss;
} result;

/* The record that the ranks exchange. */
typedef struct report {
    uint32_t weights;
    result own, other; /* other: of the next rank's slices */
    result third;      /* of the slices of the rank after that, if there was a dispute */
    uint32_t kept;     /* of the gradient once more, after the all-reduce */
    uint32_t sum;      /* of the gradients of all ranks */
    uint32_t is_wrong; /* whether another all-reduce gives a different result */
    char device[128], pci[16];
} report;

struct charl__audit {
    run_kind kind;
    bool replays;            /* gradients depend on sums in the middle of a step, which are computed once */
    uint32_t batch;          /* of this run, so far */
    float *sums;             /* in the order in which a step requests them */
    int64_t n, capacity, at; /* floats of them; at: used in this run */
    float *block;            /* [(lanes + 2) * BLOCK] */
    report mine, *all;       /* all: [ranks] */
    bool *suspect;           /* [ranks] */
};

void charl__audit_destroy(charl__audit *a)
{
    if (a) {
        charl_free(a->sums);
        charl_free(a->block);
        charl_free(a->all);
        charl_free(a->suspect);
        charl_free(a);
    }
}

/* One rank can compute the slices of another if all have the same number, in lanes of the same lengths. */
static charl_status require_alike(const charl_data_parallel *dp)
{
    const int size = charl_comm_size(dp->comm), total = dp->slices.total;
    charl_slices other;

    for (int q = 0; q < size; q++) {
        CHARL_TRY(charl_slices_block(total, q, size, &other));
        CHARL_REQUIRE(charl__slices_are_alike(&other, &dp->slices) &&
                          (q != charl_comm_rank(dp->comm) || other.first == dp->slices.first),
                      CHARL_ERR_CONFIG,
                      "audit: %d slices on %d ranks are not divided alike, so ranks cannot check each other; HINT take "
                      "the number of ranks times a power of two, and charl_slices_block",
                      total, size);
    }
    return CHARL_OK;
}

charl_status charl__audit_create(charl_data_parallel *dp)
{
    charl_status st = CHARL_OK;
    charl__audit *a = NULL;
    const charl_device_info *d = charl_device_get_info(dp->params->dev);
    const int size = charl_comm_size(dp->comm);

    if (!dp->rows) {
        return CHARL_OK;
    }
    CHARL_TRY_CLEANUP(require_alike(dp));
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *a, &a));
    CHARL_TRY_CLEANUP(charl__alloc_array((dp->slices.n_lanes + 2) * (int64_t)BLOCK, sizeof *a->block, &a->block));
    CHARL_TRY_CLEANUP(charl__alloc_array(size, sizeof *a->all, &a->all));
    CHARL_TRY_CLEANUP(charl__alloc_array(size, sizeof *a->suspect, &a->suspect));
    snprintf(a->mine.device, sizeof a->mine.device, "%s", d->name);
    snprintf(a->mine.pci, sizeof a->mine.pci, "%s", d->pci);
    dp->audit = a;
    a = NULL;
cleanup:
    charl__audit_destroy(a);
    return st;
}

charl_status charl__audit_check(const charl_data_parallel *dp, const charl_graph *g)
{
    CHARL_REQUIRE(!dp->audit || charl_comm_size(dp->comm) == 1 || charl__graph_can_move(g), CHARL_ERR_CONFIG,
                  "audit: gradients of this model are finished in the middle of a step, so ranks cannot recompute "
                  "those of others; HINT reduce_dtype = f32 (batch norm with bf16 has such gradients), or no audits");
    return CHARL_OK;
}

bool charl__audit_is_on(const charl__audit *a)
{
    return a && a->kind != ORDINARY;
}

bool charl__audit_is_trial(const charl__audit *a)
{
    return a && (a->kind == SUMS || a->kind == OTHER);
}

/* Add the hash of a tensor's lanes to the inputs of sums in this run. */
static charl_status hash_lanes(charl__audit *a, const charl_tensor *lanes)
{
    const size_t bytes = (size_t)charl__tensor_count(lanes) * sizeof(float);
    CHARL_SCOPED_FREE float *v = NULL;

    CHARL_TRY(charl__alloc(bytes, &v));
    CHARL_TRY(charl_tensor_read(lanes, v, bytes));
    a->batch = charl__crc32c(a->batch, v, bytes);
    return CHARL_OK;
}

charl_status charl__audit_sum(charl_data_parallel *dp, charl_tensor *lanes, charl_tensor *sum)
{
    charl__audit *a = dp->audit;
    const int64_t n = charl__tensor_count(sum);
    const size_t bytes = (size_t)n * sizeof(float);

    if (!a->replays || charl__audit_is_trial(a)) {
        CHARL_TRY(hash_lanes(a, lanes));
    }
    if (!a->replays) {
        return a->kind == OWN ? charl__data_parallel_sum(dp, lanes, sum) : CHARL_OK;
    }
    if (a->kind == SUMS) {
        if (a->n + n > a->capacity) {
            CHARL_TRY(charl__realloc(2 * (size_t)(a->n + n) * sizeof *a->sums, &a->sums));
            a->capacity = 2 * (a->n + n);
        }
        CHARL_TRY(charl__data_parallel_sum(dp, lanes, sum));
        CHARL_TRY(charl_tensor_read(sum, a->sums + a->n, bytes));
        a->n += n;
        return CHARL_OK;
    }
    CHARL_INVARIANT(a->at + n <= a->n);
    CHARL_TRY(charl_tensor_write(sum, a->sums + a->at, bytes));
    a->at += n;
    return CHARL_OK;
}

static charl_status hash_floats(charl__audit *a, charl__buffer *b, int64_t count, uint32_t *crc)
{
    for (int64_t at = 0; b && at < count; at += BLOCK) {
        const size_t bytes = (size_t)(count - at < BLOCK ? count - at : BLOCK) * sizeof(float);

        CHARL_TRY(charl__buffer_read(CHARL_QUEUE_COMPUTE, b, (size_t)at * sizeof(float), a->block, bytes, true));
        *crc = charl__crc32c(*crc, a->block, bytes);
    }
    return CHARL_OK;
}

static charl_status hash_gradient(charl__audit *a, const charl_params *set, uint32_t *crc)
{
    *crc = 0;
    return hash_floats(a, set->grad, set->n_lanes * set->gradient_elements, crc);
}

/* Of the run just enqueued. */
static charl_status read_result(const charl_data_parallel *dp, result *out)
{
    const charl_tensor *loss = charl__steps_loss(charl__graph_steps(dp->graph[0]));
    float v[CHARL_MAX_LANES];

    out->loss = 0;
    if (loss) {
        CHARL_INVARIANT(charl__tensor_bytes(loss) <= sizeof v);
        CHARL_TRY(charl_tensor_read(loss, v, charl__tensor_bytes(loss)));
        out->loss = charl__crc32c(0, v, charl__tensor_bytes(loss));
    }
    return hash_gradient(dp->audit, dp->params, &out->gradient);
}

static void turn_to(charl__audit *a, run_kind kind)
{
    a->kind = kind;
    a->batch = 0;
    a->at = 0;
}

/* Make launches change no persistent state, or allow it again. */
static charl_status set_trial(const charl_data_parallel *dp, bool on)
{
    charl_steps *last = NULL;

    for (int k = 0; k < charl__data_parallel_shapes(dp); k++) {
        charl_steps *steps = charl__graph_steps(dp->graph[k]);

        CHARL_TRY(steps != last ? charl__steps_try(steps, on) : CHARL_OK);
        last = steps;
    }
    return CHARL_OK;
}

/* Run the passes of step `step` on the slices of rank `of`. */
static charl_status try(charl_data_parallel *dp, run_kind kind, int of, uint64_t step, result *out)
{
    charl_status st = CHARL_OK;
    charl_slices block;

    turn_to(dp->audit, kind);
    CHARL_TRY_CLEANUP(charl_slices_block(dp->slices.total, of, charl_comm_size(dp->comm), &block));
    CHARL_TRY_CLEANUP(set_trial(dp, true));
    for (int i = 0; i < dp->passes; i++) {
        charl_slices s = *charl__data_parallel_slices(dp, i);

        CHARL_TRY_CLEANUP(charl_slices_range(s.total, s.first - dp->slices.first + block.first, s.count, &s));
        CHARL_TRY_CLEANUP(dp->rows(dp->ctx, charl__data_parallel_shape(dp, i), &s));
        CHARL_TRY_CLEANUP(charl__data_parallel_run_pass(dp, i, &s, step));
    }
    out->batch = dp->audit->batch;
    CHARL_TRY_CLEANUP(read_result(dp, out));
    st = set_trial(dp, false);
cleanup:
    turn_to(dp->audit, ORDINARY);
    return st;
}

charl_status charl_data_parallel_audit(charl_data_parallel *dp)
{
    CHARL_GIVEN(dp);
    charl__audit *a = dp->audit;
    const charl_params *set = dp->params;
    const int size = charl_comm_size(dp->comm), me = charl_comm_rank(dp->comm);
    const double begin = charl__clock_s();

    CHARL_REQUIRE(a && dp->is_compiled, CHARL_ERR_INVALID,
                  "an audit needs compiled graphs, and options.rows to deliver the rows of other ranks");
    CHARL_REQUIRE(dp->pass == dp->passes && dp->reduced, CHARL_ERR_INVALID,
                  "an audit begins between two steps; pass %d of %d has run", dp->pass, dp->passes);
    CHARL_TRY(charl__data_parallel_enter(dp, dp->step + 1, CHARL__PHASE_AUDIT));
    a->mine.weights = 0;
    CHARL_TRY(hash_floats(a, set->value, set->elements, &a->mine.weights));
    CHARL_TRY(hash_floats(a, set->buffers, set->buffer_elements, &a->mine.weights));
    a->n = 0;
    a->replays = dp->reducer && charl__graph_collective(dp->graph[0]);
    if (a->replays) {
        CHARL_TRY(try(dp, SUMS, me, dp->step, &a->mine.own));
    }
    CHARL_TRY(try(dp, OTHER, (me + 1) % size, dp->step, &a->mine.other));
    turn_to(a, OWN);
    dp->audits.seconds += charl__clock_s() - begin;
    return CHARL_OK;
}

charl_status charl__audit_hash(charl_data_parallel *dp)
{
    charl__audit *a = dp->audit;
    const double begin = charl__clock_s();

    if (charl__audit_is_on(a)) {
        a->mine.own.batch = a->replays ? a->mine.own.batch : a->batch;
        CHARL_TRY(read_result(dp, &a->mine.own));
        dp->audits.seconds += charl__clock_s() - begin;
    }
    return CHARL_OK;
}

/* Whether every gradient is summed on every rank, in f32 along the tree over the lanes. */
static bool has_whole_sum(const charl_data_parallel *dp)
{
    return dp->reducer && dp->sharding == CHARL_SHARD_NONE;
}

static bool has_tree_sum(const charl_data_parallel *dp)
{
    const charl_params *set = dp->params;

    return has_whole_sum(dp) && charl__grad_reducer_get_info(dp->reducer).is_invariant &&
           set->reduce_dtype == CHARL_F32 && set->gradient_elements == set->elements;
}

/* Bit for bit, except for the bits of a NaN, which differ between the host and devices. */
static bool is_same_sum(const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (memcmp(&a[i], &b[i], sizeof a[i]) != 0 && !(isnan(a[i]) && isnan(b[i]))) {
            return false;
        }
    }
    return true;
}

/* Add the gradients up again, by the algorithm for small sums. */
static charl_status sum_again(const charl_data_parallel *dp)
{
    charl__audit *a = dp->audit;
    const charl_params *set = dp->params;
    const int64_t stride = set->gradient_elements;

    a->mine.is_wrong = 0;
    for (int64_t at = 0; has_tree_sum(dp) && at < stride; at += BLOCK) {
        const int64_t n = stride - at < BLOCK ? stride - at : BLOCK;
        const size_t bytes = (size_t)n * sizeof(float);
        float *sum = a->block + set->n_lanes * n, *repeated = sum + n;

        for (int j = 0; j < set->n_lanes; j++) {
            CHARL_TRY(charl__buffer_read(CHARL_QUEUE_COMPUTE, set->grad, (size_t)(j * stride + at) * sizeof(float),
                                         a->block + j * n, bytes, true));
        }
        CHARL_TRY(charl__buffer_read(CHARL_QUEUE_COMPUTE, set->sum, (size_t)at * sizeof(float), sum, bytes, true));
        CHARL_TRY(charl__grad_reducer_sum(dp->reducer, a->block, n, repeated));
        a->mine.is_wrong |= !is_same_sum(sum, repeated, n);
    }
    return CHARL_OK;
}

/* Suspect every rank whose value differs from the one of more than half of the ranks; all, if there is no such value. Returns
 * whether the values differ. `offset`: of a uint32_t in a report. */
static bool vote(const charl__audit *a, int size, size_t offset)
{
    bool differs = false;

    for (int q = 0; q < size; q++) {
        const void *mine = (const char *)&a->all[q] + offset;
        int alike = 0;

        for (int p = 0; p < size; p++) {
            alike += memcmp((const char *)&a->all[p] + offset, mine, sizeof(uint32_t)) == 0;
        }
        a->suspect[q] = 2 * alike <= size;
        differs = differs || alike < size;
    }
    return differs;
}

static bool is_same(const result *a, const result *b)
{
    return a->batch == b->batch && a->gradient == b->gradient && a->loss == b->loss;
}

/* Whether the rank before q has computed something different for q's slices. */
static bool is_disputed(const charl__audit *a, int size, int q)
{
    return !is_same(&a->all[q].own, &a->all[(q + size - 1) % size].other);
}

/* Suspect the ranks that are in the minority of those that have computed the same slices. The first disputed slices belong
 * to rank *of. */
static void decide(const charl__audit *a, int size, int *of)
{
    *of = -1;
    memset(a->suspect, 0, (size_t)size * sizeof *a->suspect);
    for (int q = 0; q < size; q++) {
        const int second = (q + size - 1) % size, third = (q + size - 2) % size;
        const result *own = &a->all[q].own, *other = &a->all[second].other, *judge = &a->all[third].third;

        if (!is_disputed(a, size, q)) {
            continue;
        }
        *of = *of < 0 ? q : *of;
        if (size > 2 && is_same(judge, own)) {
            a->suspect[second] = true;
        } else if (size > 2 && is_same(judge, other)) {
            a->suspect[q] = true;
        } else {
            a->suspect[q] = a->suspect[second] = true;
            a->suspect[third] = a->suspect[third] || size > 2;
        }
    }
}

/* "rank 2 of 4 (gpu07, pid 77, NVIDIA H200 at 0000:3b:00.0), rank 3 ..."; *n: how many. */
static charl_status name_suspects(const charl_data_parallel *dp, charl__text *out, int *n)
{
    const charl__audit *a = dp->audit;
    const int size = charl_comm_size(dp->comm);

    *n = 0;
    for (int q = 0; q < size; q++) {
        if (a->suspect[q] && ++*n <= SHOWN) {
            CHARL_TRY(charl__text_printf(out, "%srank %d of %d (%s, pid %" PRId64 ", %s%s%s)", *n > 1 ? ", " : "", q,
                                         size, charl_comm_host(dp->comm, q), charl_comm_pid(dp->comm, q),
                                         a->all[q].device, a->all[q].pci[0] ? " at " : "", a->all[q].pci));
        }
    }
    return *n > SHOWN ? charl__text_printf(out, " and %d more ranks", *n - SHOWN) : CHARL_OK;
}

/* Suspect the ranks whose gradient has changed since before the all-reduce; returns whether there are any. */
static bool find_changed(const charl__audit *a, int size)
{
    bool any = false;

    for (int q = 0; q < size; q++) {
        a->suspect[q] = a->all[q].kept != a->all[q].own.gradient;
        any = any || a->suspect[q];
    }
    return any;
}

/* If ranks have computed different values for the same slices, let a third one compute them, and suspect the minority. */
static charl_status resolve(charl_data_parallel *dp, charl__text *out, bool *disputed)
{
    charl__audit *a = dp->audit;
    const int size = charl_comm_size(dp->comm), count = dp->slices.count;
    int of;

    *disputed = false;
    for (int q = 0; q < size; q++) {
        *disputed = *disputed || is_disputed(a, size, q);
    }
    if (!*disputed) {
        return CHARL_OK;
    }
    if (size > 2) {
        CHARL_TRY(try(dp, OTHER, (charl_comm_rank(dp->comm) + 2) % size, dp->step - 1, &a->mine.third));
        CHARL_TRY(charl_comm_allgather(dp->comm, &a->mine, sizeof a->mine, a->all));
    }
    decide(a, size, &of);
    return charl__text_printf(out, "slices %d to %d: ", of * count, of * count + count - 1);
}

/* The differences of the ranks, as a sentence; *found false: none. */
static charl_status find(charl_data_parallel *dp, charl__text *out, bool *found)
{
    const charl__audit *a = dp->audit;
    const int size = charl_comm_size(dp->comm);
    const char *one = NULL, *several = NULL;
    bool disputed = false, wrong = false;
    int n;

    for (int q = 0; q < size; q++) {
        wrong = wrong || a->all[q].is_wrong;
    }
    if (vote(a, size, offsetof(report, weights))) {
        one = "has other weights than the other ranks";
        several = "have different weights";
    } else {
        CHARL_TRY(resolve(dp, out, &disputed));
    }
    if (disputed) {
        one = size == 1 ? "computed two different gradients"
                        : "computed a different loss or gradient than two other ranks";
        several = "computed different losses or gradients, and no other two ranks agree";
    } else if (!one && find_changed(a, size)) {
        one = several = "had the right gradient, which changed in memory before it was added up";
    } else if (!one && has_whole_sum(dp) && vote(a, size, offsetof(report, sum))) {
        one = "received another sum of gradients than the other ranks";
        several = "received different sums of gradients";
    } else if (!one && wrong) {
        several = "all ranks received the same wrong sum of right gradients; which rank or link failed is not known";
    }
    *found = several != NULL;
    if (*found) {
        CHARL_TRY(name_suspects(dp, out, &n));
        CHARL_TRY(charl__text_printf(out, "%s%s", n > 0 ? " " : "", n == 1 ? one : several));
    }
    return CHARL_OK;
}

/* -1: none, or several. */
static int only_suspect(const charl__audit *a, int size)
{
    int only = -1, n = 0;

    for (int q = 0; q < size; q++) {
        only = a->suspect[q] ? q : only;
        n += a->suspect[q];
    }
    return n == 1 ? only : -1;
}

static charl_status compare(charl_data_parallel *dp)
{
    charl_status st = CHARL_OK;
    charl__audit *a = dp->audit;
    const charl_params *set = dp->params;
    const int size = charl_comm_size(dp->comm);
    charl__text text = {0};
    bool found;

    a->mine.kept = a->mine.own.gradient;
    if (!dp->reducer || set->sum != set->grad) { /* a single rank rounds the gradient in place */
        CHARL_TRY_CLEANUP(hash_gradient(a, set, &a->mine.kept));
    }
    a->mine.sum = 0;
    CHARL_TRY_CLEANUP(hash_floats(a, set->sum, set->gradient_elements, &a->mine.sum));
    CHARL_TRY_CLEANUP(sum_again(dp));
    CHARL_TRY_CLEANUP(charl_comm_allgather(dp->comm, &a->mine, sizeof a->mine, a->all));
    CHARL_TRY_CLEANUP(find(dp, &text, &found));
    if (found) {
        dp->audits.suspect = only_suspect(a, size);
        CHARL_FAIL_CLEANUP(CHARL_ERR_AUDIT, "step %llu, audit: %s", (unsigned long long)dp->step,
                           charl__text_string(&text));
    }
    dp->audits.count++;
    if (charl_comm_rank(dp->comm) == 0) {
        charl__log(CHARL_LOG_INFO, "audit of step %llu: %d rank%s", (unsigned long long)dp->step, size,
                   size == 1 ? " agrees with itself" : "s agree");
    }
cleanup:
    charl__text_fini(&text);
    return st == CHARL_ERR_AUDIT ? charl__comm_agreed(dp->comm, st) : st;
}

charl_status charl__audit_compare(charl_data_parallel *dp)
{
    charl_status st = CHARL_OK;
    const double begin = charl__clock_s();

    if (charl__audit_is_on(dp->audit)) {
        st = compare(dp);
        dp->audit->kind = ORDINARY;
        dp->audits.seconds += charl__clock_s() - begin;
    }
    return st;
}
