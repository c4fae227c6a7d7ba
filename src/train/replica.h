#ifndef CHARL_TRAIN_REPLICA_H
#define CHARL_TRAIN_REPLICA_H
/** A rank's part of a data-parallel session: its slices of the batch, the graphs over them, and the
 *  reduction over ranks.
 *
 *      replica_open        compare settings across ranks, open the data, compare the data
 *                          (next, the trainer selects the checkpoint to start from)
 *      replica_build       open the device; build model and graphs; connect the ranks
 *      replica_compile     compile kernels, create the optimizer
 *      replica_divide      between two steps: switch to other slices
 *      replica_fini
 *
 *  Unless stated otherwise, every function of this header is collective and agreed (charl_comm_agree).
 *  A replica for evaluation has no training graphs, no optimizer and no shard.
 */
#include "charl/optim.h"
#include "charl/train.h"
#include "optim/optimizer.h"
#include "task/session.h"
#include "task/task.h"
#include "parallel/data_parallel.h"
#include "train/heterogeneous.h"

/** What a replay (train/replay.c) asks of a training, which then writes nothing. */
typedef struct charl__replay_request {
    const char *checkpoint; /* to start from; NULL: as the run began */
    float *losses;  /* [train.batch_size] where every step leaves the loss of each of its samples; NULL: not wanted */
    bool checkable; /* build graphs that charl__graph_check can look at */
    bool evaluates; /* where the run did */
} charl__replay_request;

typedef struct charl__replica {
    charl__session *session;            /* borrowed */
    const charl_config *config;         /* the session's */
    const charl_train_options *options; /* borrowed */
    charl_comm *comm;                   /* borrowed */
    charl_split eval_split;
    bool rereads;                           /* evaluations read the data again each time, since they differ */
    bool reports;                           /* an evaluation makes a report */
    const charl__replay_request *replaying; /* borrowed; NULL: no replay */
    charl_status (*rows_of)(void *ctx, int graph, const charl_slices *slices); /* with ctx: for dist.audit; else NULL */
    void *ctx;
    int64_t step; /* optimizer steps completed; determines the position in the training data */

    int64_t rows, row0; /* this rank's part of the batch */
    charl_steps *steps;
    charl__device_loader *train_loader, *eval_loader;
    charl_data_parallel *dp; /* its slices are this rank's */
    charl__task *train,
        *eval; /* by shape of pass (charl__data_parallel_shape); train NULL: inference, eval NULL: no validation data */
    charl__evaluation evaluation;    /* metrics of eval */
    charl_recompute recompute;       /* of activations in the backward pass: not AUTO */
    charl_recompute least_recompute; /* what other ranks recompute, if that must be the same */
    int64_t recompute_saves;         /* bytes saved by recomputation */
    charl__heterogeneous mixed;      /* ranks with different devices */
    charl_optimizer *optimizer;
} charl__replica;

/** Initialize with {.session, .config, .options, .comm, .eval_split, .reports, .replaying, .rows_of, .ctx}. Compares options, configuration,
 *  environment and kernel sources across ranks, divides the slices evenly, opens the data and compares them. Errors:
 *  ERR_CONFIG, ERR_DATA, ERR_IO, ERR_NOMEM. */
charl_status charl__replica_open(charl__replica *r) CHARL_MUST_CHECK;

/** Match the data with the schema of session->origin, open this rank's device, build model and graphs,
 *  and connect the ranks. Errors: ERR_CONFIG, ERR_DATA, ERR_CHECKPOINT, ERR_DEVICE, ERR_NOMEM. */
charl_status charl__replica_build(charl__replica *r) CHARL_MUST_CHECK;

/** Compile the graphs, run each once to warm up, and create the optimizer. Errors: ERR_KERNEL,
 *  ERR_DEVICE, ERR_NOMEM, ERR_CONFIG. */
charl_status charl__replica_compile(charl__replica *r) CHARL_MUST_CHECK;

/** Use the slices that charl_data_parallel_balance has decided on from the next step on: discards and rebuilds everything that depends
 *  on them. Weights, optimizer state and step are kept, and results of later steps do not change by a bit.
 *  Values that the last step left in the graphs are lost. Errors: as the functions above. */
charl_status charl__replica_divide(charl__replica *r) CHARL_MUST_CHECK;

/** First row of pass i in this rank's part of the batch. Local. */
int64_t charl__replica_row(const charl__replica *r, int i);

/** Run the passes of a step, up to the complete gradient of this rank. Async, unless a replay wants losses. Local. */
charl_status charl__replica_run_passes(charl__replica *r) CHARL_MUST_CHECK;

/** Evaluate up to max_batches batches of the evaluation loader (0: all) and store loss and metrics in *out;
 *  epoch, best and times are not set. report: NULL, or where to put one if the replica reports. Collective. */
charl_status charl__replica_evaluate(charl__replica *r, int64_t max_batches, charl_val_row *out,
                                     charl_eval_report **report) CHARL_MUST_CHECK;

/** charl_train_importance after an evaluation, whose results are `whole`. The replica has `rereads`. Collective. Errors: as charl__replica_evaluate;
 *  ERR_CONFIG  samples are no rows of a table */
charl_status charl__replica_importance(charl__replica *r, const charl_val_row *whole, int repeats,
                                       charl_status (*measured)(void *ctx, const charl_importance *importance),
                                       void *ctx) CHARL_MUST_CHECK;

/** Bytes of activations of the first graph, were it compiled for parameters that it gathers, or for whole ones. Local. */
charl_status charl__replica_measure(charl__replica *r, bool gathers, int64_t *bytes) CHARL_MUST_CHECK;

/** Describe the run as far as it has been set up. Local. */
charl_train_info charl__replica_info(const charl__replica *r);

/** End the run with status st. On success, all ranks synchronize here; afterwards no rank can fail alone. If
 *  st is an error that the other ranks do not know of, breaks the communicator so that they do not wait, and
 *  calls `lost`. Returns st, or the error of the synchronization. */
charl_status charl__replica_leave(charl__replica *r, charl_status st) CHARL_MUST_CHECK;

/** Release everything, including the session's parameters, which may be stored in memory of the all-reduce.
 *  {0} is a no-op. */
void charl__replica_fini(charl__replica *r);

#endif
