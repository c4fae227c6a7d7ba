/* max_pool2d, avg_pool2d, global_avg_pool. */
#include "nn/layer.h"

static charl_window window_of(const charl_pool2d_config *c)
{
    charl_window w;

    for (int i = 0; i < 2; i++) {
        w.kernel[i] = (int)c->kernel[i];
        w.stride[i] = (int)(c->stride[i] ? c->stride[i] : c->kernel[i]);
        w.padding[i] = (int)c->padding[i];
        w.dilation[i] = 1;
    }
    return w;
}

static charl_var *build_max(const charl_layer_build *b, charl_var *x)
{
    const charl_window w = window_of(b->settings);

    return charl_max_pool2d(b->g, x, &w);
}

static charl_var *build_avg(const charl_layer_build *b, charl_var *x)
{
    const charl_window w = window_of(b->settings);

    return charl_avg_pool2d(b->g, x, &w);
}

static charl_var *build_global(const charl_layer_build *b, charl_var *x)
{
    return charl_global_avg_pool(b->g, x);
}

static const charl_pool2d_config defaults = {.stride = {0, 0}};
static const charl_key keys[] = {
    {"kernel", CHARL_KEY_PAIR, offsetof(charl_pool2d_config, kernel), "[1,1024]", true,
     "height and width of the window"},
    {"stride", CHARL_KEY_PAIR, offsetof(charl_pool2d_config, stride), "[0,1024]", false,
     "step of the window; 0 = kernel"},
    {"padding", CHARL_KEY_PAIR, offsetof(charl_pool2d_config, padding), "[0,512]", false, "around the image"},
};

const charl_layer_type charl__layer_max_pool2d = {
    .row.name = "max_pool2d",
    .row.help = "largest value of each window",
    .build = build_max,
    CHARL_DEFAULTS(defaults),
    CHARL_KEYS(keys),
};

const charl_layer_type charl__layer_avg_pool2d = {
    .row.name = "avg_pool2d",
    .row.help = "mean of each window",
    .build = build_avg,
    CHARL_DEFAULTS(defaults),
    CHARL_KEYS(keys),
};

const charl_layer_type charl__layer_global_avg_pool = {
    .row.name = "global_avg_pool",
    .row.help = "mean of each channel: [B, C, H, W] or [B, C, D, H, W] -> [B, C]",
    .build = build_global,
};
