#ifndef CHARL_DATA_PARALLEL_H
#define CHARL_DATA_PARALLEL_H
/** Gradients summed over ranks while the backward pass runs, with the same bits for every number of
 *  ranks.
 *
 *  Every rank builds the same graph over its slices of the batch (charl/slices.h). This object
 *  compiles it, and from then on a run of the graph begins the all-reduce of each bucket of
 *  gradients as soon as the backward pass has finished it:
 *
 *      charl_slices_block(8, charl_comm_rank(comm), charl_comm_size(comm), &mine);
 *      charl_graph_create(dev, &mine, &g);              build the model on g, then
 *      loss = charl_batch_mean(g, rows);                the mean over the global batch
 *      charl_graph_backward(g, loss, NULL);
 *      charl_data_parallel_create(comm, &mine, params, g, NULL, &dp);
 *      charl_params_initialize(params, seed);           the same on every rank
 *      charl_optimizer_create(params, &config, &optimizer);
 *      for each step:
 *          write this rank's rows to the inputs
 *          charl_graph_run(g);
 *          charl_data_parallel_reduce(dp);
 *          charl_optimizer_step(optimizer, lr);
 *
 *  Destroy graphs and optimizer first, then this object, then the parameters. It belongs to the
 *  thread of the communicator. With one rank everything is done locally.
 */
#include "charl/comm.h"
#include "charl/graph.h"

CHARL_BEGIN_DECLS

typedef struct charl_data_parallel charl_data_parallel;

/** All zero is right. */
typedef struct charl_data_parallel_options {
    const char *allreduce; /* algorithm, as dist.allreduce of a configuration; NULL: auto */
    double bucket_mb;      /* of f32 gradients that are sent together; 0: 25 */
} charl_data_parallel_options;

/** Lay out the parameters of `params`, place its gradients where the ranks can add them up, and
 *  compile g, which has been built with its gradients over the slices `mine` and has not been
 *  compiled. Parameters are borrowed; options may be NULL.
 *
 *  Blocks. Collective. Owned: destroy with charl_data_parallel_destroy.
 *  Errors: those of charl_graph_compile, agreed: every rank gets the same status; ERR_INVALID where g
 *  has other slices, parameters of another set or no gradients, or where `params` has gradients
 *  already; ERR_CONFIG where the algorithm is unknown or unsuitable, or the ranks built different
 *  graphs; ERR_COMM. */
charl_status charl_data_parallel_create(charl_comm *comm, const charl_slices *mine, charl_params *params,
                                        charl_graph *g, const charl_data_parallel_options *options,
                                        charl_data_parallel **out) CHARL_MUST_CHECK;

/** Compile another graph over the same slices and parameters, such as one for evaluation: its batch
 *  sums are taken over the ranks. Blocks. Collective. Errors: as charl_graph_compile, agreed;
 *  ERR_INVALID  other slices or parameters. */
charl_status charl_data_parallel_compile(charl_data_parallel *dp, charl_graph *g) CHARL_MUST_CHECK;

/** After charl_graph_run: wait for the other ranks. What is enqueued afterwards, such as an
 *  optimizer's step, sees the sums of the gradients over the global batch. Blocks. Collective.
 *  Errors: ERR_COMM with the rank that died or fell silent, ERR_DEVICE. */
charl_status charl_data_parallel_reduce(charl_data_parallel *dp) CHARL_MUST_CHECK;

/** Name of the algorithm in use; "" with one rank. Static. Local. */
const char *charl_data_parallel_algorithm(const charl_data_parallel *dp);

/** Bytes of gradients that a run sums over the ranks, as every rank contributes them: 4 for each element of
 *  a trainable parameter, rounded up to 64 elements; as often as it is used, if several times. 0 with one
 *  rank. Local. */
int64_t charl_data_parallel_get_bytes(const charl_data_parallel *dp);

/** NULL is a no-op. Collective, except when the communicator is broken. */
void charl_data_parallel_destroy(charl_data_parallel *dp);

CHARL_END_DECLS

#endif
