/* batch_norm over the channels of the whole global batch, group_norm over groups of a sample's
 * channels, layer_norm over the last extent. */
#include "autograd/graph.h"
#include "nn/layer.h"

typedef struct affine {
    charl_var *weight, *bias;
} affine;

static bool declare_affine(const charl_layer_build *b, int64_t n, bool bias, affine *a)
{
    a->weight = charl_layer_param(b, "weight",
                                  &(charl_param_spec){.shape = {1, {n}}, .init = {CHARL_INIT_CONSTANT, 1.0F, 0.0F}});
    a->bias = NULL;
    if (bias) {
        a->bias = charl_layer_param(b, "bias",
                                    &(charl_param_spec){.shape = {1, {n}}, .init = {CHARL_INIT_CONSTANT, 0.0F, 0.0F}});
    }
    return a->weight && (a->bias || !bias);
}

static charl_var *statistic(const charl_layer_build *b, const char *suffix, int64_t n, float value)
{
    const charl_param_spec spec = {.shape = {1, {n}}, .init = {CHARL_INIT_CONSTANT, value, 0.0F}};

    return charl_layer_buffer(b, suffix, &spec);
}

/* Statistics over positions would include padding. */
static charl_var *mixed(const charl_var *x, charl_var *y)
{
    if (charl__var_positions(x) > 0) {
        charl__var_set_positions(y, -1);
    }
    return y;
}

static charl_var *build_batch_norm(const charl_layer_build *b, charl_var *x)
{
    const charl_norm_config *c = b->settings;
    const charl_shape in = charl_var_get_type(x).shape;
    charl_batch_norm_args args = {.eps = (float)c->eps, .momentum = (float)c->momentum};
    affine a;

    if (in.ndim < 2) {
        return charl__graph_refuse(b->g, "batch_norm needs [batch, channels, ...]");
    }
    if (!declare_affine(b, in.dim[1], true, &a)) {
        return NULL;
    }
    args.weight = a.weight;
    args.bias = a.bias;
    args.running_mean = statistic(b, "running_mean", in.dim[1], 0.0F);
    args.running_var = statistic(b, "running_var", in.dim[1], 1.0F);
    if (!args.running_mean || !args.running_var) {
        return NULL;
    }
    return charl__activate(b->g, c->activation, mixed(x, charl_batch_norm(b->g, x, &args)));
}

static charl_var *build_group_norm(const charl_layer_build *b, charl_var *x)
{
    const charl_group_norm_config *c = b->settings;
    const charl_shape in = charl_var_get_type(x).shape;
    affine a;

    if (in.ndim < 2 || in.dim[1] % c->groups != 0) {
        return charl__graph_refuse(b->g, in.ndim < 2 ? "group_norm needs [batch, channels, ...]"
                                                     : "group_norm: groups must divide the channels");
    }
    if (charl_shape_count(&in) == in.dim[0] * c->groups) {
        return charl__graph_refuse(b->g, "group_norm: each group has one value, which becomes 0 whatever it is; HINT "
                                         "fewer groups");
    }
    if (!declare_affine(b, in.dim[1], true, &a)) {
        return NULL;
    }
    return charl__activate(b->g, c->activation,
                           mixed(x, charl_group_norm(b->g, x, a.weight, a.bias, (int)c->groups, (float)c->eps)));
}

static charl_var *build_layer_norm(const charl_layer_build *b, charl_var *x)
{
    const charl_norm_config *c = b->settings;
    const charl_shape in = charl_var_get_type(x).shape;
    affine a;

    if (in.ndim < 2) {
        return charl__graph_refuse(b->g, "layer_norm needs [batch, ..., features]");
    }
    if (in.dim[in.ndim - 1] == 1) {
        return charl__graph_refuse(b->g, "layer_norm: the last extent is 1, and one value becomes 0 whatever it is");
    }
    if (!declare_affine(b, in.dim[in.ndim - 1], c->bias, &a)) {
        return NULL;
    }
    return charl__activate(b->g, c->activation, charl_layer_norm(b->g, x, a.weight, a.bias, (float)c->eps));
}

static const charl_norm_config defaults = {.eps = 1e-5, .momentum = 0.1, .bias = true};
static const charl_key batch_norm_keys[] = {
    CHARL__KEY(charl_norm_config, eps, FLOAT, "[0,1)", false, "added to the variance"),
    CHARL__KEY(charl_norm_config, momentum, FLOAT, "[0,1)", false, "weight of a new batch in the running statistics"),
    CHARL__KEY(charl_norm_config, activation, ACTIVATION, NULL, false, "applied to the output"),
};
static const charl_key layer_norm_keys[] = {
    CHARL__KEY(charl_norm_config, eps, FLOAT, "[0,1)", false, "added to the variance"),
    CHARL__KEY(charl_norm_config, bias, BOOL, NULL, false, "add a bias"),
    CHARL__KEY(charl_norm_config, activation, ACTIVATION, NULL, false, "applied to the output"),
};

const charl_layer_type charl__layer_batch_norm =
    CHARL__LAYER("batch_norm", "normalise channels over the global batch", build_batch_norm, CHARL_DEFAULTS(defaults),
                 CHARL_KEYS(batch_norm_keys));

const charl_layer_type charl__layer_layer_norm =
    CHARL__LAYER("layer_norm", "normalise the last extent of each row", build_layer_norm, CHARL_DEFAULTS(defaults),
                 CHARL_KEYS(layer_norm_keys));

static const charl_group_norm_config group_norm_defaults = {.eps = 1e-5};
static const charl_key group_norm_keys[] = {
    CHARL__KEY(charl_group_norm_config, groups, INT, "[1,1e6]", true, "groups of channels"),
    CHARL__KEY(charl_group_norm_config, eps, FLOAT, "[0,1)", false, "added to the variance"),
    CHARL__KEY(charl_group_norm_config, activation, ACTIVATION, NULL, false, "applied to the output"),
};

const charl_layer_type charl__layer_group_norm = CHARL__LAYER(
    "group_norm", "normalise groups of channels of each sample", build_group_norm, CHARL__SETTINGS(group_norm));
