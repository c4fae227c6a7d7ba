/* Graphs for training and evaluation. */
#include "task/task.h"

#include "autograd/op.h"
#include "charl/ops.h"
#include "config/config_rows.h"
#include "task/augment.h"

enum { DEFAULT_WINDOW = 64 }; /* tokens of a sample, where data.window says nothing */

charl_dataset_options charl__task_dataset_options(const charl_config *c)
{
    const int64_t window = charl__config_model_window(c);

    return (charl_dataset_options){.x = c->data.x[0] ? c->data.x : NULL,
                                   .y = c->data.y[0] ? c->data.y : NULL,
                                   .val_split = c->data.val_split,
                                   .window = window > 0           ? window
                                             : c->data.window > 0 ? c->data.window
                                                                  : DEFAULT_WINDOW};
}

/* Models, losses and settings that take tokens, or that take nothing else. */
static charl_status check_tokens(const charl_config *config, const charl_dataset_info *data)
{
    const charl_model_type *model = charl__config_model(config);

    if (data->kind != CHARL_DATASET_TOKENS) {
        CHARL_REQUIRE(model->input != CHARL_MODEL_READS_TOKENS, CHARL_ERR_CONFIG,
                      "model.type = %s reads tokens, %s holds %s; HINT charl data import text", model->row.name,
                      data->path, charl_dataset_kind_name(data->kind));
        CHARL_REQUIRE(config->data.window == 0, CHARL_ERR_CONFIG, "data.window is of tokens, %s holds %s", data->path,
                      charl_dataset_kind_name(data->kind));
        return CHARL_OK;
    }
    CHARL_REQUIRE(model->input != CHARL_MODEL_READS_NUMBERS, CHARL_ERR_CONFIG,
                  "model.type = %s reads numbers, %s holds tokens; use gpt, or sequential with an "
                  "embedding as the first layer",
                  model->row.name, data->path);
    CHARL_REQUIRE(config->train.loss == CHARL_LOSS_CROSS_ENTROPY, CHARL_ERR_CONFIG,
                  "train.loss = %s: tokens are classes, use cross_entropy",
                  charl_config_choice_name("train", "loss", config->train.loss));
    CHARL_REQUIRE(config->data.normalize.kind != CHARL_NORMALIZE_GIVEN, CHARL_ERR_CONFIG,
                  "data.normalize: %s holds tokens, which are not normalised", data->path);
    return CHARL_OK;
}

charl_status charl__task_outputs(const charl_config *config, const charl_dataset_info *data, int64_t *out)
{
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
        CHARL_REQUIRE(config->train.loss != CHARL_LOSS_BCE || data->y_dtype != CHARL_I32 || data->classes <= 2,
                      CHARL_ERR_CONFIG,
                      "train.loss = bce: labels are 0 or 1, those of %s go up to %lld; "
                      "cross_entropy is for classes",
                      data->path, (long long)data->classes - 1);
        *out = charl_shape_count(&data->y_shape);
    }
    return CHARL_OK;
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

charl_dtype charl__task_precision(const charl_config *config)
{
    static const charl_dtype types[] = {CHARL_F32, CHARL_BF16, CHARL_F16};

    return types[config->train.precision];
}

/* Data in the precision of the graph: tokens stay what they are. */
static charl_var *activations(charl_graph *g, charl_var *x)
{
    return x && charl__is_float(charl_var_get_type(x).dtype) ? charl__as_dtype(g, x, charl_graph_get_precision(g)) : x;
}

/* The loss of a value is f32; a half-size one would be rounded on the way. */
static charl_var *real_output(charl_graph *g, charl_var *out)
{
    return charl__as_dtype(g, out, CHARL_F32);
}

static charl_var *loss_rows(const charl_config *config, charl_graph *g, charl_var *out, charl_var *y)
{
    switch (config->train.loss) {
    case CHARL_LOSS_MSE:
        return charl_mse(g, real_output(g, out), real_target(g, out, y));
    case CHARL_LOSS_BCE:
        return charl_bce_with_logits(g, real_output(g, out), real_target(g, out, y));
    case CHARL_LOSS_HUBER:
        return charl_huber(g, real_output(g, out), real_target(g, out, y), 1.0F);
    default:
        return per_sample(
            g, charl_cross_entropy(g, out, y, NULL,
                                   charl_graph_is_training(g) ? (float)config->train.label_smoothing : 0.0F));
    }
}

/* A sum over the rows of the batch as a PARTIAL [1]. */
static charl_var *total(charl_graph *g, charl_var *rows)
{
    return charl_reshape(g, charl_sum(g, rows, 0, false), (charl_shape){1, {1}});
}

float charl__task_loss_seed(const charl_config *config)
{
    return (float)(1.0 / (double)config->train.batch_size);
}

/* The model must end in what the loss reads; say so in terms of the model. */
static void check_output(const charl_config *config, charl_graph *g, const charl_var *out, const charl_var *y,
                         int64_t classes)
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
    if (entropy ? !charl_shape_equal(&front, &want) : charl_shape_count(&have) != charl_shape_count(&want)) {
        charl__graph_fail(g, CHARL_ERR_SHAPE, "the model's output %s does not fit the loss: it needs %s",
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

static charl_var *build_metrics(const charl_config *config, charl_graph *g, charl_var *out, charl_var *y,
                                charl_var *rows, charl_var *weight)
{
    charl_var *part[CHARL__METRIC_COUNT];
    int n = 0;

    part[n++] = total(g, charl_mul(g, rows, weight));
    part[n++] = total(g, weight);
    if (config->train.loss == CHARL_LOSS_BCE) {
        y = real_target(g, out, y);
        part[n++] = total(g, charl_mul(g, charl_binary_accuracy(g, out, y), weight));
    } else if (config->train.loss != CHARL_LOSS_CROSS_ENTROPY) {
        part[n++] = total(g, charl_mul(g, charl_l1(g, out, real_target(g, out, y)), weight));
    } else {
        part[n++] = total(g, charl_mul(g, per_sample(g, charl_top_k_correct(g, out, y, 1)), weight));
        if (config->eval.metrics & CHARL_METRIC_TOP5) {
            part[n++] = total(g, charl_mul(g, per_sample(g, charl_top_k_correct(g, out, y, 5)), weight));
        }
    }
    return charl_concat(g, part, n, 0);
}

/* With mixup the loss is that of a mixture: of two losses of classes, or to mixed targets. */
static charl_var *mixed_loss_rows(const charl_config *config, charl_graph *g, charl_var *out,
                                  const charl__device_loader_vars *in)
{
    if (!in->share) {
        return loss_rows(config, g, out, in->y);
    }
    if (config->train.loss == CHARL_LOSS_CROSS_ENTROPY) {
        return charl__mixup(g, loss_rows(config, g, out, in->y), loss_rows(config, g, out, in->partner_y), in->share);
    }
    return loss_rows(config, g, out,
                     charl__mixup(g, real_target(g, out, in->y), real_target(g, out, in->partner_y), in->share));
}

/* The gradient of the rows' losses: 1 / batch each, which no step changes. */
static charl_var *constant_seed(const charl_config *config, charl_graph *g, charl_steps *steps, const charl_var *rows)
{
    charl_status st = CHARL_OK;
    const charl_type type = charl_var_get_type(rows);
    charl_tensor *t = NULL;
    charl_var *seed = NULL;

    CHARL_TRY_CLEANUP(
        charl_tensor_create(charl_tensor_get_device(charl__steps_tensor(steps)), CHARL_F32, &type.shape, &t));
    CHARL_TRY_CLEANUP(charl__tensor_fill(t, (double)charl__task_loss_seed(config)));
    seed = charl_input(g, "seed", CHARL_F32, type.shape, type.batch);
    charl__graph_bind_input(g, seed, t);
cleanup:
    charl_tensor_release(t);
    return st == CHARL_OK ? seed : charl__graph_fail(g, st, "%s", charl_error_message());
}

/* ... times the loss scale, which steps change. */
static charl_var *scaled_seed(charl_graph *g, charl_steps *steps)
{
    charl_var *seed = charl_input(g, "seed", CHARL_F32, (charl_shape){0, {0}}, CHARL_REPLICATED);
    charl_var *scale = charl_input(g, "scale", CHARL_F32, (charl_shape){0, {0}}, CHARL_REPLICATED);

    charl__graph_bind_input(g, seed, charl__steps_loss_seed(steps));
    charl__graph_bind_input(g, scale, charl__steps_scale(steps));
    return charl_mul(g, seed, scale);
}

void charl__task_build(const charl_config *config, const charl_model *model, charl_params *params,
                       charl__device_loader *feed, charl_steps *steps, charl__task *task)
{
    charl_graph *g = task->g;
    charl_var *out, *rows, *loss;
    charl__device_loader_vars in;

    charl_graph_set_steps(g, steps);
    charl_graph_set_precision(g, charl__task_precision(config));
    charl__device_loader_attach(feed, g, task->first, task->rows, &in);
    out = charl_model_build(model, g, params, activations(g, in.x));
    check_output(config, g, out, in.y, task->classes);
    charl_graph_scope_begin(g, "loss");
    rows = mixed_loss_rows(config, g, out, &in);
    if (charl_graph_is_training(g)) {
        loss = charl_sum(g, rows, 0, false);
        task->metrics = charl_reshape(g, loss, (charl_shape){1, {1}});
        if (charl__steps_scale(steps)) {
            charl_graph_backward(g, loss, scaled_seed(g, steps));
        } else if (rows) {
            charl__graph_backward_from(g, rows, constant_seed(config, g, steps, rows));
        }
    } else {
        task->metrics = build_metrics(config, g, out, in.y, rows, in.weight);
        task->output = charl__as_dtype(g, out, CHARL_F32);
        charl_graph_keep(g, task->output);
    }
    charl_graph_scope_end(g);
    charl_graph_keep(g, task->metrics);
}
