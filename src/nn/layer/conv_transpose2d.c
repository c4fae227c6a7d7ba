/* conv_transpose2d: transposed convolution over [B, C, H, W]. Initial values as
 * torch.nn.ConvTranspose2d. */
#include <math.h>

#include "nn/layer.h"

static charl_conv_transpose2d_args args_of(const charl_conv_transpose2d_config *c)
{
    charl_conv_transpose2d_args a = {.groups = (int)c->groups};

    for (int d = 0; d < 2; d++) {
        a.win.kernel[d] = (int)c->kernel[d];
        a.win.stride[d] = (int)c->stride[d];
        a.win.padding[d] = (int)c->padding[d];
        a.win.dilation[d] = (int)c->dilation[d];
        a.output_padding[d] = (int)c->output_padding[d];
    }
    return a;
}

static charl_var *build(const charl_layer_build *b, charl_var *x)
{
    const charl_conv_transpose2d_config *c = b->settings;
    const charl_shape in = charl_var_get_type(x).shape;
    const charl_conv_transpose2d_args args = args_of(c);
    const int64_t per_group = c->channels / c->groups;
    const double bound = 1.0 / sqrt((double)(per_group * c->kernel[0] * c->kernel[1]));
    const charl_init init = {CHARL_INIT_UNIFORM, (float)-bound, (float)bound};
    charl_var *w, *bias = NULL;

    if (in.ndim != 4 || in.dim[1] % c->groups != 0 || c->channels % c->groups != 0) {
        return charl__graph_refuse(b->g, in.ndim != 4
                                             ? "conv_transpose2d needs images [batch, channels, height, width]"
                                             : "conv_transpose2d: groups must divide input and output channels");
    }
    w = charl_layer_param(
        b, "weight",
        &(charl_param_spec){.shape = {4, {in.dim[1], per_group, c->kernel[0], c->kernel[1]}}, .init = init});
    if (c->bias) {
        bias = charl_layer_param(b, "bias", &(charl_param_spec){.shape = {1, {c->channels}}, .init = init});
    }
    if (!w || (c->bias && !bias)) {
        return NULL;
    }
    return charl__activate(b->g, c->activation, charl_conv_transpose2d(b->g, x, w, bias, &args));
}

static const charl_conv_transpose2d_config defaults = {.stride = {1, 1}, .dilation = {1, 1}, .groups = 1, .bias = true};
static const charl_key keys[] = {
    {"channels", CHARL_KEY_INT, offsetof(charl_conv_transpose2d_config, channels), "[1,1e6]", true, "output channels"},
    {"kernel", CHARL_KEY_PAIR, offsetof(charl_conv_transpose2d_config, kernel), "[1,1024]", true,
     "height and width of the kernel"},
    {"stride", CHARL_KEY_PAIR, offsetof(charl_conv_transpose2d_config, stride), "[1,1024]", false,
     "factor by which the image grows"},
    {"padding", CHARL_KEY_PAIR, offsetof(charl_conv_transpose2d_config, padding), "[0,1024]", false,
     "cut off around the output"},
    {"output_padding", CHARL_KEY_PAIR, offsetof(charl_conv_transpose2d_config, output_padding), "[0,1023]", false,
     "added at the end of the output; less than the stride"},
    {"dilation", CHARL_KEY_PAIR, offsetof(charl_conv_transpose2d_config, dilation), "[1,1024]", false,
     "spacing of the kernel"},
    {"groups", CHARL_KEY_INT, offsetof(charl_conv_transpose2d_config, groups), "[1,1e6]", false, "groups of channels"},
    {"bias", CHARL_KEY_BOOL, offsetof(charl_conv_transpose2d_config, bias), NULL, false, "add a bias"},
    {"activation", CHARL_KEY_ACTIVATION, offsetof(charl_conv_transpose2d_config, activation), NULL, false,
     "applied to the output"},
};

const charl_layer_type charl__layer_conv_transpose2d = {
    .row.name = "conv_transpose2d",
    .row.help = "transposed convolution: images grow by the stride",
    .build = build,
    CHARL_DEFAULTS(defaults),
    CHARL_KEYS(keys),
};
