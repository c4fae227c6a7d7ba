/* Activations as layers and as the last step of other layers; swiglu, flatten and dropout. */
#include "nn/layer.h"

/* y = apply(x), or apply_with(x, number) with a number of charl_activation_config. */
typedef struct activation {
    charl_var *(*apply)(charl_graph *g, charl_var *x);
    charl_var *(*apply_with)(charl_graph *g, charl_var *x, float number);
    size_t number; /* where it is */
} activation;

static charl_var *apply(charl_graph *g, const activation *a, const void *settings, charl_var *x)
{
    return a->apply ? a->apply(g, x)
                    : a->apply_with(g, x, (float)*(const double *)((const char *)settings + a->number));
}

static charl_var *build_activation(const charl_layer_build *b, charl_var *x)
{
    return apply(b->g, b->type->variant, b->settings, x);
}

const char *charl_activation_name(int i)
{
    const charl_layer_type *t;

    for (int k = 0; (t = charl__layer_type_at(k)) != NULL; k++) {
        if (t->build == build_activation && i-- == 0) {
            return t->row.name;
        }
    }
    return NULL;
}

static const charl_layer_type *find(const char *name)
{
    const charl_layer_type *t = charl__layer_type_find(name);

    return t && t->build == build_activation ? t : NULL;
}

const char *charl__activation_find(const char *name)
{
    const charl_layer_type *t = find(name);

    return t ? t->row.name : NULL;
}

charl_var *charl__activate(charl_graph *g, const char *name, charl_var *x)
{
    const charl_layer_type *t = name ? find(name) : NULL;

    return t ? apply(g, t->variant, t->row.defaults, x) : x;
}

static charl_var *gelu(charl_graph *g, charl_var *x)
{
    return charl_gelu(g, x, false);
}

static charl_var *gelu_tanh(charl_graph *g, charl_var *x)
{
    return charl_gelu(g, x, true);
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

static charl_var *build_stochastic_depth(const charl_layer_build *b, charl_var *x)
{
    const charl_dropout_config *c = b->settings;

    return charl_stochastic_depth(b->g, x, (float)c->p);
}

static const charl_activation_config leaky_relu_defaults = {.slope = 0.01}, elu_defaults = {.alpha = 1};
static const charl_key leaky_relu_keys[] = {
    CHARL__KEY(charl_activation_config, slope, FLOAT, "[-1e6,1e6)", false, "slope below zero"),
};
static const charl_key elu_keys[] = {
    CHARL__KEY(charl_activation_config, alpha, FLOAT, "[-1e6,1e6)", false, "minus the limit at minus infinity"),
};
static const charl_dropout_config dropout_defaults = {.p = 0.5};
static const charl_key dropout_keys[] = {
    CHARL__KEY(charl_dropout_config, p, FLOAT, "[0,1)", false, "probability to drop an element"),
};
static const charl_dropout_config stochastic_depth_defaults = {.p = 0.5};
static const charl_key stochastic_depth_keys[] = {
    CHARL__KEY(charl_dropout_config, p, FLOAT, "[0,1)", false, "probability to drop a sample"),
};

/* In the order of the help. `activation = NAME` of other layers applies one with its defaults. */
#define ACTIVATION(word, text, function)                                                                               \
    CHARL__LAYER(#word, text, build_activation, .variant = &(const activation){.apply = function})
#define ACTIVATION_WITH(word, text, member)                                                                            \
    CHARL__LAYER(#word, text, build_activation,                                                                        \
                 .variant = &(const activation){.apply_with = charl_##word,                                            \
                                                .number = offsetof(charl_activation_config, member)},                  \
                 CHARL__SETTINGS(word))

const charl_layer_type charl__layer_relu = ACTIVATION(relu, "max(x, 0)", charl_relu);
const charl_layer_type charl__layer_relu6 = ACTIVATION(relu6, "min(max(x, 0), 6)", charl_relu6);
const charl_layer_type charl__layer_hardsigmoid = ACTIVATION(hardsigmoid, "relu6(x + 3) / 6", charl_hardsigmoid);
const charl_layer_type charl__layer_hardswish = ACTIVATION(hardswish, "x * relu6(x + 3) / 6", charl_hardswish);
const charl_layer_type charl__layer_leaky_relu = ACTIVATION_WITH(leaky_relu, "x, or slope * x below zero", slope);
const charl_layer_type charl__layer_elu = ACTIVATION_WITH(elu, "x, or alpha * (exp(x) - 1) below zero", alpha);
const charl_layer_type charl__layer_sigmoid = ACTIVATION(sigmoid, "1 / (1 + exp(-x))", charl_sigmoid);
const charl_layer_type charl__layer_tanh = ACTIVATION(tanh, "tanh(x)", charl_tanh);
const charl_layer_type charl__layer_gelu = ACTIVATION(gelu, "x * Phi(x)", gelu);
const charl_layer_type charl__layer_gelu_tanh = ACTIVATION(gelu_tanh, "x * Phi(x), approximated with tanh", gelu_tanh);
const charl_layer_type charl__layer_silu = ACTIVATION(silu, "x * sigmoid(x)", charl_silu);
const charl_layer_type charl__layer_softplus = ACTIVATION(softplus, "log(1 + exp(x))", charl_softplus);
const charl_layer_type charl__layer_swiglu =
    CHARL__LAYER("swiglu", "silu(gate) * value: the two halves of the last extent", build_swiglu);
const charl_layer_type charl__layer_flatten = CHARL__LAYER("flatten", "[B, ...] -> [B, features]", build_flatten);
const charl_layer_type charl__layer_dropout =
    CHARL__LAYER("dropout", "zero elements at random while training", build_dropout, CHARL__SETTINGS(dropout));
const charl_layer_type charl__layer_stochastic_depth =
    CHARL__LAYER("stochastic_depth", "zero whole samples at random while training, at the end of a residual branch",
                 build_stochastic_depth, CHARL__SETTINGS(stochastic_depth));
