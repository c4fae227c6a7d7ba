/* prelu (He et al. 2015): max(x, 0) + weight min(x, 0), with learned weights. The derivative at 0 is the weight, as in PyTorch. */
#include "nn/layer.h"

static charl_var *build(const charl_layer_build *b, charl_var *x)
{
    const charl_prelu_config *c = b->settings;
    const charl_shape in = charl_var_get_type(x).shape;
    charl_param_spec spec = {.shape = {1, {1}}, .init = {CHARL_INIT_CONSTANT, (float)c->init, 0.0F}};
    charl_shape of_channel = {in.ndim - 1, {0}};
    charl_var *weight, *above;

    if (in.ndim < 2) {
        return charl__graph_refuse(b->g, "prelu needs [batch, channels, ...]");
    }
    for (int i = 0; i < of_channel.ndim; i++) {
        of_channel.dim[i] = 1;
    }
    if (c->by_channel) {
        spec.shape.dim[0] = of_channel.dim[0] = in.dim[1];
    }
    weight = charl_layer_param(b, "weight", &spec);
    above = charl_relu(b->g, x);
    return charl_add(b->g, above, charl_mul(b->g, charl_sub(b->g, x, above), charl_reshape(b->g, weight, of_channel)));
}

static const charl_prelu_config defaults = {.init = 0.25};
static const charl_key keys[] = {
    CHARL__KEY(charl_prelu_config, by_channel, BOOL, NULL, false, "a weight for each channel; no: one for all"),
    CHARL__KEY(charl_prelu_config, init, FLOAT, "[-1e6,1e6]", false, "initial slope below zero"),
};

const charl_layer_type charl__layer_prelu = CHARL__LAYER("prelu", "x, or x times a learned slope below zero", build,
                                                         CHARL_DEFAULTS(defaults), CHARL_KEYS(keys));
