#ifndef CHARL_NN_LAYER_H
#define CHARL_NN_LAYER_H
/** What a layer type is: a row of the registry with its settings described as data, so that
 * configuration files, help texts and checks need no code of their own.
 */
#include "charl/nn.h"
#include "charl/ops.h"

typedef enum charl_key_kind {
    CHARL_KEY_INT,       /* int64_t */
    CHARL_KEY_PAIR,      /* int64_t[2] */
    CHARL_KEY_FLOAT,     /* double */
    CHARL_KEY_BOOL,      /* bool */
    CHARL_KEY_CHOICE,    /* int, an index into choices */
    CHARL_KEY_LAYER,     /* const char *, the name of a layer before this one, NULL for none */
    CHARL_KEY_ACTIVATION /* const char *, NULL for none */
} charl_key_kind;

typedef struct charl_layer_key {
    const char *name;
    charl_key_kind kind;
    size_t offset;   /* in the settings struct */
    double min, max; /* inclusive; max of a FLOAT is exclusive */
    bool required;
    const char *help;
    const char *choices; /* CHOICE: "a|b" */
} charl_layer_key;

/** A layer while its model is appended to a graph. */
typedef struct charl_layer_build {
    charl_graph *g;
    charl_params *set;
    const char *name; /* of the layer */
    const void *config;
} charl_layer_build;

enum { CHARL_LAYER_MAX_CONFIG = 128, CHARL_LAYER_MAX_NAME = 256 };

typedef struct charl_layer_type {
    const char *name;
    const char *help;
    size_t config_size;
    const void *defaults;
    const charl_layer_key *keys;
    int n_keys;
    bool is_block; /* composite: a part of the model by itself */
    charl_var *(*build)(const charl_layer_build *b, charl_var *x);
} charl_layer_type;

#define CHARL_KEYS(arr) .keys = (arr), .n_keys = (int)(sizeof(arr) / sizeof((arr)[0]))
#define CHARL_DEFAULTS(value) .defaults = &(value), .config_size = sizeof(value)

const charl_layer_type *charl__layer_type_find(const char *name); /* NULL if unknown */
const charl_layer_type *charl__layer_type_at(int i);              /* NULL past the end */

/** Parameter `suffix` of the layer: declared at the first build, found at later ones. NULL after an
 * error. */
charl_var *charl__layer_param(const charl_layer_build *b, const char *suffix,
                              const charl_param_spec *spec);
/** The same for what is not trained: running statistics. */
charl_var *charl__layer_buffer(const charl_layer_build *b, const char *suffix,
                               const charl_param_spec *spec);
/** Append a layer that is a part of this one: its name and scope are b's with ".suffix". NULL x, or
 * an error, gives NULL. */
charl_var *charl__layer_build_inside(const charl_layer_build *b, const char *suffix,
                                     const charl_layer_type *type, const void *config,
                                     charl_var *x);
/** Parameter `suffix` of the layer named `layer`, declared before with that shape. */
charl_var *charl__layer_param_of(const charl_layer_build *b, const char *layer, const char *suffix,
                                 const charl_shape *shape);
/** Refuse the input: ERR_SHAPE with the layer's name. Returns NULL. */
charl_var *charl__graph_refuse(charl_graph *g, const char *reason);
/** x through the activation named `name`; NULL name: x. */
charl_var *charl__activate(charl_graph *g, const char *name, charl_var *x);
/** The name itself in static memory, NULL if unknown. */
const char *charl__activation_find(const char *name);

/** Whether charl_model_add_resnet knows the depth. */
bool charl__resnet_has_depth(int64_t depth);

extern const charl_layer_type charl__layer_linear, charl__layer_conv2d, charl__layer_batch_norm,
    charl__layer_layer_norm, charl__layer_max_pool2d, charl__layer_avg_pool2d,
    charl__layer_global_avg_pool, charl__layer_flatten, charl__layer_dropout,
    charl__layer_conv_transpose2d, charl__layer_group_norm, charl__layer_residual_block,
    charl__layer_embedding, charl__layer_position_embedding, charl__layer_lstm, charl__layer_gru,
    charl__layer_transformer_block, charl__layer_rms_norm;
extern const charl_layer_type charl__layer_activations[]; /* ends with a NULL name */

#endif
