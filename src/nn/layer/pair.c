/* pair: the embeddings of two towers, in the form that the loss contrastive compares (Radford et al. 2021, "CLIP"). */
#include <math.h>

#include "autograd/op.h"
#include "nn/layer.h"

/* x divided by its length, [B, 1, features]. */
static charl_var *unit(charl_graph *g, charl_var *x)
{
    const charl_shape s = x ? charl_var_get_type(x).shape : (charl_shape){2, {1, 1}};
    charl_var *length = charl_sqrt(g, charl_scale(g, charl_sum(g, charl_mul(g, x, x), 1, true), 1.0F, 1e-12F));

    return charl_reshape(g, charl_div(g, x, length), (charl_shape){3, {s.dim[0], 1, s.dim[1]}});
}

static charl_var *build(const charl_layer_build *b, charl_var *x)
{
    const charl_pair_config *c = b->settings;
    const charl_shape one = charl_var_get_type(x).shape, two = charl_var_get_type(b->in[1]).shape;
    const float most = logf(100.0F); /* of the logarithm, as in CLIP */
    charl_var *half[2], *scale;

    if (one.ndim != 2 || !charl_shape_equal(&one, &two)) {
        return charl__graph_refuse(b->g, "pair needs two embeddings [batch, features] of the same shape");
    }
    scale = charl_layer_param(
        b, "log_scale",
        &(charl_param_spec){.shape = {1, {1}}, .init = {CHARL_INIT_CONSTANT, -logf((float)c->temperature), 0.0F}});
    /* min(log_scale, most) / 2: each of the two has the root of the factor */
    scale = charl_scale(b->g, charl_relu(b->g, charl_scale(b->g, scale, -1.0F, most)), -0.5F, 0.5F * most);
    scale = charl_exp(b->g, scale);
    for (int k = 0; k < 2; k++) {
        x = charl__as_dtype(b->g, b->in[k], CHARL_F32);
        half[k] = charl_mul(b->g, unit(b->g, x), scale);
    }
    return charl_concat(b->g, half, 2, 1);
}

static const charl_pair_config defaults = {.temperature = 0.07};
static const charl_key keys[] = {
    CHARL__KEY(charl_pair_config, temperature, FLOAT, "[0.01,100]", false,
               "initial temperature, which is learned: products of embeddings of length 1 are divided by it"),
};

const charl_layer_type charl__layer_pair =
    CHARL__LAYER("pair", "two embeddings of equal length, for the loss contrastive: [B, 2, features]", build,
                 .max_inputs = 2, CHARL_DEFAULTS(defaults), CHARL_KEYS(keys));
