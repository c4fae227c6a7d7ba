/* Data-parallel training for programs that have a loop of their own. */
#include "charl/data_parallel.h"

#include "autograd/graph.h"
#include "autograd/op.h"
#include "base/alloc.h"
#include "dist/allreduce/allreduce_device.h"
#include "train/parallel/grad_reducer.h"

struct charl_data_parallel {
    charl_comm *comm;     /* borrowed */
    charl_params *params; /* borrowed */
    charl_slices slices;
    charl__grad_reducer *reducer; /* NULL: one rank */
    bool has_gradients;           /* those of params are its own */
};

static const double DEFAULT_BUCKET_MB = 25;

static int64_t bucket_elements(const charl_params *params, const charl_data_parallel_options *options)
{
    const double mb = options && options->bucket_mb > 0 ? options->bucket_mb : DEFAULT_BUCKET_MB;

    return charl__grad_reducer_bucket(params, mb);
}

/* A graph over other slices, or other parameters, would compute sums that are not those of the batch. */
static charl_status check_graph(const charl_data_parallel *dp, const charl_graph *g)
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
    CHARL_REQUIRE(!params || params == dp->params, CHARL_ERR_INVALID, "the graph has the parameters of another set");
    return CHARL_OK;
}

/* Lay out the parameters of a training graph. */
static charl_status prepare(const charl_data_parallel *dp, charl_graph *g, const char *algorithm)
{
    CHARL_TRY(charl__allreduce_check_name(algorithm ? algorithm : "auto"));
    CHARL_TRY(charl_graph_status(g));
    CHARL_TRY(check_graph(dp, g));
    CHARL_REQUIRE(charl__graph_params(g) && charl__graph_has_gradients(g), CHARL_ERR_INVALID,
                  "the graph computes no gradients of parameters; HINT charl_graph_backward appends them");
    CHARL_REQUIRE(!dp->params->grad, CHARL_ERR_INVALID,
                  "the parameters have gradients already, from another data-parallel object or from "
                  "charl_graph_compile");
    return charl__graph_prepare(g);
}

static charl_status compile(charl_data_parallel *dp, charl_graph *g)
{
    if (dp->reducer) {
        charl__graph_on_collective(g, charl__grad_reducer_collective, dp->reducer);
    }
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
    const charl_allreduce_options wanted = {.algorithm = options ? options->allreduce : NULL,
                                            .reduce_dtype = CHARL_F32};

    *out = NULL;
    st = charl__alloc(sizeof *dp, &dp);
    if (st == CHARL_OK) {
        *dp = (charl_data_parallel){.comm = comm, .params = params, .slices = *mine};
        st = prepare(dp, g, wanted.algorithm);
    }
    CHARL_TRY_CLEANUP(charl_comm_agree(comm, st));
    CHARL_TRY_CLEANUP(charl__grad_reducer_create(comm, &wanted, mine, params, &dp->reducer));
    dp->has_gradients = true;
    if (dp->reducer) {
        charl__graph_on_ready(g, charl__grad_reducer_ready, dp->reducer, bucket_elements(params, options));
    }
    CHARL_TRY_CLEANUP(charl_comm_agree(comm, compile(dp, g)));
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
    const charl_status st = check_graph(dp, g);

    return charl_comm_agree(dp->comm, st == CHARL_OK ? compile(dp, g) : st);
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
    if (dp->has_gradients) {
        charl__params_free_gradients(dp->params); /* they may lie in the reducer's memory */
    }
    charl__grad_reducer_destroy(dp->reducer);
    charl_free(dp);
}
