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

/** What follows when the gradient norm is a spike: above mean + spike_threshold * standard deviation of the norms of
 *  the last spike_window steps that were finite, of which a spike counts as that limit. The first spike_window steps
 *  are never spikes. */
typedef enum charl_spike_rule {
    CHARL_SPIKE_OFF,
    CHARL_SPIKE_WARN, /* the report says so */
    CHARL_SPIKE_SKIP, /* and the step changes nothing */
    CHARL_SPIKE_STOP  /* and nothing changes from this step on */
} charl_spike_rule;

enum { CHARL_MAX_SPIKE_WINDOW = 1024 };

/** Settings by PyTorch's names; those that a type does not use have no effect. */
typedef struct charl_optimizer_config {
    const char *type;     /* a charl_optimizer_name */
    float weight_decay;   /* sgd, adam, rmsprop, adagrad: added to the gradient; lamb: to the
                            direction; others: decoupled, 1/step times the learning rate */
    double momentum;      /* sgd, rmsprop, muon, [0, 1) */
    bool nesterov;        /* sgd */
    double beta1, beta2;  /* adam, adamw, lion, lamb, muon, [0, 1); beta2 also rmsprop, there called
                            alpha */
    double eps;           /* all but sgd and lion; adafactor: of the second moment's root */
    float grad_clip;      /* largest global 2-norm of the gradient; 0 = off */
    double ema_decay;     /* of a moving average of the weights, [0, 1); 0 = none */
    charl_packing state;  /* what the state tensors are kept in between steps, f32, bf16 or int8; elementwise types
                             only. Updates compute in f32, and what they leave is rounded up or down at random */
    bool skip_nonfinite;  /* leave out a step whose gradient is not finite; otherwise nothing changes
                            from such a step on */
    const void *settings; /* of a registered type, whose own keys stand there; NULL: its defaults. Copied */

    /* unless OFF with a window of 2 to CHARL_MAX_SPIKE_WINDOW, and a threshold of at least 1 */
    charl_spike_rule on_spike;
    int spike_window;
    float spike_threshold;

    /* names of the parameters that it updates, as charl_params_freeze takes them; NULL: all. Norm, clipping and spikes
     * are those of their gradients. Elementwise types only. Copied */
    const char *params;
} charl_optimizer_config;

/** What the last step found. */
typedef struct charl_optimizer_report {
    float grad_norm;              /* 2-norm before clipping */
    bool finite;                  /* false: the step changed nothing, because its gradient (or without
                          skip_nonfinite an earlier one) was not finite */
    bool spike;                   /* its gradient norm was a spike */
    int64_t skipped;              /* steps so far that changed nothing, for whatever reason. They are no updates: bias
                          corrections, the scalars of a registered type and the loss scale do not count them */
    int64_t bad_steps;            /* with skip_nonfinite: left out so far; else 0 or 1 */
    int64_t bad_step;             /* first step (0-based) of the most recent run of skipped steps */
    const charl_param *bad_param; /* its parameter with the first element that was not finite, in the
                       order of the arena; NULL: all were, their squares overflow */
} charl_optimizer_report;

/** PyTorch's defaults for `type`, but momentum 0.9 for sgd; the paper's for lion. Weight decay is 0.01 where it is
 *  decoupled by default (adamw, lamb, muon), else 0. For an unknown type all are 0. Local. */
charl_optimizer_config charl_optimizer_defaults(const char *type);

/** Name of optimizer i = 0, 1, ...; NULL after the last. Static storage. Local. */
const char *charl_optimizer_name(int i);

/** Whether `type` updates each element by itself, so that ranks can divide its state. Local. */
bool charl_optimizer_is_elementwise(const char *type);

enum { CHARL_OPTIM_MAX_STATES = 3 };

/** An optimizer of a program's own, which updates each element by itself. `update` is OpenCL C that stands inside a
 *  kernel and computes the new value of one element (or of several: charl_real is float or a vector of floats) from
 *
 *      charl_real p                 the parameter; assign the new value
 *      charl_real g                 its gradient, clipped
 *      float lr, weight_decay       of this element: groups and schedule are applied
 *      charl_real s0, s1, s2        the states, 0 at the start; assign the new values
 *      float scalar0, scalar1       what `scalars` gave for this step; 0 without it
 *      const float KEY              every FLOAT key of the settings by its name; const int for BOOL and CHOICE, const
 *                                   long for INT
 *
 *  For example, momentum with a sign, `momentum` being a key: "s0 = momentum * s0 + g; p -= lr * sign(s0);". Comments
 *  of the form // and the preprocessor are not available. Sums that must not depend on the device need no care:
 *  elements are independent. */
typedef struct charl_optimizer_type {
    charl_row row; /* keys are INT, FLOAT, BOOL or CHOICE */
    int n_states;
    const char *state_names[CHARL_OPTIM_MAX_STATES]; /* in checkpoints: lower-case letters, digits, underscores */
    unsigned nonnegative; /* bit k: state k is never negative, and optimizer.state = int8 spends no codes on signs */
    const char *update;
    /** Two numbers that depend on the update, t = 1 for the first, computed on the host; NULL: none. Skipped steps are
     *  no updates. */
    void (*scalars)(const void *settings, int64_t t, float out[2]);
} charl_optimizer_type;

/** Make `type` known by its name, in C and as optimizer.type. Borrowed for the life of the process. For the start of a
 *  program, before a configuration is read and before other threads create optimizers.
 *
 *  Blocks. Local. A kernel that does not build is ERR_KERNEL of charl_optimizer_create.
 *  Errors: ERR_INVALID  the name is taken, the description is malformed, a configuration has been read */
charl_status charl_register_optimizer(const charl_optimizer_type *type) CHARL_MUST_CHECK;

/** Optimizer of a set whose training graph has been compiled. State starts at zero. Owned: destroy it before the set.
 *
 *  Blocks. Local.
 *  Errors: ERR_CONFIG   unknown type, value out of range
 *          ERR_INVALID  the set has no gradients yet, or those of part of the batch, which nothing sums over ranks
 *          ERR_NOMEM, ERR_KERNEL, ERR_DEVICE */
charl_status charl_optimizer_create(charl_params *set, const charl_optimizer_config *config,
                                    charl_optimizer **out) CHARL_MUST_CHECK;
/** The same with step parameters that its graphs use too (charl_graph_set_steps): it divides the loss scale out, and
 *  charl_optimizer_begin opens each step. `steps` is borrowed. Blocks. Local. Errors: as charl_optimizer_create. */
charl_status charl_optimizer_create_with_steps(charl_params *set, const charl_optimizer_config *config,
                                               charl_steps *steps, charl_optimizer **out) CHARL_MUST_CHECK;
/** Begin a step, before the graphs run. With step parameters they see seed, step (that of charl_optimizer_get_steps)
 *  and `lr`. Running statistics are kept where the step may be skipped. Async. Local.
 *  Errors: ERR_INVALID  the optimizer needs no begin, or `lr` is negative or not finite; ERR_DEVICE. */
charl_status charl_optimizer_begin(charl_optimizer *o, float lr) CHARL_MUST_CHECK;
/** NULL is a no-op. Local. */
void charl_optimizer_destroy(charl_optimizer *o);

/** One update with learning rate `lr`, after the gradients of the set are complete. Call charl_optimizer_begin first,
 *  with the same `lr`, if the optimizer has step parameters, or if it may skip steps and the set has running statistics
 *  (batch norm). Async. Local.
 *  Errors: ERR_INVALID  no charl_optimizer_begin, or `lr` is negative or not finite; ERR_DEVICE. */
charl_status charl_optimizer_step(charl_optimizer *o, float lr) CHARL_MUST_CHECK;
/** Result of the last step enqueued. Blocks. Local. */
charl_status charl_optimizer_get_report(charl_optimizer *o, charl_optimizer_report *out) CHARL_MUST_CHECK;

/** Steps taken, counted from 0, skipped ones included. Local. */
int64_t charl_optimizer_get_steps(const charl_optimizer *o);
/** Set the number of steps taken, of which `skipped` (as in the report) changed nothing: to resume training. Blocks.
 *  Local.
 *  Errors: ERR_INVALID  skipped is not in [0, steps]; ERR_DEVICE. */
charl_status charl_optimizer_set_steps(charl_optimizer *o, int64_t steps, int64_t skipped) CHARL_MUST_CHECK;

/** State tensors per parameter: their number, the PyTorch name of the k-th ("exp_avg"), its shape
 *  for parameter p (false: p has no such state), and its values (f32, whatever it is kept in; packed ones are
 *  written as they are read, to the bit). Local. Reading and writing
 *  Blocks; ERR_INVALID where there is no such state. */
int charl_optimizer_get_state_count(const charl_optimizer *o);
const char *charl_optimizer_get_state_name(const charl_optimizer *o, int k);
bool charl_optimizer_get_state_shape(const charl_optimizer *o, int k, const charl_param *p, charl_shape *out);
charl_status charl_optimizer_read_state(const charl_optimizer *o, int k, const charl_param *p,
                                        float *dst) CHARL_MUST_CHECK;
charl_status charl_optimizer_write_state(charl_optimizer *o, int k, const charl_param *p,
                                         const float *src) CHARL_MUST_CHECK;

/** The moving average of the weights, if config.ema_decay is positive: e = decay * e + (1 - decay)
 * * p after every step that changes p. It begins as the weights are when charl_optimizer_reset_ema
 *  is called, which does nothing where there is no average. Exchanging it with the weights lets a
 *  graph run on it; exchange again before the next step.
 *  charl_training_save keeps it. Blocks. Local. Errors: ERR_INVALID  exchanging where there is none. */
charl_status charl_optimizer_reset_ema(charl_optimizer *o) CHARL_MUST_CHECK;
charl_status charl_optimizer_exchange_ema(charl_optimizer *o) CHARL_MUST_CHECK;

/** Learning rate as a function of the step. */
typedef struct charl_schedule {
    const char *type; /* a charl_schedule_name */
    double base_lr, min_lr;
    int64_t warmup_steps;      /* linear from 0: step s < warmup has base_lr * (s + 1) / (warmup + 1) */
    int64_t total_steps;       /* where linear, cosine, poly and wsd end */
    int64_t step_size;         /* step: multiply by gamma every so many steps after the warm-up */
    double gamma;              /* step, multistep */
    charl_int_list milestones; /* multistep: ascending steps */
    double power;              /* poly */
    int64_t decay_steps;       /* wsd: length of the final linear decay */
} charl_schedule;

/** Default settings of a type; base_lr, warmup_steps and total_steps are 0. Local. */
charl_schedule charl_schedule_defaults(const char *type);

/** Name of schedule i = 0, 1, ...; NULL after the last. Static storage. Local. */
const char *charl_schedule_name(int i);
/** Check the type and its values. Local. Errors: ERR_CONFIG. */
charl_status charl_schedule_check(const charl_schedule *s) CHARL_MUST_CHECK;
/** Learning rate of step `step` (0 is the first). A function of its arguments alone. NaN, which charl_optimizer_step
 *  refuses, where charl_schedule_check fails, whose message is then the thread's, or step is negative. Local. */
double charl_schedule_lr(const charl_schedule *s, int64_t step);

CHARL_END_DECLS

#endif
