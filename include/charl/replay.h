#ifndef CHARL_REPLAY_H
#define CHARL_REPLAY_H
/** Replay: computes steps of a recorded training again, and reports their samples, losses, gradients and weights.
 *
 *      static charl_status print(void *ctx, const charl_replay_row *row)
 *      {
 *          printf("%" PRId64 " %.9g %s\n", row->step, row->loss, row->hash);
 *          return CHARL_OK;
 *      }
 *
 *      const charl_replay_options o = {sizeof o, .step = 120, .until = 125, .replayed = print};
 *      charl_replay("runs/digits", &o);
 *
 *  Steps are counted from 1, as in the log: step N turns the weights after N - 1 steps into those after N. A replay has
 *  the bits of the training, whatever its number of ranks was: docs/exactness.md.
 */
#include <stdbool.h>
#include <stdint.h>

#include "charl/config.h"
#include "charl/device.h"
#include "charl/tokenizer.h"
#include "charl/train.h"

CHARL_BEGIN_DECLS

/** A sample of a step. */
typedef struct charl_step_sample {
    int64_t position; /* in the training stream, which is one epoch after another */
    int64_t epoch;    /* from 0; of data.mix: epoch of all sets together */
    int set;          /* of data.mix, from 0; else 0 */
    int64_t row;      /* of the training split of that set; of tokens the first token of the window */
    int64_t partner;  /* mixup or cutmix: index in `sample` of the sample that is mixed in; else its own index */
    float share;      /* weight of the sample itself; that of the partner is 1 - share */
} charl_step_sample;

/** The samples of a step, in the order of the global batch: slice s of `slices` has [s * n / slices, (s + 1) * n /
 *  slices). Neither the number of ranks nor train.grad_accum_steps changes them. */
typedef struct charl_step_rows {
    int64_t step;
    int64_t n; /* train.batch_size */
    int slices;
    int n_sets;                /* of data.mix; 0: no mix */
    const char *const *sets;   /* [n_sets] their paths, of the configuration */
    bool mixed;                /* data.augment mixes each sample with a partner */
    int64_t train_rows;        /* samples of an epoch */
    int64_t window;            /* tokens of a sample; 0: the samples are no tokens */
    charl_step_sample *sample; /* [n] */
} charl_step_rows;

/** Which samples step `step` >= 1 of a training with this configuration takes. Opens the data, but reads no sample.
 *  Owned by the caller: charl_step_rows_destroy; *out is NULL on failure.
 *
 *  Blocks. Local. Deterministic: integer arithmetic of (run.seed, step); the same on every machine.
 *  Errors: ERR_CONFIG  data.path is missing, the batch has more samples than the training split, or step is below 1 or
 *                      beyond counting
 *          ERR_DATA, ERR_IO of charl_dataset_open, ERR_NOMEM
 *  Cost: opening the data; some 100 ns per sample. */
charl_status charl_step_rows_create(const charl_config *config, int64_t step, charl_step_rows **out) CHARL_MUST_CHECK;
/** NULL is a no-op. */
void charl_step_rows_destroy(charl_step_rows *rows);

/** The first samples of a step as training delivers them to the model: augmented and mixed, but in the units of the
 *  data, before normalization (of integers rounded to 1/1024). The noise of [diffusion] and the hidden tokens of
 *  data.masked belong to the model. */
typedef struct charl_step_inputs {
    const charl_step_rows *rows; /* of the whole step */
    const charl_dataset_info *data;
    int64_t n;
    charl_shape x_shape; /* of a sample */
    float *x;            /* [n, x_shape]; NULL: samples are tokens */
    int32_t *tokens;     /* [n, x_shape]; NULL: they are none */
    charl_shape y_shape; /* of a target */
    float *y;            /* [n, y_shape]; NULL: targets are classes or tokens */
    int32_t *labels;     /* [n, y_shape]; NULL: they are numbers */
    float *weight;       /* [n] of the sample in the loss, the largest of its targets; 0: it does not count */
    const charl_tokenizer *tokenizer; /* NULL: tokens have no text */
} charl_step_inputs;

/** The first `count` samples of step `step` >= 1 of a training with this configuration, of all ranks together; at most
 *  those that the step has. They are read as in training. Owned by the caller:
 *  charl_step_inputs_destroy; *out is NULL on failure.
 *
 *  Blocks. Local. Deterministic: the same numbers in every call, and as in the step, on any number of ranks.
 *  Errors: those of charl_step_rows_create; ERR_DEVICE, ERR_KERNEL
 *  Cost: opens the data and a device, and reads the batch of the step. */
charl_status charl_step_inputs_create(const charl_config *config, int64_t step, int64_t count,
                                      charl_step_inputs **out) CHARL_MUST_CHECK;
/** NULL is a no-op. */
void charl_step_inputs_destroy(charl_step_inputs *inputs);

/** Samples in a line of the picture of charl_step_inputs_draw. Local. */
int64_t charl_step_inputs_columns(const charl_step_inputs *inputs);

/** Write the samples, images [1 or 3, H, W] or [H, W], as one picture to the PNG file `file`, which is replaced if it
 *  exists. Bytes are drawn as they are, rounded; of other numbers the smallest is black and the largest white.
 *
 *  Blocks. Local. Errors: ERR_CONFIG  no picture shows the samples, or this build has no PNG library
 *                         ERR_DISK, ERR_NOMEM */
charl_status charl_step_inputs_draw(const charl_step_inputs *inputs, const char *file) CHARL_MUST_CHECK;

/** A parameter after a replayed step, or its gradient in it. */
typedef struct charl_replay_tensor {
    const char *name; /* of the parameter: "fc1.weight" */
    int64_t count;    /* elements */
    uint32_t crc32c;  /* of the f32 values, as `charl checkpoint show` prints it */
    double norm;      /* root of the sum of squares, in double; not finite if a value is not */
} charl_replay_tensor;

/** Whether the run has a checkpoint of a step, and whether it holds what the replay computed. */
typedef enum charl_replay_record {
    CHARL_REPLAY_UNRECORDED, /* there is none, or it cannot be read (a warning says why) */
    CHARL_REPLAY_SAME,       /* every tensor: weights, their average, optimizer state */
    CHARL_REPLAY_DIFFERS
} charl_replay_record;

/** A replayed step. Everything is borrowed for the call. */
typedef struct charl_replay_row {
    int64_t step;
    double loss; /* of the batch: an exact f32, the same as in the log */
    double lr, grad_norm;
    bool skipped; /* the gradient was not finite, or a spike that was skipped: the step changed nothing */
    /* [n_weights] after the step, running statistics included, in the order of checkpoints */
    const charl_replay_tensor *weights;
    int n_weights;
    char hash[65];       /* SHA-256 of those: of each the name, a NUL and the f32 values, little-endian */
    const char *tensors; /* hash of all tensors of a checkpoint, as in run.lock (charl/verify.h); "" unless asked for */
    /* [n_gradients] before clipping, times the loss scale where there is one; norms without it */
    const charl_replay_tensor *gradients;
    int n_gradients;              /* 0 unless asked for */
    const charl_step_rows *rows;  /* NULL unless `samples` */
    const float *losses;          /* [rows->n], of the samples of the step; NULL unless asked for */
    charl_replay_record recorded; /* of `checkpoint` also SAME if run.lock records that step */
    const char *differs;          /* the first tensor that does, as "model/fc1.weight"; else "" */
} charl_replay_row;

/** Where a replay begins. Everything is borrowed for the call. */
typedef struct charl_replay_start {
    int64_t step;           /* step of the checkpoint, or 0 */
    const char *checkpoint; /* "": the replay starts from the seed or init.from */
    const charl_device_info *device;
    const charl_replay_tensor *weights; /* [n_weights] initial weights of the replay */
    int n_weights;
} charl_replay_start;

enum { CHARL_REPLAY_END = -1 /* the last step of the training */ };

/** What to replay. Zero is the default of all members but `step`. */
typedef struct charl_replay_options {
    size_t struct_size;  /* sizeof(charl_replay_options) */
    int64_t step;        /* the first to report; required */
    int64_t until;       /* the last, or CHARL_REPLAY_END; 0: step */
    int ranks;           /* refuse a batch that does not divide among so many ranks; 0: do not check */
    bool grads;          /* report gradients */
    bool samples;        /* report rows and their losses */
    bool tensors;        /* report the hash of all tensors */
    const int64_t *only; /* [n_only] ascending: report these steps alone; NULL: all */
    int64_t n_only;
    bool from_start;       /* start from the initial weights, not from a checkpoint */
    int64_t after;         /* do not start from a checkpoint of a later step; 0: no limit */
    const char *checksums; /* write checksums of what is replayed to this file, for charl_bisect; NULL: do not */
    /* write to this file the checkpoint that the run would have written after step `until`; NULL: do not */
    const char *checkpoint;
    const char *device;                     /* `select` of charl_device_request; NULL: device.select of the run */
    const charl_config_override *overrides; /* [n_overrides] of the configuration of the run, such as data.path */
    int n_overrides;
    /* Callbacks; any may be NULL. A status other than CHARL_OK ends the replay with it. */
    void *ctx;
    charl_status (*started)(void *ctx, const charl_replay_start *start);
    charl_status (*replayed)(void *ctx, const charl_replay_row *row);
    /* Called for the first reported step whose loss or gradient is not finite: `what` describes the first operator
     * whose output is not finite. The step is computed a second time to find it. */
    charl_status (*located)(void *ctx, int64_t step, const char *what);
    void (*warned)(void *ctx, const char *text);
    charl_compiling compiling;
} charl_replay_options;

/** Recompute steps of the run in directory `run`, in this process and on one device, and report them in order. `run`
 *  can also be a configuration file: its training is computed from the beginning, whether or not it was run.
 *  Evaluations, and what depends on them, such as early stopping, are left out.
 *
 *  Starts from the newest readable checkpoint before options->step, or from the beginning of the run, with the
 *  configuration in the first checkpoint at or after options->step, or if there is none in config.ini.
 *  Writes nothing to the directory, unless `checkpoint` is there, and needs no lock: the run may continue meanwhile.
 *
 *  The replay has the bits of the run if data, files of init.from, version of charl and overridden keys that matter are
 *  the same, and the device rounds in the same way (docs/exactness.md); known differences are warnings. The bits of
 *  dist.allreduce = mpi on several ranks cannot be replayed.
 *
 *  With `checkpoint`, evaluates where the run did, and writes the tensors, counters, best evaluation, configuration and
 *  run_id that the run would have written; world_size, device and driver are those of the replay. Before it writes, it
 *  compares tensors and counters with the line of run.lock, if there is one of step `until`.
 *
 *  Blocks. Local: one rank, without MPI.
 *  Errors: ERR_CONFIG      step or until are out of order, or beyond the end of the run; `checkpoint` with overrides
 *                          that change the training, or with the name of a checkpoint of another step
 *          ERR_CHECKPOINT  there is nothing to start from; `checkpoint`, and the settings of a step are not kept, or
 *                          it differs from run.lock
 *          ERR_DATA        `checkpoint`, and the data are not those of the run
 *          ERR_NONFINITE   a step was not finite and train.on_nonfinite = stop, so that the run ended there too
 *          and those of charl_train_run
 *  Cost: the steps since that checkpoint, one after another without overlap of host and device; for every reported step
 *  a copy of the weights to the host, and with `grads` of the gradients. */
charl_status charl_replay(const char *run, const charl_replay_options *options) CHARL_MUST_CHECK;

/** The first difference between two runs; later values depend on earlier ones. */
typedef enum charl_bisect_what {
    CHARL_BISECT_NOTHING,
    CHARL_BISECT_START,     /* the weights that they begin with: `name` is a parameter */
    CHARL_BISECT_RATE,      /* the learning rate of the step */
    CHARL_BISECT_ROWS,      /* which samples the step takes: `name` is the first index in the batch */
    CHARL_BISECT_SAMPLES,   /* the loss of samples: `name` is the first index in the batch */
    CHARL_BISECT_LOSS,      /* the loss of the batch */
    CHARL_BISECT_GRADIENTS, /* `name` is the parameter nearest to the loss whose gradient differs */
    CHARL_BISECT_WEIGHTS,   /* `name` is the first parameter that differs after the step */
    /* the replays agree, but a checkpoint of run `run` is not what its replay computes: `name` is a tensor of it */
    CHARL_BISECT_RECORD
} charl_bisect_what;

/** Where two runs diverge. */
typedef struct charl_bisect_result {
    charl_bisect_what what;
    int64_t step;     /* in which they part; RECORD: of that checkpoint; NOTHING: the last one compared */
    int64_t equal_at; /* step of the last common checkpoint with the same tensors; 0: the beginning */
    int run;          /* RECORD: 0 or 1 */
    char name[512];
    char *text; /* all of it in sentences, one per line; charl_bisect_result_fini */
} charl_bisect_result;

/** How to compare. Zero is the default of all members. */
typedef struct charl_bisect_options {
    size_t struct_size;    /* sizeof(charl_bisect_options) */
    const char *device[2]; /* for the replays of either run, as in charl_replay_options */
    /* compare up to this step; 0: up to the first common checkpoint that differs, or the last step that both have */
    int64_t until;
    int ranks;                              /* as in charl_replay_options */
    const charl_config_override *overrides; /* [n_overrides] of the configurations of both runs, such as data.path */
    int n_overrides;
    void *ctx;
    void (*warned)(void *ctx, const char *text);
    charl_compiling compiling;
    bool recorded; /* a must be a file of checksums */
} charl_bisect_options;

/** Find where two runs diverge: the first common checkpoint whose tensors differ, then by replay from the one before it
 *  the step, and what of the step differs first.
 *
 *  a, b  run directories; configuration files, whose trainings are computed from the beginning; or files that
 *        charl_replay has written as `checksums`, perhaps on other machines, devices or versions of charl. Where one is
 *        such a file, the other is replayed over its steps.
 *
 *  Where the loss of samples differs although both take the same rows, the contents of those rows are compared too, and
 *  `text` names those that differ. `out` needs charl_bisect_result_fini on every path.
 *
 *  Blocks. Local. Errors: as charl_replay; ERR_CHECKPOINT  a or b is none of these;
 *                                                          ERR_CONFIG  files of different steps.
 *  Cost: the steps between two checkpoints, for each of the runs. Memory: a line per tensor and sample of those. */
charl_status charl_bisect(const char *a, const char *b, const charl_bisect_options *options,
                          charl_bisect_result *out) CHARL_MUST_CHECK;
/** Local. */
void charl_bisect_result_fini(charl_bisect_result *result);

/** Find where a training that forgets rows of the run in directory `run` can begin: the newest checkpoint from before
 *  the first step that takes one of them. Up to there, a training in which these rows weigh nothing is the run itself.
 *
 *  config       that of the run with data.forget, and paths as they are now
 *  *step        the first step that takes one of the rows; 0: no step of the run does
 *  *checkpoint  NULL: the training begins at the beginning; owned by the caller, charl_free
 *
 *  Blocks. Local. Errors: ERR_CONFIG      data.forget is empty or is refused
 *                         ERR_CHECKPOINT  run.lock does not record that the run, from its beginning, had one
 *                                         configuration and these data; its config.ini, with data.forget removed, is
 *                                         another
 *                         and those of charl_step_rows_create
 *  Cost: some 100 ns per sample of the steps up to *step; reads one checkpoint. */
charl_status charl_forget_find(const char *run, const charl_config *config, int64_t *step,
                               char **checkpoint) CHARL_MUST_CHECK;

/** What rows did to a run: its weights after step `step`, the last that it has a checkpoint of, evaluated as they are,
 *  and as they would be if the rows had weighed nothing from the start. */
typedef struct charl_influence_result {
    int64_t first; /* step that takes one of the rows first; 0: no step does, and both evaluations are the same */
    int64_t step;
    charl_val_row run, without; /* loss and metrics */
} charl_influence_result;

/** Measure what training rows did to the run in directory `run`: the training without them is computed from the newest
 *  checkpoint from before the first step that takes one (charl_forget_find), up to the last step of the run. Early
 *  stopping does not end it, so that the same step is compared. Writes nothing to the run.
 *
 *  rows     "17, 230": numbers from 0 of the training split
 *  split    that is evaluated; NULL: "val"
 *  options  device, overrides, ctx, started, warned and compiling; the others are not used
 *
 *  Blocks. Local. Errors: those of charl_forget_find, charl_replay and charl_train_evaluate.
 *  Cost: the steps since that checkpoint as in charl_replay, and two evaluations. Room for a checkpoint in TMPDIR. */
charl_status charl_influence(const char *run, const char *rows, const char *split, const charl_replay_options *options,
                             charl_influence_result *result) CHARL_MUST_CHECK;

/** Write the mean of the weights of the run in directory `run` after steps first, first + every, ... up to `last` to
 *  `out`, as charl_checkpoint_average of their checkpoints does. Steps whose checkpoint is not kept are computed again,
 *  as by charl_replay with `checkpoint`, and compared with run.lock where it records them.
 *
 *  options  device, overrides, ctx, started, warned and compiling; the others are not used
 *
 *  Blocks. Local. Errors: those of charl_replay and charl_checkpoint_average.
 *  Cost: the steps since the newest checkpoint before the first missing one. Room for the missing ones in TMPDIR. */
charl_status charl_replay_average(const char *run, int64_t first, int64_t last, int64_t every,
                                  const charl_replay_options *options, const char *out) CHARL_MUST_CHECK;

/** Write the checkpoint to `out` that the run in directory `run` would have with train.ema_decay = decay: its training,
 *  computed from the beginning, with that moving average of the weights. Evaluations and the best checkpoint are those
 *  of the average.
 *
 *  options  step, 0: the last that the run has a checkpoint of; device, overrides, ctx, started, replayed, warned and
 *           compiling; the others are not used
 *
 *  Blocks. Local. Errors: those of charl_replay; ERR_CHECKPOINT also if settings or data changed before that step;
 *          ERR_CONFIG also if early stopping ends that training before.
 *  Cost: all steps, as in charl_replay. */
charl_status charl_replay_ema(const char *run, double decay, const charl_replay_options *options,
                              const char *out) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
