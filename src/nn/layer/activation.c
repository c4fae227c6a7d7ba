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

static charl_var *build_relu(const charl_layer_build *b, charl_var *x)
{
    return charl_relu(b->g, x);
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

static charl_var *build_sigmoid(const charl_layer_build *b, charl_var *x)
{
    return charl_sigmoid(b->g, x);
}

static charl_var *build_tanh(const charl_layer_build *b, charl_var *x)
{
    return charl_tanh(b->g, x);
}

static charl_var *build_gelu(const charl_layer_build *b, charl_var *x)
{
    return gelu(b->g, x);
}

static charl_var *build_gelu_tanh(const charl_layer_build *b, charl_var *x)
{
    return gelu_tanh(b->g, x);
}

static charl_var *build_silu(const charl_layer_build *b, charl_var *x)
{
    return charl_silu(b->g, x);
}

static charl_var *build_softplus(const charl_layer_build *b, charl_var *x)
{
    return charl_softplus(b->g, x);
}

static charl_var *build_swiglu(const charl_layer_build *b, charl_var *x)
{
    return charl_swiglu(b->g, x);
}

static charl_var *build_flatten(const charl_layer_build *b, charl_var *x)
{
    return charl_flatten(b->g, x);
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

/* The layers of activations. */
const charl_layer_type charl__layer_relu = {.row.name = "relu", .row.help = "max(x, 0)", .build = build_relu};
const charl_layer_type charl__layer_leaky_relu = {.row.name = "leaky_relu",
                                                  .row.help = "x, or slope * x below zero",
                                                  .build = build_leaky_relu,
                                                  CHARL_DEFAULTS(leaky_defaults),
                                                  CHARL_KEYS(leaky_keys)};
const charl_layer_type charl__layer_elu = {.row.name = "elu",
                                           .row.help = "x, or alpha * (exp(x) - 1) below zero",
                                           .build = build_elu,
                                           CHARL_DEFAULTS(elu_defaults),
                                           CHARL_KEYS(elu_keys)};
const charl_layer_type charl__layer_sigmoid = {
    .row.name = "sigmoid", .row.help = "1 / (1 + exp(-x))", .build = build_sigmoid};
const charl_layer_type charl__layer_tanh = {.row.name = "tanh", .row.help = "tanh(x)", .build = build_tanh};
const charl_layer_type charl__layer_gelu = {.row.name = "gelu", .row.help = "x * Phi(x)", .build = build_gelu};
const charl_layer_type charl__layer_gelu_tanh = {
    .row.name = "gelu_tanh", .row.help = "x * Phi(x), approximated with tanh", .build = build_gelu_tanh};
const charl_layer_type charl__layer_silu = {.row.name = "silu", .row.help = "x * sigmoid(x)", .build = build_silu};
const charl_layer_type charl__layer_softplus = {
    .row.name = "softplus", .row.help = "log(1 + exp(x))", .build = build_softplus};
const charl_layer_type charl__layer_swiglu = {
    .row.name = "swiglu", .row.help = "silu(gate) * value: the two halves of the last extent", .build = build_swiglu};

const charl_layer_type charl__layer_flatten = {
    .row.name = "flatten",
    .row.help = "[B, ...] -> [B, features]",
    .build = build_flatten,
};

const charl_layer_type charl__layer_dropout = {
    .row.name = "dropout",
    .row.help = "zero elements at random while training",
    .build = build_dropout,
    CHARL_DEFAULTS(dropout_defaults),
    CHARL_KEYS(dropout_keys),
};
