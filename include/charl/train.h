#ifndef CHARL_TRAIN_H
#define CHARL_TRAIN_H
/** Training as configured, from data to checkpoints, on one rank or many.
 *
 *      charl_train_options options = {sizeof options};
 *      charl_train_result result;
 *      charl_config *config = NULL;
 *
 *      options.comm = comm; // charl_comm_create
 *      check(charl_config_load("config.ini", NULL, 0, &config));
 *      check(charl_train_run(config, &options, &result));
 *      printf("step %lld: loss %g\n", (long long)result.step, result.loss);
 *      charl_config_destroy(config);
 *
 *  The trainer writes the run directory: checkpoints, metrics.csv and metrics.jsonl, config.ini and env.json. It prints
 *  nothing: it reports through callbacks, called on every rank from the training thread; the callback decides by rank
 *  whether to print. Everything passed to a callback is borrowed for the call.
 */
#ifdef __cplusplus
#include <atomic>
#else
#include <stdatomic.h>
#endif

#include "charl/checkpoint.h"
#include "charl/comm.h"
#include "charl/config.h"
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
    bool invariant;        /* same bits with any rank count up to slices */
    bool mixed;            /* ranks have devices that may round differently: equal up to rounding only */
    int layers;
    int64_t parameters;           /* trained elements */
    int64_t frozen_parameters;    /* elements */
    int64_t train_rows, val_rows; /* samples */
    int64_t window;               /* tokens per sample; 0: the samples are no tokens */
    const char *loss;
    int64_t classes;         /* or tokens of the vocabulary; 0: targets are numbers */
    int64_t targets;         /* numbers or labels of a sample, 1 where it has a class */
    const char *class_names; /* a list, or "" */
    double chance;           /* part of the training samples that the most frequent class has; 0: not known */
    bool data_on_device;
    const char *data_note;          /* what is unusual about the data file; "" if nothing */
    int64_t batch_size, local_rows; /* samples per step, over all ranks and on this one */
    int slices;
    int64_t steps;             /* of the whole run */
    int passes;                /* per step, on this rank */
    charl_recompute recompute; /* of activations, for the backward pass: not AUTO */
    int64_t recompute_saves;   /* bytes of them that need not be kept */
    double flop;               /* of the matrix products of a step, on this rank */

    int64_t start_step;                    /* done already: 0, or where the run resumes */
    const char *resumed;                   /* checkpoint path, or "" */
    int64_t memory_bytes, memory_capacity; /* planned on this device */
    int64_t memory_reported;               /* in use on it now, by all programs (charl_device_health); 0: not known */
    int64_t activation_bytes;
    int64_t shard_saves;                   /* bytes of optimizer state that only other ranks keep */
    int launches;                          /* per training step: of the forward pass, the gradients, the update */
    int forward_launches, update_launches; /* of them */
    int fused;                             /* launches less than without fusion */
    int collectives;                       /* inside a step, besides the gradients */
    int64_t gradients;                     /* that travel between ranks: one per element and use of it ... */
    int64_t last_gradients;                /* ... those in the last bucket; 0: all are sent at the end */
    int64_t trace_first, trace_last;       /* steps that are traced; 0: none */
} charl_train_info;

/** One logged training step; times are means since the last row. */
typedef struct charl_train_row {
    int64_t step, steps; /* done, of */
    double epoch;
    double loss; /* of this step's batch: an exact f32 */
    double lr, grad_norm;
    int64_t samples; /* seen since the beginning */
    double samples_per_s, step_ms, data_ms;
    double comm_ms;                /* during which gradients or sums of a step were in flight */
    double comm_exposed_ms;        /* of it, while the device had nothing left to compute */
    double tokens_per_s;           /* 0 when the samples are no tokens */
    double tflops;                 /* 1e12 floating-point operations of matrix products per second, of all ranks */
    double mfu;                    /* tflops as a part of log.peak_tflops of all ranks; 0 when that is not known */
    double power_w, temperature_c; /* of this rank's device (charl_device_health), at most a second old; 0: not known */
    int64_t mem_bytes;
    int64_t skipped;    /* steps left out so far, because their gradient was not finite */
    int64_t overflowed; /* and those left out because they overflowed under a dynamic loss scale */
    int64_t spikes;     /* steps so far whose gradient norm was a spike (train.on_spike) */
    double elapsed_s, eta_s;
} charl_train_row;

typedef struct charl_val_row {
    int64_t step;
    double epoch;
    double loss;
    charl_metric_value metrics[CHARL_MAX_METRICS]; /* [n_metrics] besides the loss */
    int n_metrics;
    bool best;
    double elapsed_s;

    /* eval.sample_prompt and its continuation: UTF-8, of control characters only line ends and tabs; or NULL */
    const char *sample;
    const charl_eval_report *report; /* with log.images: the worst samples; else NULL */
} charl_val_row;

/** A checkpoint is on the disk. It is written while training continues, so later steps may have been
 *  reported before. */
typedef struct charl_saved_row {
    int64_t step;
    const char *path;
    double ms;        /* from the end of the step to here */
    double waited_ms; /* of them, during which training waited */
} charl_saved_row;

/** The slices were redistributed (dist.balance = speed), because ranks were waiting for slower ones. */
typedef struct charl_balance_row {
    int64_t step; /* done when it happened */
    int size;
    const int *slices;     /* [size] slices of each rank from now on */
    const double *step_ms; /* [size] compute time of each rank per step before, without waiting */
    double ms;             /* that the redistribution took */
} charl_balance_row;

typedef struct charl_train_result {
    int64_t step;
    double epoch;
    bool stopped;    /* early, on purpose: the same command continues */
    bool early;      /* train.early_stopping_patience has ended training */
    int64_t skipped; /* as in charl_train_row */
    int64_t overflowed, spikes;
    int64_t audits;     /* dist.audit */
    double audit_s;     /* that they took, on this rank */
    int suspect;        /* the one rank that an audit has named; -1: none, or several */
    double loss;        /* of the last logged step; NaN if none */
    double best_metric; /* the monitored one; NaN if none */
    int64_t best_step;  /* -1 if none */
    double wall_s, samples_per_s;
} charl_train_result;

/** Callbacks; any may be NULL. A status other than CHARL_OK ends training with it. */
typedef struct charl_train_events {
    void *ctx;
    charl_compiling compiling; /* as in charl_device_request; before and after `built` */
    /* Data, device and model are known, but the kernels are not compiled yet. Called on all ranks,
     * which may communicate in it. */
    charl_status (*built)(void *ctx, const charl_train_info *info);
    /* Before the first step. Called on all ranks, which may communicate in it. */
    charl_status (*started)(void *ctx, const charl_train_info *info);
    /* Memory use of the training, after `started`, on every rank; mostly of use with dry_run. */
    charl_status (*memory)(void *ctx, const charl_memory *memory);
    charl_status (*trained)(void *ctx, const charl_train_row *row);
    charl_status (*progressed)(void *ctx, int64_t step, double loss); /* every step; loss NaN between rows */
    charl_status (*evaluated)(void *ctx, const charl_val_row *row);
    charl_status (*saved)(void *ctx, const charl_saved_row *row);
    charl_status (*balanced)(void *ctx, const charl_balance_row *row);
    charl_status (*traced)(void *ctx, const charl_trace_row *row);
    charl_status (*profiled)(void *ctx, const charl_profile *profile); /* on rank 0 */
    void (*warned)(void *ctx, const char *text);
    /* The communicator is broken and charl_error_message says why. Called before anything is freed:
     * freeing may wait for a device that hangs, so call charl_comm_exit here. */
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
    const char *name; /* a line of at most 255 bytes, the same at each start and no other job's; NULL: none */
    bool restarted;   /* this may be another start: if the job has begun the run already, the run continues */
} charl_train_job;

enum { CHARL_TRAIN_JOBS = 2 };

typedef struct charl_train_options {
    size_t struct_size; /* sizeof(charl_train_options) */
    charl_comm *comm;   /* borrowed */
    charl_train_events events;
    charl_atomic_int *stop; /* a charl_train_stop; reset to NONE when taken. May be NULL */
    const char *device;     /* `select` of charl_device_request: overrides device.select and CHARL_DEVICE
                               on this rank. NULL: as configured */
    charl_tune_mode tune;   /* of charl_device_request */
    const int *row_steps;   /* steps of a row of the log, which may change between steps. NULL: log.interval */
    bool dry_run;           /* plan only */
    bool skip_kernels;      /* with dry_run: compile no kernels */
    int fast_dev_run;       /* > 0: that many training and validation steps, nothing written */
    bool overfit_batch;     /* train on the first batch only; nothing written */
    bool overwrite;         /* ignore checkpoints in the run directory; not with run.resume = must */
    /* For actions done once per job: overwrite, and run.resume = never or FILE. Used on rank 0. */
    charl_train_job job[CHARL_TRAIN_JOBS];
    double spent_s; /* what earlier starts of the command have taken of run.max_time */
    /* Look at some steps: the results stay the same, but the device takes times of all commands of the run. */
    /* write a time line of all ranks to this file; "": trace.json in the run directory, or in the working directory of
     * a run without one; NULL: none */
    const char *trace;
    bool profile; /* tell what layers and kernels take */
    /* the steps for both; 0: ten steps after the first ten, of a short run the second half */
    int64_t trace_first, trace_last;
    charl_ema_choice ema; /* of charl_train_evaluate */
} charl_train_options;

/** Train. Blocks. Collective on options->comm. The configuration is borrowed.
 *  Errors: ERR_CONFIG, ERR_DATA, ERR_IO, ERR_CHECKPOINT, ERR_NOMEM, ERR_DEVICE, ERR_KERNEL,
 *  ERR_NONFINITE, ERR_BUSY, ERR_DISK, ERR_COMM; equal on all ranks, with the message of the rank that failed,
 *  except when the communicator is broken afterwards: then leave with charl_comm_exit.
 */
charl_status charl_train_run(const charl_config *config, const charl_train_options *options,
                             charl_train_result *result) CHARL_MUST_CHECK;

/** Evaluate the weights of a checkpoint on a split ("train", "val", "test") of the configured data,
 *  which need not suffice to train on.
 *
 *  report  NULL, or new, charl_eval_report_destroy: tables of all metrics of single classes, labels or
 *          targets, which are measured even if eval.metrics does not name them
 *
 *  Blocks. Collective. Errors: as charl_train_run; also ERR_CONFIG for a metric that the data do not
 *  have. */
charl_status charl_train_evaluate(const charl_config *config, const charl_train_options *options,
                                  const char *checkpoint, const char *split, charl_val_row *out,
                                  charl_eval_report **report) CHARL_MUST_CHECK;

/** A report, with step, loss and metrics of `row`, as a JSON object in one line. *out: owned by the caller
 *  (charl_free). Blocks. Local. Errors: ERR_NOMEM. */
charl_status charl_eval_report_json(const charl_eval_report *report, const charl_val_row *row, const char *split,
                                    char **out) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
