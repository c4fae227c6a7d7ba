/* The optimizer divided among ranks. */
#include "parallel/optimizer_shard.h"

#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "dist/allreduce/parts.h"

enum { CHUNK = 1 << 20 }; /* floats of all ranks in one message */

struct charl__shard {
    charl_allreduce *ar;         /* borrowed */
    charl_comm *comm;            /* borrowed */
    int64_t *ticket;             /* [n] */
    charl__param_range *bucket;  /* [n], or pieces of buckets: the units of summation */
    charl__param_range *part;    /* [parts][n]: of each */
    charl__param_ranges *ranges; /* [parts]: part */
    charl__param_range *own;     /* this rank's of `part` */
    charl__param_ranges saved;   /* what this rank writes of them: all, or a share, as others have the same */
    charl__param_range *share;   /* [n]: of `saved` */
    charl__param_parts parts;
    int copies; /* of each part: one on each node that divides alone */
    int n;
};

static charl_status reserve(charl__shard *s, int n)
{
    CHARL_TRY(charl__alloc_array(n, sizeof *s->ticket, &s->ticket));
    CHARL_TRY(charl__alloc_array(n, sizeof *s->bucket, &s->bucket));
    CHARL_TRY(charl__alloc_array((int64_t)n * s->parts.ranks, sizeof *s->part, &s->part));
    CHARL_TRY(charl__alloc_array(s->parts.ranks, sizeof *s->ranges, &s->ranges));
    CHARL_TRY(charl__alloc_array(n, sizeof *s->share, &s->share));
    return CHARL_OK;
}

/* Buckets of gradients of parameters: shares come after them. */
static int buckets(const charl_data_parallel *dp, charl__param_range *out)
{
    const int64_t least = charl__data_parallel_bucket(dp, dp->params);
    const charl_allreduce *ar = charl__grad_reducer_allreduce(dp->reducer);
    int64_t begin = 0, end;
    int n = 0;

    while ((end = charl__params_range(dp->params, &begin, least)) > begin && begin < dp->params->elements) {
        for (; begin < end; n++) {
            const int64_t count = dp->sharding >= CHARL_SHARD_GRADIENTS
                                      ? charl__grad_reducer_piece(dp->reducer, begin, end - begin)
                                      : charl__allreduce_uncut(ar, begin, end - begin);

            if (out) {
                out[n] = (charl__param_range){begin, count};
            }
            begin += count;
        }
    }
    return n;
}

/* Of all parts. */
static charl_status gather(void *ctx, const void *mine, size_t bytes, void *all)
{
    const charl__shard *s = ctx;

    return s->copies > 1 ? charl__comm_allgather_node(s->comm, mine, bytes, all)
                         : charl_comm_allgather(s->comm, mine, bytes, all);
}

/* Determine the owners. */
static void divide(charl__shard *s)
{
    for (int r = 0; r < s->parts.ranks; r++) {
        s->ranges[r] = (charl__param_ranges){s->part + (ptrdiff_t)r * s->n, s->n};
        for (int i = 0; i < s->n; i++) {
            int64_t from, to;

            charl__allreduce_part(s->ar, s->bucket[i].begin, s->bucket[i].count, r, &from, &to);
            s->part[(ptrdiff_t)r * s->n + i] = (charl__param_range){s->bucket[i].begin + from, to - from};
        }
    }
    s->own = s->part + (ptrdiff_t)s->parts.rank * s->n;
    for (int i = 0; i < s->n; i++) {
        int64_t from, to;

        charl__range_part(s->own[i].count, charl_comm_rank(s->comm) / s->parts.ranks % s->copies, s->copies, &from,
                          &to);
        s->share[i] = (charl__param_range){s->own[i].begin + from, to - from};
    }
    s->saved = (charl__param_ranges){s->share, s->n};
}

charl_status charl__shard_create(charl_data_parallel *dp)
{
    charl_status st = CHARL_OK;
    charl__shard *s = NULL;

    CHARL_TRY_CLEANUP(charl__alloc(sizeof *s, &s));
    s->ar = charl__grad_reducer_allreduce(dp->reducer);
    s->comm = dp->comm;
    s->parts.ranks = charl__allreduce_parts(s->ar, &s->parts.rank);
    s->copies = charl_comm_size(dp->comm) / s->parts.ranks;
    s->n = buckets(dp, NULL);
    CHARL_TRY_CLEANUP(reserve(s, s->n));
    s->parts.of = s->ranges;
    s->parts.gather = gather;
    s->parts.ctx = s;
    buckets(dp, s->bucket);
    divide(s);
    dp->params->own = &s->ranges[s->parts.rank];
    dp->params->parts = dp->sharding >= CHARL_SHARD_GRADIENTS ? &s->parts : NULL;
    dp->shard = s;
    s = NULL;
cleanup:
    charl__shard_destroy(s);
    return st;
}

void charl__shard_destroy(charl__shard *s)
{
    if (s) {
        charl_free(s->ticket);
        charl_free(s->bucket);
        charl_free(s->part);
        charl_free(s->ranges);
        charl_free(s->share);
        charl_free(s);
    }
}

static charl_status transfer(const charl_data_parallel *dp, charl__param_range range, bool to_device)
{
    const size_t at = (size_t)range.begin * sizeof(float), bytes = (size_t)range.count * sizeof(float);
    float *host = charl__allreduce_gathered(dp->shard->ar) + range.begin;

    if (bytes == 0) {
        return CHARL_OK;
    }
    return to_device ? charl__buffer_write(CHARL_QUEUE_COMPUTE, dp->params->value, at, host, bytes, false)
                     : charl__buffer_read(CHARL_QUEUE_COMPUTE, dp->params->value, at, host, bytes, false);
}

/* Receive the other ranks' parts of bucket i. */
static charl_status receive(const charl_data_parallel *dp, int i)
{
    const charl__param_range b = dp->shard->bucket[i], own = dp->shard->own[i];
    const int64_t end = own.begin + own.count;

    CHARL_TRY(transfer(dp, (charl__param_range){b.begin, own.begin - b.begin}, true));
    CHARL_TRY(transfer(dp, (charl__param_range){end, b.begin + b.count - end}, true));
    return CHARL_OK;
}

charl_status charl__shard_publish(charl_data_parallel *dp)
{
    charl__shard *s = dp->shard;
    const bool copies = !charl__grad_reducer_shares_values(dp->reducer);

    if (!s || dp->params->is_divided) { /* graphs gather them */
        dp->params->is_changed = true;
        return CHARL_OK;
    }
    if (charl__grad_reducer_gathers_in_place(dp->reducer)) {
        CHARL_TRY(charl__grad_reducer_gather(dp->reducer, s->bucket, s->n));
        return charl__params_refresh(dp->params);
    }
    for (int i = 0; copies && i < s->n; i++) {
        CHARL_TRY(transfer(dp, s->own[i], false));
    }
    CHARL_TRY(charl_device_sync(dp->params->dev));
    for (int i = 0; i < s->n; i++) {
        CHARL_TRY(charl__allreduce_gather(s->ar, s->bucket[i].begin, s->bucket[i].count, &s->ticket[i]));
    }
    for (int i = 0; i < s->n; i++) {
        CHARL_TRY(charl__grad_reducer_wait(dp->reducer, s->ticket[i]));
        if (copies) {
            CHARL_TRY(receive(dp, i));
        }
    }
    CHARL_TRY(charl__params_refresh(dp->params));
    return CHARL_OK;
}

charl_status charl__shard_exchange_ema(charl_data_parallel *dp, charl_optimizer *o)
{
    if (!charl__optimizer_has_ema(o)) {
        return CHARL_OK;
    }
    if (dp->shard) { /* wait until no rank reads the parameters */
        CHARL_TRY(charl_comm_agree(dp->comm, charl_device_sync(dp->params->dev)));
    }
    CHARL_TRY(charl__optimizer_exchange_ema(o));
    return charl__shard_publish(dp);
}

/* Copy elements [at, at + count) of rank r's states to their place among the parameters. */
static void scatter(const charl__shard *s, int r, int64_t at, int64_t count, const float *src, float *all)
{
    int64_t kept = 0;

    for (int i = 0; i < s->n; i++) {
        const charl__param_range part = s->ranges[r].range[i];
        const int64_t first = at > kept ? at : kept;
        const int64_t end = at + count < kept + part.count ? at + count : kept + part.count;

        if (first < end) {
            memcpy(all + part.begin + first - kept, src + first - at, (size_t)(end - first) * sizeof *all);
        }
        kept += part.count;
    }
}

/* Floats of a rank in one message, of at most `most`: all of a message must be below 2 GiB. */
static int64_t chunk_of(int ranks, int64_t most)
{
    return most < CHUNK / ranks ? most : CHUNK / ranks;
}

typedef struct collection {
    float *mine, *chunks; /* own elements; a chunk of every rank */
    int64_t most;         /* the maximum over ranks */
} collection;

/* Elements that this rank has of state k of o; o NULL: of the parameters. */
static charl_status read_own(const charl_data_parallel *dp, const charl_optimizer *o, int k, float *dst)
{
    const charl_params *set = dp->params;

    return o ? charl__optimizer_read_own(o, k, dst)
             : charl__buffer_read(CHARL_QUEUE_COMPUTE, set->value, 0, dst, (size_t)set->value_elements * sizeof *dst,
                                  true);
}

static charl_status collection_begin(const charl_data_parallel *dp, const charl_optimizer *o, int k, bool wanted,
                                     collection *c, float **all)
{
    const int size = dp->shard->parts.ranks;

    CHARL_REQUIRE(!charl__fault("train.collect"), CHARL_ERR_DEVICE, "collecting the state fails on purpose");
    for (int rank = 0; rank < size; rank++) {
        const int64_t n = charl__params_count(&dp->shard->ranges[rank]);

        c->most = n > c->most ? n : c->most;
    }
    CHARL_TRY(charl__alloc_array(c->most, sizeof *c->mine, &c->mine));
    CHARL_TRY(charl__alloc_array(chunk_of(size, c->most) * size, sizeof *c->chunks, &c->chunks));
    if (wanted && dp->shard->parts.rank == 0) {
        CHARL_TRY(charl__alloc_array(dp->params->elements, sizeof **all, all));
    }
    CHARL_TRY(read_own(dp, o, k, c->mine));
    return CHARL_OK;
}

charl_status charl__shard_collect(const charl_data_parallel *dp, const charl_optimizer *o, charl_status mine, int k,
                                  bool wanted, float **out)
{
    charl_status st = mine;
    const int size = dp->shard->parts.ranks;
    int64_t chunk;
    collection c = {0};

    *out = NULL;
    st = st == CHARL_OK ? collection_begin(dp, o, k, wanted, &c, out) : st;
    CHARL_TRY_CLEANUP(charl_comm_agree(dp->comm, st));
    chunk = chunk_of(size, c.most);
    for (int64_t at = 0; at < c.most; at += chunk) {
        const int64_t left = c.most - at < chunk ? c.most - at : chunk;

        CHARL_TRY_CLEANUP(gather(dp->shard, c.mine + at, (size_t)left * sizeof(float), c.chunks));
        for (int rank = 0; *out && rank < size; rank++) {
            scatter(dp->shard, rank, at, left, c.chunks + rank * left, *out);
        }
    }
cleanup:
    charl_free(c.mine);
    charl_free(c.chunks);
    return st;
}

bool charl__shard_own(const charl_data_parallel *dp, const charl_param *p, int64_t n, int64_t *from, int64_t *to)
{
    int64_t at;

    return charl__params_part(&dp->shard->saved, p->offset, n, from, to, &at);
}

int64_t charl__shard_saves(const charl_data_parallel *dp, const charl_optimizer *o)
{
    const charl_params *set = dp->params;

    return !dp->shard || !o ? 0
                            : charl__optimizer_bytes(o, false) - charl__optimizer_bytes(o, true) +
                                  charl__params_bytes(set, set->elements - set->value_elements) +
                                  (dp->sharding >= CHARL_SHARD_GRADIENTS ? 4 * set->gradient_elements : 0);
}
