/* Data-parallel training: accumulation, all-reduce and shards behind one object. */
#include "train/parallel/data_parallel.h"

#include <stdio.h>

#include "autograd/graph.h"
#include "autograd/op.h"
#include "base/alloc.h"
#include "dist/allreduce/allreduce_device.h"
#include "train/parallel/optimizer_shard.h"

static const double DEFAULT_BUCKET_MB = 25;

charl_status charl__data_parallel_create(charl_comm *comm, charl_data_parallel **out)
{
    CHARL_TRY(charl__alloc(sizeof **out, out));
    **out = (charl_data_parallel){.comm = comm, .passes = 1};
    return CHARL_OK;
}

charl_status charl__data_parallel_plan(charl_data_parallel *dp, const charl_slices *mine, int passes, bool accumulates)
{
    charl__grad_accum_destroy(dp->accum);
    dp->accum = NULL;
    dp->slices = *mine;
    dp->passes = passes;
    return accumulates ? charl__grad_accum_create(mine, passes, &dp->accum) : CHARL_OK;
}

int charl__data_parallel_shapes(const charl_data_parallel *dp)
{
    return dp->accum ? charl__grad_accum_shapes(dp->accum) : 1;
}

int charl__data_parallel_shape(const charl_data_parallel *dp, int pass)
{
    return dp->accum ? charl__grad_accum_shape(dp->accum, pass) : 0;
}

const charl_slices *charl__data_parallel_slices(const charl_data_parallel *dp, int pass)
{
    return dp->accum ? charl__grad_accum_slices(dp->accum, pass) : &dp->slices;
}

const charl_slices *charl__data_parallel_graph_slices(const charl_data_parallel *dp, int shape)
{
    int i = 0;

    while (charl__data_parallel_shape(dp, i) != shape) {
        i++;
    }
    return charl__data_parallel_slices(dp, i);
}

int64_t charl__data_parallel_bucket(const charl_data_parallel *dp, const charl_params *set)
{
    return dp->bucket_mb > 0 ? charl__grad_reducer_bucket(set, dp->bucket_mb) : set->elements > 0 ? set->elements : 1;
}

charl_status charl__data_parallel_connect(charl_data_parallel *dp, charl_params *set)
{
    const charl_allreduce_options options = {
        .algorithm = dp->algorithm, .reduce_dtype = set->reduce_dtype, .gathers = dp->shards};

    CHARL_TRY(charl__grad_reducer_create(dp->comm, &options, &dp->slices, set, &dp->reducer));
    dp->params = set;
    return dp->shards ? charl_comm_agree(dp->comm, charl__shard_create(dp)) : CHARL_OK;
}

charl_status charl__data_parallel_disconnect(charl_data_parallel *dp)
{
    charl_status st = CHARL_OK;

    if (dp->shards) { /* devices of other ranks may not share theirs */
        st = charl__grad_reducer_shares_values(dp->reducer) ? charl__params_move(dp->params, NULL) : CHARL_OK;
        CHARL_TRY(charl_comm_agree(dp->comm, st));
    }
    charl__shard_destroy(dp->shard);
    dp->shard = NULL;
    charl__params_free_gradients(dp->params); /* they may lie in the reducer's memory */
    charl__grad_reducer_destroy(dp->reducer);
    dp->reducer = NULL;
    dp->params = NULL;
    return st;
}

charl_status charl__data_parallel_prepare(charl_data_parallel *dp)
{
    return dp->accum ? charl__grad_accum_prepare(dp->accum, dp->params) : CHARL_OK;
}

void charl__data_parallel_attach(const charl_data_parallel *dp, charl_graph *g, bool trains,
                                 const charl__data_parallel_hooks *hooks)
{
    const charl__data_parallel_hooks own = {charl__grad_reducer_collective, charl__grad_reducer_ready, dp->reducer};
    const charl__data_parallel_hooks *h = hooks ? hooks : &own;

    if (dp->reducer) {
        charl__graph_on_collective(g, h->collective, h->ctx);
    }
    if (dp->reducer && trains && !dp->accum) {
        charl__graph_on_ready(g, h->ready, h->ctx, charl__data_parallel_bucket(dp, dp->params));
    }
    if (dp->accum && trains) {
        charl__graph_use_gradients(g, charl__grad_accum_gradients(dp->accum));
    }
}

charl_status charl__data_parallel_ready(charl_data_parallel *dp)
{
    return dp->accum && dp->reducer ? charl__grad_reducer_ready_all(dp->reducer) : CHARL_OK;
}

/* A graph over other slices, or other parameters, would compute sums that are not those of the batch. */
static charl_status check_graph(const charl_data_parallel *dp, const charl_params *set, const charl_graph *g)
{
    const charl_slices *s = charl__graph_slices(g), *mine = &dp->slices;
    const charl_params *params = charl__graph_params(g);

    CHARL_REQUIRE(s->total == mine->total && s->first == mine->first && s->count == mine->count, CHARL_ERR_INVALID,
                  "the graph has slices %d to %d of %d, this rank slices %d to %d of %d; HINT charl_graph_create takes "
                  "the slices",
                  s->first, s->first + s->count, s->total, mine->first, mine->first + mine->count, mine->total);
    CHARL_REQUIRE(
        s->n_lanes == mine->n_lanes, CHARL_ERR_INVALID,
        "slices %d to %d of %d have %d lanes, not %d; HINT charl_slices_block and charl_slices_range count them",
        mine->first, mine->first + mine->count, mine->total, s->n_lanes, mine->n_lanes);
    CHARL_REQUIRE(charl_comm_size(dp->comm) > 1 || mine->count == mine->total, CHARL_ERR_INVALID,
                  "the only rank has %d of %d slices", mine->count, mine->total);
    CHARL_REQUIRE(!params || params == set, CHARL_ERR_INVALID, "the graph has the parameters of another set");
    return CHARL_OK;
}

/* Lay out the parameters of a training graph. */
static charl_status prepare(const charl_data_parallel *dp, charl_params *set, charl_graph *g)
{
    CHARL_TRY(charl__allreduce_check_name(dp->algorithm));
    CHARL_TRY(charl_graph_status(g));
    CHARL_TRY(check_graph(dp, set, g));
    CHARL_REQUIRE(charl__graph_params(g) && charl__graph_has_gradients(g), CHARL_ERR_INVALID,
                  "the graph computes no gradients of parameters; HINT charl_graph_backward appends them");
    CHARL_REQUIRE(!set->grad, CHARL_ERR_INVALID,
                  "the parameters have gradients already, from another data-parallel object or from "
                  "charl_graph_compile");
    return charl__graph_prepare(g);
}

static charl_status compile(const charl_data_parallel *dp, charl_graph *g, bool trains)
{
    charl__data_parallel_attach(dp, g, trains, NULL);
    CHARL_TRY(charl_graph_compile(g));
    CHARL_TRY(charl_graph_warm_up(g)); /* no rank compiles kernels while others wait in a sum */
    return CHARL_OK;
}

charl_status charl_data_parallel_create(charl_comm *comm, const charl_slices *mine, charl_params *params,
                                        charl_graph *g, const charl_data_parallel_options *options,
                                        charl_data_parallel **out)
{
    CHARL_GIVEN(comm, mine, params, g, out);
    charl_status st = CHARL_OK;
    charl_data_parallel *dp = NULL;

    *out = NULL;
    st = charl__data_parallel_create(comm, &dp);
    if (st == CHARL_OK) {
        snprintf(dp->algorithm, sizeof dp->algorithm, "%s",
                 options && options->allreduce ? options->allreduce : "auto");
        dp->bucket_mb = options && options->bucket_mb > 0 ? options->bucket_mb : DEFAULT_BUCKET_MB;
        st = charl__data_parallel_plan(dp, mine, 1, false);
        st = st == CHARL_OK ? prepare(dp, params, g) : st;
    }
    CHARL_TRY_CLEANUP(charl_comm_agree(comm, st));
    CHARL_TRY_CLEANUP(charl__data_parallel_connect(dp, params));
    CHARL_TRY_CLEANUP(charl_comm_agree(comm, compile(dp, g, true)));
    CHARL_TRY_CLEANUP(charl__grad_reducer_check(dp->reducer, g));
    *out = dp;
    dp = NULL;
cleanup:
    charl_data_parallel_destroy(dp);
    return st;
}

charl_status charl_data_parallel_compile(charl_data_parallel *dp, charl_graph *g)
{
    CHARL_GIVEN(dp, g);
    const charl_status st = check_graph(dp, dp->params, g);

    return charl_comm_agree(dp->comm, st == CHARL_OK ? compile(dp, g, false) : st);
}

charl_status charl_data_parallel_reduce(charl_data_parallel *dp)
{
    CHARL_GIVEN(dp);
    CHARL_TRY(charl__grad_reducer_begin(dp->reducer));
    CHARL_TRY(charl__grad_reducer_finish(dp->reducer));
    return CHARL_OK;
}

const char *charl_data_parallel_algorithm(const charl_data_parallel *dp)
{
    return dp ? charl__grad_reducer_name(dp->reducer) : NULL;
}

int64_t charl_data_parallel_get_bytes(const charl_data_parallel *dp)
{
    if (!dp) {
        return 0;
    }
    int64_t begin = 0, end, elements = 0;

    while (dp->reducer && (end = charl__params_range(dp->params, &begin, 1)) > begin) {
        elements += end - begin;
        begin = end;
    }
    return elements * (int64_t)sizeof(float);
}

void charl_data_parallel_destroy(charl_data_parallel *dp)
{
    if (!dp) {
        return;
    }
    if (dp->params) { /* gradients and values may lie in the reducer's memory */
        charl__params_free_gradients(dp->params);
        if (charl__grad_reducer_shares_values(dp->reducer) && charl__params_move(dp->params, NULL) != CHARL_OK) {
            charl__params_free_values(dp->params);
        }
    }
    charl__shard_destroy(dp->shard);
    charl__grad_accum_destroy(dp->accum);
    charl__grad_reducer_destroy(dp->reducer);
    charl_free(dp);
}
