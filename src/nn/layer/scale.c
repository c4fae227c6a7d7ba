/* scale: a learned factor for each feature. */
#include "nn/layer.h"

static charl_var *build(const charl_layer_build *b, charl_var *x)
{
    const charl_scale_config *c = b->settings;
    const charl_shape in = charl_var_get_type(x).shape;
    charl_var *weight;

    if (in.ndim < 2) {
        return charl__graph_refuse(b->g, "scale needs [batch, ..., features]");
    }
    weight = charl_layer_param(
        b, "weight",
        &(charl_param_spec){.shape = {1, {in.dim[in.ndim - 1]}}, .init = {CHARL_INIT_CONSTANT, (float)c->init, 0.0F}});
    return weight ? charl_mul(b->g, x, weight) : NULL;
}

static const charl_scale_config defaults = {.init = 1.0};
static const charl_key keys[] = {
    CHARL__KEY(charl_scale_config, init, FLOAT, "[-1e6,1e6]", false, "initial factors"),
};

const charl_layer_type charl__layer_scale =
    CHARL__LAYER("scale", "multiply the last extent by a learned factor for each feature", build,
                 CHARL_DEFAULTS(defaults), CHARL_KEYS(keys));
