#ifndef CHARL_OPTIM_OPTIMIZER_H
#define CHARL_OPTIM_OPTIMIZER_H
/** Internals of optimizers, beyond charl/optim.h. */
#include "base/registry/key.h"
#include "base/registry/registry.h"
#include "charl/optim.h"
#include "optim/tensor_sums.h"
#include "optim/update_args.h"
#include "tensor/packed.h"
#include "tensor/params.h"
#include "tensor/step_params.h"

enum {
    CHARL_OPTIM_MAX_SCRATCH = 4,
    CHARL_OPTIM_MAX_OWN = 10,
    CHARL_OPTIM_MAX_PARAMS = 10,
    CHARL_OPTIM_MAX_NUMBERS = 4,
    CHARL_OPTIM_PACKED_AT_ONCE = 1 << 22,    /* elements of packed states that an update processes at a time */
    CHARL_OPTIM_OFFLOADED_AT_ONCE = 1 << 28, /* and offloaded ones */
    CHARL_NORM_RANGE = 1024,  /* elements whose squares are added at a time (kernels/optim/grad_norm.cl) */
    CHARL_OPTIM_WINDOW = 1024 /* steps that may be skipped before the host learns about it */
};

/** One step for one parameter, in double: the definition. param and state[k] are updated in place.
 */
typedef struct charl__optimizer_reference {
    const charl_optimizer_config *config;
    double lr, weight_decay; /* of this parameter */
    int64_t t;               /* 1 for the first step */
    charl_shape shape;
    bool muon_exclude;  /* charl_param_settings */
    int64_t n;          /* elements */
    const double *grad; /* [n], clipped */
    double *param;      /* [n] */
    double *state[CHARL_OPTIM_MAX_STATES];
    double *scratch; /* [3 n + m^2] for a parameter [m, ...] */
} charl__optimizer_reference;

/** A number that a kernel takes: a member of charl_optimizer_config, a double at `at`, or 1 less that. */
typedef struct charl__optimizer_number {
    size_t at;
    bool rest;
} charl__optimizer_number;
/** A parameter of the kernel that is 1 or 0: a member of charl_optimizer_config, a bool at `at`; without name: none. */
typedef struct charl__optimizer_flag {
    const char *name;
    size_t at;
} charl__optimizer_flag;
#define CHARL__NUMBER(member)                                                                                          \
    {                                                                                                                  \
        .at = offsetof(charl_optimizer_config, member)                                                                 \
    }
#define CHARL__REST(member)                                                                                            \
    {                                                                                                                  \
        .at = offsetof(charl_optimizer_config, member), .rest = true                                                   \
    }

/** A row of the registry. The settings of built-in optimizers are a charl_optimizer_config. */
typedef struct charl__optimizer_rule charl__optimizer_rule;
struct charl__optimizer_rule {
    charl_row row;
    const char *state_name[CHARL_OPTIM_MAX_STATES];
    const charl_optimizer_type *custom; /* registered by a program; NULL: built in */
    /** Updates each element separately: ranks can divide its state, and the update writes the working copy of the parameters if there
     *  is one. */
    bool elementwise;
    unsigned nonnegative;                                 /* bit k: state k is never negative */
    int (*count_states)(const charl_optimizer_config *c); /* NULL: always all that have a name */
    /** Shape of state k of p, which is preset in *out; false: p has none. NULL: every state is an arena like the parameters'. */
    bool (*state_shape)(const charl__optimizer_rule *rule, int k, const charl_param *p, charl_shape *out);
    /** Work of an update of p, in any unit; NULL: its elements. */
    double (*cost)(const charl_param *p);
    /** Create sums and scratch; NULL: none is needed. scratch[0] is laid out like the elements that this process owns. */
    charl_status (*prepare)(charl_optimizer *o);
    /** Fill in bias1 and bias2 of the record for update t (1 for the first); NULL: as adam. */
    void (*fill)(const charl_optimizer_config *c, int64_t t, charl__step_params *record);
    /** Enqueue or record the update; sum and norm record are ready. NULL: the kernel charl_NAME of optim/NAME, which takes the states,
     *  then the numbers; NAME is that of the optimizer, or `kernel`. STATES is the number of states where count_states decides it. Three have
     *  a function: between their launches are norms (lamb), means of rows and columns (adafactor) and matrix products (muon). As a
     *  charl_optimizer_type, lamb and adafactor would have other bits. */
    charl_status (*enqueue)(const charl_optimizer *o);
    const char *kernel;
    charl__kernel_param param;
    charl__optimizer_flag flag;
    charl__optimizer_number numbers[CHARL_OPTIM_MAX_NUMBERS]; /* up to the first whose `at` is 0 */
    void (*reference)(const charl__optimizer_reference *r);   /* NULL: not tested by the table test */
};

/** All of them, charl__optim_NAME in a file of this folder, and NULL. Generated by CMake. */
extern const void *const charl__optimizers[];
extern const charl__optimizer_rule charl__optim_adamw; /* muon updates some parameters as adamw does */

/* Keys that several optimizers have, with the meaning they have there. */
#define CHARL__KEY_MOMENTUM(help) CHARL__KEY(charl_optimizer_config, momentum, FLOAT, "[0,1)", false, help)
#define CHARL__KEY_NESTEROV(help) CHARL__KEY(charl_optimizer_config, nesterov, BOOL, NULL, false, help)
#define CHARL__KEY_BETA1(help) CHARL__KEY(charl_optimizer_config, beta1, FLOAT, "[0,1)", false, help)
#define CHARL__KEY_BETA2(help) CHARL__KEY(charl_optimizer_config, beta2, FLOAT, "[0,1)", false, help)
#define CHARL__KEY_EPS(help) CHARL__KEY(charl_optimizer_config, eps, FLOAT, "[1e-37,inf)", false, help)

/** Optimizer i = 0, 1, ...; NULL past the last. By name; NULL if unknown. */
const charl__optimizer_rule *charl__optimizer_at(int i);
const charl__optimizer_rule *charl__optimizer_find(const char *name);

/** Functions of a custom optimizer (custom.c). */
bool charl__custom_is_elementwise(const charl_optimizer_type *type);
bool charl__custom_state_shape(const charl__optimizer_rule *rule, int k, const charl_param *p, charl_shape *out);
charl_status charl__custom_prepare(charl_optimizer *o) CHARL_MUST_CHECK;
charl_status charl__custom_enqueue(const charl_optimizer *o) CHARL_MUST_CHECK;
void charl__custom_fill(const charl_optimizer_config *c, int64_t t, charl__step_params *record);
int charl__custom_states(const charl_optimizer_config *c);
/** Errors: ERR_INVALID  the type is malformed */
charl_status charl__custom_check(const charl_optimizer_type *type) CHARL_MUST_CHECK;

typedef struct charl__norm_parts charl__norm_parts;

struct charl_optimizer {
    const charl__optimizer_rule *type;
    charl_optimizer_config config; /* config.settings of a custom type is a copy, owned */
    charl_params *set;
    bool *trains;             /* [parameters]: those that it updates; NULL: all trainable ones */
    charl__buffer *gradients; /* with config.params: a copy of theirs, 0 elsewhere */
    charl_steps *steps;       /* borrowed or own */
    charl_steps *own_steps;
    int n_states;
    /* f32 [own_elements], or for packed states a workspace for the elements of one update */
    charl__buffer *state[CHARL_OPTIM_MAX_STATES];
    charl__buffer *codes[CHARL_OPTIM_MAX_STATES],
        *scales[CHARL_OPTIM_MAX_STATES]; /* of a packed state; NULL: it is not */
    int64_t *state_at;                   /* [n_states, parameters]: element where a state begins; -1: there is none */
    int64_t *
        own_at; /* [parameters], if it updates whole tensors: element where one begins among its own; -1: it updates others. Else NULL */
    charl__tensor_sums *sums;                        /* for the rules that need them, else NULL */
    charl__buffer *scratch[CHARL_OPTIM_MAX_SCRATCH]; /* the rule's own */
    charl__buffer *table;     /* f32 [2] per 64 elements: weight decay, factor of the learning rate */
    charl__buffer *partial;   /* sums of ranges, level by level */
    charl__norm_parts *parts; /* of the first level; NULL: this process has all gradients */
    charl__buffer *norm;      /* charl__norm_record */
    charl__buffer
        *scalars; /* f32 [CHARL_OPTIM_WINDOW, 2]: bias1 and bias2 of the last updates (kernels/optim/grad_norm.cl) */
    charl__buffer *norms; /* f32 [spike_window + 1]: norms of the last steps, and the index of the next one; or NULL */
    charl__buffer *ema;   /* as a state, or NULL */
    charl__param_range *own; /* [n_own] of the arena, which this process updates */
    int n_own;
    int64_t own_elements;  /* of all of them: states that are arenas have so many, one after another */
    bool is_divided;       /* other processes update the rest */
    charl__buffer *before; /* running statistics before the step; NULL: none, or no step is skipped or undone */
    charl__recording *recording;
    int n_begin; /* launches of it that come before the graph */
    int n_join;  /* launches of it up to the end of charl__params_join */
    int n_told;  /* with `parts`, launches of it up to charl__norm_parts_exchange */
    int64_t t;   /* steps taken */
    int64_t
        skipped; /* skipped ones, as the device reported after step learned_at: the next update is number t - skipped + 1 */
    int64_t learned_at;
    uint64_t applied;       /* step of the data-parallel object whose gradients it has applied */
    bool asks_begin, begun; /* charl_optimizer_begin starts a step; it has been called */
    bool unbound;           /* charl__optimizers_unbind */
    charl_optimizer *next;  /* of the same set */
};

/** A launch of a kernel whose parameters are those of kernels/optim/optim.clh, then `own`. */
typedef struct charl__optimizer_update {
    const char *file, *entry;
    charl__kernel_param params[CHARL_OPTIM_MAX_PARAMS];
    bool elementwise;      /* the kernel takes any number of elements at a time, and writes the working
                         copy */
    size_t global[3];      /* work-items in groups of 64; zeros: one per element */
    int64_t n, rows, cols; /* elements of a parameter and its extents as matrices, if the kernel needs them */
    charl__arg own[CHARL_OPTIM_MAX_OWN];
} charl__optimizer_update;

/** Enqueue or record an update of parameter p, NULL: of the part of the arena that this process updates, in
 *  one launch per range. */
charl_status charl__optimizer_update_enqueue(const charl_optimizer *o, const charl_param *p,
                                             const charl__optimizer_update *u) CHARL_MUST_CHECK;
/** State k of p as an argument that is read and written. */
charl__arg charl__optimizer_state(const charl_optimizer *o, int k, const charl_param *p);
/** Lay out and allocate the states (optimizer_state.c). */
charl_status charl__optimizer_create_states(charl_optimizer *o) CHARL_MUST_CHECK;
/** The packing of state k; the packing with optimizer.state = packing. */
charl__format charl__optimizer_format(const charl_optimizer *o, int k);
charl__format charl__optimizer_format_with(const charl_optimizer *o, int k, charl_packing packing);
/** Number of states that a rule has; bytes of the states of n elements and of their average, for an elementwise optimizer. */
int charl__optimizer_count_states(const charl__optimizer_rule *rule, const charl_optimizer_config *config);
int64_t charl__optimizer_kept_bytes(const charl_optimizer_config *config, int64_t n);
/** The same of p for one that updates whole tensors; and of its direction, which is never offloaded. */
int64_t charl__optimizer_tensor_bytes(const charl_optimizer_config *config, const charl_param *p);
int64_t charl__optimizer_direction_bytes(const charl_optimizer_config *config, const charl_param *p);
/** Bytes on the device of states, average and directions: of all that o updates, or in this process if `own`. */
int64_t charl__optimizer_bytes(const charl_optimizer *o, bool own);
/** Work of an update of p. */
double charl__optimizer_cost(const charl__optimizer_rule *rule, const charl_param *p);
/** Bytes of n elements of state k. */
int64_t charl__optimizer_state_bytes(const charl_optimizer *o, int k, int64_t n);
/** Enqueue or record: elements [at, at + n) of packed state k into its workspace, and back after an update. */
charl_status charl__optimizer_unpack_state(const charl_optimizer *o, int k, int64_t at, int64_t n) CHARL_MUST_CHECK;
charl_status charl__optimizer_pack_state(const charl_optimizer *o, int k, int64_t at, int64_t n) CHARL_MUST_CHECK;

/** charl_optimizer_create with the step record of a training: charl_optimizer_step then pushes
 *  none, the caller does. own: the part that this process updates, NULL: everything. Other parameters
 *  do not change; reading their state and average leaves the destination unchanged, and the
 *  caller gathers the parameters and calls charl__params_refresh. Errors: also ERR_CONFIG
 *  if the type updates whole tensors and `own` divides one. */
charl_status charl__optimizer_create(charl_params *set, const charl_optimizer_config *config, charl_steps *steps,
                                     const charl__param_ranges *own, charl_optimizer **out) CHARL_MUST_CHECK;
/** charl_optimizer_step and charl_optimizer_exchange_ema, also for an optimizer that updates part of the parameters. Async. */
charl_status charl__optimizer_step(charl_optimizer *o, float lr) CHARL_MUST_CHECK;
charl_status charl__optimizer_exchange_ema(charl_optimizer *o) CHARL_MUST_CHECK;
/** Reject operations that require all of the state in one process; `call` names it. Errors: ERR_INVALID. */
charl_status charl__own_require_whole(const charl_optimizer *o, const char *call) CHARL_MUST_CHECK;
/** charl_optimizer_get_report in two halves. First copies the record to host memory, pinned and valid until an
 *  event recorded afterwards has passed. Async. Then interprets it. */
charl_status charl__optimizer_read_norm(charl_optimizer *o, charl__norm_record *host) CHARL_MUST_CHECK;
/** The same for the last step enqueued, into any memory. Blocks. */
charl_status charl__optimizer_fetch_norm(charl_optimizer *o, charl__norm_record *host) CHARL_MUST_CHECK;
void charl__optimizer_judge(const charl_optimizer *o, const charl__norm_record *r, charl_optimizer_report *out);
/** Tell the optimizer how many steps were skipped: `r` is the record after step `step`. The trainer calls it whenever it reads one. */
void charl__optimizer_learn(charl_optimizer *o, const charl__norm_record *r, int64_t step);
/** Fill in the members of the record that the next step of `o` reads: lr, and the update. Blocks if steps may be skipped and the optimizer has
 *  no report for CHARL_OPTIM_WINDOW / 2 steps. Errors: ERR_DEVICE. */
charl_status charl__optimizer_fill(charl_optimizer *o, float lr, charl__step_params *record) CHARL_MUST_CHECK;
/** Release the arenas from the optimizers of a set, before their memory is freed; and record again with its current arenas.
 *  Errors: ERR_NOMEM, ERR_KERNEL, ERR_DEVICE. */
void charl__optimizers_unbind(const charl_params *set);
charl_status charl__optimizers_rebind(const charl_params *set) CHARL_MUST_CHECK;
/** Number of launches of an update, including those that process the gradient's parts before the graph has run.
 *  0 without an optimizer. */
int charl__optimizer_launches(const charl_optimizer *o);
/** Run every launch once with commit 0. */
charl_status charl__optimizer_warm_up(charl_optimizer *o) CHARL_MUST_CHECK;

/** The gradient norm of the arena (grad_norm.c): bytes of scratch, and its launches. */
int64_t charl__grad_norm_scratch(int64_t elements);
charl_status charl__grad_norm_enqueue(const charl_optimizer *o) CHARL_MUST_CHECK;
/** Its first level, which comes before: sums of squares of the ranges of the arena. */
charl_status charl__grad_norm_first(const charl_optimizer *o) CHARL_MUST_CHECK;
/** Enqueue or record: sums of the ranges of n elements of `in`, to element out_at of out. */
charl_status charl__grad_norm_sums(const charl_optimizer *o, charl__arg in, int64_t n, charl__buffer *out,
                                   int64_t out_at) CHARL_MUST_CHECK;
/** The first level with other ranks (norm_parts.c): o->parts, for o->set->parts; launches; then what is between them and the next level. Blocks.
 *  Collective. Errors: ERR_DEVICE, ERR_COMM. */
charl_status charl__norm_parts_create(charl_optimizer *o) CHARL_MUST_CHECK;
void charl__norm_parts_destroy(charl__norm_parts *p); /* NULL is a no-op */
charl_status charl__norm_parts_enqueue(const charl_optimizer *o) CHARL_MUST_CHECK;
charl_status charl__norm_parts_exchange(const charl_optimizer *o) CHARL_MUST_CHECK;
/** uint64: the first gradient that is not finite. Borrowed. */
charl__buffer *charl__norm_parts_bad(const charl__norm_parts *p);
/** Norms stored to detect spikes, as in a checkpoint: number of floats (0: none), and their values. Blocks. Local. */
int64_t charl__optimizer_count_norms(const charl_optimizer *o);
charl_status charl__optimizer_get_norms(const charl_optimizer *o, float *dst) CHARL_MUST_CHECK;
charl_status charl__optimizer_set_norms(charl_optimizer *o, const float *src) CHARL_MUST_CHECK;
/** Create them, empty. No-op if spikes are not detected. */
charl_status charl__norms_create(charl_optimizer *o) CHARL_MUST_CHECK;
/** Undo the changes of a skipped step to the running statistics. */
charl_status charl__restore_enqueue(const charl_optimizer *o) CHARL_MUST_CHECK;
/** Call before the graph of a step runs: stores the running statistics if steps may be skipped or
 *  undone (undoes of the set). Async. */
charl_status charl__optimizer_begin(charl_optimizer *o) CHARL_MUST_CHECK;
/** Undo a step that has begun and comes to no update: running statistics become what they were. Async. Errors: ERR_INVALID  these were not
 *  stored; ERR_DEVICE. */
charl_status charl__optimizer_undo(charl_optimizer *o) CHARL_MUST_CHECK;

/** Whether the optimizer updates p. */
static inline bool charl__optimizer_trains(const charl_optimizer *o, const charl_param *p)
{
    return p->set == o->set && p->spec.trainable && (!o->trains || o->trains[p->index]);
}

/** Whether an optimizer of whole tensors updates p in this process. */
static inline bool charl__optimizer_owns(const charl_optimizer *o, const charl_param *p)
{
    return charl__optimizer_trains(o, p) && o->own_at[p->index] >= 0;
}

/** The completed gradients that it reads, an arena; borrowed. */
static inline charl__buffer *charl__optimizer_gradients(const charl_optimizer *o)
{
    return o->trains ? o->gradients : o->set->sum;
}

/** The states of this process (own.c). */
charl_status charl__own_create(charl_optimizer *o, const charl__param_ranges *own) CHARL_MUST_CHECK;
/** Copy the gradients of the parameters that o updates. Can be recorded. Async. */
charl_status charl__own_copy_gradients(const charl_optimizer *o) CHARL_MUST_CHECK;
/** Read or write this process's part of state k of p; k = number of states: of the average. Blocks. */
charl_status charl__own_read(const charl_optimizer *o, int k, const charl_param *p, float *dst) CHARL_MUST_CHECK;
charl_status charl__own_write(const charl_optimizer *o, int k, const charl_param *p, const float *src) CHARL_MUST_CHECK;
/** All that is kept of state k, own_elements floats; k = number of states: of the average. Blocks.
 */
charl_status charl__optimizer_read_own(const charl_optimizer *o, int k, float *dst) CHARL_MUST_CHECK;

/** Whether o keeps a moving average of the weights; its values of p, which o updates (natural shape). Blocks. */
bool charl__optimizer_has_ema(const charl_optimizer *o);
charl_status charl__optimizer_read_ema(const charl_optimizer *o, const charl_param *p, float *dst) CHARL_MUST_CHECK;
charl_status charl__optimizer_write_ema(charl_optimizer *o, const charl_param *p, const float *src) CHARL_MUST_CHECK;
/** The moving average (ema.c): its arena, and its launch after the update. */
charl_status charl__ema_create(charl_optimizer *o) CHARL_MUST_CHECK;
charl_status charl__ema_enqueue(const charl_optimizer *o) CHARL_MUST_CHECK;

#endif
