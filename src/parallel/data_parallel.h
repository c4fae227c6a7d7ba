#ifndef CHARL_PARALLEL_DATA_PARALLEL_H
#define CHARL_PARALLEL_DATA_PARALLEL_H
/** charl_data_parallel as the trainer drives it, stage by stage:
 *
 *      plan         divide this rank's slices into accumulation steps        local
 *      connect      place the gradients, connect the all-reduce, shard       collective
 *      prepare      allocate what accumulation needs                         local
 *      attach       hook a graph up, before it is compiled                   local
 *      check        every rank reports the same buckets                      collective
 *      disconnect   back to plan: the batch is divided anew                  collective
 *
 *  plan may be called again, as long as nothing is connected. The public functions call the stages in this order.
 */
#include "charl/data_parallel.h"
#include "parallel/grad_accum.h"
#include "parallel/grad_reducer.h"

typedef struct charl__shard charl__shard; /* parallel/optimizer_shard.h */

struct charl_data_parallel {
    charl_comm *comm; /* borrowed */
    charl_slices slices;
    char algorithm[64];
    double bucket_mb; /* 0: all gradients in one bucket */
    int passes;
    charl_dtype reduce_dtype; /* of the public functions: the trainer sets that of its parameters */
    bool shards;              /* the optimizer is divided among ranks */

    charl__grad_accum *accum;     /* NULL: the graphs take all slices in one pass */
    charl_params *params;         /* borrowed; NULL: not connected */
    charl__grad_reducer *reducer; /* NULL: one rank, or not connected */
    charl__shard *shard;          /* NULL: every rank updates all parameters */

    /* of programs with a loop of their own */
    charl_graph **graph; /* [charl__data_parallel_shapes], borrowed; NULL: not compiled */
    float **
        kept; /* [n_kept], each [charl__grad_accum_depth][count]: sums of a pass that are completed over passes and ranks */
    int n_kept, at; /* at: completed in this pass so far */
    int pass;       /* passes of this step that have run */
    uint64_t step;  /* steps begun */
    bool reduced;   /* the gradients of this step are summed */
};

/** Local. Errors: ERR_NOMEM. */
charl_status charl__data_parallel_create(charl_comm *comm, charl_data_parallel **out) CHARL_MUST_CHECK;

/** Divide `mine` into `passes` accumulation steps, in place of an earlier plan. With `accumulates`, gradients of even a single pass go through
 *  the accumulator: another rank has several. Local. Errors: as charl__grad_accum_create. */
charl_status charl__data_parallel_plan(charl_data_parallel *dp, const charl_slices *mine, int passes,
                                       bool accumulates) CHARL_MUST_CHECK;

/** Graphs of a step by shape: passes of equal shape share one (parallel/grad_accum.h). Local. */
int charl__data_parallel_shapes(const charl_data_parallel *dp);
/** Shape and slices of pass i; the slices that the graph of a shape is built for. Local. */
int charl__data_parallel_shape(const charl_data_parallel *dp, int pass);
const charl_slices *charl__data_parallel_slices(const charl_data_parallel *dp, int pass);
const charl_slices *charl__data_parallel_graph_slices(const charl_data_parallel *dp, int shape);

/** Elements of a bucket of `set`. Local. */
int64_t charl__data_parallel_bucket(const charl_data_parallel *dp, const charl_params *set);

/** Allocate the gradients of `set`, which is laid out and has values, and connect the all-reduce and the shards. Collective; agreed. */
charl_status charl__data_parallel_connect(charl_data_parallel *dp, charl_params *set) CHARL_MUST_CHECK;
/** Release what connect made; the parameters keep their values. Collective; agreed. */
charl_status charl__data_parallel_disconnect(charl_data_parallel *dp) CHARL_MUST_CHECK;

/** Allocate the partial sums of passes. No-op without accumulation. Local. */
charl_status charl__data_parallel_prepare(charl_data_parallel *dp) CHARL_MUST_CHECK;

/** Callbacks of a graph in place of the reducer's own, for a caller that looks at what a rank computes. */
typedef struct charl__data_parallel_hooks {
    charl__collective_fn collective;
    charl__ready_fn ready;
    void *ctx;
} charl__data_parallel_hooks;

/** Connect g, not yet compiled; trains: with its gradients. hooks: NULL for the reducer's. Local. */
void charl__data_parallel_attach(charl_data_parallel *dp, charl_graph *g, bool trains,
                                 const charl__data_parallel_hooks *hooks);

/** All passes of a step have run: add up the gradients of accumulated passes over the ranks. No-op without accumulation. Local. */
charl_status charl__data_parallel_ready(charl_data_parallel *dp) CHARL_MUST_CHECK;

#endif
