/* residual_block: relu(branch(x) + shortcut(x)), torchvision's BasicBlock and Bottleneck with their
 * names.
 *
 * The shortcut is x itself or, if the block changes the size or the number of channels, a projection (a 1x1 convolution and its batch norm, named
 * downsample.0 and downsample.1).
 */
#include "nn/layer.h"

/* One convolution of the branch, or of the shortcut, and the batch norm after it. */
typedef struct stage {
    const char *conv, *norm;
    int64_t channels, kernel, stride, groups;
    const char *activation;
} stage;

static charl_var *build_stage(const charl_layer_build *b, const stage *s, charl_var *x)
{
    const charl_conv_config conv = {.channels = s->channels,
                                    .kernel = {s->kernel, s->kernel},
                                    .stride = {s->stride, s->stride},
                                    .padding = {-1, -1},
                                    .dilation = {1, 1},
                                    .groups = s->groups,
                                    .init = CHARL_CONV_INIT_KAIMING_NORMAL};
    charl_norm_config norm = *(const charl_norm_config *)charl__layer_batch_norm.row.defaults;

    norm.activation = s->activation;
    x = charl__layer_build_inside(b, s->conv, &charl__layer_conv2d, &conv, x);
    return charl__layer_build_inside(b, s->norm, &charl__layer_batch_norm, &norm, x);
}

static int64_t inner_channels(const charl_residual_block_config *c)
{
    return c->width ? c->width : c->channels / 4;
}

static charl_var *branch(const charl_layer_build *b, charl_var *x)
{
    const charl_residual_block_config *c = b->settings;
    const int64_t width = inner_channels(c);
    const stage basic[] = {{"conv1", "bn1", c->channels, 3, c->stride, 1, "relu"},
                           {"conv2", "bn2", c->channels, 3, 1, 1, NULL}};
    const stage bottleneck[] = {{"conv1", "bn1", width, 1, 1, 1, "relu"},
                                {"conv2", "bn2", width, 3, c->stride, c->groups, "relu"},
                                {"conv3", "bn3", c->channels, 1, 1, 1, NULL}};
    const bool is_basic = c->kind == CHARL_RESIDUAL_BASIC;

    for (int i = 0; i < (is_basic ? 2 : 3) && x; i++) {
        x = build_stage(b, is_basic ? &basic[i] : &bottleneck[i], x);
    }
    return x;
}

static charl_var *shortcut(const charl_layer_build *b, charl_var *x, int64_t channels_in)
{
    const charl_residual_block_config *c = b->settings;
    const stage projection = {"downsample.0", "downsample.1", c->channels, 1, c->stride, 1, NULL};
    const stage pooled = {"downsample.1", "downsample.2", c->channels, 1, 1, 1, NULL};
    const int step = (int)c->stride;

    if (step == 1 && channels_in == c->channels) {
        return x;
    }
    if (c->pool_shortcut && step > 1) {
        x = charl_avg_pool2d(b->g, x, &(charl_window){{step, step}, {step, step}, {0, 0}, {1, 1}});
    }
    return build_stage(b, c->pool_shortcut ? &pooled : &projection, x);
}

static charl_var *build(const charl_layer_build *b, charl_var *x)
{
    const charl_residual_block_config *c = b->settings;
    const charl_shape in = charl_var_get_type(x).shape;
    charl_var *y;

    if (in.ndim != 4) {
        return charl__graph_refuse(b->g, "residual_block needs images [batch, channels, height, width]");
    }
    if (c->kind == CHARL_RESIDUAL_BASIC && (c->width || c->groups != 1)) {
        return charl__graph_refuse(b->g, "residual_block: width and groups belong to a bottleneck");
    }
    if (c->kind == CHARL_RESIDUAL_BOTTLENECK && inner_channels(c) < 1) {
        return charl__graph_refuse(b->g, "residual_block: a bottleneck has at least 4 channels, or a width");
    }
    if (c->pool_shortcut && (in.dim[2] % c->stride != 0 || in.dim[3] % c->stride != 0)) {
        return charl__graph_refuse(b->g,
                                   "residual_block: pool_shortcut = yes needs a height and width that stride divides");
    }
    y = branch(b, x);
    return charl_relu(b->g, charl_add(b->g, y, shortcut(b, x, in.dim[1])));
}

static const charl_residual_block_config defaults = {.stride = 1, .groups = 1};
static const charl_key keys[] = {
    CHARL__KEY(charl_residual_block_config, kind, CHOICE, NULL, false, "basic: 3x3, 3x3; bottleneck: 1x1, 3x3, 1x1",
               "basic|bottleneck"),
    CHARL__KEY(charl_residual_block_config, channels, INT, "[1,1e6]", true, "output channels"),
    CHARL__KEY(charl_residual_block_config, stride, INT, "[1,1024]", false,
               "step of the first 3x3 convolution of basic, of the 3x3 convolution of bottleneck"),
    CHARL__KEY(charl_residual_block_config, width, INT, "[0,1e6]", false,
               "bottleneck: channels inside; 0 = channels / 4"),
    CHARL__KEY(charl_residual_block_config, groups, INT, "[1,1e6]", false, "bottleneck: groups of the 3x3 convolution"),
    CHARL__KEY(charl_residual_block_config, pool_shortcut, BOOL, NULL, false,
               "average pooling, then a convolution of stride 1, in a shortcut that changes the size"),
};

const charl_layer_type charl__layer_residual_block =
    CHARL__LAYER("residual_block", "convolutions with a shortcut around them", build, .is_block = true,
                 CHARL_DEFAULTS(defaults), CHARL_KEYS(keys));
