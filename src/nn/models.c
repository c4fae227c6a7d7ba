/* mlp and cnn: models that are a few numbers. */
#include <stdio.h>

#include "base/error.h"
#include "nn/layer.h"

static charl_status add_numbered(charl_model *m, const char *prefix, int i, const char *type,
                                 const void *config)
{
    char name[32];

    snprintf(name, sizeof name, "%s%d", prefix, i);
    return charl_model_add(m, name, type, config);
}

static charl_status add_activation(charl_model *m, const char *prefix, int i,
                                   const char *activation)
{
    return add_numbered(m, prefix, i, activation ? activation : "relu", NULL);
}

charl_status charl_model_add_mlp(charl_model *m, const charl_mlp_config *c)
{
    const charl_dropout_config dropout = {c->dropout};
    charl_linear_config linear = {.bias = !c->batch_norm};

    CHARL_REQUIRE(c->outputs >= 1, CHARL_ERR_CONFIG, "a model needs at least one output");
    CHARL_TRY(charl_model_add(m, "flatten", "flatten", NULL));
    for (int i = 0; i < c->n_hidden; i++) {
        linear.out = c->hidden[i];
        CHARL_TRY(add_numbered(m, "fc", i + 1, "linear", &linear));
        if (c->batch_norm) {
            CHARL_TRY(add_numbered(m, "fc_bn", i + 1, "batch_norm", NULL));
        }
        CHARL_TRY(add_activation(m, "fc_act", i + 1, c->activation));
        if (c->dropout > 0) {
            CHARL_TRY(add_numbered(m, "fc_drop", i + 1, "dropout", &dropout));
        }
    }
    linear = (charl_linear_config){.out = c->outputs, .bias = true};
    CHARL_TRY(add_numbered(m, "fc", c->n_hidden + 1, "linear", &linear));
    return CHARL_OK;
}

charl_status charl_model_add_cnn(charl_model *m, const charl_cnn_config *c)
{
    const charl_pool2d_config pool = {.kernel = {2, 2}};
    charl_conv2d_config conv;

    CHARL_REQUIRE(c->kernel % 2 == 1, CHARL_ERR_CONFIG, "model.kernel is %lld; it must be odd",
                  (long long)c->kernel);
    CHARL_TRY(charl_layer_defaults("conv2d", &conv));
    conv.kernel[0] = conv.kernel[1] = c->kernel;
    conv.bias = !c->head.batch_norm;
    for (int i = 0; i < c->n_channels; i++) {
        conv.channels = c->channels[i];
        CHARL_TRY(add_numbered(m, "conv", i + 1, "conv2d", &conv));
        if (c->head.batch_norm) {
            CHARL_TRY(add_numbered(m, "bn", i + 1, "batch_norm", NULL));
        }
        CHARL_TRY(add_activation(m, "act", i + 1, c->head.activation));
        CHARL_TRY(add_numbered(m, "pool", i + 1, "max_pool2d", &pool));
    }
    CHARL_TRY(charl_model_add_mlp(m, &c->head));
    return CHARL_OK;
}
