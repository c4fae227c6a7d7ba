#ifndef CHARL_TRAIN_TRAINER_H
#define CHARL_TRAIN_TRAINER_H
/** A training in progress, on a session and a replica: schedule, evaluations, checkpoints, metrics and
 * events. It knows no kernel. */
#include "train/balance.h"
#include "train/nonfinite.h"
#include "train/replica.h"

typedef struct charl__saving charl__saving; /* train/save.c */

typedef struct charl__trainer {
    const charl_config *config;         /* borrowed */
    const charl_train_options *options; /* borrowed */
    charl_comm *comm;                   /* borrowed */
    charl__session session;
    charl__replica replica;
    charl__balance balance;
    charl_schedule schedule;
    char start[4096]; /* memory of session.origin */
    bool resumes;     /* from session.origin: step and optimizer too */

    int64_t total_steps; /* of the schedule */
    int64_t end_step;    /* where the loop ends: before, in a fast development run */
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
    charl__saving *saving; /* NULL: no save is under way; the same on all ranks */
    int64_t saved_step;    /* of the newest checkpoint of this process, or -1 */
    int save_failures;     /* in a row */

    double started_s; /* monotonic */
    double last_save_s, last_eval_s;
} charl__trainer;

/** Build everything up to compiled graphs and the optimizer. Call charl__trainer_fini in any case.
 *  Collective; agreed. */
charl_status charl__trainer_init(charl__trainer *t, const charl_config *config,
                                 const charl_train_options *options) CHARL_MUST_CHECK;
void charl__trainer_fini(charl__trainer *t);

/** Take the run directory and decide where to begin: session.origin, resumes and run_id.
 *  Collective; agreed. */
charl_status charl__trainer_begin(charl__trainer *t) CHARL_MUST_CHECK;
/** Resume or start as configured: afterwards parameters, state and cursor are set. Collective;
 *  agreed. */
charl_status charl__trainer_resume(charl__trainer *t) CHARL_MUST_CHECK;
/** Train from the present step to the last one, a request to stop or the end of patience.
 * Collective. */
charl_status charl__trainer_loop(charl__trainer *t, charl_train_result *result) CHARL_MUST_CHECK;
/** Whether evaluations have not become better for too long. */
bool charl__trainer_is_over(const charl__trainer *t);
/** Report the plan of the run to `started`. Local. */
charl_status charl__trainer_report(const charl__trainer *t) CHARL_MUST_CHECK;
/** Report `text` as a warning. */
void charl__trainer_warn(const charl__trainer *t, const char *text);
/** Epochs completed, fractions included. */
double charl__trainer_epoch(const charl__trainer *t);

/** Save a checkpoint of the present step, link it, remove old ones: the state is copied to the host, then
 *  rank 0 writes it in a thread of its own while training continues (where HDF5 is thread-safe). A save
 *  that is `last` is complete on return. A disk that fails is a warning the first times, and an error
 *  when it fails again and again or when the save is the last. Nothing to do when the step is on disk
 *  already. Collective; agreed. */
charl_status charl__trainer_save(charl__trainer *t, bool last) CHARL_MUST_CHECK;
/** Whether a save is written and charl__trainer_finish_save would not wait: known to rank 0. */
bool charl__trainer_has_saved(const charl__trainer *t);
/** Wait for the save under way, if there is one, and report its result. Collective; agreed. */
charl_status charl__trainer_finish_save(charl__trainer *t, bool last) CHARL_MUST_CHECK;
/** Wait for it where training has failed: its file stays, its result is lost. Local. */
void charl__trainer_abandon_save(charl__trainer *t);

#endif
