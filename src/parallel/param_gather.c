/* Parameters gathered block by block. */
#include "parallel/param_gather.h"

#include <limits.h>
#include <string.h>

#include "base/alloc.h"
#include "dist/gather.h"
#include "tensor/tensor.h"

/* A block on its way: the parts of rank r lie at place[r], those of one parameter after those of another. */
typedef struct parcel {
    unsigned char *memory;
    size_t bytes;
    int *count, *place; /* [ranks], in units of two bytes */
    charl__event *used; /* the device has read `memory`; NULL: nothing to wait for */
} parcel;

struct charl__param_gather {
    charl_params *set; /* borrowed */
    charl__gather *gather;
    int ranks, rank;
    unsigned char *own; /* this rank's parts of all parameters, as graphs take them */
    size_t *at;         /* [parameters]: where in `own` */
    parcel parcel[2];
    int current;
    const charl__gathered *coming; /* the block in flight; NULL: none */
};

/* Bytes of p that rank r has. */
static size_t part_bytes(const charl__param_gather *s, const charl_param *p, int r)
{
    int64_t from, to = 0, at;
    size_t n = 0;

    while (charl__param_part(p, &s->set->parts->of[r], &from, &to, &at)) {
        n += (size_t)(to - from) * charl__param_unit(p);
    }
    return n;
}

static charl_status reserve(charl__param_gather *s)
{
    size_t bytes = 0;

    CHARL_TRY(charl__alloc_array(s->set->count, sizeof *s->at, &s->at));
    for (int i = 0; i < s->set->count; i++) {
        s->at[i] = bytes;
        bytes += charl__param_is_divided(s->set->param[i]) ? part_bytes(s, s->set->param[i], s->rank) : 0;
    }
    CHARL_TRY(charl__alloc_large(bytes + 1, &s->own));
    for (int k = 0; k < 2; k++) {
        CHARL_TRY(charl__alloc_array(s->ranks, sizeof *s->parcel[k].count, &s->parcel[k].count));
        CHARL_TRY(charl__alloc_array(s->ranks, sizeof *s->parcel[k].place, &s->parcel[k].place));
    }
    return CHARL_OK;
}

charl_status charl__param_gather_create(charl_data_parallel *dp, charl__param_gather **out)
{
    charl_status st = CHARL_OK;
    charl__param_gather *s = NULL;

    *out = NULL;
    st = charl__alloc(sizeof *s, &s);
    if (st == CHARL_OK) {
        s->set = dp->params;
        s->ranks = charl_comm_size(dp->comm);
        s->rank = charl_comm_rank(dp->comm);
        st = reserve(s);
    }
    CHARL_TRY_CLEANUP(charl_comm_agree(dp->comm, st));
    CHARL_TRY_CLEANUP(charl__gather_create(dp->comm, &s->gather));
    s->set->is_changed = true;
    *out = s;
    s = NULL;
cleanup:
    charl__param_gather_destroy(s);
    return st;
}

void charl__param_gather_destroy(charl__param_gather *s)
{
    if (s && !charl__gather_destroy(s->gather)) {
        for (int k = 0; k < 2; k++) {
            if (s->parcel[k].used && charl__event_wait(s->parcel[k].used) != CHARL_OK) {
                return; /* the device may still read the memory */
            }
            charl__event_release(s->parcel[k].used);
            charl_free(s->parcel[k].memory);
            charl_free(s->parcel[k].count);
            charl_free(s->parcel[k].place);
        }
        charl_free(s->own);
        charl_free(s->at);
        charl_free(s);
    }
}

/* Copy this rank's parts to the host. Blocks. */
static charl_status read_own(charl__param_gather *s)
{
    for (int i = 0; i < s->set->count; i++) {
        const charl_param *p = s->set->param[i];
        const size_t unit = charl__param_unit(p);
        unsigned char *to_host = s->own + s->at[i];
        int64_t from, to = 0, at;

        while (charl__param_is_divided(p) && charl__param_part(p, s->set->own, &from, &to, &at)) {
            const size_t bytes = (size_t)(to - from) * unit;

            CHARL_TRY(charl__buffer_read(CHARL_QUEUE_COMPUTE, unit == sizeof(float) ? s->set->value : s->set->half,
                                         (size_t)at * unit, to_host, bytes, false));
            to_host += bytes;
        }
    }
    CHARL_TRY(charl_device_sync(s->set->dev));
    s->set->is_changed = false;
    return CHARL_OK;
}

static charl_status wait_used(parcel *c)
{
    if (c->used) {
        CHARL_TRY(charl__event_wait(c->used));
        charl__event_release(c->used);
        c->used = NULL;
    }
    return CHARL_OK;
}

/* Ask for a block. */
static charl_status begin(charl__param_gather *s, parcel *c, const charl__gathered *block, int n)
{
    size_t bytes = 0;
    unsigned char *mine;

    for (int r = 0; r < s->ranks; r++) {
        const size_t before = bytes;

        for (int i = 0; i < n; i++) {
            bytes += part_bytes(s, block[i].param, r);
        }
        CHARL_REQUIRE(bytes / 2 <= INT_MAX, CHARL_ERR_CONFIG,
                      "sharded parameters: %s and those that are gathered with it have more than 4 GiB",
                      block[0].param->spec.name);
        c->place[r] = (int)(before / 2);
        c->count[r] = (int)((bytes - before) / 2);
    }
    CHARL_TRY(wait_used(c));
    if (bytes > c->bytes) {
        charl_free(c->memory);
        c->memory = NULL;
        c->bytes = 0;
        CHARL_TRY(charl__alloc_large(bytes, &c->memory));
        c->bytes = bytes;
    }
    mine = c->memory + 2 * (size_t)c->place[s->rank];
    for (int i = 0; i < n; i++) {
        const size_t part = part_bytes(s, block[i].param, s->rank);

        memcpy(mine, s->own + s->at[block[i].param->index], part);
        mine += part;
    }
    CHARL_TRY(charl__gather_begin(s->gather, c->memory, c->count, c->place));
    s->coming = block;
    return CHARL_OK;
}

/* Write a block that has arrived to where the graph expects it. */
static charl_status deliver(const charl__param_gather *s, parcel *c, const charl__gathered *block, int n)
{
    const unsigned char *src = c->memory;

    for (int r = 0; r < s->ranks; r++) {
        for (int i = 0; i < n; i++) {
            const size_t unit = charl__param_unit(block[i].param);
            const charl_tensor *t = block[i].to;
            int64_t from, to = 0, at;

            CHARL_INVARIANT(charl_dtype_size(t->dtype) == unit);
            while (charl__param_part(block[i].param, &s->set->parts->of[r], &from, &to, &at)) {
                const size_t bytes = (size_t)(to - from) * unit;

                CHARL_TRY(charl__buffer_write(CHARL_QUEUE_COMPUTE, t->buffer, (size_t)(t->offset + from) * unit, src,
                                              bytes, false));
                src += bytes;
            }
        }
    }
    return charl__event_record(s->set->dev, CHARL_QUEUE_COMPUTE, &c->used);
}

charl_status charl__param_gather_run(void *ctx, const charl__gathered *block, int n, const charl__gathered *next,
                                     int n_next)
{
    charl__param_gather *s = ctx;
    parcel *c = &s->parcel[s->current];

    CHARL_REQUIRE(!s->coming || s->coming == block, CHARL_ERR_COMM,
                  "the parameters cannot be gathered any more, because an earlier run of a graph has failed");
    if (s->coming != block) { /* the first of a run */
        CHARL_TRY(s->set->is_changed ? read_own(s) : CHARL_OK);
        CHARL_TRY(begin(s, c, block, n));
    }
    CHARL_TRY(charl__gather_wait(s->gather));
    s->coming = NULL;
    CHARL_TRY(deliver(s, c, block, n));
    s->current = 1 - s->current;
    return n_next > 0 ? begin(s, &s->parcel[s->current], next, n_next) : CHARL_OK;
}
