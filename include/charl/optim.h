#ifndef CHARL_OPTIM_H
#define CHARL_OPTIM_H
/** Optimizers over the flat arena of a parameter set, and learning-rate schedules.
 *
 *      const charl_optimizer_config adamw = charl_optimizer_defaults("adamw");
 *      charl_schedule schedule = charl_schedule_defaults("cosine");
 *      charl_optimizer *optimizer = NULL;
 *
 *      schedule.base_lr = 1e-3;
 *      schedule.total_steps = 1000;
 *      check(charl_optimizer_create(params, &adamw, &optimizer)); // after charl_graph_compile
 *      for (int64_t step = 0; step < schedule.total_steps; step++) {
 *          check(charl_graph_run(g)); // with the rows of this step in its inputs
 *          check(charl_optimizer_step(optimizer, (float)charl_schedule_lr(&schedule, step)));
 *      }
 *      charl_optimizer_destroy(optimizer);
 *
 *  An optimizer is a row of a registry: a name, its state tensors, its settings, a kernel. A step reads the completed
 *  gradients, computes their norm, clips, and updates the parameters; it changes nothing when a gradient is not finite.
 *  charl_register_optimizer adds one.
 */
#include "charl/key.h"
#include "charl/params.h"
#include "charl/steps.h"

CHARL_BEGIN_DECLS

typedef struct charl_optimizer charl_optimizer;

/** What to do if the gradient norm is a spike: above mean + spike_threshold * standard deviation of the norms of
 *  the last spike_window finite steps, in which an earlier spike counts as its limit. The first spike_window steps
 *  are never spikes. */
typedef enum charl_spike_rule {
    CHARL_SPIKE_OFF,
    CHARL_SPIKE_WARN, /* charl_optimizer_report says so */
    CHARL_SPIKE_SKIP, /* also, the step changes nothing */
    CHARL_SPIKE_STOP  /* also, this step and all later ones change nothing */
} charl_spike_rule;

enum { CHARL_MAX_SPIKE_WINDOW = 1024 };

/** Settings of an optimizer, with PyTorch's names. Those that a type does not use have no effect. */
typedef struct charl_optimizer_config {
    const char *type;     /* a charl_optimizer_name */
    float weight_decay;   /* at least 0. sgd, adam, rmsprop, adagrad: weight_decay * p is added to the gradient; lamb:
                             to the update before it is scaled; others: decoupled, p -= lr * weight_decay * p */
    double momentum;      /* sgd, rmsprop, muon, [0, 1) */
    bool nesterov;        /* sgd; needs momentum */
    double beta1, beta2;  /* adam, adamw, lion, lamb, muon, [0, 1); beta2 also rmsprop, PyTorch's alpha */
    double eps;           /* at least 1e-37; all but sgd and lion. adafactor: lower limit of the second moment's root */
    float grad_clip;      /* largest global 2-norm of the gradient; 0 = off */
    double ema_decay;     /* of a moving average of the weights, [0, 1); 0 = none */
    charl_packing state;  /* storage of the state tensors between steps: f32, bf16 or int8, with stochastic rounding;
                             elementwise types only. Updates are computed in f32 */
    bool skip_nonfinite;  /* skip a step whose gradient is not finite; otherwise that step and all later ones change
                             nothing */
    const void *settings; /* of a registered type: the struct that its row describes; NULL: its defaults. Copied */

    /* with a rule other than OFF: a window of 2 to CHARL_MAX_SPIKE_WINDOW steps, a threshold from 1 to 1e6 */
    charl_spike_rule on_spike;
    int spike_window;
    float spike_threshold;

    /* the parameters to update, by patterns of names as in charl_params_freeze; NULL: all. Norm, clipping and spikes
     * concern the gradients of these only. Elementwise types only. Copied */
    const char *params;

    /* the step parameters of the graphs (charl_graph_set_steps): the optimizer divides the gradients by the loss scale,
     * and each step begins with charl_optimizer_begin. NULL: none. Borrowed */
    charl_steps *steps;
} charl_optimizer_config;

/** Result of a step. */
typedef struct charl_optimizer_report {
    float grad_norm;   /* global 2-norm of the gradient before clipping */
    bool finite;       /* false: the step changed nothing, because its gradient (or without skip_nonfinite an earlier
                          one) was not finite */
    bool spike;        /* its gradient norm was a spike */
    int64_t skipped;   /* number of steps so far that changed nothing, for whatever reason. Bias corrections, the
                          scalars of a registered type and the loss scale do not count them */
    int64_t bad_steps; /* with skip_nonfinite: number of steps skipped as not finite; otherwise 0 or 1 */
    int64_t bad_step;  /* first step (0-based) of the most recent run of skipped steps */
    /* parameter with the first element that was not finite in that step, in the order of the arena; NULL: all elements
     * were finite, but the sum of their squares overflowed */
    const charl_param *bad_param;
} charl_optimizer_report;

/** PyTorch's defaults for `type`, except momentum 0.9 for sgd; the paper's for lion. Weight decay is 0.01 for adamw,
 *  lamb and muon, otherwise 0. For an unknown type all are 0. Local. */
charl_optimizer_config charl_optimizer_defaults(const char *type);

/** Name of optimizer i = 0, 1, ...; NULL after the last. Static storage. Local. */
const char *charl_optimizer_name(int i);

/** Whether `type` updates each element independently, so that ranks can divide a tensor. Local. */
bool charl_optimizer_is_elementwise(const char *type);

enum { CHARL_OPTIM_MAX_STATES = 6 };

/** How many numbers a state keeps of a parameter [..., rows, columns]; a vector is a matrix of one column. */
typedef enum charl_state_shape {
    CHARL_STATE_ELEMENTS, /* one for each element */
    CHARL_STATE_ROWS,     /* one for each row: [..., rows, 1] */
    CHARL_STATE_COLUMNS,  /* [..., 1, columns] */
    CHARL_STATE_MATRIX    /* [..., 1, 1] */
} charl_state_shape;

/** An optimizer of your own. Its texts are pieces of OpenCL C kernels. `update` computes the new value of one element
 *  (or of several: charl_real is float or a vector of floats) from
 *
 *      charl_real p                 the parameter; assign the new value
 *      charl_real g                 its gradient, clipped
 *      float lr, weight_decay       of this element: groups and schedule are applied
 *      charl_real s0, s1, ...       the states, 0 at the start; assign new values to states of elements
 *      float scalar0, scalar1       the numbers of `scalars` for this step; 0 without it
 *      float grad_norm              2-norm of the gradient of all parameters before clipping
 *      const float KEY              every FLOAT key of the settings by its name; const int for BOOL and CHOICE, const
 *                                   long for INT
 *
 *  For example, the sign of the momentum, where `momentum` is a key: "s0 = momentum * s0 + g; p -= lr * sign(s0);".
 *  Comments of the form // and the preprocessor are not available. charl takes sums, in an order that depends on
 *  shapes only:
 *
 *      fold       changes each state `s` of a row, column or matrix by `mean`, the mean over it of the expression
 *                 `measure` of p and g. It comes first. With measure = "g * g", fold = "s += (mean - s) * 0.1f;" and
 *                 shapes ROWS, COLUMNS and MATRIX, s0 * s1 / s2 is the second moment of adafactor
 *      direction  assigns d, and states of elements. It comes next
 *      update     has d, and 2-norms over the parameter: param_norm of p before the update, direction_norm of d, as in
 *                 lamb: "p -= lr * param_norm / direction_norm * d;". The text checks for norms that are 0
 *
 *  Direction and update also have float size and int dims: the elements and the extents of the parameter. With fold or
 *  direction the optimizer is not elementwise (charl_optimizer_is_elementwise). */
typedef struct charl_optimizer_type {
    charl_row row; /* keys are INT, FLOAT, BOOL or CHOICE */
    int n_states;
    const char *state_names[CHARL_OPTIM_MAX_STATES]; /* in checkpoints: lower-case letters, digits, underscores */
    charl_state_shape state_shapes[CHARL_OPTIM_MAX_STATES];
    unsigned nonnegative; /* bit k: state k is never negative, so int8 storage needs no codes for signs */
    const char *update;
    const char *direction; /* NULL: none */
    /* NULL without states of rows, columns or matrices */
    const char *measure, *fold;
    /** Compute two numbers for update t = 1, 2, ... on the host; NULL: none. Skipped steps are not counted. */
    void (*scalars)(const void *settings, int64_t t, float out[2]);
} charl_optimizer_type;

/** Register `type` under its name, for charl_optimizer_config.type and the key optimizer.type. Borrowed for the life of
 *  the process. Call it at the start of a program, before a configuration is read and before other threads create
 *  optimizers.
 *
 *  Blocks. Local.
 *  Errors: ERR_INVALID  the name is taken, the description is malformed, or a configuration has been read. An update
 *                       that does not compile is ERR_KERNEL of charl_optimizer_create */
charl_status charl_register_optimizer(const charl_optimizer_type *type) CHARL_MUST_CHECK;

/** Create an optimizer of a set whose training graph has been compiled. Its state is zero. Owned: destroy it before the
 *  set.
 *
 *  Blocks. Local.
 *  Errors: ERR_CONFIG   unknown type, value out of range
 *          ERR_INVALID  the set has no gradients yet, or gradients of part of the batch that nothing sums over ranks
 *          ERR_NOMEM, ERR_KERNEL, ERR_DEVICE */
charl_status charl_optimizer_create(charl_params *set, const charl_optimizer_config *config,
                                    charl_optimizer **out) CHARL_MUST_CHECK;
/** Begin a step, before the graphs run: write seed, step (charl_optimizer_get_steps) and `lr` to the step parameters,
 *  and copy running statistics that must be restored if the step is skipped. Async. Local.
 *  Errors: ERR_INVALID  the optimizer needs no begin, or `lr` is negative or not finite; ERR_DEVICE. */
charl_status charl_optimizer_begin(charl_optimizer *o, float lr) CHARL_MUST_CHECK;
/** Free an optimizer. NULL is a no-op. Local. */
void charl_optimizer_destroy(charl_optimizer *o);

/** Update the parameters with learning rate `lr`, after the gradients of the set are complete. Call
 *  charl_optimizer_begin first, with the same `lr`, if the optimizer has step parameters, or if it may skip steps and
 *  the set has running statistics (batch norm). Async. Local.
 *  Errors: ERR_INVALID  no charl_optimizer_begin, `lr` is negative or not finite, or the state is sharded
 *                       (charl_data_parallel_step updates then); ERR_DEVICE. */
charl_status charl_optimizer_step(charl_optimizer *o, float lr) CHARL_MUST_CHECK;
/** Get the result of the last step enqueued. Blocks. Local. Errors: ERR_DEVICE. */
charl_status charl_optimizer_get_report(charl_optimizer *o, charl_optimizer_report *out) CHARL_MUST_CHECK;

/** Number of steps taken, skipped ones included. Local. */
int64_t charl_optimizer_get_steps(const charl_optimizer *o);
/** Set the number of steps taken, of which `skipped` (as in the report) changed nothing: to resume training. Blocks.
 *  Local.
 *  Errors: ERR_INVALID  skipped is not in [0, steps]; ERR_DEVICE. */
charl_status charl_optimizer_set_steps(charl_optimizer *o, int64_t steps, int64_t skipped) CHARL_MUST_CHECK;

/** PyTorch's name of state tensor k = 0, 1, ..., such as "exp_avg", NULL after the last; and its shape for parameter p,
 *  false if p has no such state. Local. */
const char *charl_optimizer_get_state_name(const charl_optimizer *o, int k);
bool charl_optimizer_get_state_shape(const charl_optimizer *o, int k, const charl_param *p, charl_shape *out);
/** Read or write state k of parameter p, as f32 in any storage; writing what was read restores the stored bits. Writing
 *  a sharded state keeps this rank's shard of it. Blocks. Local.
 *  Errors: ERR_INVALID  no such state, or reading a sharded state; ERR_NOMEM, ERR_DEVICE. */
charl_status charl_optimizer_read_state(const charl_optimizer *o, int k, const charl_param *p,
                                        float *dst) CHARL_MUST_CHECK;
charl_status charl_optimizer_write_state(charl_optimizer *o, int k, const charl_param *p,
                                         const float *src) CHARL_MUST_CHECK;

/** Set the moving average of the weights, e, to the weights. If config.ema_decay is positive, every step that changes
 *  the weights p then computes e = decay * e + (1 - decay) * p, and charl_training_save saves e. Does nothing without
 *  an average. Blocks. Local. Errors: ERR_NOMEM, ERR_DEVICE. */
charl_status charl_optimizer_reset_ema(charl_optimizer *o) CHARL_MUST_CHECK;
/** Exchange the moving average and the weights, so that a graph runs on the average. Exchange them again before the
 *  next step. Async. Local. Errors: ERR_INVALID  there is no average, or it is sharded; ERR_DEVICE. */
charl_status charl_optimizer_exchange_ema(charl_optimizer *o) CHARL_MUST_CHECK;

/** Learning rate as a function of the step. After the warm-up, with t = (step - warmup_steps) / (total_steps -
 *  warmup_steps), at most 1:
 *
 *      constant   base_lr
 *      linear     base_lr + (min_lr - base_lr) * t
 *      cosine     min_lr + (base_lr - min_lr) * (1 + cos(pi * t)) / 2
 *      poly       min_lr + (base_lr - min_lr) * (1 - t)^power
 *      step       base_lr * gamma^floor((step - warmup_steps) / step_size)
 *      multistep  base_lr * gamma^(number of milestones up to step)
 *      wsd        base_lr until decay_steps before total_steps, then linear to min_lr
 *      range_test min_lr * (base_lr / min_lr)^t */
typedef struct charl_schedule {
    const char *type; /* a charl_schedule_name */
    double base_lr, min_lr;
    int64_t warmup_steps;      /* linear from 0: step s < warmup_steps has base_lr * (s + 1) / (warmup_steps + 1) */
    int64_t total_steps;       /* linear, cosine, poly, wsd, range_test */
    int64_t step_size;         /* step */
    double gamma;              /* step, multistep */
    charl_int_list milestones; /* multistep: ascending */
    double power;              /* poly */
    int64_t decay_steps;       /* wsd */
} charl_schedule;

/** Default settings of a type; base_lr, warmup_steps and total_steps are 0. Local. */
charl_schedule charl_schedule_defaults(const char *type);

/** Name of schedule i = 0, 1, ...; NULL after the last. Static storage. Local. */
const char *charl_schedule_name(int i);
/** Check the type and its values. Local. Errors: ERR_CONFIG. */
charl_status charl_schedule_check(const charl_schedule *s) CHARL_MUST_CHECK;
/** Learning rate of step `step` (0 is the first), a function of its arguments alone. NaN, which charl_optimizer_step
 *  refuses, if `step` is negative or charl_schedule_check fails; charl_error_message then says why. Local. */
double charl_schedule_lr(const charl_schedule *s, int64_t step);

CHARL_END_DECLS

#endif
