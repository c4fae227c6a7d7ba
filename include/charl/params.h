#ifndef CHARL_PARAMS_H
#define CHARL_PARAMS_H
/** The parameters of a model: names, shapes, initial values, and the flat arenas that hold them.
 *
 *  Parameters are declared first, when layers are created. The arenas are laid out and allocated
 *  when the first graph that uses them is compiled, in the order in which that graph finishes their
 *  gradients; then they are initialised or loaded. A set owns its parameters; a charl_param is
 *  borrowed from its set. Graphs that use a set must be destroyed before it. A graph that only reads a set, as one for
 *  evaluation or one that trains another set, may be compiled before or after the graph that trains it.
 *
 *  To freeze a part of a model, call charl_params_freeze between building and differentiating the graph:
 *
 *      charl_var *logits = charl_model_build(model, g, params, x); // declares the parameters
 *      charl_var *loss = charl_batch_mean(g, charl_cross_entropy(g, logits, y, NULL, NULL));
 *
 *      check(charl_params_freeze(params, "h.*", NULL));
 *      charl_graph_backward(g, loss, NULL); // no gradients of h.*
 */
#include "charl/device.h"
#include "charl/shape.h"

CHARL_BEGIN_DECLS

/** Storage formats with fewer bits, for frozen weights (charl_params_pack) and the state of an optimizer
 *  (charl_optimizer_config.state). int8 and int4 are codes in blocks of 64 with one f32 scale per block: 8.5 and 4.5
 *  bits per number. */
typedef enum charl_packing {
    CHARL_PACKING_F32,
    CHARL_PACKING_BF16,
    CHARL_PACKING_INT8,
    CHARL_PACKING_INT4
} charl_packing;

typedef struct charl_params charl_params;
typedef struct charl_param charl_param;

typedef enum charl_init_kind {
    CHARL_INIT_CONSTANT, /* a */
    CHARL_INIT_UNIFORM,  /* [a, b) */
    CHARL_INIT_NORMAL    /* mean a, standard deviation b */
} charl_init_kind;

/** How a parameter is initialised. Random values depend on (seed, name, element) only, never on order, ranks or
 *  device. */
typedef struct charl_init {
    charl_init_kind kind;
    float a, b;
} charl_init;

/** A parameter's declaration. */
typedef struct charl_param_spec {
    /* flat dotted PyTorch name, unique in its set: "fc1.weight"; 1 to 255 bytes without '/', blanks and control
     * characters; copied */
    const char *name;
    charl_shape shape;
    charl_init init;
    bool trainable; /* false: a buffer such as a running statistic, or frozen; kept in another arena */
    bool no_decay;  /* no weight decay unless charl_param_settings.weight_decay says otherwise */
    bool embedding; /* a lookup table, not a matrix of a product */
} charl_param_spec;

/** How an optimizer treats a parameter; read when the optimizer is created. */
typedef struct charl_param_settings {
    float lr_scale;     /* factor of the learning rate; 1 unless set */
    float weight_decay; /* instead of the optimizer's; negative, the default: the optimizer's, or
                           none for a parameter declared no_decay */
    bool muon_exclude;  /* true for embeddings and the output layer: with muon, adamw updates them */
} charl_param_settings;

/** Owned: destroy with charl_params_destroy. Local. Errors: ERR_NOMEM. */
charl_status charl_params_create(charl_params **out) CHARL_MUST_CHECK;
/** NULL is a no-op. Local. */
void charl_params_destroy(charl_params *set);

/** Declare a parameter; *out is borrowed from the set. Local.
 *  Errors: ERR_INVALID  the name is taken or malformed, or the arenas are already allocated
 *          ERR_SHAPE, ERR_NOMEM */
charl_status charl_params_add(charl_params *set, const charl_param_spec *spec, charl_param **out) CHARL_MUST_CHECK;

/** Number of parameters, buffers included; the i-th in order of declaration; the one named `name`
 *  or NULL. Local. */
int charl_params_get_count(const charl_params *set);
charl_param *charl_params_get(const charl_params *set, int i);
charl_param *charl_params_find(const charl_params *set, const char *name);

/** Sum of the elements of trainable parameters. Local. */
int64_t charl_params_get_elements(const charl_params *set);

/** Declaration of p; the spec's name is borrowed. Local. */
const charl_param_spec *charl_param_get_spec(const charl_param *p);

/** How optimizers that are created later treat p. Local. */
charl_param_settings charl_param_get_settings(const charl_param *p);
void charl_param_set_settings(charl_param *p, charl_param_settings settings);

/** Freeze the trainable parameters whose name matches one of `patterns`, separated by commas, where * is any text and ?
 *  any character: "*" is all, "h.0.*, h.1.*" two blocks. A pattern after ! excludes what it matches from the patterns
 *  before it: "*, !head.*" is all but the head. Frozen parameters keep their values. They have no gradient, no
 *  optimizer state and no all-reduce traffic, and the backward pass leaves out what only they would need. Running
 *  statistics are not frozen: a batch norm in a training graph still updates them.
 *
 *  Call after the parameters are declared and before charl_graph_backward, with the same patterns on every rank. To
 *  freeze or unfreeze between two parts of a training, destroy the graphs, optimizers and data-parallel objects of the
 *  set, call these functions, and build them again; the parameters keep their values. *count receives the number of
 *  parameters that this call has changed; count may be NULL.
 *
 *  Blocks where the set has been used. Local.
 *  Errors: ERR_INVALID  a pattern matches no parameter; compiled graphs, optimizers or data-parallel objects use the
 *                       set; or it has been used, and is packed (charl_params_pack)
 *          ERR_NOMEM, ERR_DEVICE */
charl_status charl_params_freeze(charl_params *set, const char *patterns, int *count) CHARL_MUST_CHECK;
charl_status charl_params_unfreeze(charl_params *set, const char *patterns, int *count) CHARL_MUST_CHECK;

/** Store the frozen matrices of the set in fewer bits, as QLoRA does: int4 uses the 16 values of NF4, int8 127 equal
 *  steps on each side of 0. Before a product, its matrix is unpacked to the precision of the graph into a workspace;
 *  only one matrix is unpacked at a time. charl_param_write rounds to the nearest value, and charl_param_read returns
 *  the rounded values. In a graph in bf16 or f16, embeddings (and with bf16 packing all matrices) are stored in the
 *  precision of the graph, without a copy in f32; in an f32 graph embeddings stay f32.
 *  Call after charl_params_freeze, with the same packing on every rank. Blocks. Local.
 *  Errors: ERR_INVALID  no such packing, or the arenas are already allocated. */
charl_status charl_params_pack(charl_params *set, charl_packing packing) CHARL_MUST_CHECK;

/** Whether p was frozen; charl_param_get_spec then says that it is not trainable. Local. */
bool charl_param_is_frozen(const charl_param *p);

/** Set every parameter to its initial value, drawn from `seed`. Blocks. Local.
 *  Errors: ERR_INVALID before a graph has been compiled, ERR_DEVICE. */
charl_status charl_params_initialize(charl_params *set, uint64_t seed) CHARL_MUST_CHECK;

/** Copy the value of p from or to host memory of charl_shape_count(shape) floats. Blocks. Local.
 *  Errors: ERR_INVALID before a graph has been compiled, ERR_DEVICE. */
charl_status charl_param_write(charl_param *p, const float *src) CHARL_MUST_CHECK;
charl_status charl_param_read(const charl_param *p, float *dst) CHARL_MUST_CHECK;

/** Copy the gradient of p that the optimizer's last step used to dst, charl_shape_count(shape) floats: the sum over the
 *  global batch, before clipping, multiplied by the loss scale if there is one. Blocks. Local.
 *  Errors: ERR_INVALID when p is not trained, the set has no gradients or they are sharded over ranks, ERR_DEVICE. */
charl_status charl_param_read_gradient(const charl_param *p, float *dst) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
