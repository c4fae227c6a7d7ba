#ifndef CHARL_TRAIN_TRAINER_H
#define CHARL_TRAIN_TRAINER_H
/** The training loop and its policies, on top of a session and a replica: schedule, evaluations, checkpoints,
 *  metrics and events. It launches no kernels itself. */
#include <math.h>

#include "infer/sampler.h"
#include "files/copies.h"
#include "files/run.h"
#include "files/run_lock.h"
#include "train/metrics/energy.h"
#include "train/metrics/metrics.h"
#include "train/metrics/step_trace.h"
#include "train/nonfinite.h"
#include "train/once.h"
#include "train/replica.h"
#include "train/rundir.h"
#include "train/snapshot.h"

typedef struct charl__saving charl__saving; /* train/save.c */

/** The best evaluation: of all, or of those whose checkpoint is on disk. */
typedef struct charl__best {
    double metric; /* NaN: none */
    int64_t step;  /* -1: none */
    int64_t evals; /* charl__trainer.evals then; below 0: before this process */
} charl__best;

static const charl__best charl__best_none = {.metric = (double)NAN, .step = -1};

typedef struct charl__trainer {
    const charl_config *config;             /* borrowed */
    const charl_train_options *options;     /* borrowed */
    const charl__replay_request *replaying; /* borrowed; NULL: no replay */
    charl_comm *comm;                       /* borrowed */
    charl__session session;
    charl__replica replica;
    charl_schedule schedule;
    char start[4096]; /* storage for session.origin */
    bool resumes;     /* step and optimizer state are restored from session.origin too */

    int64_t total_steps;  /* of the schedule */
    int64_t end_step;     /* last step of the loop; less than total_steps with --fast-dev-run */
    int64_t evals;        /* of this process that measured checkpoint.monitor */
    int64_t unmeasured;   /* and those that did not */
    charl__best best;     /* early stopping counts the evaluations since */
    charl__best kept;     /* what is the best again if the checkpoint of a better one cannot be written */
    int64_t audited_step; /* training is right up to this step, as far as dist.audit can tell */
    charl__nonfinite nonfinite;

    int64_t
        recorded_best; /* step of the best checkpoint by the one that is resumed; 0: it does not say which; -1: there is none */
    bool new_best;   /* the best of before does not count or is lost: remove best.h5 at the next save */
    char run_id[33]; /* hexadecimal digits */
    char shuffle[CHARL__SHUFFLE_TEXT]; /* charl__shuffle_name */
    char run_dir_id[33];               /* of the run that owns the run directory; "": unknown */

    charl__run *run;             /* rank 0 only */
    bool is_described;           /* run.lock, config.ini and env.json tell of this start */
    charl__lock_line lock_start; /* of this start */
    bool writes;                 /* this run writes its directory: checkpoints, metrics, configuration, environment */
    charl_metrics *metrics;      /* rank 0 of a run that writes; else NULL */
    charl__lock lock;            /* run.lock, where this run writes; of the job while a save is in progress */
    char *resumed;               /* path of the checkpoint, or NULL */
    int64_t resumed_step;
    uint64_t resumed_digest; /* of the tensors of that checkpoint; 0: none */
    char exported[16];       /* checkpoint.export of that checkpoint; "": none */
    bool overwrites;         /* options->overwrite, where the job has not done it at an earlier start */
    bool goes_back;          /* resumed from run.resume = FILE */
    charl__once once;        /* rank 0: what the next save notes, where notes_once is set */
    bool notes_once;
    bool supersedes;       /* resumed by name or from an older checkpoint: rename later ones */
    charl__saving *saving; /* NULL: no save in progress; the same on all ranks */
    int parts;             /* files of a checkpoint, each written by another rank; 1: one file, which rank 0 writes */
    int64_t saved_step;    /* step of the newest checkpoint saved or resumed by this process, or -1 */
    int save_failures;     /* consecutive */

    char copies_key[CHARL__COPIES_KEY]; /* of the run directory; "": none */
    bool from_copy;                     /* resumed from a copy in memory: no checkpoint on disk has its step */
    bool copies_off;                    /* one has failed; the same on all ranks, as the next two */
    int64_t copied_step;                /* of the newest copy of this process that is complete, or -1 */
    double copied_s, copy_cost_s;       /* when it was complete; what one costs the training */
    bool rescues;                       /* charl__trainer_rescue is for this training; the same on all ranks */
    /* The state on this rank is that of these steps, where all there is to do for the step is done (-1: of none): on this rank, and on rank 0 too,
     * which writes what is logged */
    int64_t ended_step, whole_step;

    charl__sampler *sampler; /* rank 0 of a run that writes; NULL: no samples of text */
    charl__step_trace step_trace;
    float gradient_scale; /* loss scale of the last step with histograms */
    charl__energy energy;
    double flop;      /* of the matrix products of a step, on all ranks */
    double started_s; /* monotonic */
    double last_save_s, last_eval_s;
} charl__trainer;

/** Set up everything, including compiled graphs and the optimizer. replaying: NULL, or the request of a replay. Call charl__trainer_fini even
 *  after a failure. Collective; agreed. */
charl_status charl__trainer_init(charl__trainer *t, const charl_config *config, const charl_train_options *options,
                                 const charl__replay_request *replaying) CHARL_MUST_CHECK;
void charl__trainer_fini(charl__trainer *t);

/** Lock the run directory and decide where to start: sets session.origin, resumes and run_id.
 *  Collective; agreed. */
charl_status charl__trainer_begin(charl__trainer *t) CHARL_MUST_CHECK;
/** Refuse what cannot train or be measured, and warn of what is probably not meant: data, metrics, settings (train/start_check.c). Reads
 *  all labels. Local. Errors: ERR_CONFIG, ERR_DATA, ERR_IO, ERR_NOMEM. */
charl_status charl__trainer_check_start(charl__trainer *t) CHARL_MUST_CHECK;
/** Warn if the next step of a run that is resumed after `step` has more than twice or less than half the rate that it would have had by
 *  the configuration `was`, apart from a changed optimizer.learning_rate. */
void charl__trainer_check_rate(const charl__trainer *t, const charl_config *was, int64_t step);
/** Resume or start as configured: sets parameters, optimizer state and step. Collective;
 *  agreed. */
charl_status charl__trainer_resume(charl__trainer *t) CHARL_MUST_CHECK;
/** Train from the current step until end_step, a request to stop, or early stopping. Collective. */
charl_status charl__trainer_loop(charl__trainer *t, charl_train_result *result) CHARL_MUST_CHECK;
/** Enqueue the next step: batch, graphs, all-reduce, update. The loader stands there (charl__device_loader_seek). Collective. Errors: not known
 *  to other ranks. */
charl_status charl__trainer_step(charl__trainer *t) CHARL_MUST_CHECK;
/** Deliver the rows of `slices`, of the next step, and its parameters, for an audit: charl_data_parallel_options.rows of a trainer. */
charl_status charl__trainer_deliver(void *trainer, int graph, const charl_slices *slices) CHARL_MUST_CHECK;
/** Evaluate after a step that the configuration evaluates, as the loop does. Its results are complete (charl__trainer_check_finite). Collective. */
charl_status charl__trainer_evaluate(charl__trainer *t) CHARL_MUST_CHECK;
/** Whether early stopping has triggered: too many evaluations without improvement. */
bool charl__trainer_is_over(const charl__trainer *t);
/** Write what the steps from here on are made with, once: the line of this start in run.lock, config.ini and env.json. Local. Errors: ERR_DISK,
 *  ERR_NOMEM. */
charl_status charl__trainer_describe(charl__trainer *t) CHARL_MUST_CHECK;
/** Append the line of this start to run.lock. Local; rank 0. Errors: ERR_DISK, ERR_NOMEM. */
charl_status charl__trainer_record_start(charl__trainer *t) CHARL_MUST_CHECK;
/** Whether no step is left: the last one has been made, or early stopping has triggered. */
bool charl__trainer_has_ended(const charl__trainer *t);
/** Open the metrics files, write config.ini and env.json of a new run, and report the plan of the run to the `started` event. Local. */
charl_status charl__trainer_report(charl__trainer *t) CHARL_MUST_CHECK;
/** What the training takes, to the event `memory`. Local. Errors: ERR_NOMEM, those of the event. */
charl_status charl__memory_report(charl__trainer *t) CHARL_MUST_CHECK;
/** The status of writing a row of the metrics files as the training sees it: a disk error becomes CHARL_OK and, until rows can be written
 *  again, one warning. A row is worth less than the training. */
charl_status charl__trainer_wrote_row(const charl__trainer *t, charl_status st) CHARL_MUST_CHECK;
/** Report a row to its event and append it to the metrics. Local. Errors: those of the event; ERR_NOMEM. */
charl_status charl__trainer_trained(const charl__trainer *t, const charl_train_row *row) CHARL_MUST_CHECK;
charl_status charl__trainer_evaluated(const charl__trainer *t, const charl_val_row *row) CHARL_MUST_CHECK;
charl_status charl__trainer_balanced(const charl__trainer *t, const charl_balance_row *row) CHARL_MUST_CHECK;
/** Report `text` as a warning. */
void charl__trainer_warn(const charl__trainer *t, const char *text);
/** Epochs completed, as a fraction. */
double charl__trainer_epoch(const charl__trainer *t);

/** Save a checkpoint of the current step, update last.h5 and best.h5, and delete old checkpoints. The state is
 *  copied to the host; rank 0, or each rank its part, then writes it in a separate thread while training continues (if HDF5 is
 *  thread-safe). With `last`, the save is complete on return. A disk error is a warning unless it is the third
 *  in a row or `last` is set. No-op if this step has already been saved. Collective; agreed. */
charl_status charl__trainer_save(charl__trainer *t, bool last) CHARL_MUST_CHECK;
/** Write the checkpoint of the present step of a replay to `path`, as the run would have. recorded: the line of run.lock for this step, or NULL.
 *  config_text: the configuration as it was given. Local. Errors: ERR_CHECKPOINT  it is not what `recorded` says: nothing is written; those of
 *  charl_checkpoint_save. */
charl_status charl__trainer_write(const charl__trainer *t, const char *config_text, const charl__lock_line *recorded,
                                  const char *path) CHARL_MUST_CHECK;
/** Copy the state to memory that outlives the process (files/copies.h), as a save does it; where there is no room, one warning says so and no more
 *  copies are made. Collective; agreed. */
charl_status charl__trainer_copy(charl__trainer *t) CHARL_MUST_CHECK;
/** After the loss of a rank: copy the last whole step to memory if nothing newer is saved and this rank has all of it, on one rank of the node. The
 *  others wait for it, for some seconds at most. The error message stays. Local. */
void charl__trainer_rescue(charl__trainer *t);
/** Whether checkpoint.memory_interval asks for a copy now. Valid on rank 0 only. */
bool charl__trainer_copy_is_due(const charl__trainer *t);
/** Whether the training can continue from a copy: it is of the run of the run directory, made with these settings and data. Local. Errors:
 *  ERR_CHECKPOINT  it is not; ERR_NOMEM. */
charl_status charl__trainer_accepts_copy(const void *trainer, const charl_checkpoint_reader *r,
                                         const char *path) CHARL_MUST_CHECK;
/** Remove the copies of this machine's memory, on the first rank of a node. Local. */
void charl__trainer_drop_copies(charl__trainer *t);
/** What the run directory should hold once the checkpoint of `step` is the newest one. */
charl__rundir_plan charl__trainer_rundir_plan(const charl__trainer *t, int64_t step, int64_t best_step);
/** Decide in how many parts checkpoints are written (checkpoint.parts), and whether charl__trainer_rescue is for this training. Before the first
 *  step. Collective; agreed. Errors: ERR_CONFIG. */
charl_status charl__trainer_plan_save(charl__trainer *t) CHARL_MUST_CHECK;
/** Whether this rank is writing. Where none of them is, charl__trainer_continue_save does not wait. Local. */
bool charl__trainer_is_writing(const charl__trainer *t);
/** Take the save in progress one step further: when the parts have been written, rank 0 begins to make the checkpoint of them; after that, and
 *  without parts, it is finished. Collective; agreed. */
charl_status charl__trainer_continue_save(charl__trainer *t) CHARL_MUST_CHECK;
/** Wait for the save in progress, if any, and report its result. Collective; agreed. */
charl_status charl__trainer_finish_save(charl__trainer *t, bool last) CHARL_MUST_CHECK;
/** After a failed training: wait for the save in progress, keep its file and discard its result. Local. */
void charl__trainer_abandon_save(charl__trainer *t);

#endif
