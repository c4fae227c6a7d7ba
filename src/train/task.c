/* Graphs for training and evaluation. */
#include "train/task.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "autograd/op.h"
#include "charl/ops.h"
#include "nn/layer.h"

/* Models, losses and settings that take tokens, or that take nothing else. */
static charl_status check_tokens(const charl_config *config, const charl_dataset_info *data)
{
    charl_status st = CHARL_OK;
    const int type = config->model.type;

    if (data->kind != CHARL_DATASET_TOKENS) {
        CHARL_REQUIRE(type != CHARL_MODEL_GPT, CHARL_ERR_CONFIG,
                      "model.type = gpt reads tokens, %s holds %s; HINT charl data import text",
                      data->path, charl_dataset_kind_name(data->kind));
        goto cleanup;
    }
    CHARL_REQUIRE(type == CHARL_MODEL_GPT || type == CHARL_MODEL_SEQUENTIAL, CHARL_ERR_CONFIG,
                  "model.type = %s reads numbers, %s holds tokens; use gpt, or sequential with an "
                  "embedding as the first layer",
                  charl_config_choice_name("model", "type", type), data->path);
    CHARL_REQUIRE(config->train.loss == CHARL_LOSS_CROSS_ENTROPY, CHARL_ERR_CONFIG,
                  "train.loss = %s: tokens are classes, use cross_entropy",
                  charl_config_choice_name("train", "loss", config->train.loss));
    CHARL_REQUIRE(config->data.normalize.kind != CHARL_NORMALIZE_GIVEN, CHARL_ERR_CONFIG,
                  "data.normalize: %s holds tokens, which are not normalised", data->path);
cleanup:
    return st;
}

charl_status charl__task_outputs(const charl_config *config, const charl_dataset_info *data,
                                 int64_t *out)
{
    charl_status st = CHARL_OK;

    CHARL_TRY(check_tokens(config, data));
    if (data->kind == CHARL_DATASET_TOKENS) {
        *out = data->classes;
    } else if (config->train.loss == CHARL_LOSS_CROSS_ENTROPY) {
        CHARL_REQUIRE(data->y_dtype == CHARL_I32 && data->y_shape.ndim == 0, CHARL_ERR_CONFIG,
                      "train.loss = cross_entropy needs one class label per sample, %s has %s "
                      "targets. For numbers use mse, bce or huber",
                      data->path, data->y_dtype == CHARL_I32 ? "several integer" : "real");
        *out = data->classes;
    } else {
        *out = charl_shape_count(&data->y_shape);
    }
cleanup:
    return st;
}

/* Read the keys that a layer type declares into its settings. */
static charl_status read_key(charl_config_layer *layer, const charl_layer_key *k,
                             unsigned char *config)
{
    charl_status st = CHARL_OK;
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
cleanup:
    return st;
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
cleanup:
    return st;
}

static charl_status add_resnet(const charl_config *config, int64_t outputs, charl_model *m)
{
    return charl_model_add_resnet(m, &(charl_resnet_config){.depth = config->model.depth,
                                                            .width = config->model.width,
                                                            .stem = config->model.stem,
                                                            .outputs = outputs});
}

charl_status charl__task_model(const charl_config *config, int64_t outputs, charl_model **out)
{
    charl_status st = CHARL_OK;
    charl_model *m = NULL;
    const charl_mlp_config head = {.hidden = config->model.hidden.values,
                                   .n_hidden = config->model.hidden.count,
                                   .outputs = outputs,
                                   .activation = config->model.activation,
                                   .dropout = config->model.dropout,
                                   .batch_norm = config->model.batch_norm};
    const charl_cnn_config cnn = {.channels = config->model.channels.values,
                                  .n_channels = config->model.channels.count,
                                  .kernel = config->model.kernel,
                                  .head = head};

    *out = NULL;
    CHARL_TRY(charl_model_create(&m));
    switch (config->model.type) {
    case CHARL_MODEL_MLP:
        CHARL_TRY(charl_model_add_mlp(m, &head));
        break;
    case CHARL_MODEL_CNN:
        CHARL_TRY(charl_model_add_cnn(m, &cnn));
        break;
    case CHARL_MODEL_RESNET:
        CHARL_TRY(add_resnet(config, outputs, m));
        break;
    case CHARL_MODEL_GPT:
        CHARL_FAIL(CHARL_ERR_CONFIG, "model.type = gpt is not available in this version");
    default:
        CHARL_REQUIRE(
            charl_config_layer_count(config) > 0, CHARL_ERR_CONFIG,
            "model.type = sequential needs [layer NAME] sections; or set model.type to mlp or cnn");
        CHARL_TRY(charl_config_read_layers(config, add_layer, m));
        break;
    }
    *out = m;
    m = NULL;
cleanup:
    charl_model_destroy(m);
    return st;
}

/* Targets in the shape and type of the output. */
static charl_var *real_target(charl_graph *g, charl_var *out, charl_var *y)
{
    if (y && charl_var_get_type(y).dtype != CHARL_F32) {
        y = charl_cast(g, y, CHARL_F32);
    }
    return out ? charl_reshape(g, y, charl_var_get_type(out).shape) : NULL;
}

/* One value per sample: of tokens the mean over the window. */
static charl_var *per_sample(charl_graph *g, charl_var *v)
{
    return v && charl_var_get_type(v).shape.ndim > 1 ? charl_mean(g, v, 1, false) : v;
}

static charl_var *loss_rows(const charl_config *config, charl_graph *g, charl_var *out,
                            charl_var *y)
{
    switch (config->train.loss) {
    case CHARL_LOSS_MSE:
        return charl_mse(g, out, real_target(g, out, y));
    case CHARL_LOSS_BCE:
        return charl_bce_with_logits(g, out, real_target(g, out, y));
    case CHARL_LOSS_HUBER:
        return charl_huber(g, out, real_target(g, out, y), 1.0F);
    default:
        return per_sample(g, charl_cross_entropy(g, out, y, NULL,
                                                 charl_graph_is_training(g)
                                                     ? (float)config->train.label_smoothing
                                                     : 0.0F));
    }
}

/* A sum over the rows of the batch as a PARTIAL [1]. */
static charl_var *total(charl_graph *g, charl_var *rows)
{
    return charl_reshape(g, charl_sum(g, rows, 0, false), (charl_shape){1, {1}});
}

/* The model must end in what the loss reads; say so in terms of the model. */
static void check_output(const charl_config *config, charl_graph *g, const charl_var *out,
                         const charl_var *y, int64_t classes)
{
    const charl_shape have = out ? charl_var_get_type(out).shape : (charl_shape){0};
    const charl_shape want = y ? charl_var_get_type(y).shape : (charl_shape){0};
    const int64_t last = have.ndim ? have.dim[have.ndim - 1] : 0;
    const bool entropy = config->train.loss == CHARL_LOSS_CROSS_ENTROPY;
    charl_shape front = have;
    char text[CHARL_SHAPE_TEXT];

    if (!out || !y) {
        return;
    }
    front.ndim = have.ndim > 0 ? have.ndim - 1 : 0;
    if (entropy ? !charl_shape_equal(&front, &want)
                : charl_shape_count(&have) != charl_shape_count(&want)) {
        charl__graph_fail(
            g, CHARL_ERR_SHAPE, "the model's output %s does not fit the loss: it needs %s",
            charl_shape_format(&have, text),
            !entropy         ? "as many values per sample as the target has"
            : want.ndim == 1 ? "[batch, classes]; end it in a linear layer with out = classes"
                             : "[batch, window, vocabulary]; end it in a linear layer with out = "
                               "vocabulary, and do not flatten");
    } else if (entropy && last < classes) {
        charl__graph_fail(g, CHARL_ERR_SHAPE,
                          "the model has %lld outputs, but the data have %lld classes; end it in a "
                          "linear layer with out = %lld",
                          (long long)last, (long long)classes, (long long)classes);
    }
}

static charl_var *build_metrics(const charl_config *config, charl_graph *g, charl_var *out,
                                charl_var *y, charl_var *rows, charl_var *weight)
{
    charl_var *part[CHARL__METRIC_COUNT];
    int n = 0;

    part[n++] = total(g, charl_mul(g, rows, weight));
    part[n++] = total(g, weight);
    if (config->train.loss == CHARL_LOSS_CROSS_ENTROPY) {
        part[n++] = total(g, charl_mul(g, per_sample(g, charl_correct(g, out, y, 1)), weight));
        if (config->eval.metrics & CHARL_METRIC_TOP5) {
            part[n++] = total(g, charl_mul(g, per_sample(g, charl_correct(g, out, y, 5)), weight));
        }
    }
    return charl_concat(g, part, n, 0);
}

void charl__task_build(const charl_config *config, const charl_model *model, charl_params *params,
                       charl__feed *feed, charl_steps *steps, charl__task *task)
{
    charl_graph *g = task->g;
    charl_var *x, *y, *weight, *out, *rows, *loss, *seed;

    charl__graph_set_steps(g, steps);
    charl__feed_attach(feed, g, &x, &y, &weight);
    out = charl_model_build(model, g, params, x);
    check_output(config, g, out, y, task->classes);
    charl_graph_scope_begin(g, "loss");
    rows = loss_rows(config, g, out, y);
    if (charl_graph_is_training(g)) {
        loss = charl_sum(g, rows, 0, false);
        task->metrics = charl_reshape(g, loss, (charl_shape){1, {1}});
        seed = charl_input(g, "seed", CHARL_F32, (charl_shape){0, {0}}, CHARL_REPLICATED);
        charl__graph_bind_input(g, seed, charl__steps_loss_seed(steps));
        charl_graph_backward(g, loss, seed);
    } else {
        task->metrics = build_metrics(config, g, out, y, rows, weight);
        task->output = out;
        charl_graph_keep(g, out);
    }
    charl_graph_scope_end(g);
    charl_graph_keep(g, task->metrics);
}
