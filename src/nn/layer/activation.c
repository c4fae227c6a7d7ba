/* Activations as layers and as the last step of other layers; flatten and dropout. */
#include <string.h>

#include "nn/layer.h"

static charl_var *gelu(charl_graph *g, charl_var *x)
{
    return charl_gelu(g, x, false);
}

static charl_var *gelu_tanh(charl_graph *g, charl_var *x)
{
    return charl_gelu(g, x, true);
}

static charl_var *leaky_relu(charl_graph *g, charl_var *x)
{
    return charl_leaky_relu(g, x, 0.01F);
}

static charl_var *elu(charl_graph *g, charl_var *x)
{
    return charl_elu(g, x, 1.0F);
}

static const struct activation {
    const char *name;
    charl_var *(*apply)(charl_graph *g, charl_var *x);
} activations[] = {
    {"relu", charl_relu},       {"leaky_relu", leaky_relu}, {"elu", elu},
    {"sigmoid", charl_sigmoid}, {"tanh", charl_tanh},       {"gelu", gelu},
    {"gelu_tanh", gelu_tanh},   {"silu", charl_silu},       {"softplus", charl_softplus},
};

static const struct activation *find(const char *name)
{
    for (size_t i = 0; i < sizeof activations / sizeof activations[0]; i++) {
        if (strcmp(activations[i].name, name) == 0) {
            return &activations[i];
        }
    }
    return NULL;
}

const char *charl_activation_name(int i)
{
    return i >= 0 && (size_t)i < sizeof activations / sizeof activations[0] ? activations[i].name : NULL;
}

const char *charl__activation_find(const char *name)
{
    const struct activation *a = find(name);

    return a ? a->name : NULL;
}

charl_var *charl__activate(charl_graph *g, const char *name, charl_var *x)
{
    const struct activation *a = name ? find(name) : NULL;

    return a ? a->apply(g, x) : x;
}

static charl_var *build_leaky_relu(const charl_layer_build *b, charl_var *x)
{
    const charl_activation_config *c = b->settings;

    return charl_leaky_relu(b->g, x, (float)c->slope);
}

static charl_var *build_elu(const charl_layer_build *b, charl_var *x)
{
    const charl_activation_config *c = b->settings;

    return charl_elu(b->g, x, (float)c->alpha);
}

static charl_var *build_dropout(const charl_layer_build *b, charl_var *x)
{
    const charl_dropout_config *c = b->settings;

    return charl_dropout(b->g, x, (float)c->p);
}

static const charl_activation_config leaky_defaults = {.slope = 0.01};
static const charl_key leaky_keys[] = {
    {"slope", CHARL_KEY_FLOAT, offsetof(charl_activation_config, slope), "[-1e6,1e6)", false, "slope below zero"},
};
static const charl_activation_config elu_defaults = {.alpha = 1};
static const charl_key elu_keys[] = {
    {"alpha", CHARL_KEY_FLOAT, offsetof(charl_activation_config, alpha), "[-1e6,1e6)", false,
     "minus the limit at minus infinity"},
};
static const charl_dropout_config dropout_defaults = {.p = 0.5};
static const charl_key dropout_keys[] = {
    {"p", CHARL_KEY_FLOAT, offsetof(charl_dropout_config, p), "[0,1)", false, "probability to drop an element"},
};

/* A layer without settings: y = apply(x). */
#define BUILD(layer, apply)                                                                                            \
    static charl_var *build_##layer(const charl_layer_build *b, charl_var *x)                                          \
    {                                                                                                                  \
        return apply(b->g, x);                                                                                         \
    }
#define LAYER(layer, text)                                                                                             \
    {                                                                                                                  \
        .row.name = #layer, .row.help = (text), .build = build_##layer                                                 \
    }

BUILD(relu, charl_relu)
BUILD(sigmoid, charl_sigmoid)
BUILD(tanh, charl_tanh)
BUILD(gelu, gelu)
BUILD(gelu_tanh, gelu_tanh)
BUILD(silu, charl_silu)
BUILD(softplus, charl_softplus)
BUILD(swiglu, charl_swiglu)
BUILD(flatten, charl_flatten)

const charl_layer_type charl__layer_relu = LAYER(relu, "max(x, 0)");
const charl_layer_type charl__layer_sigmoid = LAYER(sigmoid, "1 / (1 + exp(-x))");
const charl_layer_type charl__layer_tanh = LAYER(tanh, "tanh(x)");
const charl_layer_type charl__layer_gelu = LAYER(gelu, "x * Phi(x)");
const charl_layer_type charl__layer_gelu_tanh = LAYER(gelu_tanh, "x * Phi(x), approximated with tanh");
const charl_layer_type charl__layer_silu = LAYER(silu, "x * sigmoid(x)");
const charl_layer_type charl__layer_softplus = LAYER(softplus, "log(1 + exp(x))");
const charl_layer_type charl__layer_swiglu = LAYER(swiglu, "silu(gate) * value: the two halves of the last extent");
const charl_layer_type charl__layer_flatten = LAYER(flatten, "[B, ...] -> [B, features]");

const charl_layer_type charl__layer_leaky_relu = {
    .row.name = "leaky_relu",
    .row.help = "x, or slope * x below zero",
    .build = build_leaky_relu,
    CHARL_DEFAULTS(leaky_defaults),
    CHARL_KEYS(leaky_keys),
};

const charl_layer_type charl__layer_elu = {
    .row.name = "elu",
    .row.help = "x, or alpha * (exp(x) - 1) below zero",
    .build = build_elu,
    CHARL_DEFAULTS(elu_defaults),
    CHARL_KEYS(elu_keys),
};

const charl_layer_type charl__layer_dropout = {
    .row.name = "dropout",
    .row.help = "zero elements at random while training",
    .build = build_dropout,
    CHARL_DEFAULTS(dropout_defaults),
    CHARL_KEYS(dropout_keys),
};
