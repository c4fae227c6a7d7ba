/* The model that a configuration describes. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "nn/layer.h"
#include "task/task.h"

/* Read the keys that a layer type declares into its settings. */
static charl_status read_key(charl_config_layer *layer, const charl_layer_key *k,
                             unsigned char *config)
{
    void *at = config + k->offset;
    const bool required = k->required && !charl_config_layer_has(layer, k->name);
    const int64_t *pair = at;
    char range[64];

    switch (k->kind) {
    case CHARL_KEY_INT:
        CHARL_TRY(charl_config_layer_int(layer, k->name,
                                         required ? CHARL_CONFIG_REQUIRED : *(int64_t *)at,
                                         (int64_t)k->min, (int64_t)k->max, at));
        break;
    case CHARL_KEY_PAIR:
        CHARL_TRY(charl_config_layer_pair(layer, k->name,
                                          required ? CHARL_CONFIG_REQUIRED : pair[0],
                                          (int64_t)k->min, (int64_t)k->max, at));
        break;
    case CHARL_KEY_FLOAT:
        snprintf(range, sizeof range, "[%g,%g)", k->min, k->max);
        CHARL_TRY(charl_config_layer_float(layer, k->name, *(double *)at, range, at));
        break;
    case CHARL_KEY_BOOL:
        CHARL_TRY(charl_config_layer_bool(layer, k->name, *(bool *)at, at));
        break;
    case CHARL_KEY_CHOICE:
        CHARL_TRY(charl_config_layer_choice(layer, k->name, *(int *)at, k->choices, at));
        break;
    case CHARL_KEY_LAYER:
    case CHARL_KEY_ACTIVATION:
        if (charl_config_layer_has(layer, k->name)) {
            CHARL_TRY(charl_config_layer_string(layer, k->name, NULL, NULL, at));
        }
        break;
    }
    return CHARL_OK;
}

static charl_status refuse_type(charl_config_layer *layer)
{
    char text[512];
    int used = snprintf(text, sizeof text, "there is no layer type %s; there are",
                        charl_config_layer_type(layer));
    const charl_layer_type *t;

    for (int i = 0; (t = charl__layer_type_at(i)) != NULL && used > 0 && (size_t)used < sizeof text;
         i++) {
        used += snprintf(text + used, sizeof text - (size_t)used, "%s %s", i ? "," : "", t->name);
    }
    return charl_config_layer_refuse(layer, "type", text);
}

static charl_status add_layer(charl_config_layer *layer, void *user)
{
    charl_status st = CHARL_OK;
    charl_model *model = user;
    const charl_layer_type *t = charl__layer_type_find(charl_config_layer_type(layer));
    _Alignas(8) unsigned char config[CHARL_LAYER_MAX_CONFIG] = {0};

    if (!t) {
        CHARL_TRY(refuse_type(layer));
    }
    if (t->config_size) {
        memcpy(config, t->defaults, t->config_size);
    }
    for (int i = 0; i < t->n_keys; i++) {
        CHARL_TRY(read_key(layer, &t->keys[i], config));
    }
    st = charl_model_add(model, charl_config_layer_name(layer), t->name, config);
    if (st == CHARL_ERR_CONFIG) {
        char reason[512];

        snprintf(reason, sizeof reason, "%s", charl_error_message());
        CHARL_TRY(charl_config_layer_refuse(layer, NULL, reason));
    }
    CHARL_TRY(st);
    return st;
}

static charl_mlp_config mlp_of(const charl_config *config, int64_t outputs)
{
    return (charl_mlp_config){.hidden = config->model.hidden.values,
                              .n_hidden = config->model.hidden.count,
                              .outputs = outputs,
                              .activation = config->model.activation,
                              .dropout = config->model.dropout,
                              .batch_norm = config->model.batch_norm};
}

static charl_status add_mlp(const charl_config *config, int64_t outputs, charl_model *m)
{
    const charl_mlp_config mlp = mlp_of(config, outputs);

    return charl_model_add_mlp(m, &mlp);
}

static charl_status add_cnn(const charl_config *config, int64_t outputs, charl_model *m)
{
    const charl_cnn_config cnn = {.channels = config->model.channels.values,
                                  .n_channels = config->model.channels.count,
                                  .kernel = config->model.kernel,
                                  .head = mlp_of(config, outputs)};

    return charl_model_add_cnn(m, &cnn);
}

static charl_status add_resnet(const charl_config *config, int64_t outputs, charl_model *m)
{
    return charl_model_add_resnet(m, &(charl_resnet_config){.depth = config->model.depth,
                                                            .width = config->model.width,
                                                            .stem = config->model.stem,
                                                            .outputs = outputs});
}

int64_t charl__task_vocab(const charl_config *config, int64_t tokens)
{
    const int64_t multiple = config->model.vocab_multiple;

    return config->model.type == CHARL_MODEL_GPT ? (tokens + multiple - 1) / multiple * multiple
                                                 : tokens;
}

static charl_status add_gpt(const charl_config *config, int64_t tokens, charl_model *m)
{
    const charl_gpt_config gpt = {.n_layer = config->model.n_layer,
                                  .n_head = config->model.n_head,
                                  .n_kv_head = config->model.n_kv_head,
                                  .n_embd = config->model.n_embd,
                                  .block_size = config->model.block_size,
                                  .vocab = charl__task_vocab(config, tokens),
                                  .dropout = config->model.dropout,
                                  .bias = config->model.bias,
                                  .tie_weights = config->model.tie_weights,
                                  .norm = config->model.norm,
                                  .mlp = config->model.mlp,
                                  .positions = config->model.positions};

    return charl_model_add_gpt(m, &gpt);
}

static charl_status add_layers(const charl_config *config, charl_model *m)
{
    CHARL_REQUIRE(
        charl_config_layer_count(config) > 0, CHARL_ERR_CONFIG,
        "model.type = sequential needs [layer NAME] sections; or set model.type to a whole model "
        "(charl-train --help-config=model)");
    CHARL_TRY(charl_config_read_layers(config, add_layer, m));
    return CHARL_OK;
}

charl_status charl__task_model(const charl_config *config, int64_t outputs, charl_model **out)
{
    charl_status st = CHARL_OK;
    charl_model *m = NULL;

    *out = NULL;
    CHARL_TRY_CLEANUP(charl_model_create(&m));
    switch (config->model.type) {
    case CHARL_MODEL_MLP:
        CHARL_TRY_CLEANUP(add_mlp(config, outputs, m));
        break;
    case CHARL_MODEL_CNN:
        CHARL_TRY_CLEANUP(add_cnn(config, outputs, m));
        break;
    case CHARL_MODEL_RESNET:
        CHARL_TRY_CLEANUP(add_resnet(config, outputs, m));
        break;
    case CHARL_MODEL_GPT:
        CHARL_TRY_CLEANUP(add_gpt(config, outputs, m));
        break;
    default:
        CHARL_TRY_CLEANUP(add_layers(config, m));
        break;
    }
    *out = m;
    m = NULL;
cleanup:
    charl_model_destroy(m);
    return st;
}
