/* efficientnet: EfficientNet (Tan and Le 2019, tables 1 and 2 of its code) and EfficientNet-Lite, with the names of the PyPI packages
 * efficientnet-pytorch and efficientnet-lite-pytorch: _conv_stem, _blocks.0._depthwise_conv ..., _fc. Convolutions pad as TensorFlow does.
 *
 * Lite has relu6 in place of silu, no squeeze and excitation, and a stem and a head whose sizes do not grow.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "nn/layer.h"
#include "nn/model.h"

typedef struct efficientnet_settings {
    int variant;
    double dropout;
} efficientnet_settings;

/* Factors of channels and of blocks. */
static const struct variant {
    double width, depth;
    bool lite;
} variants[] = {
    {1.0, 1.0, false}, {1.0, 1.1, false}, {1.1, 1.2, false}, {1.2, 1.4, false}, {1.4, 1.8, false},
    {1.6, 2.2, false}, {1.8, 2.6, false}, {2.0, 3.1, false}, {1.0, 1.0, true},  {1.0, 1.1, true},
    {1.1, 1.2, true},  {1.2, 1.4, true},  {1.4, 1.8, true},
};
#define VARIANTS "b0|b1|b2|b3|b4|b5|b6|b7|lite0|lite1|lite2|lite3|lite4"

static const struct stage {
    int repeats, kernel, stride, expansion, in, out;
} stages[] = {
    {1, 3, 1, 1, 32, 16},  {2, 3, 2, 6, 16, 24},   {2, 5, 2, 6, 24, 40},   {3, 3, 2, 6, 40, 80},
    {3, 5, 1, 6, 80, 112}, {4, 5, 2, 6, 112, 192}, {1, 3, 1, 6, 192, 320},
};
enum { N_STAGES = (int)(sizeof stages / sizeof stages[0]), NAME = 64, STEM = 32, HEAD = 1280, STEP = 8 };

/* A model while it is built. */
typedef struct builder {
    charl_model *m;
    const struct variant *v;
    int block; /* in which layers are added; -1: none */
} builder;

/* Channels by the factor, a multiple of 8 that is not more than a tenth smaller. */
static int64_t widen(const struct variant *v, int channels)
{
    const double wanted = channels * v->width;
    int64_t n = (int64_t)(wanted + STEP / 2.0) / STEP * STEP;

    n = n < STEP ? STEP : n;
    return (double)n < 0.9 * wanted ? n + STEP : n;
}

static const char *activation(const builder *b)
{
    return b->v->lite ? "relu6" : "silu";
}

static void name_of(const builder *b, const char *suffix, char name[NAME])
{
    if (b->block >= 0) {
        snprintf(name, NAME, "_blocks.%d.%s", b->block, suffix);
    } else {
        snprintf(name, NAME, "%s", suffix);
    }
}

static charl_status add_conv(const builder *b, const char *suffix, charl_conv_config conv)
{
    char name[NAME];

    for (int i = 0; i < 2; i++) {
        conv.kernel[i] = conv.kernel[0] ? conv.kernel[0] : 1;
        conv.stride[i] = conv.stride[0] ? conv.stride[0] : 1;
        conv.dilation[i] = 1;
        conv.padding[i] = -1;
    }
    conv.groups = conv.groups ? conv.groups : 1;
    conv.same = true;
    conv.init = CHARL_CONV_INIT_KAIMING_NORMAL;
    name_of(b, suffix, name);
    return charl_model_add(b->m, name, "conv2d", &conv);
}

static charl_status add_norm(const builder *b, const char *suffix, bool activates)
{
    charl_norm_config norm;
    char name[NAME];

    CHARL_TRY(charl_layer_defaults("batch_norm", &norm));
    norm.eps = 1e-3;
    norm.momentum = 0.01;
    norm.activation = activates ? activation(b) : NULL;
    name_of(b, suffix, name);
    return charl_model_add(b->m, name, "batch_norm", &norm);
}

/* Factors of the channels, from their means. */
static charl_status add_excitation(const builder *b, int64_t channels, int64_t squeezed)
{
    charl_reshape_config as_image = {.shape = {3, {channels, 1, 1}}};
    char mean[NAME], image[NAME], norm[NAME], factor[NAME], scaled[NAME];
    const char *const inputs[] = {factor, norm};

    name_of(b, "squeeze", mean);
    name_of(b, "squeeze_image", image);
    name_of(b, "_bn1", norm);
    name_of(b, "_se_expand", factor);
    name_of(b, "excite", scaled);
    CHARL_TRY(charl_model_add(b->m, mean, "global_avg_pool", NULL));
    CHARL_TRY(charl_model_add(b->m, image, "reshape", &as_image));
    CHARL_TRY(add_conv(b, "_se_reduce",
                       (charl_conv_config){.channels = squeezed, .bias = true, .activation = activation(b)}));
    CHARL_TRY(
        add_conv(b, "_se_expand", (charl_conv_config){.channels = channels, .bias = true, .activation = "sigmoid"}));
    return charl_model_add_after(b->m, scaled, "multiply", NULL, inputs, 2);
}

/* The next block, which reads the layer `name` and leaves the name of its own last layer there. */
static charl_status add_block(const builder *b, const struct stage *s, int64_t in, int64_t out, int stride,
                              char name[NAME])
{
    const int64_t channels = in * s->expansion;
    char last[NAME], sum[NAME];
    const char *const inputs[] = {last, name};

    if (s->expansion > 1) {
        CHARL_TRY(add_conv(b, "_expand_conv", (charl_conv_config){.channels = channels}));
        CHARL_TRY(add_norm(b, "_bn0", true));
    }
    CHARL_TRY(add_conv(
        b, "_depthwise_conv",
        (charl_conv_config){.channels = channels, .kernel = {s->kernel}, .stride = {stride}, .groups = channels}));
    CHARL_TRY(add_norm(b, "_bn1", true));
    if (!b->v->lite) {
        CHARL_TRY(add_excitation(b, channels, in / 4 > 0 ? in / 4 : 1));
    }
    CHARL_TRY(add_conv(b, "_project_conv", (charl_conv_config){.channels = out}));
    CHARL_TRY(add_norm(b, "_bn2", false));
    name_of(b, "_bn2", last);
    if (stride == 1 && in == out) {
        name_of(b, "sum", sum);
        CHARL_TRY(charl_model_add_after(b->m, sum, "add", NULL, inputs, 2));
        snprintf(last, sizeof last, "%s", sum);
    }
    snprintf(name, NAME, "%s", last);
    return CHARL_OK;
}

static charl_status add_blocks(builder *b, int64_t in)
{
    char name[NAME] = "_bn0";

    for (int i = 0; i < N_STAGES; i++) {
        const struct stage *s = &stages[i];
        const bool fixed = b->v->lite && (i == 0 || i == N_STAGES - 1);
        const int repeats = fixed ? s->repeats : (int)ceil(b->v->depth * s->repeats);
        const int64_t out = widen(b->v, s->out);

        for (int k = 0; k < repeats; k++, in = out) {
            b->block++;
            CHARL_TRY(add_block(b, s, in, out, k == 0 ? s->stride : 1, name));
        }
    }
    b->block = -1;
    return CHARL_OK;
}

static charl_status add(charl_model *m, const void *settings, int64_t outputs)
{
    const efficientnet_settings *s = settings;
    const struct variant *v = &variants[s->variant];
    const charl_dropout_config dropout = {s->dropout};
    const charl_linear_config fc = {.out = outputs, .bias = true};
    const int64_t stem = v->lite ? STEM : widen(v, STEM);
    builder b = {m, v, -1};

    CHARL_TRY(add_conv(&b, "_conv_stem", (charl_conv_config){.channels = stem, .kernel = {3}, .stride = {2}}));
    CHARL_TRY(add_norm(&b, "_bn0", true));
    CHARL_TRY(add_blocks(&b, stem));
    CHARL_TRY(add_conv(&b, "_conv_head", (charl_conv_config){.channels = v->lite ? HEAD : widen(v, HEAD)}));
    CHARL_TRY(add_norm(&b, "_bn1", true));
    CHARL_TRY(charl_model_add(m, "_avg_pooling", "global_avg_pool", NULL));
    if (s->dropout > 0) {
        CHARL_TRY(charl_model_add(m, "_dropout", "dropout", &dropout));
    }
    return charl_model_add(m, "_fc", "linear", &fc);
}

static const charl_key keys[] = {
    CHARL__KEY(efficientnet_settings, variant, CHOICE, NULL, false,
               "b0 to b7 grow in width and depth; lite0 to lite4 are their forms for small devices", VARIANTS),
    CHARL__KEY(efficientnet_settings, dropout, FLOAT, "[0,1)", false, "dropout probability before the last layer"),
};
static const efficientnet_settings defaults = {.dropout = 0.2};

const charl_model_type charl__model_efficientnet = {
    .row.name = "efficientnet",
    .row.help = "EfficientNet or EfficientNet-Lite: reads images",
    CHARL_KEYS(keys),
    CHARL_DEFAULTS(defaults),
    .add = add,
};
