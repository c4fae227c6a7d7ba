/* Data-parallel training for programs that have a loop of their own. */
#include "charl/data_parallel.h"

#include "autograd/graph.h"
#include "base/alloc.h"
#include "train/parallel/grad_reducer.h"

struct charl_data_parallel {
    charl_comm *comm;     /* borrowed */
    charl_params *params; /* borrowed */
    charl_slices slices;
    charl__grad_reducer *reducer; /* NULL: one rank */
};

static const double DEFAULT_BUCKET_MB = 25;

static int64_t bucket_elements(const charl_params *params, const charl_data_parallel_options *options)
{
    const double mb = options && options->bucket_mb > 0 ? options->bucket_mb : DEFAULT_BUCKET_MB;

    return charl__grad_reducer_bucket(params, mb);
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
    charl_status st = CHARL_OK;
    charl_data_parallel *dp = NULL;
    const charl_allreduce_options wanted = {.algorithm = options ? options->allreduce : NULL,
                                            .reduce_dtype = CHARL_F32};

    *out = NULL;
    st = charl__alloc(sizeof *dp, &dp);
    if (st == CHARL_OK) {
        st = charl__graph_prepare(g); /* lays the parameters out */
    }
    CHARL_TRY_CLEANUP(charl_comm_agree(comm, st));
    *dp = (charl_data_parallel){.comm = comm, .params = params, .slices = *mine};
    CHARL_TRY_CLEANUP(charl__grad_reducer_create(comm, &wanted, mine, params, &dp->reducer));
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
    return charl_comm_agree(dp->comm, compile(dp, g));
}

charl_status charl_data_parallel_reduce(charl_data_parallel *dp)
{
    CHARL_TRY(charl__grad_reducer_begin(dp->reducer));
    CHARL_TRY(charl__grad_reducer_finish(dp->reducer));
    return CHARL_OK;
}

const char *charl_data_parallel_algorithm(const charl_data_parallel *dp)
{
    return charl__grad_reducer_name(dp->reducer);
}

int64_t charl_data_parallel_get_bytes(const charl_data_parallel *dp)
{
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
    if (dp->reducer) {
        charl__params_free_gradients(dp->params); /* they lie in its memory */
        charl__grad_reducer_destroy(dp->reducer);
    }
    charl_free(dp);
}
