/* conv2d: cross-correlation over [B, C, H, W]. Initial values as torch.nn.Conv2d. */
#include <math.h>

#include "nn/layer.h"

static charl_window window_of(const charl_conv2d_config *c)
{
    charl_window w;

    for (int i = 0; i < 2; i++) {
        w.kernel[i] = (int)c->kernel[i];
        w.stride[i] = (int)c->stride[i];
        w.dilation[i] = (int)c->dilation[i];
        w.padding[i] = (int)(c->padding[i] >= 0 ? c->padding[i] : (c->kernel[i] - 1) * c->dilation[i] / 2);
    }
    return w;
}

static charl_var *build(const charl_layer_build *b, charl_var *x)
{
    const charl_conv2d_config *c = b->settings;
    const charl_window win = window_of(c);
    /* kaiming_normal_ with mode fan_out for a ReLU */
    const charl_init normal = {CHARL_INIT_NORMAL, 0.0F,
                               (float)sqrt(2.0 / (double)(c->channels * c->kernel[0] * c->kernel[1]))};
    charl_var *param[2];

    if (!charl__conv_declare(b, x,
                             &(charl__conv){.type = "conv2d",
                                            .needs = "images [batch, channels, height, width]",
                                            .dims = 2,
                                            .kernel = c->kernel,
                                            .channels = c->channels,
                                            .groups = c->groups,
                                            .bias = c->bias,
                                            .init = c->init == CHARL_CONV_INIT_KAIMING_NORMAL ? &normal : NULL},
                             param)) {
        return NULL;
    }
    return charl__activate(b->g, c->activation, charl_conv2d(b->g, x, param[0], param[1], &win, (int)c->groups));
}

static const charl_conv2d_config defaults = {
    .stride = {1, 1}, .padding = {-1, -1}, .dilation = {1, 1}, .groups = 1, .bias = true};
static const charl_key keys[] = {
    {"channels", CHARL_KEY_INT, offsetof(charl_conv2d_config, channels), "[1,1e6]", true, "output channels"},
    {"kernel", CHARL_KEY_PAIR, offsetof(charl_conv2d_config, kernel), "[1,1024]", true,
     "height and width of the kernel"},
    {"stride", CHARL_KEY_PAIR, offsetof(charl_conv2d_config, stride), "[1,1024]", false, "step of the window"},
    {"padding", CHARL_KEY_PAIR, offsetof(charl_conv2d_config, padding), "[-1,1024]", false,
     "zeros around the image; -1 keeps its size at stride 1 if the kernel is odd"},
    {"dilation", CHARL_KEY_PAIR, offsetof(charl_conv2d_config, dilation), "[1,1024]", false, "spacing of the kernel"},
    {"groups", CHARL_KEY_INT, offsetof(charl_conv2d_config, groups), "[1,1e6]", false, "groups of channels"},
    {"bias", CHARL_KEY_BOOL, offsetof(charl_conv2d_config, bias), NULL, false, "add a bias"},
    {"activation", CHARL_KEY_ACTIVATION, offsetof(charl_conv2d_config, activation), NULL, false,
     "applied to the output"},
    {"init", CHARL_KEY_CHOICE, offsetof(charl_conv2d_config, init), NULL, false,
     "initial weights: uniform as PyTorch's default, or kaiming_normal over the fan-out", "default|kaiming_normal"},
};

const charl_layer_type charl__layer_conv2d = {
    .row.name = "conv2d",
    .row.help = "cross-correlation over images",
    .build = build,
    CHARL_DEFAULTS(defaults),
    CHARL_KEYS(keys),
};
