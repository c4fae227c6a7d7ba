#ifndef CHARL_TRAIN_H
#define CHARL_TRAIN_H
/** Training that a configuration describes, from data to checkpoints, on one rank or many.
 *
 *      charl_train_options options = {.struct_size = sizeof options, .comm = comm}; // charl_comm_create
 *      charl_train_result result;
 *      charl_config *config = NULL;
 *
 *      check(charl_config_load("config.ini", NULL, 0, &config));
 *      check(charl_train_run(config, &options, &result));
 *      printf("step %lld: loss %g\n", (long long)result.step, result.loss);
 *      charl_config_destroy(config);
 *
 *  The trainer writes the run directory: checkpoints, metrics files, config.ini, env.json and run.lock. It prints
 *  nothing and reports through callbacks, which it calls on every rank, from the thread that called charl_train_run;
 *  they decide by rank what to print. Everything passed to a callback is borrowed for the call.
 */
#ifdef __cplusplus
#include <atomic>
#else
#include <stdatomic.h>
#endif

#include "charl/checkpoint.h"
#include "charl/comm.h"
#include "charl/config.h"
#include "charl/data_parallel.h"
#include "charl/dataset.h"
#include "charl/device.h"
#include "charl/image.h"
#include "charl/metric.h"
#include "charl/profile.h"
#include "charl/shape.h"

#ifdef __cplusplus
typedef std::atomic<int> charl_atomic_int; /* as C++23's <stdatomic.h> has it */
#else
typedef atomic_int charl_atomic_int;
#endif

CHARL_BEGIN_DECLS

/** The plan of a run, known before the first step. The fields from start_step on depend on
 *  compiled kernels or on a checkpoint and are valid in charl_train_events.started only. */
typedef struct charl_train_info {
    const charl_device_info *device; /* of this rank */
    int rank, size;
    const char *allreduce; /* algorithm; "" with one rank */
    bool invariant;        /* the result has the same bits for any number of ranks up to `slices` */
    bool mixed;            /* devices of the ranks may round differently: results are equal up to rounding only */
    int layers;
    int64_t parameters;           /* trained elements */
    int64_t frozen_parameters;    /* elements */
    int64_t train_rows, val_rows; /* samples */
    int64_t window;               /* tokens per sample; 0: samples are not tokens */
    const char *loss;
    int64_t classes;         /* or tokens of the vocabulary; 0: targets are numbers */
    int64_t targets;         /* numbers or labels per sample; 1 if it has a class */
    const char *class_names; /* list of names (charl_names_get), or "" */
    double chance;           /* fraction of the training samples in the most frequent class; 0: not known */
    bool data_on_device;
    const char *data_note;          /* what is unusual about the data file; "" if nothing */
    int64_t batch_size, local_rows; /* samples per step: of all ranks, of this rank */
    int slices;
    int64_t steps;             /* of the whole run */
    int passes;                /* per step, on this rank */
    charl_recompute recompute; /* recomputation of activations that was chosen: not AUTO */
    int64_t recompute_saves;   /* bytes of activations that are recomputed instead of stored */
    double flop;               /* floating-point operations of the matrix products of a step, on this rank */

    int64_t start_step;                    /* steps done before: 0, or the step at which the run resumes */
    const char *resumed;                   /* path of the checkpoint, or "" */
    int64_t memory_bytes, memory_capacity; /* of this device: planned, and available to charl */
    int64_t memory_reported;               /* bytes in use on it by all programs (charl_device_health); 0: not known */
    int64_t activation_bytes;
    int64_t offloaded_bytes;               /* of host memory, with device.offload */
    charl_shard shard;                     /* what is sharded; with dist.shard = auto as chosen */
    int shards;                            /* ranks that divide it: all, or those of a node */
    int64_t shard_saves;                   /* bytes of optimizer state, sums and weights that only other ranks have */
    int launches;                          /* kernel launches per training step: forward, backward, update */
    int forward_launches, update_launches; /* of them */
    int fused;                             /* launches saved by fusion */
    int collectives;                       /* inside a step, besides the gradients */
    int64_t gradients;                     /* elements that a step sums over the ranks, once per use of a parameter */
    int64_t last_gradients;                /* of them in the last bucket; 0: all are sent at the end */
    int64_t trace_first, trace_last;       /* steps that are traced; 0: none */
    int devices;                           /* different ones, of all ranks; 0 before the weights are there */
} charl_train_info;

/** A row of the training log. Times and rates are means over the steps since the last row. */
typedef struct charl_train_row {
    int64_t step, steps; /* steps done, steps of the run */
    double epoch;
    double loss; /* of this step's batch: an exact f32 */
    double lr, grad_norm;
    int64_t samples; /* since the beginning of the run */
    double samples_per_s, step_ms, data_ms;
    double comm_ms;                /* per step, during which an all-reduce or a batch sum was in progress */
    double comm_exposed_ms;        /* of them, while the device had nothing left to compute */
    double tokens_per_s;           /* 0: samples are not tokens */
    double tflops;                 /* 1e12 floating-point operations of matrix products per second, of all ranks */
    double mfu;                    /* tflops divided by log.peak_tflops of all ranks; 0: the peak is not known */
    double power_w, temperature_c; /* of this rank's device (charl_device_health), at most a second old; 0: not known */
    int64_t mem_bytes;             /* of this rank's device */
    int64_t skipped;               /* steps skipped so far because their gradient was not finite */
    int64_t overflowed;            /* steps skipped so far because they overflowed under a dynamic loss scale */
    int64_t spikes;                /* steps so far whose gradient norm was a spike (train.on_spike) */
    double elapsed_s, eta_s;
    double energy_j; /* of all devices since the program started, read at most a second ago; 0: not measured */
} charl_train_row;

typedef struct charl_val_row {
    int64_t step;
    double epoch;
    double loss;
    charl_metric_value metrics[CHARL_MAX_METRICS]; /* [n_metrics] besides the loss */
    int n_metrics;
    bool best; /* the best evaluation so far, by checkpoint.monitor */
    double elapsed_s;

    /* eval.sample_prompt and its continuation, as UTF-8 without control characters other than line ends and tabs; or
     * NULL */
    const char *sample;
    const charl_eval_report *report; /* with log.images: the worst samples; otherwise NULL */
} charl_val_row;

/** A checkpoint that is complete on the disk. It is written while training continues, so later steps may have been
 *  reported before. */
typedef struct charl_saved_row {
    int64_t step;
    const char *path;
    double ms;        /* from the end of the step until now */
    double waited_ms; /* of them, during which training waited */
} charl_saved_row;

/** The slices were redistributed (dist.balance = speed), because ranks were waiting for slower ones. */
typedef struct charl_balance_row {
    int64_t step; /* steps done */
    int size;
    const int *slices;     /* [size] slices of each rank from now on */
    const double *step_ms; /* [size] previous compute time of each rank per step, without waiting */
    double ms;             /* taken by the redistribution */
} charl_balance_row;

typedef struct charl_train_result {
    int64_t step;
    double epoch;
    bool stopped;    /* before its end, by options->stop, the file STOP or run.max_time; it can be resumed */
    bool early;      /* train.early_stopping_patience ended the training */
    int64_t skipped; /* as in charl_train_row */
    int64_t overflowed, spikes;
    int64_t audits;     /* number of audits (dist.audit) */
    double audit_s;     /* seconds that they took, on this rank */
    int suspect;        /* rank that an audit named; -1: none, or several */
    double loss;        /* of the last logged step; NaN if none */
    double best_metric; /* best value of checkpoint.monitor; NaN if none */
    int64_t best_step;  /* -1 if none */
    double wall_s, samples_per_s;
    double energy_j; /* that all devices have used (charl_device_read_energy); 0: not measured */
} charl_train_result;

/** Callbacks. Any may be NULL. If one returns a status other than CHARL_OK, training ends with that status. */
typedef struct charl_train_events {
    void *ctx;
    charl_compiling compiling; /* as in charl_device_request; before and after `built` */
    /* Data, device and model are known, but the kernels are not compiled yet. Called on all ranks,
     * which may communicate in it. */
    charl_status (*built)(void *ctx, const charl_train_info *info);
    /* Before the first step. Called on all ranks, which may communicate in it. */
    charl_status (*started)(void *ctx, const charl_train_info *info);
    /* Memory use of the training, after `started`. */
    charl_status (*memory)(void *ctx, const charl_memory *memory);
    charl_status (*trained)(void *ctx, const charl_train_row *row);
    charl_status (*progressed)(void *ctx, int64_t step, double loss); /* every step; loss: NaN between rows */
    charl_status (*evaluated)(void *ctx, const charl_val_row *row);
    charl_status (*saved)(void *ctx, const charl_saved_row *row);
    charl_status (*balanced)(void *ctx, const charl_balance_row *row);
    charl_status (*traced)(void *ctx, const charl_trace_row *row);
    charl_status (*profiled)(void *ctx, const charl_profile *profile); /* on rank 0 */
    void (*warned)(void *ctx, const char *text);
    /* The communicator is broken, and charl_error_message says why. Call charl_comm_exit in it: nothing has been freed
     * yet, and freeing may wait for a device that hangs. */
    void (*lost)(void *ctx, charl_status st);
} charl_train_events;

/** Requests that a signal handler may make. */
typedef enum charl_train_stop {
    CHARL_STOP_NONE,
    CHARL_STOP_CHECKPOINT, /* save and continue */
    CHARL_STOP_SAVE        /* save and stop */
} charl_train_stop;

/** A job that may start the same command several times, such as a requeued Slurm job. */
typedef struct charl_train_job {
    const char *name; /* a line of at most 255 bytes, the same at each start of the job and unique to it; NULL: none */
    bool restarted;   /* this may be a later start: if the job has begun the run already, the run continues */
} charl_train_job;

enum { CHARL_TRAIN_JOBS = 2 };

/** A cluster that a dry run plans for: its devices need not be here. */
typedef struct charl_train_cluster {
    int64_t device_bytes; /* memory of a device, or more to see what does not fit; 0: the device's own */
    int ranks;            /* charl_memory.plan is of so many, each with the batch of the configuration; 0: no cluster */
    int node;             /* of them on a node */
} charl_train_cluster;

typedef struct charl_train_options {
    size_t struct_size; /* sizeof(charl_train_options) */
    charl_comm *comm;   /* borrowed */
    charl_train_events events;
    charl_atomic_int *stop; /* a charl_train_stop, which the trainer resets to NONE when it obeys. May be NULL */
    const char *device;     /* `select` of charl_device_request: overrides device.select and CHARL_DEVICE
                               on this rank. NULL: as configured */
    charl_tune_mode tune;   /* of charl_device_request */
    const int *row_steps;   /* steps per row of the log; may change between steps. NULL: log.interval */
    bool dry_run;           /* plan only */
    bool skip_kernels;      /* with dry_run: compile no kernels */
    int fast_dev_run;       /* > 0: that many training and validation steps, nothing written */
    bool overfit_batch;     /* train on the first batch only; nothing written */
    bool overwrite;         /* ignore checkpoints in the run directory; not with run.resume = must */
    /* For actions done once per job: overwrite, and run.resume = never or FILE. Used on rank 0. */
    charl_train_job job[CHARL_TRAIN_JOBS];
    double spent_s; /* seconds of run.max_time that earlier starts of the command have used */
    /* Tracing and profiling change no result, but the device times all commands of the run. */
    /* file for a trace of all ranks; "": trace.json in the run directory, or in the working directory if
     * there is none; NULL: no trace */
    const char *trace;
    bool profile; /* call `profiled` with the times of layers and kernels */
    /* steps to trace and profile; 0: ten steps after the first ten, in a short run its second half */
    int64_t trace_first, trace_last;
    charl_ema_choice ema;        /* of charl_train_evaluate */
    int64_t stop_after;          /* save a checkpoint and stop after this step, as on request; 0: train to the end */
    charl_train_cluster planned; /* with dry_run and skip_kernels */
} charl_train_options;

/** Train the model of a configuration, which is borrowed. A run that has checkpoints continues as run.resume says.
 *
 *  Blocks. Collective on options->comm.
 *  Errors: ERR_INVALID, ERR_CONFIG, ERR_DATA, ERR_IO, ERR_CHECKPOINT, ERR_NOMEM, ERR_DEVICE, ERR_KERNEL,
 *  ERR_NONFINITE, ERR_BUSY, ERR_DISK, ERR_AUDIT, ERR_COMM. All ranks get the same status, with the message of the rank
 *  that failed, unless the communicator is broken afterwards: then end with charl_comm_exit.
 */
charl_status charl_train_run(const charl_config *config, const charl_train_options *options,
                             charl_train_result *result) CHARL_MUST_CHECK;

/** Print a configuration as its training records it in config.ini and in checkpoints: as charl_config_print, with the
 *  loss that the data ask for in the place of train.loss = auto. *out: owned by the caller (charl_free).
 *
 *  Blocks. Local. Errors: those of opening the data in charl_train_run. Cost: opens the data and reads the targets. */
charl_status charl_train_print_config(const charl_config *config, char **out) CHARL_MUST_CHECK;

/** The number of first steps that two trainings have in common: after them weights, optimizer, counters and evaluations
 *  of both are the same to the bit, so that one can continue from a checkpoint of the other. More than 0 only if the
 *  configurations differ in nothing but [scheduler], train.epochs and train.max_steps: then up to the first step with
 *  another learning rate, but not the last step of either. 0 also with train.early_stopping_patience and with
 *  eval.interval in seconds.
 *
 *  Blocks. Local. Errors: ERR_CONFIG, ERR_DATA, ERR_IO, ERR_NOMEM. Cost: opens the data; some 10 ns per step. */
charl_status charl_train_common_steps(const charl_config *a, const charl_config *b, int64_t *out) CHARL_MUST_CHECK;

/** Evaluate the weights of a checkpoint on a split ("train", "val", "test") of the configured data. The data need not
 *  have a training split.
 *
 *  report  NULL, or where to store a new report, for charl_eval_report_destroy: tables of the metrics of each class,
 *          label or target, which are measured even if eval.metrics does not name them
 *
 *  Blocks. Collective. Errors: as charl_train_run; ERR_CONFIG also for a metric that is not defined for the data. */
charl_status charl_train_evaluate(const charl_config *config, const charl_train_options *options,
                                  const char *checkpoint, const char *split, charl_val_row *out,
                                  charl_eval_report **report) CHARL_MUST_CHECK;

/** How much a model depends on a group of columns: the changes of loss and metrics when the group's values come from
 *  other rows of the split (permutation importance: Breiman 2001, Fisher and others 2019). */
typedef struct charl_importance {
    const char *name;            /* of a column of the imported file, or of a named input */
    int64_t columns;             /* of the data, which are permuted together */
    double loss, loss_deviation; /* mean and deviation (n - 1) over the repeats; deviation NaN: one repeat */
    int n_metrics;
    charl_metric_value metrics[CHARL_MAX_METRICS]; /* mean changes */
    double deviations[CHARL_MAX_METRICS];
} charl_importance;

/** Evaluate as charl_train_evaluate does, then `repeats` times with each group of columns permuted, and call `measured`
 *  once for each group, in the order of the data. All columns that the import made of one column of a file, such as
 *  those of its categories, are one group, and so is a named input. Permutations depend on the number of the repeat
 *  and on the rows of the split only, so that the results do not depend on the number of ranks.
 *
 *  repeats   1 to 1000
 *  measured  called on all ranks; a status other than CHARL_OK ends the evaluation with it
 *
 *  Blocks. Collective. Errors: as charl_train_evaluate; ERR_CONFIG  the samples are no rows of a table.
 *  Cost: 1 + repeats * groups evaluations. */
charl_status charl_train_importance(const charl_config *config, const charl_train_options *options,
                                    const char *checkpoint, const char *split, int repeats,
                                    charl_status (*measured)(void *ctx, const charl_importance *importance), void *ctx,
                                    charl_val_row *out) CHARL_MUST_CHECK;

/** Print a report, with step, loss and metrics of `row`, as a JSON object on one line. *out: owned by the caller
 *  (charl_free). Blocks. Local. Errors: ERR_NOMEM. */
charl_status charl_eval_report_json(const charl_eval_report *report, const charl_val_row *row, const char *split,
                                    char **out) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
