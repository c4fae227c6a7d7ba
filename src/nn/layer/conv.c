/* What convolutions of one, two and three dimensions share: which inputs they take, and their parameters. */
#include <math.h>
#include <stdio.h>

#include "nn/layer.h"

bool charl__conv_declare(const charl_layer_build *b, const charl_var *x, const charl__conv *c, charl_var *out[2])
{
    const charl_shape in = charl_var_get_type(x).shape;
    charl_shape shape = {c->dims + 2, {c->channels}};
    charl_init init = {.kind = CHARL_INIT_UNIFORM};
    int64_t fan;
    char text[256];

    if (in.ndim != c->dims + 2 || in.dim[1] % c->groups != 0 || c->channels % c->groups != 0) {
        int n = snprintf(text, sizeof text, "%s%s%s", c->type,
                         in.ndim != c->dims + 2 ? " needs " : ": groups must divide input and output channels",
                         in.ndim != c->dims + 2 ? c->needs : "");

        if (in.ndim == c->dims + 1 && c->dims > 1) {
            n += snprintf(text + n, sizeof text - (size_t)n, "; a single channel is added by a reshape with shape = 1");
            for (int i = 1; i < in.ndim; i++) {
                n += snprintf(text + n, sizeof text - (size_t)n, ", %lld", (long long)in.dim[i]);
            }
        }
        charl__graph_refuse(b->g, text);
        return false;
    }
    if (c->transposed) {
        shape.dim[0] = in.dim[1];
    }
    fan = shape.dim[1] = (c->transposed ? c->channels : in.dim[1]) / c->groups;
    for (int i = 0; i < c->dims; i++) {
        shape.dim[i + 2] = c->kernel[i];
        fan *= c->kernel[i];
    }
    init.b = (float)(1.0 / sqrt((double)fan));
    init.a = -init.b;
    out[0] = charl_layer_param(b, "weight", &(charl_param_spec){.shape = shape, .init = c->init ? *c->init : init});
    out[1] =
        c->bias ? charl_layer_param(b, "bias", &(charl_param_spec){.shape = {1, {c->channels}}, .init = init}) : NULL;
    return out[0] && (out[1] || !c->bias);
}
