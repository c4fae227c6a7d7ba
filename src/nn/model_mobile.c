/* efficientnet and mobilenet: networks of inverted residual blocks (Sandler et al. 2018), each a convolution that widens, a depthwise one, squeeze
 * and excitation in some, and one that narrows:
 *
 *      x -> widen -> norm -> depthwise -> norm -> (* squeeze and excitation) -> project -> norm -> + x
 *
 * EfficientNet (Tan and Le 2019), EfficientNet-Lite, MobileNetV2, and MobileNetV3 (Howard et al. 2019) are tables of blocks. The libraries that
 * publish weights of them are rows of names, with the details in which they differ, so that their files are read and written as they are.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "nn/layer.h"
#include "nn/model.h"
#include "nn/model_internal.h"

enum { NAME = 64, STEP = 8 };

/* The parts of a network that have names. */
/* clang-format off */
enum role {
    STEM, STEM_NORM, WIDEN, WIDEN_NORM, DEPTH, DEPTH_NORM, REDUCE, EXCITE, PROJECT, PROJECT_NORM, HEAD, HEAD_NORM, HIDDEN, OUT, ROLES
};

/* How a library names them. In a name
 *
 *      #   number of the block, or of the part behind the last one
 *      %   number of its group, blocks with as many channels, and ^ its number in the group
 *      @   number of the part in the block, from 0, & that of the convolution, from 1
 *
 * A first block that does not widen has its own name of the last convolution in `narrow`; NULL: the usual one. */
typedef struct naming {
    const char *block, *name[ROLES], *narrow;
    int first;  /* number of the first block or group */
    bool same;  /* convolutions pad as TensorFlow does */
    bool image; /* the hidden layer is a convolution */
    double eps, momentum;
} naming;

#define TIMM \
    .block = "blocks.%.^", .narrow = "conv_pw", .name = {"conv_stem", "bn1", "conv_pw", "bn&", "conv_dw", "bn&", "se.conv_reduce", \
    "se.conv_expand", "conv_pwl", "bn&", "conv_head", "bn2", "", "classifier"}
#define TORCHVISION(head, head_norm) \
    .first = 1, .name = {"features.0.0", "features.0.1", "block.@.0", "block.@.1", "block.@.0", "block.@.1", "block.@.fc1", "block.@.fc2", \
    "block.@.0", "block.@.1", head, head_norm, "classifier.0"

static const naming efficientnet_namings[] = {
    {.block = "_blocks.#", .same = true, .eps = 1e-3, .momentum = 0.01, .name = {"_conv_stem", "_bn0", "_expand_conv", "_bn0",
     "_depthwise_conv", "_bn1", "_se_reduce", "_se_expand", "_project_conv", "_bn2", "_conv_head", "_bn1", "", "_fc"}},
    {.block = "features.%.^", .eps = 1e-5, .momentum = 0.1, TORCHVISION("features.%.0", "features.%.1"), "classifier.1"}},
    {TIMM, .eps = 1e-5, .momentum = 0.1},
    {TIMM, .eps = 1e-3, .momentum = 0.1, .same = true},
};
static const naming v2_namings[] = {
    {.block = "features.#", .first = 1, .eps = 1e-5, .momentum = 0.1, .name = {"features.0.0", "features.0.1", "conv.@.0", "conv.@.1",
     "conv.@.0", "conv.@.1", "", "", "conv.@", "conv.&", "features.#.0", "features.#.1", "", "classifier.1"}},
    {TIMM, .eps = 1e-5, .momentum = 0.1},
};
static const naming v3_namings[] = {
    {.block = "features.#", .eps = 1e-3, .momentum = 0.01, TORCHVISION("features.#.0", "features.#.1"), "classifier.3"}},
    {.block = "blocks.%.^", .narrow = "conv_pw", .image = true, .eps = 1e-5, .momentum = 0.1, .name = {"conv_stem", "bn1", "conv_pw", "bn&",
     "conv_dw", "bn&", "se.conv_reduce", "se.conv_expand", "conv_pwl", "bn&", "blocks.%.0.conv", "blocks.%.0.bn1", "conv_head", "classifier"}},
};

/* Blocks, of which the first has the stride. They widen to `wide` channels, or, where that is 0, by `factor`. */
typedef struct stage {
    int repeats, kernel, stride, factor, out, wide;
    bool excites, hard;
} stage;

static const stage efficientnet_stages[] = {
    {1, 3, 1, 1, 16, 0, true, false}, {2, 3, 2, 6, 24, 0, true, false},  {2, 5, 2, 6, 40, 0, true, false}, {3, 3, 2, 6, 80, 0, true, false},
    {3, 5, 1, 6, 112, 0, true, false}, {4, 5, 2, 6, 192, 0, true, false}, {1, 3, 1, 6, 320, 0, true, false},
};
static const stage v2_stages[] = {
    {1, 3, 1, 1, 16, 0, false, false}, {2, 3, 2, 6, 24, 0, false, false}, {3, 3, 2, 6, 32, 0, false, false}, {4, 3, 2, 6, 64, 0, false, false},
    {3, 3, 1, 6, 96, 0, false, false}, {3, 3, 2, 6, 160, 0, false, false}, {1, 3, 1, 6, 320, 0, false, false},
};
static const stage v3_large_stages[] = {
    {1, 3, 1, 0, 16, 16, false, false}, {1, 3, 2, 0, 24, 64, false, false},  {1, 3, 1, 0, 24, 72, false, false},  {1, 5, 2, 0, 40, 72, true, false},
    {2, 5, 1, 0, 40, 120, true, false}, {1, 3, 2, 0, 80, 240, false, true},  {1, 3, 1, 0, 80, 200, false, true},  {2, 3, 1, 0, 80, 184, false, true},
    {1, 3, 1, 0, 112, 480, true, true}, {1, 3, 1, 0, 112, 672, true, true}, {1, 5, 2, 0, 160, 672, true, true}, {2, 5, 1, 0, 160, 960, true, true},
};
static const stage v3_small_stages[] = {
    {1, 3, 2, 0, 16, 16, true, false}, {1, 3, 2, 0, 24, 72, false, false}, {1, 3, 1, 0, 24, 88, false, false}, {1, 5, 2, 0, 40, 96, true, true},
    {2, 5, 1, 0, 40, 240, true, true}, {1, 5, 1, 0, 48, 120, true, true},  {1, 5, 1, 0, 48, 144, true, true}, {1, 5, 2, 0, 96, 288, true, true},
    {2, 5, 1, 0, 96, 576, true, true},
};
/* clang-format on */

/* A network; head and hidden: channels of the last convolution and features of the linear layer before the outputs, 0: none. */
typedef struct network {
    const stage *stages;
    int n_stages, stem, head, hidden;
    const char *activation; /* of stages that are not `hard` */
    const char *stem_activation, *gate;
    bool fixed_ends; /* stem, head, first and last stage do not grow, and nothing excites */
} network;

#define STAGES(name) name##_stages, sizeof name##_stages / sizeof name##_stages[0]
static const network efficientnet = {STAGES(efficientnet), 32, 1280, 0, "silu", "silu", "sigmoid", false},
                     lite = {STAGES(efficientnet), 32, 1280, 0, "relu6", "relu6", NULL, true},
                     v2 = {STAGES(v2), 32, 1280, 0, "relu6", "relu6", NULL, false},
                     v3_large = {STAGES(v3_large), 16, 960, 1280, "relu", "hardswish", "hardsigmoid", false},
                     v3_small = {STAGES(v3_small), 16, 576, 1024, "relu", "hardswish", "hardsigmoid", false};

/* A model while it is built. */
typedef struct builder {
    charl_model *m;
    const network *net;
    const naming *names;
    double width, depth;
    double skipped;             /* probability that a sample skips the block, at the end of the network */
    int blocks;                 /* of the network */
    int block, group, in_group; /* numbers, as in a naming */
    int part, convs;            /* parts and convolutions of the block so far */
    bool in_block;
} builder;

/* Channels by a factor, a multiple of 8 that is not more than a tenth smaller. */
static int64_t widen(double factor, double channels)
{
    const double wanted = channels * factor;
    int64_t n = (int64_t)(wanted + STEP / 2.0) / STEP * STEP;

    n = n < STEP ? STEP : n;
    return (double)n < 0.9 * wanted ? n + STEP : n;
}

static int expand(const builder *b, const char *pattern, char name[NAME], int at)
{
    static const char places[] = "#%^@&";
    const int first = b->names->first, number[] = {b->block + first, b->group + first, b->in_group, b->part, b->convs};

    for (const char *p = pattern; *p && at < NAME - 1; p++) {
        const char *const place = strchr(places, *p);

        if (place) {
            at += snprintf(name + at, (size_t)(NAME - at), "%d", number[place - places]);
        } else {
            name[at++] = *p;
        }
    }
    name[at] = '\0';
    return at;
}

/* The name of a part of the block, or of the network. */
static void name_of(const builder *b, const char *pattern, char name[NAME])
{
    int at = 0;

    if (b->in_block) {
        at = expand(b, b->names->block, name, 0);
        at = expand(b, ".", name, at);
    }
    expand(b, pattern, name, at);
}

static charl_status add_conv(const builder *b, const char *pattern, charl_conv_config conv)
{
    char name[NAME];

    for (int i = 0; i < 2; i++) {
        conv.kernel[i] = conv.kernel[0] ? conv.kernel[0] : 1;
        conv.stride[i] = conv.stride[0] ? conv.stride[0] : 1;
        conv.dilation[i] = 1;
        conv.padding[i] = -1;
    }
    conv.groups = conv.groups ? conv.groups : 1;
    conv.same = b->names->same;
    conv.init = CHARL_CONV_INIT_KAIMING_NORMAL;
    name_of(b, pattern, name);
    return charl_model_add(b->m, name, "conv2d", &conv);
}

/* A convolution, its norm and the activation; NULL: none. The name of the norm is left in `last`. */
static charl_status add_unit(builder *b, const char *conv_name, enum role role, charl_conv_config conv,
                             const char *activation, char last[NAME])
{
    charl_norm_config norm;

    b->convs++;
    CHARL_TRY(add_conv(b, conv_name, conv));
    CHARL_TRY(charl_layer_defaults("batch_norm", &norm));
    norm.eps = b->names->eps;
    norm.momentum = b->names->momentum;
    norm.activation = activation;
    name_of(b, b->names->name[role], last);
    CHARL_TRY(charl_model_add(b->m, last, "batch_norm", &norm));
    b->part++;
    return CHARL_OK;
}

/* Factors of the channels, from their means; `last` is the layer before. */
static charl_status add_excitation(builder *b, int64_t channels, int64_t squeezed, const char *last)
{
    const charl_reshape_config as_image = {.shape = {3, {channels, 1, 1}}};
    const charl_conv_config reduce = {.channels = squeezed, .bias = true, .activation = b->net->activation};
    const charl_conv_config excite = {.channels = channels, .bias = true, .activation = b->net->gate};
    char mean[NAME], image[NAME], factor[NAME], scaled[NAME];
    const char *const inputs[] = {factor, last};

    name_of(b, "squeeze", mean);
    name_of(b, "squeeze_image", image);
    name_of(b, b->names->name[EXCITE], factor);
    name_of(b, "excite", scaled);
    CHARL_TRY(charl_model_add(b->m, mean, "global_avg_pool", NULL));
    CHARL_TRY(charl_model_add(b->m, image, "reshape", &as_image));
    CHARL_TRY(add_conv(b, b->names->name[REDUCE], reduce));
    CHARL_TRY(add_conv(b, b->names->name[EXCITE], excite));
    b->part++;
    return charl_model_add_after(b->m, scaled, "multiply", NULL, inputs, 2);
}

/* The next block, which reads the layer `name` and leaves the name of its own last layer there. */
static charl_status add_block(builder *b, const stage *s, int64_t in, int64_t out, int stride, char name[NAME])
{
    const int64_t channels = s->wide ? widen(b->width, s->wide) : in * s->factor;
    const char *const *names = b->names->name, *project = names[PROJECT];
    const char *const activation = s->hard ? "hardswish" : b->net->activation;
    char last[NAME], sum[NAME];
    const char *const inputs[] = {last, name};

    b->in_block = true;
    b->part = b->convs = 0;
    if (channels != in) {
        CHARL_TRY(add_unit(b, names[WIDEN], WIDEN_NORM, (charl_conv_config){.channels = channels}, activation, last));
    } else if (b->names->narrow) {
        project = b->names->narrow;
    }
    CHARL_TRY(add_unit(
        b, names[DEPTH], DEPTH_NORM,
        (charl_conv_config){.channels = channels, .kernel = {s->kernel}, .stride = {stride}, .groups = channels},
        activation, last));
    if (s->excites && b->net->gate) {
        CHARL_TRY(add_excitation(b, channels, s->wide ? widen(0.25, (double)channels) : in / 4, last));
    }
    CHARL_TRY(add_unit(b, project, PROJECT_NORM, (charl_conv_config){.channels = out}, NULL, last));
    if (stride == 1 && in == out) {
        if (b->skipped > 0 && b->block > 0) {
            name_of(b, "drop_path", last);
            CHARL_TRY(charl_model_add(b->m, last, "stochastic_depth",
                                      &(charl_dropout_config){b->skipped * (double)b->block / (double)b->blocks}));
        }
        name_of(b, "sum", sum);
        CHARL_TRY(charl_model_add_after(b->m, sum, "add", NULL, inputs, 2));
        snprintf(last, sizeof last, "%s", sum);
    }
    snprintf(name, NAME, "%s", last);
    b->in_block = false;
    b->block++;
    b->in_group++;
    return CHARL_OK;
}

static int repeats_of(const builder *b, int i)
{
    const bool fixed = b->net->fixed_ends && (i == 0 || i == b->net->n_stages - 1);

    return fixed ? b->net->stages[i].repeats : (int)ceil(b->depth * b->net->stages[i].repeats);
}

static charl_status add_blocks(builder *b, int64_t in, char name[NAME], int64_t *last)
{
    for (int i = 0; i < b->net->n_stages; i++) {
        b->blocks += repeats_of(b, i);
    }
    for (int i = 0; i < b->net->n_stages; i++) {
        const stage *s = &b->net->stages[i];
        const int repeats = repeats_of(b, i);
        const int64_t out = widen(b->width, s->out);

        if (i > 0 && s->out != s[-1].out) {
            b->group++;
            b->in_group = 0;
        }
        for (int k = 0; k < repeats; k++, in = out) {
            CHARL_TRY(add_block(b, s, in, out, k == 0 ? s->stride : 1, name));
        }
    }
    b->group++;
    *last = in;
    return CHARL_OK;
}

/* The hidden layer of MobileNetV3. */
static charl_status add_hidden(const builder *b, int64_t in)
{
    const int64_t width = widen(b->width, b->net->hidden);
    const charl_linear_config linear = {.out = width, .bias = true, .activation = "hardswish"};
    const charl_conv_config conv = {.channels = width, .bias = true, .activation = "hardswish"};
    const charl_reshape_config as_image = {.shape = {3, {in, 1, 1}}};

    if (!b->names->image) {
        return charl_model_add(b->m, b->names->name[HIDDEN], "linear", &linear);
    }
    CHARL_TRY(charl_model_add(b->m, "pooled", "reshape", &as_image));
    CHARL_TRY(add_conv(b, b->names->name[HIDDEN], conv));
    return charl_model_add(b->m, "flatten", "flatten", NULL);
}

static charl_status add_network(builder *b, double dropout, int64_t outputs)
{
    const network *n = b->net;
    const char *const *names = b->names->name;
    const int64_t stem = n->fixed_ends ? n->stem : widen(b->width, n->stem);
    const charl_linear_config out = {.out = outputs, .bias = true};
    int64_t last, head;
    char name[NAME], unused[NAME];

    CHARL_TRY(add_unit(b, names[STEM], STEM_NORM, (charl_conv_config){.channels = stem, .kernel = {3}, .stride = {2}},
                       n->stem_activation, name));
    CHARL_TRY(add_blocks(b, stem, name, &last));
    head = n->hidden       ? n->head / n->stages[n->n_stages - 1].out * last
           : n->fixed_ends ? n->head
                           : widen(b->width, n->head);
    head = n == &v2 && head < n->head ? n->head : head;
    CHARL_TRY(add_unit(b, names[HEAD], HEAD_NORM, (charl_conv_config){.channels = head}, n->stem_activation, unused));
    CHARL_TRY(charl_model_add(b->m, "_avg_pooling", "global_avg_pool", NULL));
    if (n->hidden) {
        CHARL_TRY(add_hidden(b, head));
    }
    if (dropout > 0) {
        CHARL_TRY(charl_model_add(b->m, "_dropout", "dropout", &(charl_dropout_config){dropout}));
    }
    return charl_model_add(b->m, names[OUT], "linear", &out);
}

typedef struct mobile_settings {
    int variant, family;
    double dropout, stochastic_depth, width;
} mobile_settings;

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
#define FAMILIES "efficientnet_pytorch|torchvision|timm|timm_tf"
enum { B5 = 5, TORCHVISION_NAMES = 1 };

static charl_status add_efficientnet(charl_model *m, const void *settings, int64_t outputs)
{
    const mobile_settings *s = settings;
    const struct variant *v = &variants[s->variant];
    naming names = efficientnet_namings[s->family];
    builder b = {.m = m,
                 .net = v->lite ? &lite : &efficientnet,
                 .names = &names,
                 .width = v->width,
                 .depth = v->depth,
                 .skipped = s->stochastic_depth};

    if (s->family == TORCHVISION_NAMES && s->variant >= B5) { /* as its authors converted them */
        names.eps = efficientnet_namings[0].eps;
        names.momentum = efficientnet_namings[0].momentum;
    }
    CHARL_TRY(add_network(&b, s->dropout, outputs));
    return charl__model_set_type(m, &charl__model_efficientnet, s, sizeof *s);
}

static bool check_efficientnet(const void *settings, const char **key, char *reason)
{
    const mobile_settings *s = settings;

    *key = "family";
    if (s->family == TORCHVISION_NAMES && variants[s->variant].lite) {
        snprintf(reason, CHARL_REASON_BYTES, "torchvision has b0 to b7 only");
        return false;
    }
    return true;
}

static charl_status add_mobilenet(charl_model *m, const void *settings, int64_t outputs)
{
    static const network *const networks[] = {&v2, &v3_large, &v3_small};
    const mobile_settings *s = settings;
    const naming *names = &(s->variant == 0 ? v2_namings : v3_namings)[s->family];
    builder b = {.m = m,
                 .net = networks[s->variant],
                 .names = names,
                 .width = s->width,
                 .depth = 1,
                 .skipped = s->stochastic_depth};

    CHARL_TRY(add_network(&b, s->dropout, outputs));
    return charl__model_set_type(m, &charl__model_mobilenet, s, sizeof *s);
}

static bool check_mobilenet(const void *settings, const char **key, char *reason)
{
    const mobile_settings *s = settings;

    *key = "width";
    if (s->variant > 0 && s->family == 1 && s->width != 1) {
        snprintf(reason, CHARL_REASON_BYTES, "timm rounds the channels of v3 otherwise: 1, or family = torchvision");
        return false;
    }
    return true;
}

#define KEY(...) CHARL__KEY(mobile_settings, __VA_ARGS__)
#define DROPOUT KEY(dropout, FLOAT, "[0,1)", false, "dropout probability before the last layer")
#define STOCHASTIC_DEPTH KEY(stochastic_depth, FLOAT, "[0,1)", false, CHARL__STOCHASTIC_DEPTH_HELP)
#define FAMILY(names)                                                                                                  \
    KEY(family, CHOICE, NULL, false, "library whose names, padding and norms the model has, to read its weights", names)

static const charl_key efficientnet_keys[] = {
    KEY(variant, CHOICE, NULL, false,
        "b0 to b7 grow in width and depth; lite0 to lite4 are their forms for small devices", VARIANTS),
    DROPOUT,
    STOCHASTIC_DEPTH,
    FAMILY(FAMILIES),
};
static const charl_key mobilenet_keys[] = {
    KEY(variant, CHOICE, NULL, false, "MobileNetV2, or the large or small MobileNetV3", "v2|v3_large|v3_small"),
    KEY(width, FLOAT, "[0.1,10]", false, "factor of the channels, which are rounded to multiples of 8"),
    DROPOUT,
    STOCHASTIC_DEPTH,
    FAMILY("torchvision|timm"),
};
static const mobile_settings defaults = {.dropout = 0.2, .width = 1};

const charl_model_type charl__model_efficientnet = {
    .row.name = "efficientnet",
    .row.help = "EfficientNet or EfficientNet-Lite: reads images",
    CHARL_KEYS(efficientnet_keys),
    CHARL_DEFAULTS(defaults),
    .row.check = check_efficientnet,
    .add = add_efficientnet,
};

const charl_model_type charl__model_mobilenet = {
    .row.name = "mobilenet",
    .row.help = "MobileNetV2 or MobileNetV3: reads images",
    CHARL_KEYS(mobilenet_keys),
    CHARL_DEFAULTS(defaults),
    .row.check = check_mobilenet,
    .add = add_mobilenet,
};
