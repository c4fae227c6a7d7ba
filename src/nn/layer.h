#ifndef CHARL_NN_LAYER_H
#define CHARL_NN_LAYER_H
/** The registry of layer types, and what layers share. */
#include "base/registry/key.h"
#include "charl/layer.h"
#include "charl/nn.h"
#include "charl/ops.h"

enum { CHARL_LAYER_MAX_NAME = 256 };

const charl_layer_type *charl__layer_type_find(const char *name); /* NULL if unknown */
const charl_layer_type *charl__layer_type_at(int i);              /* NULL past the end */

/** Append a layer that is a part of this one: its name and scope are b's with ".suffix". NULL x, or
 *  an error, gives NULL. */
charl_var *charl__layer_build_inside(const charl_layer_build *b, const char *suffix, const charl_layer_type *type,
                                     const void *config, charl_var *x);
/** Parameter `suffix` of the layer named `layer`, declared before with that shape. */
charl_var *charl__layer_param_of(const charl_layer_build *b, const char *layer, const char *suffix,
                                 const charl_shape *shape);
/** Refuse the input: ERR_SHAPE with the layer's name. Returns NULL. */
charl_var *charl__graph_refuse(charl_graph *g, const char *reason);
/** x through the activation named `name`; NULL name: x. */
charl_var *charl__activate(charl_graph *g, const char *name, charl_var *x);
/** A layer's key `axis`: extents are counted as in PyTorch, so 0, the batch, is none. Refuses others than those of x; -1 then. */
int charl__layer_axis(const charl_layer_build *b, const charl_var *x, int64_t axis);
/** The last position of padded sequences that is no padding: x without the extent charl__var_positions(x), or with `keep` with 1 there. */
charl_var *charl__layer_last_position(const charl_layer_build *b, charl_var *x, bool keep);
/** The name itself in static memory, NULL if unknown. */
const char *charl__activation_find(const char *name);

/** Whether a parameter of that name is a matrix of a low-rank adapter (charl_lora). */
bool charl__is_adapter(const char *name);

/** A layer's row: its name, a line of help, the function that builds it, and what else it has. */
#define CHARL__LAYER(word, text, ...)                                                                                  \
    {                                                                                                                  \
        .row.name = (word), .row.help = (text), .build = __VA_ARGS__                                                   \
    }
/** Its keys and the values that they have by default, settings_keys and settings_defaults. */
#define CHARL__SETTINGS(settings) CHARL_DEFAULTS(settings##_defaults), CHARL_KEYS(settings##_keys)

/** All of them, charl__layer_NAME in a file of src/nn/layer, and NULL. Made by CMake. */
extern const void *const charl__layers[];
/* Those that other layers consist of. */
extern const charl_layer_type charl__layer_linear, charl__layer_conv2d, charl__layer_batch_norm,
    charl__layer_layer_norm, charl__layer_rms_norm;

/** Keys and defaults of a charl_rope_scaling, the member `at` of the settings `type`. */
/* clang-format off */
#define CHARL__ROPE_SCALING_DEFAULTS {.factor = 8, .low = 1, .high = 4, .original = 8192}
#define CHARL__ROPE_SCALING_KEYS(type, at) \
    {"rope_scaling", CHARL_KEY_CHOICE, offsetof(type, at.kind), NULL, false, \
     "slow down rotary positions, for long windows; llama3: as in Llama 3.1", "none|llama3"}, \
    {"rope_factor", CHARL_KEY_FLOAT, offsetof(type, at.factor), "[0,1e6]", false, \
     "with rope_scaling: how many times slower, at least 1", NULL}, \
    {"rope_low", CHARL_KEY_FLOAT, offsetof(type, at.low), "[0,1e6]", false, \
     "with rope_scaling: pairs that turn less often within rope_original are slowed down", NULL}, \
    {"rope_high", CHARL_KEY_FLOAT, offsetof(type, at.high), "[0,1e6]", false, \
     "with rope_scaling: pairs that turn more often are not; above rope_low", NULL}, \
    {"rope_original", CHARL_KEY_INT, offsetof(type, at.original), "[0,1e9]", false, \
     "with rope_scaling: tokens of the window that the model was first trained on", NULL}
/* clang-format on */

/** Width of the mlp of a transformer block: `hidden`, or what 0 stands for in a block of `width` features. mlp: a charl_block_mlp. */
int64_t charl__transformer_hidden(int64_t hidden, int mlp, int64_t width);

#endif
