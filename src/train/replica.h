#ifndef CHARL_TRAIN_REPLICA_H
#define CHARL_TRAIN_REPLICA_H
/** A rank's share of the work on a session: its slices of the batch, the graphs over them, and the sums
 * over ranks.
 *
 *      replica_open        compare settings and data over ranks; open the data
 *                          (a training decides here where it starts)
 *      replica_build       device, model, graphs; connect the gradients
 *      replica_compile     kernels, optimizer
 *      replica_divide      other slices, between two steps
 *      replica_fini
 *
 *  Every function of this header is collective and agreed (charl_comm_agree), if it says nothing else.
 *  For an evaluation there are no training graphs, no optimizer and no shard.
 */
#include "charl/optim.h"
#include "charl/train.h"
#include "optim/optimizer.h"
#include "task/session.h"
#include "task/task.h"
#include "train/grad_accum.h"
#include "train/grad_reducer.h"
#include "train/heterogeneous.h"
#include "train/phase.h"

typedef struct charl__shard charl__shard; /* train/optimizer_shard.h */

typedef struct charl__replica {
    charl__session *session;            /* borrowed */
    const charl_config *config;         /* the session's */
    const charl_train_options *options; /* borrowed */
    charl_comm *comm;                   /* borrowed */
    charl_split eval_split;
    int64_t step; /* optimizer steps done: the whole cursor of a training */

    charl_slices slices;
    int64_t rows, row0; /* this rank's part of the batch */
    charl_steps *steps;
    charl__device_loader *train_loader, *eval_loader;
    charl__task train, eval;                /* eval.g NULL: nothing to validate on */
    int accum_steps;                        /* gradient accumulation, on this rank */
    charl__grad_accum *accum;               /* train is its first pass; NULL: every rank has one */
    charl__task more[CHARL_MAX_SLICES - 1]; /* the passes after the first */
    bool recomputes;                        /* activations, for the backward pass */
    int64_t recompute_saves;                /* bytes */
    charl__grad_reducer *reducer;           /* NULL: one rank */
    charl__heterogeneous mixed;             /* ranks with different devices */
    charl__shard *shard;                    /* NULL: every rank has the whole optimizer */
    charl_optimizer *optimizer;
} charl__replica;

/** Start from {.session, .config, .options, .comm, .eval_split}. Compares options, configuration,
 *  environment and kernel sources, takes even slices, opens the data and compares them. Errors:
 *  ERR_CONFIG, ERR_DATA, ERR_IO, ERR_NOMEM. */
charl_status charl__replica_open(charl__replica *r) CHARL_MUST_CHECK;

/** Match the data with the schema of session->origin, open this rank's device, build model and graphs
 *  and connect the gradients. Errors: ERR_CONFIG, ERR_DATA, ERR_CHECKPOINT, ERR_DEVICE, ERR_NOMEM. */
charl_status charl__replica_build(charl__replica *r) CHARL_MUST_CHECK;

/** Compile the graphs, run their launches once and create the optimizer. Errors: ERR_KERNEL,
 *  ERR_DEVICE, ERR_NOMEM, ERR_CONFIG. */
charl_status charl__replica_compile(charl__replica *r) CHARL_MUST_CHECK;

/** Take slices [first, first + count) from the next step on: discards and builds anew what depends on
 *  them. Weights, optimizer state and cursor stay, and so does every bit of the rest of the run; what
 *  the last step left in its graphs does not. Errors: as the functions above. */
charl_status charl__replica_divide(charl__replica *r, int first, int count) CHARL_MUST_CHECK;

/** Sums of the metrics over up to max_batches batches of the evaluation loader (0: all), as a row
 *  without step, epoch, best and times. */
charl_status charl__replica_evaluate(charl__replica *r, int64_t max_batches,
                                     charl_val_row *out) CHARL_MUST_CHECK;

/** Least elements of a bucket of gradients. Local. */
int64_t charl__replica_bucket(const charl__replica *r);

/** What is known of the run so far. Local. */
charl_train_info charl__replica_info(const charl__replica *r);

/** Leave: on success all ranks meet here; nothing after it can fail for one rank alone. A failure that
 *  the other ranks do not know of breaks the communicator, and `lost` is called. Returns st, or the
 *  failure of the meeting. */
charl_status charl__replica_leave(charl__replica *r, charl_status st) CHARL_MUST_CHECK;

/** Release all of it, and the session's parameters, which may lie in the memory of the all-reduce.
 *  {0} is a no-op. */
void charl__replica_fini(charl__replica *r);

#endif
