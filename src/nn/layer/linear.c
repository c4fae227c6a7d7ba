/* linear: out = x @ weight^T + bias. Initial values as torch.nn.Linear: uniform within 1 /
 * sqrt(in). */
#include <math.h>

#include "nn/layer.h"

static charl_var *build(const charl_layer_build *b, charl_var *x)
{
    const charl_linear_config *c = b->config;
    const charl_shape in = charl_var_get_type(x).shape;
    const int64_t features = in.ndim > 0 ? in.dim[in.ndim - 1] : 0;
    const float bound = (float)(1.0 / sqrt((double)(features > 0 ? features : 1)));
    const charl_init init = {CHARL_INIT_UNIFORM, -bound, bound};
    charl_var *w, *bias = NULL;

    if (in.ndim < 2) {
        return charl__graph_refuse(b->g, "a linear layer needs [batch, features]");
    }
    w = charl__layer_param(b, "weight",
                           &(charl_param_spec){.shape = {2, {c->out, features}}, .init = init});
    if (c->bias) {
        bias = charl__layer_param(b, "bias",
                                  &(charl_param_spec){.shape = {1, {c->out}}, .init = init});
    }
    if (!w || (c->bias && !bias)) {
        return NULL;
    }
    return charl__activate(b->g, c->activation, charl_linear(b->g, x, w, bias));
}

static const charl_linear_config defaults = {.bias = true};
static const charl_layer_key keys[] = {
    {"out", CHARL_KEY_INT, offsetof(charl_linear_config, out), 1, 1e9, true, "output features"},
    {"bias", CHARL_KEY_BOOL, offsetof(charl_linear_config, bias), 0, 0, false, "add a bias"},
    {"activation", CHARL_KEY_ACTIVATION, offsetof(charl_linear_config, activation), 0, 0, false,
     "applied to the output"},
};

const charl_layer_type charl__layer_linear = {
    .name = "linear",
    .help = "x @ weight^T + bias over the last extent",
    .build = build,
    CHARL_DEFAULTS(defaults),
    CHARL_KEYS(keys),
};
