/* resnet: torchvision's residual networks for large images and those of He et al. for small ones.
 *
 * Names are torchvision's: conv1, bn1, layer1.0 ..., fc.
 */
#include <stdio.h>

#include "base/error.h"
#include "nn/layer.h"
#include "nn/model.h"
#include "nn/model_internal.h"

enum { MAX_GROUPS = 4, BOTTLENECK_EXPANSION = 4, GROUP_WIDTH = 64 };

/* Blocks per group; the first group keeps size and channels, each later one halves the
 * size and doubles the channels. K. He et al., Deep Residual Learning for Image Recognition, 2015:
 * table 1, and section 4.2 for the depths 6 n + 2. */
static const struct variant {
    int64_t depth;
    charl_residual_kind kind;
    int blocks[MAX_GROUPS];
    bool small_images;
} variants[] = {
    {18, CHARL_RESIDUAL_BASIC, {2, 2, 2, 2}, false},        {34, CHARL_RESIDUAL_BASIC, {3, 4, 6, 3}, false},
    {50, CHARL_RESIDUAL_BOTTLENECK, {3, 4, 6, 3}, false},   {101, CHARL_RESIDUAL_BOTTLENECK, {3, 4, 23, 3}, false},
    {152, CHARL_RESIDUAL_BOTTLENECK, {3, 8, 36, 3}, false}, {20, CHARL_RESIDUAL_BASIC, {3, 3, 3, 0}, true},
    {32, CHARL_RESIDUAL_BASIC, {5, 5, 5, 0}, true},         {44, CHARL_RESIDUAL_BASIC, {7, 7, 7, 0}, true},
    {56, CHARL_RESIDUAL_BASIC, {9, 9, 9, 0}, true},
};

enum { N_VARIANTS = (int)(sizeof variants / sizeof variants[0]) };

static const struct variant *find_variant(int64_t depth)
{
    for (int i = 0; i < N_VARIANTS; i++) {
        if (variants[i].depth == depth) {
            return &variants[i];
        }
    }
    return NULL;
}

static charl_status add_conv(charl_model *m, const char *name, const char *norm_name, int64_t channels, int64_t kernel,
                             int64_t stride)
{
    const charl_conv_config conv = {.channels = channels,
                                    .kernel = {kernel, kernel},
                                    .stride = {stride, stride},
                                    .padding = {-1, -1},
                                    .dilation = {1, 1},
                                    .groups = 1,
                                    .init = CHARL_CONV_INIT_KAIMING_NORMAL};
    charl_norm_config norm;

    CHARL_TRY(charl_layer_defaults("batch_norm", &norm));
    norm.activation = "relu";
    CHARL_TRY(charl_model_add(m, name, "conv2d", &conv));
    return charl_model_add(m, norm_name, "batch_norm", &norm);
}

/* Everything before the first block. A deep stem has timm's names. */
static charl_status add_stem(charl_model *m, int64_t width, charl_resnet_stem stem)
{
    const charl_pool_config pool = {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}};

    switch (stem) {
    case CHARL_RESNET_STEM_CIFAR:
        return add_conv(m, "conv1", "bn1", width, 3, 1);
    case CHARL_RESNET_STEM_DEEP:
        CHARL_TRY(add_conv(m, "conv1.0", "conv1.1", width / 2, 3, 2));
        CHARL_TRY(add_conv(m, "conv1.3", "conv1.4", width / 2, 3, 1));
        CHARL_TRY(add_conv(m, "conv1.6", "bn1", width, 3, 1));
        break;
    default:
        CHARL_TRY(add_conv(m, "conv1", "bn1", width, 7, 2));
    }
    return charl_model_add(m, "maxpool", "max_pool2d", &pool);
}

static charl_status add_blocks(charl_model *m, const charl_resnet_config *c, const struct variant *v, int64_t width)
{
    const bool bottleneck = v->kind == CHARL_RESIDUAL_BOTTLENECK;
    const int64_t expansion = bottleneck ? BOTTLENECK_EXPANSION : 1;
    char name[32];

    for (int group = 0; group < MAX_GROUPS; group++, width *= 2) {
        const int64_t inner = width * (c->group_width ? c->group_width : GROUP_WIDTH) / GROUP_WIDTH;
        const charl_residual_block_config block = {.kind = (int)v->kind,
                                                   .channels = width * expansion,
                                                   .stride = 1,
                                                   .width = bottleneck ? inner * (c->groups ? c->groups : 1) : 0,
                                                   .groups = c->groups ? c->groups : 1,
                                                   .pool_shortcut = c->pool_shortcut};

        for (int i = 0; i < v->blocks[group]; i++) {
            charl_residual_block_config next = block;

            next.stride = group > 0 && i == 0 ? 2 : 1;
            snprintf(name, sizeof name, "layer%d.%d", group + 1, i);
            CHARL_TRY(charl_model_add(m, name, "residual_block", &next));
        }
    }
    return CHARL_OK;
}

charl_status charl_model_add_resnet(charl_model *m, const charl_resnet_config *config)
{
    CHARL_GIVEN(m, config);
    const struct variant *v = find_variant(config->depth);
    const charl_linear_config fc = {.out = config->outputs, .bias = true};
    charl_resnet_stem stem = config->stem;
    int64_t width;

    CHARL_REQUIRE(v, CHARL_ERR_CONFIG, "a resnet of depth %lld: it can be %s", (long long)config->depth,
                  CHARL_RESNET_DEPTHS);
    CHARL_REQUIRE(config->outputs >= 1, CHARL_ERR_CONFIG, "a model needs at least one output");
    if (stem == CHARL_RESNET_STEM_AUTO) {
        stem = v->small_images ? CHARL_RESNET_STEM_CIFAR : CHARL_RESNET_STEM_IMAGENET;
    }
    width = config->width ? config->width : v->small_images ? 16 : 64;
    CHARL_TRY(add_stem(m, width, stem));
    CHARL_TRY(add_blocks(m, config, v, width));
    CHARL_TRY(charl_model_add(m, "avgpool", "global_avg_pool", NULL));
    CHARL_TRY(charl_model_add(m, "fc", "linear", &fc));
    return charl__model_set_type(m, &charl__model_resnet, config, sizeof *config);
}

static charl_status add(charl_model *m, const void *settings, int64_t outputs)
{
    charl_resnet_config c = *(const charl_resnet_config *)settings;

    c.outputs = outputs;
    return charl_model_add_resnet(m, &c);
}

static bool check(const void *settings, const char **key, char *reason)
{
    const charl_resnet_config *c = settings;
    const struct variant *v = find_variant(c->depth);

    *key = "depth";
    if (!v) {
        snprintf(reason, CHARL_REASON_BYTES, "can be " CHARL_RESNET_DEPTHS);
        return false;
    }
    *key = c->groups != 1 ? "groups" : "group_width";
    if (v->kind == CHARL_RESIDUAL_BASIC && (c->groups != 1 || c->group_width != GROUP_WIDTH)) {
        snprintf(reason, CHARL_REASON_BYTES, "belongs to bottlenecks, which depths 50, 101 and 152 have");
        return false;
    }
    return true;
}

static const charl_key keys[] = {
    {"depth", CHARL_KEY_INT, offsetof(charl_resnet_config, depth), "[18,152]", false,
     "number of layers with weights: " CHARL_RESNET_DEPTHS, NULL},
    {"width", CHARL_KEY_INT, offsetof(charl_resnet_config, width), "[1,100000]", false,
     "channels of the first stage; auto: 64, or 16 for the depths made for small images", "auto"},
    {"stem", CHARL_KEY_CHOICE, offsetof(charl_resnet_config, stem), NULL, false,
     "imagenet: 7x7 convolution, stride 2, and 3x3 max pooling; cifar: 3x3 convolution, stride 1; "
     "deep: three 3x3 convolutions, the first of stride 2, and 3x3 max pooling; auto: by depth",
     "auto|imagenet|cifar|deep"},
    CHARL__KEY(charl_resnet_config, groups, INT, "[1,1e6]", false,
               "bottlenecks: groups of the 3x3 convolutions; 32 or 64 in ResNeXt"),
    CHARL__KEY(
        charl_resnet_config, group_width, INT, "[1,1e6]", false,
        "bottlenecks: channels of a group of the 3x3 convolutions, in the first stage; 4 or 8 in ResNeXt, 128 in "
        "wide networks"),
    CHARL__KEY(charl_resnet_config, pool_shortcut, BOOL, NULL, false,
               "average pooling, then a convolution of stride 1, in shortcuts that change the size"),
};
static const charl_resnet_config defaults = {.depth = 18, .groups = 1, .group_width = GROUP_WIDTH};

const charl_model_type charl__model_resnet = {
    .row.name = "resnet",
    .row.help = "a residual network",
    CHARL_KEYS(keys),
    CHARL_DEFAULTS(defaults),
    .row.check = check,
    .add = add,
};
