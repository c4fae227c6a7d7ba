/* fourier: numbers as sines and cosines, for the time of a diffusion model or a coordinate. */
#include "nn/layer.h"

static charl_var *build(const charl_layer_build *b, charl_var *x)
{
    const charl_fourier_config *c = b->settings;
    charl_shape s = charl_var_get_type(x).shape;

    if (s.ndim < 2 || s.ndim == CHARL_MAX_DIMS) {
        return charl__graph_refuse(b->g, "fourier needs [batch, ..., features], of at most 5 extents");
    }
    s.dim[s.ndim - 1] *= 2 * c->octaves;
    return charl_reshape(b->g, charl_fourier(b->g, x, (int)c->octaves), s);
}

static const charl_fourier_config defaults = {.octaves = 8};
static const charl_key keys[] = {
    CHARL__KEY(charl_fourier_config, octaves, INT, "[1,24]", false,
               "frequencies: half a turn for a difference of 1, and each further one twice as fast"),
};

const charl_layer_type charl__layer_fourier =
    CHARL__LAYER("fourier", "sines and cosines of each feature, an input of the model", build, CHARL_DEFAULTS(defaults),
                 CHARL_KEYS(keys));
