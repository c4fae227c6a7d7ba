/* Graphs for training and evaluation. */
#include "task/task.h"

#include <stdio.h>
#include <string.h>

#include "autograd/op.h"
#include "autograd/ops_data.h"
#include "base/text/text.h"
#include "charl/ops.h"
#include "config/config_rows.h"
#include "config/outputs.h"
#include "io/dataset/fields.h"
#include "tensor/params.h"
#include "task/augment.h"

/* Models, losses and settings that accept tokens, or that accept only tokens. */
static charl_status check_tokens(const charl_config *config, const charl_dataset_info *data)
{
    const charl_model_type *model = charl__config_model(config);
    char names[128];

    if (data->kind != CHARL_DATASET_TOKENS) {
        CHARL_REQUIRE(
            model->input != CHARL_MODEL_READS_TOKENS, CHARL_ERR_CONFIG,
            "model.type = %s reads tokens, but %s contains %s; HINT import text with `charl data import text`",
            model->row.name, data->path, charl_dataset_kind_name(data->kind));
        CHARL_REQUIRE(model->input != CHARL_MODEL_READS_NUMBERS || data->kind != CHARL_DATASET_SEQUENCES,
                      CHARL_ERR_CONFIG,
                      "model.type = %s reads numbers, but %s contains tokens; use sequential with an embedding as the "
                      "first layer",
                      model->row.name, data->path);
        CHARL_REQUIRE(config->data.masked <= 0, CHARL_ERR_CONFIG,
                      "data.masked applies to tokens only, but %s contains %s", data->path,
                      charl_dataset_kind_name(data->kind));
        CHARL_REQUIRE(config->data.window == 0, CHARL_ERR_CONFIG,
                      "data.window applies to tokens only, but %s contains %s", data->path,
                      charl_dataset_kind_name(data->kind));
        return CHARL_OK;
    }
    CHARL_REQUIRE(model->input != CHARL_MODEL_READS_NUMBERS, CHARL_ERR_CONFIG,
                  "model.type = %s reads numbers, but %s contains tokens; use gpt, or sequential with an "
                  "embedding as the first layer",
                  model->row.name, data->path);
    CHARL_REQUIRE(charl__config_loss(config)->targets & CHARL_TARGET_TOKENS, CHARL_ERR_CONFIG,
                  "train.loss = %s does not learn from tokens; use %s", config->train.loss,
                  charl__loss_names(CHARL_TARGET_TOKENS, names, sizeof names));
    CHARL_REQUIRE(config->data.normalize.kind != CHARL__NORMALIZE_GIVEN, CHARL_ERR_CONFIG,
                  "data.normalize: %s contains tokens, which are not normalised", data->path);
    CHARL_REQUIRE(config->data.masked <= 0 || !data->weighted, CHARL_ERR_CONFIG,
                  "data.masked chooses the tokens to predict, but the weights of the tokens in %s do so already",
                  data->path);
    return CHARL_OK;
}

static charl_status check_image_size(const charl_config *config, const charl_dataset_info *data)
{
    const charl_shape *x = &data->x_shape;
    const int64_t size = config->data.image_size;
    char text[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(size == 0 || (x->ndim == 3 && size <= x->dim[1] && size <= x->dim[2]), CHARL_ERR_CONFIG,
                  "data.image_size = %lld: the samples of %s are %s; they must be images of at least that size",
                  (long long)size, data->path, charl_shape_format(x, text));
    return CHARL_OK;
}

charl_shape charl__task_input_shape(const charl_config *config, const charl_shape *x)
{
    charl_shape s = *x;

    if (config->data.image_size > 0) {
        s.dim[1] = s.dim[2] = config->data.image_size;
    }
    return s;
}

/* Models with a key image_size take images of that size only. */
static charl_status check_image_size_of_model(const charl_config *config, const charl_dataset_info *data)
{
    const charl_shape x = charl__task_input_shape(config, &data->x_shape);
    int64_t size;

    if (charl_config_get_int(config, "model.image_size", &size) != CHARL_OK) {
        charl_error_clear();
        return CHARL_OK;
    }
    CHARL_REQUIRE(
        x.ndim != 3 || (x.dim[1] == size && x.dim[2] == size), CHARL_ERR_CONFIG,
        "model.image_size = %lld, but the images of %s are %lld x %lld; HINT model.image_size = their size, or "
        "data.image_size = %lld, which takes the middle of larger images",
        (long long)size, data->path, (long long)x.dim[1], (long long)x.dim[2], (long long)size);
    return CHARL_OK;
}

/* A loss of numbers would treat -1 as a number; data that always count must contain a target that does. */
static charl_status check_ignored(const charl__loss *loss, charl_target_kind targets, const charl_dataset_info *data)
{
    const char *name = loss->row.name;
    const int64_t labels = charl_shape_count(&data->y_shape); /* of a sample */

    for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
        CHARL_REQUIRE(data->ignored[s] == 0 || !(loss->targets & CHARL_TARGET_NUMBERS), CHARL_ERR_CONFIG,
                      "train.loss = %s learns numbers, but the labels of %s are classes, of which -1 and -100 do not "
                      "count; HINT store the targets as floats",
                      name, data->path);
        CHARL_REQUIRE(data->ignored[s] == 0 || labels == 1 || targets == CHARL_TARGET_MAPS, CHARL_ERR_CONFIG,
                      "train.loss = %s learns masks of 0 and 1, but %s has labels of -1 or -100, pixels that do not "
                      "count; HINT train.loss = cross_entropy, with a channel for each class",
                      name, data->path);
        CHARL_REQUIRE(data->ignored[s] == 0 || data->ignored[s] < data->rows[s] * labels, CHARL_ERR_DATA,
                      "%s: no label of the split %s counts: all are -1 or -100", data->path,
                      charl_split_name((charl_split)s));
    }
    return CHARL_OK;
}

charl_status charl__task_outputs(const charl_config *config, const charl_dataset_info *data, int64_t *out)
{
    const charl__loss *loss = charl__config_loss(config);
    const charl_target_kind targets = charl__task_targets(loss, data);
    charl__outputs named;
    char names[128];

    CHARL_TRY(check_tokens(config, data));
    CHARL_TRY(check_image_size(config, data));
    CHARL_TRY(check_image_size_of_model(config, data));
    CHARL_TRY(charl__config_outputs(config, data->fields, &named));
    if (named.n >
        0) { /* of a whole model, which has one; the layers of a sequential one say how many values they give */
        *out = named.at[0].classes;
        return CHARL_OK;
    }
    CHARL_REQUIRE(
        !(loss->targets & CHARL_TARGET_NOTHING), CHARL_ERR_CONFIG,
        "train.loss = %s compares two embeddings, which need names: data.x = NAME:/ARRAY, data.y = NAME:[N] and "
        "[output NAME], as in docs/towers.md",
        loss->row.name);
    CHARL_TRY(check_ignored(loss, targets, data));
    CHARL_REQUIRE(
        !(loss->targets & CHARL_TARGET_PROBABILITIES) ||
            (data->y_dtype != CHARL_I32 && charl_shape_count(&data->y_shape) > 1),
        CHARL_ERR_CONFIG,
        "train.loss = %s learns the probabilities of classes: it needs one float per class and sample, %s has %s",
        loss->row.name, data->path, data->y_dtype == CHARL_I32 ? "integers" : "one");
    if (targets == CHARL_TARGET_TOKENS || targets == CHARL_TARGET_MAPS) {
        *out = data->classes;
    } else if (targets == CHARL_TARGET_CLASS) {
        CHARL_REQUIRE(data->y_dtype == CHARL_I32 && data->y_shape.ndim == 0, CHARL_ERR_CONFIG,
                      "train.loss = %s needs one class label per sample, %s has %s targets. For "
                      "these use %s",
                      loss->row.name, data->path, data->y_dtype == CHARL_I32 ? "several integer" : "real",
                      charl__loss_names(CHARL_TARGET_NUMBERS | CHARL_TARGET_FLAGS, names, sizeof names));
        *out = data->classes;
    } else {
        CHARL_REQUIRE(targets != CHARL_TARGET_FLAGS || data->y_dtype != CHARL_I32 || data->classes <= 2,
                      CHARL_ERR_CONFIG,
                      "train.loss = %s: labels are 0 or 1, those of %s go up to %lld; %s is for "
                      "classes",
                      loss->row.name, data->path, (long long)data->classes - 1,
                      charl__loss_names(CHARL_TARGET_CLASS, names, sizeof names));
        *out = charl_shape_count(&data->y_shape) * charl__loss_values(loss, config->train.loss_settings);
    }
    return CHARL_OK;
}

/* Targets in the type of the output and in its shape, or if there are several values of each in a row. */
static charl_var *real_target(charl_graph *g, charl_var *out, int64_t values, charl_var *y)
{
    charl_shape shape = out ? charl_var_get_type(out).shape : (charl_shape){0};

    if (y && charl_var_get_type(y).dtype != CHARL_F32) {
        y = charl_cast(g, y, CHARL_F32);
    }
    if (values > 1 && out) {
        shape = (charl_shape){2, {shape.dim[0], charl_shape_count(&shape) / shape.dim[0] / values}};
    }
    return out ? charl_reshape(g, y, shape) : NULL;
}

/* One value per sample: the mean over its tokens or pixels or, with weights of targets, the weighted sum. */
static charl_var *per_sample(charl_graph *g, charl_var *v, charl_var *count)
{
    if (!v || charl_var_get_type(v).shape.ndim == 1) {
        return count ? charl_mul(g, v, count) : v;
    }
    return count ? charl_sum(g, charl_mul(g, v, count), 1, false) : charl_mean(g, v, 1, false);
}

charl_dtype charl__task_precision(const charl_config *config)
{
    static const charl_dtype types[] = {[CHARL__PRECISION_F32] = CHARL_F32,
                                        [CHARL__PRECISION_BF16] = CHARL_BF16,
                                        [CHARL__PRECISION_F16] = CHARL_F16,
                                        [CHARL__PRECISION_FP8] = CHARL_BF16};

    return types[config->train.precision];
}

/* Data in the precision of the graph, except tokens. */
static charl_var *activations(charl_graph *g, charl_var *x)
{
    return x && charl__is_float(charl_var_get_type(x).dtype) ? charl__as_dtype(g, x, charl_graph_get_precision(g)) : x;
}

/* The loss of a value is f32; a half-precision one would be rounded before. */
static charl_var *real_output(charl_graph *g, charl_var *out)
{
    return charl__as_dtype(g, out, CHARL_F32);
}

/* Model's output and targets as inputs of the loss and the metrics. */
typedef struct learned {
    charl_var *outputs, *targets, *partner; /* partner: of the sample that is mixed in, or NULL */
    charl_var *count;                       /* weights of the targets, or NULL */
    charl_var *counts_rows;        /* of the loss of each row if it is one number for all its pixels, else NULL */
    charl_var *share;              /* of each target in the loss of its row, with sum 1; NULL: all equal */
    int64_t values, point;         /* charl__loss_values, charl__loss_point of the only output */
    const charl__outputs *rows_of; /* outputs and targets are rows of these; NULL: of the only output */
} learned;

/* The weight of each target in its row. */
static charl_var *shares_of(const learned *l)
{
    return l->share ? l->share : l->count;
}

/* [B, classes, height, width], or of a volume, as [B, pixels, classes]. */
static charl_var *classes_last(charl_graph *g, charl_var *out)
{
    static const int perm[] = {0, 2, 1};
    const charl_shape s = out ? charl_var_get_type(out).shape : (charl_shape){3, {1, 1, 1}};

    out = charl_reshape(g, out, (charl_shape){3, {s.dim[0], s.dim[1], charl_shape_count(&s) / (s.dim[0] * s.dim[1])}});
    return charl_transpose(g, out, perm);
}

static learned learned_from(const charl_config *config, charl_target_kind targets, charl_graph *g, charl_var *out,
                            const charl__device_loader_vars *in, const charl__outputs *outputs)
{
    const charl__loss *loss = charl__config_loss(config);
    const int64_t values = charl__loss_values(loss, config->train.loss_settings);
    learned l;

    if (outputs->n > 0) {
        return (learned){.outputs = out, .targets = in->scaled_y, .count = in->count, .rows_of = outputs};
    }
    if (targets == CHARL_TARGET_MAPS) {
        out = classes_last(g, loss->targets & CHARL_TARGET_CLASS ? out : real_output(g, out));
        l = (learned){.outputs = out,
                      .targets = charl_flatten(g, in->y),
                      .partner = in->partner_y ? charl_flatten(g, in->partner_y) : NULL,
                      .count = in->count ? charl_flatten(g, in->count) : NULL};
        l.counts_rows = l.count && loss->build_counted ? charl_max(g, l.count, 1, false) : NULL;
        return l;
    }
    if (loss->targets & CHARL_TARGET_CLASS) {
        return (learned){.outputs = out, .targets = in->y, .partner = in->partner_y, .count = in->count};
    }
    out = real_output(g, out);
    return (learned){.outputs = out,
                     .targets = real_target(g, out, values, in->scaled_y),
                     .partner = in->share ? real_target(g, out, values, in->partner_y) : NULL,
                     .count = in->count,
                     .values = values,
                     .point = charl__loss_point(loss, config->train.loss_settings)};
}

/* 1 for each pixel that counts, 0 for the others: weights divided by the largest of their row. */
static charl_var *counted(charl_graph *g, const learned *l)
{
    const charl_shape s = l->counts_rows ? charl_var_get_type(l->counts_rows).shape : (charl_shape){1, {1}};
    charl_var *largest = charl_reshape(g, l->counts_rows, (charl_shape){2, {s.dim[0], 1}});

    return charl_div(g, l->count, charl_scale(g, largest, 1.0F, 1e-30F)); /* 0 of 0: 0 */
}

static charl_var *loss_rows(const charl_config *config, charl_graph *g, const learned *l, charl_var *targets)
{
    const charl__loss *loss = charl__config_loss(config);
    const void *settings = l->rows_of ? (const void *)l->rows_of : config->train.loss_settings;

    if (l->counts_rows) {
        return charl_mul(g, loss->build_counted(g, settings, l->outputs, targets, counted(g, l)), l->counts_rows);
    }
    return per_sample(g, loss->build(g, settings, l->outputs, targets), shares_of(l));
}

/* A sum over the rows of the batch as a PARTIAL [1]. */
static charl_var *total(charl_graph *g, charl_var *rows)
{
    return charl_reshape(g, charl_sum(g, rows, 0, false), (charl_shape){1, {1}});
}

float charl__task_loss_seed(double weight)
{
    return weight > 0 ? (float)(1.0 / weight) : 0.0F;
}

/* The model's output must be the loss's input; reports otherwise in terms of the model. */
static void check_output(charl_target_kind targets, charl_graph *g, const charl_var *out, const charl_var *y,
                         int64_t classes, int64_t per_target)
{
    const charl_shape have = out ? charl_var_get_type(out).shape : (charl_shape){0};
    const charl_shape want = y ? charl_var_get_type(y).shape : (charl_shape){0};
    const int64_t last = have.ndim ? have.dim[have.ndim - 1] : 0;
    const bool has_classes = targets == CHARL_TARGET_CLASS || targets == CHARL_TARGET_TOKENS;
    charl_shape front = have;
    char text[CHARL_SHAPE_TEXT], target[CHARL_SHAPE_TEXT];

    if (!out || !y) {
        return;
    }
    if (targets == CHARL_TARGET_MAPS) {
        if (have.ndim < 4 || have.dim[1] < classes ||
            charl_shape_count(&have) != have.dim[1] * charl_shape_count(&want)) {
            charl__graph_fail(
                g, CHARL_ERR_SHAPE,
                "the model's output %s does not fit the targets %s, which have a class for each pixel: the loss "
                "needs [batch, %lld, height, width] of as many pixels; end the model in a conv2d with "
                "channels = %lld%s",
                charl_shape_format(&have, text), charl_shape_format(&want, target), (long long)classes,
                (long long)classes, classes == 256 ? "; or, if these are masks of 0 and 255, make them 0 and 1" : "");
        }
        return;
    }
    front.ndim = have.ndim > 0 ? have.ndim - 1 : 0;
    if (has_classes ? !charl_shape_equal(&front, &want)
                    : charl_shape_count(&have) != charl_shape_count(&want) * per_target) {
        char values[CHARL_SHAPE_TEXT + 128], quantiles[40] = "";

        if (per_target > 1) {
            snprintf(quantiles, sizeof quantiles, ", %lld of each", (long long)per_target);
        }
        snprintf(values, sizeof values, "%s per sample as the targets %s have%s",
                 per_target > 1 ? "the quantiles of as many values" : "as many values",
                 charl_shape_format(&want, target), quantiles);
        charl__graph_fail(g, CHARL_ERR_SHAPE, "the model's output %s does not fit the loss: it needs %s",
                          charl_shape_format(&have, text),
                          !has_classes     ? values
                          : want.ndim == 1 ? "[batch, classes]; end it in a linear layer with out = classes"
                                           : "[batch, window, vocabulary]; end it in a linear layer with out = "
                                             "vocabulary, and do not flatten");
    } else if (has_classes && last < classes) {
        charl__graph_fail(g, CHARL_ERR_SHAPE,
                          "the model has %lld outputs, but the data have %lld classes; end it in a "
                          "linear layer with out = %lld",
                          (long long)last, (long long)classes, (long long)classes);
    }
}

/* Total weight of the targets of each row. */
static charl_var *weights_of_rows(charl_graph *g, charl_var *count)
{
    return charl_var_get_type(count).shape.ndim > 1 ? charl_sum(g, count, 1, false) : count;
}

/* The weights by which the host decides which targets of a row count: 0 for all past the end of the split. */
static charl_var *target_weights(charl_graph *g, charl_var *count, charl_var *weight)
{
    charl_shape column = {2, {0, 1}};

    if (!count || !weight) {
        return weight;
    }
    if (charl_var_get_type(count).shape.ndim > 1) {
        column.dim[0] = charl_var_get_type(weight).shape.dim[0];
        weight = charl_reshape(g, weight, column);
    }
    return charl_mul(g, count, weight);
}

/* Of several outputs: the weight of each, then the metrics that are means. Returns the number of sums. */
static int build_output_sums(const charl__evaluation *e, charl_graph *g, const learned *l, charl_var *weight,
                             charl_var **part)
{
    charl__output_vars vars[CHARL_MODEL_MAX_OUTPUTS];
    charl_var *own = l->count ? charl_mul(g, l->count, weight) : weight;
    int n = 0;

    for (int k = 0; k < l->rows_of->n; k++) {
        vars[k] = charl__output_vars_of(g, &l->rows_of->at[k], l->outputs, l->targets);
        part[n++] = total(g, vars[k].any ? charl_mul(g, vars[k].any, own) : own);
    }
    for (int i = 0; i < e->n; i++) {
        const charl__metric *m = e->item[i].type;
        const charl__output_vars *v = &vars[e->item[i].output];
        const charl__output *o = &l->rows_of->at[e->item[i].output];

        if (charl__evaluation_builds(&e->item[i])) {
            charl_var *rows = m->build ? charl__output_rows(g, v, m->build(g, o->kind, v->predicted, v->targets))
                                       : charl__output_loss(g, o, v);

            part[n++] = total(g, charl_mul(g, rows, own));
        }
    }
    return n;
}

/* What metrics compare with the targets: of several values of each the prediction. */
static charl_var *predicted(charl_graph *g, const learned *l)
{
    charl_var *out = l->outputs;

    if (l->values > 1 && out) {
        const int64_t n = charl_var_get_type(l->targets).shape.dim[1];

        out = charl_slice(g, charl_flatten(g, out), 1, l->point * n, n);
    }
    return out;
}

/* Weighted sums over the rows: of the loss, of 1, of 1 by the loss's weights, of the metrics that are means. */
static charl_var *build_sums(const charl__evaluation *e, charl_graph *g, const learned *l, charl_var *rows,
                             charl_var *weight)
{
    charl_var *part[CHARL__SUM_MAX];
    int n = 0;

    part[n++] = total(g, charl_mul(g, rows, weight));
    part[n++] = total(g, l->count ? charl_mul(g, weights_of_rows(g, l->count), weight) : weight);
    part[n] = l->counts_rows ? total(g, charl_mul(g, l->counts_rows, weight)) : part[n - 1];
    n++;
    if (l->rows_of) {
        n += build_output_sums(e, g, l, weight, part + n);
    }
    for (int i = 0; i < e->n && !l->rows_of; i++) {
        const charl__metric *m = e->item[i].type;

        if (m->build) {
            charl_var *v = m->build(g, e->data.targets, predicted(g, l), l->targets);

            part[n++] = total(g, charl_mul(g, per_sample(g, v, shares_of(l)), weight));
        }
    }
    while (n > 8) { /* a concat takes up to 8 */
        part[n - 8] = charl_concat(g, part + n - 8, 8, 0);
        n -= 7;
    }
    return charl_concat(g, part, n, 0);
}

/* With mixup the loss is a mixture: of two losses of classes, or with mixed targets. */
static charl_var *mixed_loss_rows(const charl_config *config, charl_graph *g, const learned *l, charl_var *share)
{
    if (!share) {
        return loss_rows(config, g, l, l->targets);
    }
    if (charl_var_get_type(l->targets).dtype == CHARL_I32) {
        return charl__mixup(g, loss_rows(config, g, l, l->targets), loss_rows(config, g, l, l->partner), share);
    }
    return loss_rows(config, g, l, charl__mixup(g, l->targets, l->partner, share));
}

/* The gradient of the rows' losses: 1 / batch each, the same in every step. */
static charl_var *constant_seed(const charl_config *config, charl_graph *g, charl_steps *steps, const charl_var *rows)
{
    charl_status st = CHARL_OK;
    const charl_type type = charl_var_get_type(rows);
    charl_tensor *t = NULL;
    charl_var *seed = NULL;

    CHARL_TRY_CLEANUP(
        charl_tensor_create(charl_tensor_get_device(charl__steps_tensor(steps)), CHARL_F32, &type.shape, &t));
    CHARL_TRY_CLEANUP(charl_tensor_fill(t, (double)charl__task_loss_seed((double)config->train.batch_size)));
    seed = charl_input(g, "seed", CHARL_F32, type.shape, type.batch);
    charl__graph_bind_input(g, seed, t);
cleanup:
    charl_tensor_release(t);
    return st == CHARL_OK ? seed : charl__graph_fail(g, st, "%s", charl_error_message());
}

/* The gradient of the sum of the losses if it changes with the step: by the weights of its targets, or by the loss scale. */
static charl_var *step_seed(charl_graph *g, charl_steps *steps)
{
    charl_var *seed = charl_input(g, "seed", CHARL_F32, (charl_shape){0, {0}}, CHARL_REPLICATED), *scale;

    charl__graph_bind_input(g, seed, charl__steps_loss_seed(steps));
    if (!charl__steps_scale(steps)) {
        return seed;
    }
    scale = charl_input(g, "scale", CHARL_F32, (charl_shape){0, {0}}, CHARL_REPLICATED);
    charl__graph_bind_input(g, scale, charl__steps_scale(steps));
    return charl_mul(g, seed, scale);
}

charl_status charl__task_freeze(const charl_config *config, charl_params *params)
{
    CHARL_SCOPED(charl__text_fini) charl__text patterns = {0};

    CHARL_TRY(charl__text_printf(&patterns, "%s%s",
                                 config->lora.rank > 0 ? "*, !*.lora_A.weight, !*.lora_B.weight, " : "",
                                 config->train.freeze));
    CHARL_TRY(charl_params_freeze(params, charl__text_string(&patterns), NULL));
    return CHARL_OK;
}

/* Call it before the first graph is compiled; the others share its parameters. Without training only packed parameters need
 * be frozen. */
static void freeze(const charl_config *config, charl_graph *g, charl_params *params)
{
    charl_status st;
    const bool packs = config->lora.rank > 0 && config->lora.base != CHARL_PACKING_F32;

    if ((!charl_graph_is_training(g) && !packs) || charl__params_is_laid_out(params)) {
        return;
    }
    st = charl__task_freeze(config, params);
    if (st == CHARL_OK && packs) {
        st = charl_params_pack(params, config->lora.base);
    }
    if (st != CHARL_OK) {
        charl__graph_fail(g, st == CHARL_ERR_INVALID ? CHARL_ERR_CONFIG : st, "[train] freeze: %s",
                          charl_error_message());
    }
}

charl_var *charl__task_build_model(const charl_config *config, const charl_model *model, charl_params *params,
                                   charl_graph *g, charl_var *x)
{
    /* a row of several inputs keeps its tokens until the model takes it apart */
    const bool is_row = charl__config_has_outputs(config);
    charl_var *out = charl_model_build(model, g, params, is_row ? x : activations(g, x));

    if (out) {
        freeze(config, g, params);
    }
    return out;
}

charl_var *charl__task_unscale(charl_graph *g, charl_var *out, charl_var *mean, charl_var *std)
{
    const charl_shape shape = out ? charl_var_get_type(out).shape : (charl_shape){0};
    const int64_t targets = mean ? charl_var_get_type(mean).shape.dim[0] : 1;
    const int64_t rows = shape.ndim > 0 ? shape.dim[0] : 1;
    const charl_shape each = {3, {rows, rows > 0 ? charl_shape_count(&shape) / rows / targets : 0, targets}};

    if (!out || !mean) {
        return out;
    }
    if (shape.dim[shape.ndim - 1] != targets) { /* quantiles of each, or an image of a target */
        return charl_reshape(g, charl__task_unscale(g, charl_reshape(g, out, each), mean, std), shape);
    }
    return charl_add(g, charl_mul(g, out, std), mean);
}

/* Output and targets in the units of the data, as the metrics take them. */
static learned in_units(charl_graph *g, const learned *l, const charl__device_loader_vars *in)
{
    learned units = *l;

    if (in->target_mean) {
        units.outputs = charl__task_unscale(g, l->outputs, in->target_mean, in->target_std);
        units.targets = real_target(g, units.outputs, l->values, in->y);
    }
    return units;
}

/* A masked language model: some tokens of each window are hidden and must be predicted. Returns their weight in the loss of the window. The
 * mask token is the one after the vocabulary. */
static charl_var *mask_tokens(const charl_config *config, charl_graph *g, int64_t vocab, charl__device_loader_vars *in)
{
    const int64_t window = in->x ? charl_var_get_type(in->x).shape.dim[1] : 0;
    const int64_t count = (int64_t)((double)window * config->data.masked + 0.5);
    const charl__mask_tokens_args args = {.count = count > 0 ? count : 1, .vocab = vocab, .mask = vocab};
    charl_var *masked;

    in->y = in->scaled_y = in->x;
    in->x = charl__mask_tokens(g, in->x, &args, &masked);
    charl__graph_set_vocab(g, vocab + 1);
    return masked ? charl_scale(g, masked, 1.0F / (float)args.count, 0.0F) : NULL;
}

/* Row v with the element of field f replaced. */
static charl_var *replaced(charl_graph *g, charl_var *v, const charl__field *f, charl_var *values)
{
    const charl_shape s = v ? charl_var_get_type(v).shape : (charl_shape){2, {1, f->count}};
    const int64_t end = f->first + f->count;
    charl_var *part[3];
    int n = 0;

    if (f->first > 0) {
        part[n++] = charl_slice(g, v, 1, 0, f->first);
    }
    part[n++] = values;
    if (end < s.dim[1]) {
        part[n++] = charl_slice(g, v, 1, end, s.dim[1] - end);
    }
    return n > 1 ? charl_concat(g, part, n, 1) : values;
}

/* The model reads an input with noise and the time, and learns what the noise was, or its velocity. */
static void diffuse(const charl_config *config, charl_graph *g, const char *fields, charl__device_loader_vars *in)
{
    const charl__diffusion form = charl__task_diffusion(config);
    charl__diffusion_fields at;
    charl_var *noisy, *target, *time;

    if (charl__task_diffusion_fields(config, fields, &at) != CHARL_OK) {
        charl__graph_fail(g, CHARL_ERR_CONFIG, "%s", charl_error_message());
        return;
    }
    charl_graph_scope_begin(g, "diffusion");
    noisy = charl__diffuse(g, charl_slice(g, in->x, 1, at.input.first, at.input.count), &form, &target, &time);
    in->x = replaced(g, replaced(g, in->x, &at.input, noisy), &at.time, time);
    in->y = in->scaled_y = replaced(g, in->y, &at.target, target);
    charl_graph_scope_end(g);
}

charl__diffusion charl__task_diffusion(const charl_config *config)
{
    return (charl__diffusion){.linear = config->diffusion.schedule == CHARL__NOISE_LINEAR,
                              .velocity = config->diffusion.predict == CHARL__DENOISE_VELOCITY};
}

charl_status charl__task_diffusion_fields(const charl_config *config, const char *fields, charl__diffusion_fields *out)
{
    charl__field f[2 * CHARL__MAX_FIELDS];
    const int n = charl__fields_parse(fields, f);

    *out = (charl__diffusion_fields){.input.count = 0};
    for (int i = 0; i < n; i++) {
        if (strcmp(f[i].name, f[i].target ? config->diffusion.target : config->diffusion.input) == 0) {
            *(f[i].target ? &out->target : &out->input) = f[i];
        } else if (!f[i].target && strcmp(f[i].name, config->diffusion.time) == 0) {
            out->time = f[i];
        }
    }
    CHARL_REQUIRE(out->input.count > 0 && out->time.count == 1, CHARL_ERR_CONFIG,
                  "[diffusion]: the data have no input %s with a time %s of one number", config->diffusion.input,
                  config->diffusion.time);
    CHARL_REQUIRE(out->input.count == out->target.count, CHARL_ERR_CONFIG,
                  "[diffusion]: the target %s has %lld numbers, and the input %s has %lld", config->diffusion.target,
                  (long long)out->target.count, config->diffusion.input, (long long)out->input.count);
    return CHARL_OK;
}

void charl__task_build(const charl_config *config, const charl_model *model, charl_params *params,
                       charl__device_loader *loader, charl_steps *steps, charl__task *task)
{
    charl_graph *g = task->g;
    charl_var *out, *rows, *loss, *share = NULL;
    charl__device_loader_vars in;
    charl__outputs outputs;
    learned l;

    if (charl__config_outputs(config, task->fields, &outputs) != CHARL_OK) {
        charl__graph_fail(g, CHARL_ERR_CONFIG, "%s", charl_error_message());
        return;
    }
    charl_graph_set_steps(g, steps);
    charl_graph_set_precision(g, charl__task_precision(config));
    charl__graph_set_linear(g, !charl_graph_is_training(g)                         ? CHARL__LINEAR_PLAIN
                               : config->train.precision == CHARL__PRECISION_FP8   ? CHARL__LINEAR_FP8
                               : config->train.products == CHARL__PRODUCTS_INTEGER ? CHARL__LINEAR_INTEGER
                                                                                   : CHARL__LINEAR_PLAIN);
    charl__device_loader_attach(loader, g, task->rows, &in);
    charl__graph_set_starts(g, in.starts);
    if (config->data.masked > 0) {
        share = mask_tokens(config, g, task->classes, &in);
    }
    if (config->diffusion.schedule != CHARL__NOISE_NONE) {
        diffuse(config, g, task->fields, &in);
    }
    out = charl__task_build_model(config, model, params, g, in.x);
    if (outputs.n == 0) {
        check_output(task->targets, g, out, in.y, task->classes,
                     charl__loss_values(charl__config_loss(config), config->train.loss_settings));
    }
    charl_graph_scope_begin(g, "loss");
    l = learned_from(config, task->targets, g, out, &in, &outputs);
    l.share = share;
    rows = mixed_loss_rows(config, g, &l, in.share);
    if (charl_graph_is_training(g)) {
        loss = charl_sum(g, rows, 0, false);
        task->sums = charl_reshape(g, loss, (charl_shape){1, {1}});
        if (task->keeps_losses) {
            task->losses = charl__as_dtype(g, rows, CHARL_F32);
            charl_graph_keep(g, task->losses);
        }
        if (charl__steps_scale(steps) || l.count) {
            charl_graph_backward(g, loss, step_seed(g, steps));
        } else if (rows) {
            charl_graph_backward(g, rows, constant_seed(config, g, steps, rows));
        }
    } else {
        const learned units = in_units(g, &l, &in);

        task->sums = build_sums(task->evaluation, g, &units, rows, in.weight);
        task->output = in.target_mean ? units.outputs : charl__as_dtype(g, out, CHARL_F32);
        if (task->evaluation->reads & CHARL__READS_OUTPUTS) {
            charl_graph_keep(g, task->output);
        }
        if (task->evaluation->reads) {
            task->target = in.y;
            task->weight = target_weights(g, shares_of(&l), in.weight);
            charl_graph_keep(g, in.y);
            charl_graph_keep(g, task->weight);
        }
    }
    charl_graph_scope_end(g);
    charl_graph_keep(g, task->sums);
}
