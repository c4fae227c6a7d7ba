/* rms_norm over the last extent; weights start at 1. */
#include "nn/layer.h"

static charl_var *build(const charl_layer_build *b, charl_var *x)
{
    const charl_rms_norm_config *c = b->settings;
    const charl_shape in = charl_var_get_type(x).shape;
    charl_var *weight;

    if (in.ndim < 2) {
        return charl__graph_refuse(b->g, "rms_norm needs [batch, ..., features]");
    }
    weight = charl_layer_param(
        b, "weight",
        &(charl_param_spec){.shape = {1, {in.dim[in.ndim - 1]}}, .init = {CHARL_INIT_CONSTANT, 1.0F, 0.0F}});
    return weight ? charl_rms_norm(b->g, x, weight, (float)c->eps) : NULL;
}

static const charl_rms_norm_config defaults = {.eps = 1e-5};
static const charl_key keys[] = {
    CHARL__KEY(charl_rms_norm_config, eps, FLOAT, "[0,1)", false, "added to the mean square"),
};

const charl_layer_type charl__layer_rms_norm =
    CHARL__LAYER("rms_norm", "divide the last extent of each row by its root mean square", build,
                 CHARL_DEFAULTS(defaults), CHARL_KEYS(keys));
