/* conv_transpose2d: transposed convolution over [B, C, H, W]. Initial values as
 * torch.nn.ConvTranspose2d. */
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
    const charl_conv_transpose2d_args args = args_of(c);
    charl_var *param[2];

    if (!charl__conv_declare(b, x,
                             &(charl__conv){.type = "conv_transpose2d",
                                            .needs = "images [batch, channels, height, width]",
                                            .dims = 2,
                                            .kernel = c->kernel,
                                            .channels = c->channels,
                                            .groups = c->groups,
                                            .bias = c->bias,
                                            .transposed = true},
                             param)) {
        return NULL;
    }
    return charl__activate(b->g, c->activation, charl_conv_transpose2d(b->g, x, param[0], param[1], &args));
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
