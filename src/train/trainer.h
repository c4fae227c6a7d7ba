#ifndef CHARL_TRAIN_TRAINER_H
#define CHARL_TRAIN_TRAINER_H
/** A training in progress: what setup builds, the loop drives and checkpoints hold. */
#include "charl/checkpoint.h"
#include "charl/dataset.h"
#include "charl/optim.h"
#include "charl/train.h"
#include "optim/optimizer.h"
#include "train/balance.h"
#include "train/heterogeneous.h"
#include "train/nonfinite.h"
#include "train/grad_accum.h"
#include "train/phase.h"
#include "train/grad_reducer.h"
#include "task/task.h"

typedef struct charl__shard charl__shard; /* train/optimizer_shard.h */

typedef struct charl__trainer {
    const charl_config *config;
    const charl_train_options *options;
    charl_comm *comm; /* borrowed */
    charl_slices slices;
    int64_t rows, row0; /* this rank's part of the batch */

    charl_dataset *ds;
    charl_dataset_info data;
    charl_data_schema *schema; /* of the model: rows are delivered and normalised as it says */
    const char *origin; /* checkpoint or safetensors file that weights come from, or NULL; one that
                           infers: set before init, borrowed */
    char start[4096];   /* memory of origin */
    bool resumes;       /* from origin: step and optimizer too */
    charl_device *dev;
    charl_steps *steps;
    charl_model *model;
    charl_params *params;
    charl_split eval_split;
    charl__device_loader *train_loader, *eval_loader;
    bool infers;     /* set before init: no training, the data need not suffice for it */
    int64_t classes; /* of a model that has no schema: at least so many, whatever the data say */
    charl__task train, eval;                /* eval.g NULL: nothing to validate on */
    int accum_steps;                        /* per step, on this rank */
    charl__grad_accum *accum;               /* train is the first; NULL: every rank has one */
    charl__task more[CHARL_MAX_SLICES - 1]; /* the passes after the first */
    bool recomputes;                        /* activations, for the backward pass */
    int64_t recompute_saves;                /* bytes */
    charl__grad_reducer *reducer;
    charl__shard *shard; /* NULL: every rank has the whole optimizer */
    charl__balance balance;
    charl__heterogeneous mixed;
    charl_optimizer *optimizer;
    charl_schedule schedule;
    char schedule_type[32], optimizer_kind[32]; /* names, as the configuration has them */

    int64_t total_steps; /* of the schedule */
    int64_t end_step;    /* where the loop ends: before, in a fast development run */
    int64_t step;        /* optimizer steps done: the whole cursor */
    double best_metric;
    int64_t best_step;
    int64_t stale_evals; /* evaluations since the best */
    charl__nonfinite nonfinite;

    bool new_best;       /* that of the checkpoint is of other evaluations: best.h5 goes */
    char run_id[33];     /* hexadecimal digits */
    char run_dir_id[33]; /* of the run that the run directory belongs to; "": not known */

    charl_run *run; /* rank 0 */
    bool writes;    /* checkpoints are wanted */
    char *resumed;  /* path, or NULL */
    int64_t resumed_step;
    uint64_t resumed_digest; /* of the tensors of that checkpoint; 0 */
    bool supersedes; /* resumed by name: later checkpoints in the directory are another history */
    int64_t saved_step; /* of the newest checkpoint of this process, or -1 */
    int save_failures;  /* in a row */

    double started_s; /* monotonic */
    double last_save_s, last_eval_s;
} charl__trainer;

/** Build everything up to compiled graphs with initial parameters. Collective; statuses are agreed.
 */
charl_status charl__trainer_init(charl__trainer *t, const charl_config *config,
                                 const charl_train_options *options,
                                 charl_split eval_split) CHARL_MUST_CHECK;
void charl__trainer_fini(charl__trainer *t);

/** Take the run directory and decide where to begin: origin, resumes and run_id. Collective. */
charl_status charl__trainer_begin(charl__trainer *t) CHARL_MUST_CHECK;
/** Set schema from origin, or leave it NULL where that does not say. Local. */
charl_status charl__trainer_read_schema(charl__trainer *t) CHARL_MUST_CHECK;
/** Match the data with the schema, or make one of them: afterwards both are there. Local. */
charl_status charl__trainer_match_data(charl__trainer *t) CHARL_MUST_CHECK;

/** Train from the present step to the last one, a request to stop or the end of patience.
 * Collective. */
charl_status charl__trainer_loop(charl__trainer *t, charl_train_result *result) CHARL_MUST_CHECK;
/** Whether evaluations have not become better for too long. */
bool charl__trainer_is_over(const charl__trainer *t);
/** Report what is known before kernels are compiled, and the whole plan. Collective. */
charl_status charl__trainer_report_built(const charl__trainer *t) CHARL_MUST_CHECK;
charl_status charl__trainer_report(const charl__trainer *t) CHARL_MUST_CHECK;
/** Report `text` as a warning. */
void charl__trainer_warn(const charl__trainer *t, const char *text);
/** Epochs completed, fractions included. */
double charl__trainer_epoch(const charl__trainer *t);

/** The split of that name, or -1. */
int charl__split_of(const char *name);

/** Enqueue the evaluation graph on the next batch of its feed. Async. */
charl_status charl__trainer_run_eval(charl__trainer *t) CHARL_MUST_CHECK;
/** Weighted means of the metrics over up to max_batches batches of the evaluation feed (0: all).
 * Collective. */
charl_status charl__trainer_evaluate(charl__trainer *t, int64_t max_batches,
                                     charl_val_row *out) CHARL_MUST_CHECK;
/** Its best, best_step and stale_evals, updated. Returns whether row is better than those before.
 */
bool charl__trainer_is_best(charl__trainer *t, const charl_val_row *row);

/** Save a checkpoint of the present step, link it, remove old ones. A disk that fails is a warning
 * the first times, and an error when it fails again and again or when the save is the `last`.
 * Nothing to do when the step is on disk already. Collective. */
charl_status charl__trainer_save(charl__trainer *t, bool last) CHARL_MUST_CHECK;
/** Resume or start as configured: afterwards parameters, state and cursor are set. Collective. */
charl_status charl__trainer_resume(charl__trainer *t) CHARL_MUST_CHECK;
/** Weights (and with `all` optimizer state and cursor) from a checkpoint; a trainer that infers
 * gets their moving average as its options say. Local. */
charl_status charl__trainer_load(charl__trainer *t, const char *path, bool all) CHARL_MUST_CHECK;

#endif
