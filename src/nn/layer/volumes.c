/* conv3d, conv_transpose3d, max_pool3d and avg_pool3d over volumes [B, C, D, H, W]. Parameters and their initial values are those of
 * torch.nn.Conv3d and ConvTranspose3d. */
#include "nn/layer.h"

static charl_var *build_conv(const charl_layer_build *b, charl_var *x)
{
    const charl_conv3d_config *c = b->settings;
    charl_window3d win;
    charl_var *param[2];

    for (int i = 0; i < 3; i++) {
        win.kernel[i] = (int)c->kernel[i];
        win.stride[i] = (int)c->stride[i];
        win.dilation[i] = (int)c->dilation[i];
        win.padding[i] = (int)(c->padding[i] >= 0 ? c->padding[i] : (c->kernel[i] - 1) * c->dilation[i] / 2);
    }
    if (!charl__conv_declare(b, x,
                             &(charl__conv){.type = "conv3d",
                                            .needs = "volumes [batch, channels, depth, height, width]",
                                            .dims = 3,
                                            .kernel = c->kernel,
                                            .channels = c->channels,
                                            .groups = c->groups,
                                            .bias = c->bias},
                             param)) {
        return NULL;
    }
    return charl__activate(b->g, c->activation, charl_conv3d(b->g, x, param[0], param[1], &win, (int)c->groups));
}

static charl_var *build_transposed(const charl_layer_build *b, charl_var *x)
{
    const charl_conv_transpose3d_config *c = b->settings;
    charl_conv_transpose3d_args args = {.groups = (int)c->groups};
    charl_var *param[2];

    for (int i = 0; i < 3; i++) {
        args.win.kernel[i] = (int)c->kernel[i];
        args.win.stride[i] = (int)c->stride[i];
        args.win.dilation[i] = (int)c->dilation[i];
        args.win.padding[i] = (int)c->padding[i];
        args.output_padding[i] = (int)c->output_padding[i];
    }
    if (!charl__conv_declare(b, x,
                             &(charl__conv){.type = "conv_transpose3d",
                                            .needs = "volumes [batch, channels, depth, height, width]",
                                            .dims = 3,
                                            .kernel = c->kernel,
                                            .channels = c->channels,
                                            .groups = c->groups,
                                            .bias = c->bias,
                                            .transposed = true},
                             param)) {
        return NULL;
    }
    return charl__activate(b->g, c->activation, charl_conv_transpose3d(b->g, x, param[0], param[1], &args));
}

static charl_window3d pool_window(const charl_pool3d_config *c)
{
    charl_window3d w;

    for (int i = 0; i < 3; i++) {
        w.kernel[i] = (int)c->kernel[i];
        w.stride[i] = (int)(c->stride[i] ? c->stride[i] : c->kernel[i]);
        w.padding[i] = (int)c->padding[i];
        w.dilation[i] = 1;
    }
    return w;
}

static charl_var *build_max(const charl_layer_build *b, charl_var *x)
{
    const charl_window3d w = pool_window(b->settings);

    return charl_max_pool3d(b->g, x, &w);
}

static charl_var *build_avg(const charl_layer_build *b, charl_var *x)
{
    const charl_window3d w = pool_window(b->settings);

    return charl_avg_pool3d(b->g, x, &w);
}

static const charl_conv3d_config conv_defaults = {
    .stride = {1, 1, 1}, .padding = {-1, -1, -1}, .dilation = {1, 1, 1}, .groups = 1, .bias = true};
static const charl_key conv_keys[] = {
    {"channels", CHARL_KEY_INT, offsetof(charl_conv3d_config, channels), "[1,1e6]", true, "output channels", NULL},
    {"kernel", CHARL_KEY_TRIPLE, offsetof(charl_conv3d_config, kernel), "[1,1024]", true,
     "depth, height and width of the kernel", NULL},
    {"stride", CHARL_KEY_TRIPLE, offsetof(charl_conv3d_config, stride), "[1,1024]", false, "step of the window", NULL},
    {"padding", CHARL_KEY_TRIPLE, offsetof(charl_conv3d_config, padding), "[-1,1024]", false,
     "zeros around the volume; -1 keeps its size at stride 1 if the kernel is odd", NULL},
    {"dilation", CHARL_KEY_TRIPLE, offsetof(charl_conv3d_config, dilation), "[1,1024]", false, "spacing of the kernel",
     NULL},
    {"groups", CHARL_KEY_INT, offsetof(charl_conv3d_config, groups), "[1,1e6]", false, "groups of channels", NULL},
    {"bias", CHARL_KEY_BOOL, offsetof(charl_conv3d_config, bias), NULL, false, "add a bias", NULL},
    {"activation", CHARL_KEY_ACTIVATION, offsetof(charl_conv3d_config, activation), NULL, false,
     "applied to the output", NULL},
};

static const charl_conv_transpose3d_config transposed_defaults = {
    .stride = {1, 1, 1}, .dilation = {1, 1, 1}, .groups = 1, .bias = true};
static const charl_key transposed_keys[] = {
    {"channels", CHARL_KEY_INT, offsetof(charl_conv_transpose3d_config, channels), "[1,1e6]", true, "output channels",
     NULL},
    {"kernel", CHARL_KEY_TRIPLE, offsetof(charl_conv_transpose3d_config, kernel), "[1,1024]", true,
     "depth, height and width of the kernel", NULL},
    {"stride", CHARL_KEY_TRIPLE, offsetof(charl_conv_transpose3d_config, stride), "[1,1024]", false,
     "factor by which the volume grows", NULL},
    {"padding", CHARL_KEY_TRIPLE, offsetof(charl_conv_transpose3d_config, padding), "[0,1024]", false,
     "cut off around the output", NULL},
    {"output_padding", CHARL_KEY_TRIPLE, offsetof(charl_conv_transpose3d_config, output_padding), "[0,1023]", false,
     "added at the end of the output; less than the stride", NULL},
    {"dilation", CHARL_KEY_TRIPLE, offsetof(charl_conv_transpose3d_config, dilation), "[1,1024]", false,
     "spacing of the kernel", NULL},
    {"groups", CHARL_KEY_INT, offsetof(charl_conv_transpose3d_config, groups), "[1,1e6]", false, "groups of channels",
     NULL},
    {"bias", CHARL_KEY_BOOL, offsetof(charl_conv_transpose3d_config, bias), NULL, false, "add a bias", NULL},
    {"activation", CHARL_KEY_ACTIVATION, offsetof(charl_conv_transpose3d_config, activation), NULL, false,
     "applied to the output", NULL},
};

static const charl_pool3d_config pool_defaults = {.stride = {0, 0, 0}};
static const charl_key pool_keys[] = {
    {"kernel", CHARL_KEY_TRIPLE, offsetof(charl_pool3d_config, kernel), "[1,1024]", true,
     "depth, height and width of the window", NULL},
    {"stride", CHARL_KEY_TRIPLE, offsetof(charl_pool3d_config, stride), "[0,1024]", false,
     "step of the window; 0 = kernel", NULL},
    {"padding", CHARL_KEY_TRIPLE, offsetof(charl_pool3d_config, padding), "[0,512]", false, "around the volume", NULL},
};

const charl_layer_type charl__layer_conv3d = {
    .row.name = "conv3d",
    .row.help = "cross-correlation over volumes [B, C, D, H, W]",
    .build = build_conv,
    CHARL_DEFAULTS(conv_defaults),
    CHARL_KEYS(conv_keys),
};

const charl_layer_type charl__layer_conv_transpose3d = {
    .row.name = "conv_transpose3d",
    .row.help = "transposed convolution: volumes grow by the stride",
    .build = build_transposed,
    CHARL_DEFAULTS(transposed_defaults),
    CHARL_KEYS(transposed_keys),
};

const charl_layer_type charl__layer_max_pool3d = {
    .row.name = "max_pool3d",
    .row.help = "largest value of each window of a volume",
    .build = build_max,
    CHARL_DEFAULTS(pool_defaults),
    CHARL_KEYS(pool_keys),
};

const charl_layer_type charl__layer_avg_pool3d = {
    .row.name = "avg_pool3d",
    .row.help = "mean of each window of a volume",
    .build = build_avg,
    CHARL_DEFAULTS(pool_defaults),
    CHARL_KEYS(pool_keys),
};
