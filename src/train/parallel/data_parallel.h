#ifndef CHARL_TRAIN_PARALLEL_DATA_PARALLEL_H
#define CHARL_TRAIN_PARALLEL_DATA_PARALLEL_H
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
#include "train/parallel/grad_accum.h"
#include "train/parallel/grad_reducer.h"

typedef struct charl__shard charl__shard; /* train/parallel/optimizer_shard.h */

/** A value of an accumulated run that is completed over passes and ranks: the mean of a loss. */
typedef struct charl__accumulated {
    float *slots; /* [charl__grad_accum_depth][count] */
    int64_t count;
} charl__accumulated;

struct charl_data_parallel {
    charl_comm *comm; /* borrowed */
    charl_slices slices;
    char algorithm[64];
    double bucket_mb; /* 0: all gradients in one bucket */
    int passes;
    bool shards; /* the optimizer is divided among ranks */

    charl__grad_accum *accum;     /* NULL: the graphs take all slices in one pass */
    charl_params *params;         /* borrowed; NULL: not connected */
    charl__grad_reducer *reducer; /* NULL: one rank, or not connected */
    charl__shard *shard;          /* NULL: every rank updates all parameters */

    /* of programs with a loop of their own */
    charl_graph **graph; /* [charl__data_parallel_shapes], borrowed; NULL: not compiled */
    charl__accumulated *kept;
    int n_kept, pass, at; /* pass under way; sums completed in it so far */
    uint64_t step;
    bool reduced; /* the gradients of this step are summed */
};

/** Local. Errors: ERR_NOMEM. */
charl_status charl__data_parallel_create(charl_comm *comm, charl_data_parallel **out) CHARL_MUST_CHECK;

/** Divide `mine` into `passes` accumulation steps, in place of an earlier plan. With `accumulates`, gradients of even a single pass go through
 *  the accumulator: another rank has several. Local. Errors: as charl__grad_accum_create. */
charl_status charl__data_parallel_plan(charl_data_parallel *dp, const charl_slices *mine, int passes,
                                       bool accumulates) CHARL_MUST_CHECK;

/** Graphs of a step by shape: passes of equal shape share one (train/parallel/grad_accum.h). Local. */
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
void charl__data_parallel_attach(const charl_data_parallel *dp, charl_graph *g, bool trains,
                                 const charl__data_parallel_hooks *hooks);

/** All passes of a step have run: add up the gradients of accumulated passes over the ranks. No-op without accumulation. Local. */
charl_status charl__data_parallel_ready(charl_data_parallel *dp) CHARL_MUST_CHECK;

#endif
