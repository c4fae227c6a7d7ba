/* convnext: ConvNeXt (Liu et al. 2022), with timm's names. Norms and the two linear layers of a block work on the channels, which are last there:
 *
 *      x -> depthwise 7x7 -> norm -> fc1 -> gelu -> fc2 -> * gamma -> + x
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "nn/layer.h"
#include "nn/model.h"
#include "nn/model_internal.h"

enum { NAME = 64, STAGES = 4, KERNEL = 7, STEM = 4 };

typedef struct convnext_settings {
    charl_int_list widths, depths;
    double scale, stochastic_depth;
    int family;
} convnext_settings;

static const double eps = 1e-6;

static charl_status add_conv(charl_model *m, const char *name, int64_t channels, int64_t kernel, bool depthwise)
{
    const int64_t stride = depthwise ? 1 : kernel, padding = depthwise ? -1 : 0;
    const charl_conv_config conv = {.channels = channels,
                                    .kernel = {kernel, kernel},
                                    .stride = {stride, stride},
                                    .padding = {padding, padding},
                                    .dilation = {1, 1},
                                    .groups = depthwise ? channels : 1,
                                    .bias = true};

    return charl_model_add(m, name, "conv2d", &conv);
}

/* PREFIX.SUFFIX of some type. */
static charl_status add_part(charl_model *m, const char *prefix, const char *suffix, const char *type,
                             const void *config)
{
    char name[NAME];

    snprintf(name, sizeof name, "%.40s.%s", prefix, suffix);
    return charl_model_add(m, name, type, config);
}

static charl_status add_norm(charl_model *m, const char *name)
{
    charl_norm_config norm;

    CHARL_TRY(charl_layer_defaults("layer_norm", &norm));
    norm.eps = eps;
    return charl_model_add(m, name, "layer_norm", &norm);
}

/* Channels last, or first again. */
static const charl_permute_config last = {.order = {3, {2, 3, 1}}}, first = {.order = {3, {3, 1, 2}}};

/* A norm over the channels of each pixel. */
static charl_status add_channel_norm(charl_model *m, const char *name)
{
    CHARL_TRY(add_part(m, name, "last", "permute", &last));
    CHARL_TRY(add_norm(m, name));
    return add_part(m, name, "first", "permute", &first);
}

static charl_status add_block(charl_model *m, const char *block, const char *input, int64_t width, double scale,
                              double skipped)
{
    const charl_linear_config widen = {.out = 4 * width, .bias = true, .activation = "gelu", .init_std = 0.02},
                              narrow = {.out = width, .bias = true, .init_std = 0.02};
    char name[NAME], branch[NAME], sum[NAME];
    const char *const inputs[] = {branch, input};

    snprintf(name, sizeof name, "%.40s.conv_dw", block);
    CHARL_TRY(add_conv(m, name, width, KERNEL, true));
    CHARL_TRY(add_part(m, block, "last", "permute", &last));
    snprintf(name, sizeof name, "%.40s.norm", block);
    CHARL_TRY(add_norm(m, name));
    CHARL_TRY(add_part(m, block, "mlp.fc1", "linear", &widen));
    CHARL_TRY(add_part(m, block, "mlp.fc2", "linear", &narrow));
    CHARL_TRY(add_part(m, block, "gamma", "scale", &(charl_scale_config){.init = scale}));
    snprintf(branch, sizeof branch, "%.40s.first", block);
    snprintf(sum, sizeof sum, "%.40s.sum", block);
    CHARL_TRY(charl_model_add(m, branch, "permute", &first));
    if (skipped > 0) {
        snprintf(branch, sizeof branch, "%.40s.drop_path", block);
        CHARL_TRY(charl_model_add(m, branch, "stochastic_depth", &(charl_dropout_config){skipped}));
    }
    return charl_model_add_after(m, sum, "add", NULL, inputs, 2);
}

/* Blocks of the first n stages. */
static int64_t blocks_of(const convnext_settings *s, int n)
{
    int64_t sum = 0;

    for (int i = 0; i < n; i++) {
        sum += s->depths.values[i];
    }
    return sum;
}

static charl_status add_stage(charl_model *m, const convnext_settings *s, int stage, char input[NAME])
{
    const int64_t width = s->widths.values[stage], before = blocks_of(s, stage), last_block = blocks_of(s, STAGES) - 1;
    char name[NAME];

    if (stage > 0) {
        snprintf(name, sizeof name, "stages.%d.downsample.0", stage);
        CHARL_TRY(add_channel_norm(m, name));
        snprintf(input, NAME, "stages.%d.downsample.1", stage);
        CHARL_TRY(add_conv(m, input, width, 2, false));
    }
    for (int64_t i = 0; i < s->depths.values[stage]; i++) {
        snprintf(name, sizeof name, "stages.%d.blocks.%" PRId64, stage, i);
        CHARL_TRY(add_block(m, name, input, width, s->scale,
                            s->stochastic_depth * (double)(before + i) / (double)last_block));
        snprintf(input, NAME, "%.40s.sum", name);
    }
    return CHARL_OK;
}

static charl_status add(charl_model *m, const void *settings, int64_t outputs)
{
    const convnext_settings *s = settings;
    const charl_linear_config fc = {.out = outputs, .bias = true, .init_std = 0.02};
    char input[NAME] = "stem.1.first";

    CHARL_TRY(add_conv(m, "stem.0", s->widths.values[0], STEM, false));
    CHARL_TRY(add_channel_norm(m, "stem.1"));
    for (int i = 0; i < STAGES; i++) {
        CHARL_TRY(add_stage(m, s, i, input));
    }
    CHARL_TRY(charl_model_add(m, "head.global_pool", "global_avg_pool", NULL));
    CHARL_TRY(add_norm(m, "head.norm"));
    CHARL_TRY(charl_model_add(m, "head.fc", "linear", &fc));
    return charl__model_set_type(m, &charl__model_convnext, s, sizeof *s);
}

static bool check(const void *settings, const char **key, char *reason)
{
    const convnext_settings *s = settings;

    *key = s->widths.count != STAGES ? "widths" : "depths";
    if (s->widths.count != STAGES || s->depths.count != STAGES) {
        snprintf(reason, CHARL_REASON_BYTES, "has %d numbers, one for each stage", STAGES);
        return false;
    }
    return true;
}

static const charl_key keys[] = {
    CHARL__KEY(convnext_settings, widths, INTS, "[1,1000000]", false, "channels of the four stages"),
    CHARL__KEY(convnext_settings, depths, INTS, "[1,1000]", false, "blocks of the four stages"),
    CHARL__KEY(convnext_settings, scale, FLOAT, "(0,1e6]", false, "initial factor of a block's branch (layer scale)"),
    CHARL__KEY(convnext_settings, stochastic_depth, FLOAT, "[0,1)", false, CHARL__STOCHASTIC_DEPTH_HELP),
    CHARL__KEY(convnext_settings, family, CHOICE, NULL, false,
               "library in whose layout weights are exported, and first looked for in a file", "timm|torchvision"),
};
static const convnext_settings defaults = {
    .widths = {STAGES, {96, 192, 384, 768}}, .depths = {STAGES, {3, 3, 9, 3}}, .scale = 1e-6};

const charl_model_type charl__model_convnext = {
    .row.name = "convnext",
    .row.help = "ConvNeXt: reads images",
    CHARL_KEYS(keys),
    CHARL_DEFAULTS(defaults),
    .row.check = check,
    .add = add,
};
