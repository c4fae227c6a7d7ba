/* mlp and cnn: models given by a few numbers; and sequential, whose layers the configuration lists. */
#include <stdio.h>

#include "base/error.h"
#include "nn/layer.h"
#include "nn/model.h"

static charl_status add_numbered(charl_model *m, const char *prefix, int i, const char *type, const void *config)
{
    char name[32];

    snprintf(name, sizeof name, "%s%d", prefix, i);
    return charl_model_add(m, name, type, config);
}

static charl_status add_activation(charl_model *m, const char *prefix, int i, const char *activation)
{
    return add_numbered(m, prefix, i, activation ? activation : "relu", NULL);
}

charl_status charl_model_add_mlp(charl_model *m, const charl_mlp_config *config)
{
    CHARL_GIVEN(m, config);
    const charl_dropout_config dropout = {config->dropout};
    charl_linear_config linear = {.bias = !config->batch_norm};

    CHARL_REQUIRE(config->outputs >= 1, CHARL_ERR_CONFIG, "a model needs at least one output");
    CHARL_TRY(charl_model_add(m, "flatten", "flatten", NULL));
    for (int i = 0; i < config->n_hidden; i++) {
        linear.out = config->hidden[i];
        CHARL_TRY(add_numbered(m, "fc", i + 1, "linear", &linear));
        if (config->batch_norm) {
            CHARL_TRY(add_numbered(m, "fc_bn", i + 1, "batch_norm", NULL));
        }
        CHARL_TRY(add_activation(m, "fc_act", i + 1, config->activation));
        if (config->dropout != 0) {
            CHARL_TRY(add_numbered(m, "fc_drop", i + 1, "dropout", &dropout));
        }
    }
    linear = (charl_linear_config){.out = config->outputs, .bias = true};
    CHARL_TRY(add_numbered(m, "fc", config->n_hidden + 1, "linear", &linear));
    return CHARL_OK;
}

charl_status charl_model_add_cnn(charl_model *m, const charl_cnn_config *config)
{
    CHARL_GIVEN(m, config);
    const charl_pool_config pool = {.kernel = {2, 2}};
    charl_conv_config conv;

    CHARL_REQUIRE(config->kernel % 2 == 1, CHARL_ERR_CONFIG, "kernel is %lld; it must be odd",
                  (long long)config->kernel);
    CHARL_TRY(charl_layer_defaults("conv2d", &conv));
    conv.kernel[0] = conv.kernel[1] = config->kernel;
    conv.bias = !config->head.batch_norm;
    for (int i = 0; i < config->n_channels; i++) {
        conv.channels = config->channels[i];
        CHARL_TRY(add_numbered(m, "conv", i + 1, "conv2d", &conv));
        if (config->head.batch_norm) {
            CHARL_TRY(add_numbered(m, "bn", i + 1, "batch_norm", NULL));
        }
        CHARL_TRY(add_activation(m, "act", i + 1, config->head.activation));
        CHARL_TRY(add_numbered(m, "pool", i + 1, "max_pool2d", &pool));
    }
    CHARL_TRY(charl_model_add_mlp(m, &config->head));
    return CHARL_OK;
}

typedef struct mlp_settings {
    charl_int_list hidden;
    const char *activation;
    double dropout;
    bool batch_norm;
} mlp_settings;

typedef struct cnn_settings {
    charl_int_list channels;
    int64_t kernel;
    mlp_settings head;
} cnn_settings;

static charl_mlp_config mlp_of(const mlp_settings *s, int64_t outputs)
{
    return (charl_mlp_config){.hidden = s->hidden.values,
                              .n_hidden = s->hidden.count,
                              .outputs = outputs,
                              .activation = s->activation,
                              .dropout = s->dropout,
                              .batch_norm = s->batch_norm};
}

static charl_status add_mlp(charl_model *m, const void *settings, int64_t outputs)
{
    const charl_mlp_config mlp = mlp_of(settings, outputs);

    return charl_model_add_mlp(m, &mlp);
}

static charl_status add_cnn(charl_model *m, const void *settings, int64_t outputs)
{
    const cnn_settings *s = settings;
    const charl_cnn_config cnn = {.channels = s->channels.values,
                                  .n_channels = s->channels.count,
                                  .kernel = s->kernel,
                                  .head = mlp_of(&s->head, outputs)};

    return charl_model_add_cnn(m, &cnn);
}

static bool check_cnn(const void *settings, const char **key, char *reason)
{
    if (((const cnn_settings *)settings)->kernel % 2 == 0) {
        *key = "kernel";
        snprintf(reason, CHARL_REASON_BYTES, "must be odd");
        return false;
    }
    return true;
}

#define MLP_KEYS(type, at)                                                                                             \
    {"hidden", CHARL_KEY_INTS, offsetof(type, at hidden), "[1,1000000]", false, "widths of the hidden linear layers",  \
     NULL},                                                                                                            \
        {"activation",                                                                                                 \
         CHARL_KEY_ACTIVATION,                                                                                         \
         offsetof(type, at activation),                                                                                \
         NULL,                                                                                                         \
         false,                                                                                                        \
         "activation after every hidden layer",                                                                        \
         NULL},                                                                                                        \
        {"dropout", CHARL_KEY_FLOAT, offsetof(type, at dropout), "[0,1)", false, "dropout probability", NULL},         \
    {                                                                                                                  \
        "batch_norm", CHARL_KEY_BOOL, offsetof(type, at batch_norm), NULL, false,                                      \
            "batch normalization after every hidden layer", NULL                                                       \
    }
#define MLP_DEFAULTS                                                                                                   \
    {                                                                                                                  \
        .hidden = {1, {128}}, .activation = "relu"                                                                     \
    }

static const charl_key mlp_keys[] = {MLP_KEYS(mlp_settings, )};
static const mlp_settings mlp_defaults = MLP_DEFAULTS;

static const charl_key cnn_keys[] = {
    CHARL__KEY(cnn_settings, channels, INTS, "[1,100000]", false,
               "channels of the convolution blocks, each followed by 2x2 max pooling"),
    CHARL__KEY(cnn_settings, kernel, INT, "[1,15]", false, "height and width of the convolution kernels; must be odd"),
    MLP_KEYS(cnn_settings, head.),
};
static const cnn_settings cnn_defaults = {.channels = {2, {32, 64}}, .kernel = 3, .head = MLP_DEFAULTS};

const charl_model_type charl__model_sequential = {
    .row.name = "sequential",
    .row.help = "the [layer NAME] sections in order",
    .input = CHARL_MODEL_READS_ANY,
};

const charl_model_type charl__model_mlp = {
    .row.name = "mlp",
    .row.help = "linear layers with activations between them",
    CHARL_KEYS(mlp_keys),
    CHARL_DEFAULTS(mlp_defaults),
    .add = add_mlp,
};

const charl_model_type charl__model_cnn = {
    .row.name = "cnn",
    .row.help = "blocks of convolution, activation and pooling, then an mlp",
    CHARL_KEYS(cnn_keys),
    CHARL_DEFAULTS(cnn_defaults),
    .row.check = check_cnn,
    .add = add_cnn,
};
