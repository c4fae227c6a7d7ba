#ifndef CHARL_PARALLEL_DATA_PARALLEL_H
#define CHARL_PARALLEL_DATA_PARALLEL_H
/** Internals of charl_data_parallel: charl_data_parallel_compile in stages. The trainer calls these stages itself, because it chooses the number of passes by
 *  the memory that graphs need, and lets graphs of evaluations share that memory.
 *
 *      plan         divide this rank's slices into passes                            local
 *      connect      place the gradients, connect the all-reduce, shard               collective
 *      prepare      allocate the memory of accumulation and audits                   local
 *      compile      connect and compile a graph                                      local
 *      finish       check that all ranks have the same buckets; rebind optimizers    collective
 *
 *  plan may be called again until something is connected.
 */
#include "charl/data_parallel.h"
#include "parallel/balance.h"
#include "parallel/grad_accum.h"
#include "parallel/grad_reducer.h"
#include "parallel/phase.h"

typedef struct charl__shard charl__shard;               /* parallel/optimizer_shard.h */
typedef struct charl__audit charl__audit;               /* parallel/audit.h */
typedef struct charl__param_gather charl__param_gather; /* parallel/param_gather.h */

struct charl_data_parallel {
    charl_comm *comm; /* borrowed */
    charl_slices slices;
    char algorithm[64];
    double bucket_mb;   /* 0: all gradients in one bucket */
    int wanted, passes; /* charl_data_parallel_options.passes; what a step has */
    charl_dtype reduce_dtype;
    charl_shard sharding; /* what ranks divide among them: none with one rank */
    bool within_nodes;    /* those of each node */
    const char *
        whole; /* type of an optimizer that updates whole tensors, which are assigned to ranks; NULL: tensors are divided */
    charl__owners owners;
    charl_status (*rows)(void *ctx, int graph, const charl_slices *slices);
    void *ctx;
    void (*entered)(void *ctx, charl__phase phase); /* NULL, or informed of each phase of a step */
    void *entered_ctx;

    charl__grad_accum *accum;     /* NULL: the graphs take all slices in one pass */
    charl_params *params;         /* borrowed; NULL: not connected */
    charl__grad_reducer *reducer; /* NULL: one rank, or not connected */
    charl__shard *shard;          /* NULL: every rank updates all parameters */
    charl__param_gather *gather;  /* NULL: every rank has all parameters */
    int64_t most_passes;          /* with it: of any rank */
    charl__audit *audit;          /* NULL: rows is, or not connected */
    charl_data_parallel_audits audits;
    charl__balance balance;

    charl_graph **graph; /* [charl__data_parallel_shapes], borrowed; NULL: not compiled */
    float **
        kept; /* [n_kept], each [charl__grad_accum_depth][count]: sums of a pass that are completed over passes and ranks */
    int n_kept, at; /* at: completed in this pass so far */
    bool is_compiled;
    int pass;      /* passes of this step that have run */
    uint64_t step; /* steps begun */
    bool reduced;  /* the gradients of this step are summed */
};

/** Divide `mine` into `passes` accumulation steps, replacing an earlier plan. With `accumulates`, gradients of even a single pass go through
 *  the accumulator, because another rank has several. Local. Errors: as charl__grad_accum_create. */
charl_status charl__data_parallel_plan(charl_data_parallel *dp, const charl_slices *mine, int passes,
                                       bool accumulates) CHARL_MUST_CHECK;

/** Graphs of a step by shape: passes of equal shape share one (parallel/grad_accum.h). Local. */
int charl__data_parallel_shapes(const charl_data_parallel *dp);
/** Shape and slices of pass i; the slices that the graph of a shape is built for. Local. */
int charl__data_parallel_shape(const charl_data_parallel *dp, int pass);
const charl_slices *charl__data_parallel_slices(const charl_data_parallel *dp, int pass);
const charl_slices *charl__data_parallel_graph_slices(const charl_data_parallel *dp, int shape);

/** The number of shards: of ranks that divide; others have the same. Local. */
static inline int charl__data_parallel_shards(const charl_data_parallel *dp)
{
    return dp->within_nodes ? charl_comm_local_size(dp->comm) : charl_comm_size(dp->comm);
}

/** What is sharded: nothing if no rank has another one to divide with. It may change until something is connected; for parameters, before graphs are prepared, as
 *  charl_params.is_divided. Local. */
void charl__data_parallel_set_shard(charl_data_parallel *dp, charl_shard shard);

/** Elements of a bucket of `set`. Local. */
int64_t charl__data_parallel_bucket(const charl_data_parallel *dp, const charl_params *set);

/** Allocate the gradients of `set`, which has its layout and values, and connect the all-reduce and the shards. Collective; agreed. */
charl_status charl__data_parallel_connect(charl_data_parallel *dp, charl_params *set) CHARL_MUST_CHECK;
/** Allocate the partial sums of passes, and what audits need. Local. */
charl_status charl__data_parallel_prepare(charl_data_parallel *dp) CHARL_MUST_CHECK;
/** Compile g, the graph of a shape; -1: a graph without gradients. Its activations share the memory of those of `memory`, NULL: their own. Local. */
charl_status charl__data_parallel_compile(charl_data_parallel *dp, charl_graph *g, int shape,
                                          const charl_graph *memory) CHARL_MUST_CHECK;
/** Collective. Errors: ERR_CONFIG  the ranks have different buckets. */
charl_status charl__data_parallel_finish(charl_data_parallel *dp) CHARL_MUST_CHECK;

/** Begin a phase of the step. Errors: injected faults. */
charl_status charl__data_parallel_enter(const charl_data_parallel *dp, uint64_t step,
                                        charl__phase phase) CHARL_MUST_CHECK;
/** Run the graph of pass i over `slices`, of the same shape, as in step number `step`, from 0. Async. Local. */
charl_status charl__data_parallel_run_pass(charl_data_parallel *dp, int i, const charl_slices *slices,
                                           uint64_t step) CHARL_MUST_CHECK;
/** Run pass i of an evaluation with g, its graph. Async. Collective with sharded parameters, else Local. */
charl_status charl__data_parallel_evaluate(const charl_data_parallel *dp, charl_graph *g, int i) CHARL_MUST_CHECK;
/** After the connection between the ranks was lost: on one rank of the node, undo the step that has begun, if one has, and call `work`, with ERR_COMM,
 *  ERR_INVALID or ERR_DEVICE if parameters and optimizers are not those of the step before. The other ranks wait for it, some seconds at
 *  most. Nothing may be sharded. Local. */
void charl__data_parallel_outlive(charl_data_parallel *dp, void (*work)(void *ctx, charl_status undone), void *ctx);
/** Complete a sum over the batch in the middle of a pass. Collective. */
charl_status charl__data_parallel_sum(charl_data_parallel *dp, charl_tensor *lanes, charl_tensor *sum) CHARL_MUST_CHECK;

#endif
