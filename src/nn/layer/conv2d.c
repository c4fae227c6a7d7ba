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

/* As torch.nn.Conv2d, or kaiming_normal_ with mode fan_out for a ReLU. The bias is always the
 * former's. */
static charl_init weight_init(const charl_conv2d_config *c, charl_init usual)
{
    const int64_t fan_out = c->channels * c->kernel[0] * c->kernel[1];

    return c->init == CHARL_CONV_INIT_KAIMING_NORMAL
               ? (charl_init){CHARL_INIT_NORMAL, 0.0F, (float)sqrt(2.0 / (double)fan_out)}
               : usual;
}

static charl_var *build(const charl_layer_build *b, charl_var *x)
{
    const charl_conv2d_config *c = b->settings;
    const charl_shape in = charl_var_get_type(x).shape;
    const charl_window win = window_of(c);
    int64_t fan_in;
    charl_var *w, *bias = NULL;
    charl_init init;

    if (in.ndim != 4 || in.dim[1] % c->groups != 0 || c->channels % c->groups != 0) {
        return charl__graph_refuse(b->g, in.ndim != 4 ? "conv2d needs images [batch, channels, height, width]"
                                                      : "conv2d: groups must divide input and output channels");
    }
    fan_in = in.dim[1] / c->groups * c->kernel[0] * c->kernel[1];
    init = (charl_init){CHARL_INIT_UNIFORM, (float)(-1.0 / sqrt((double)fan_in)), (float)(1.0 / sqrt((double)fan_in))};
    w = charl_layer_param(
        b, "weight",
        &(charl_param_spec){.shape = {4, {c->channels, in.dim[1] / c->groups, c->kernel[0], c->kernel[1]}},
                            .init = weight_init(c, init)});
    if (c->bias) {
        bias = charl_layer_param(b, "bias", &(charl_param_spec){.shape = {1, {c->channels}}, .init = init});
    }
    if (!w || (c->bias && !bias)) {
        return NULL;
    }
    return charl__activate(b->g, c->activation, charl_conv2d(b->g, x, w, bias, &win, (int)c->groups));
}

static const charl_conv2d_config defaults = {
    .stride = {1, 1}, .padding = {-1, -1}, .dilation = {1, 1}, .groups = 1, .bias = true};
static const charl_key keys[] = {
    {"channels", CHARL_KEY_INT, offsetof(charl_conv2d_config, channels), "[1,1e6]", true, "output channels"},
    {"kernel", CHARL_KEY_PAIR, offsetof(charl_conv2d_config, kernel), "[1,1024]", true,
     "height and width of the kernel"},
    {"stride", CHARL_KEY_PAIR, offsetof(charl_conv2d_config, stride), "[1,1024]", false, "step of the window"},
    {"padding", CHARL_KEY_PAIR, offsetof(charl_conv2d_config, padding), "[-1,1024]", false,
     "zeros around the image; -1 keeps its size at stride 1"},
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
