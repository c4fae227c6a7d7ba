/* Prediction: the outputs of the evaluation graph, row by row in the order of the split.
 *
 * The last batch is filled up with rows from the beginning, which are dropped. The data may be
 * others than those of the training, so the checkpoint says how many classes the model has: labels
 * of new data may not reach the last class.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "train/trainer.h"

/* What the checkpoint says of the training. */
typedef struct origin {
    int64_t step, classes; /* classes 0: the configuration says it itself */
    char content_id[65];
} origin;

/* Host side of one batch. */
typedef struct batch {
    int64_t rows, n_outputs, n_targets;
    int64_t *index;
    float *outputs;
    void *targets;
} batch;

/* The outputs of a model whose head follows from the data: extent of its last weight. */
static charl_status find_classes(const charl_config *config, const charl_checkpoint_reader *r,
                                 int64_t *out)
{
    charl_status st = CHARL_OK;
    const charl_checkpoint_tensor *weight;
    charl_model *m = NULL;
    char name[256];

    *out = 0;
    if (config->train.loss != CHARL_LOSS_CROSS_ENTROPY ||
        config->model.type == CHARL_MODEL_SEQUENTIAL) {
        goto cleanup;
    }
    CHARL_TRY(charl__task_model(config, 1, &m));
    snprintf(name, sizeof name, "%s.weight",
             charl_model_get_layer_name(m, charl_model_get_count(m) - 1));
    weight = charl_checkpoint_find(r, "model", name);
    if (weight && weight->shape.ndim == 2) { /* else loading says what does not fit */
        *out = weight->shape.dim[0];
    }
cleanup:
    charl_model_destroy(m);
    return st;
}

charl_status charl__checkpoint_classes(const charl_config *config, const char *path, int64_t *out)
{
    charl_status st = CHARL_OK;
    charl_checkpoint_reader *r = NULL;

    CHARL_TRY(charl_checkpoint_open(path, &r));
    CHARL_TRY(find_classes(config, r, out));
cleanup:
    charl_checkpoint_close(r);
    return st;
}

static charl_status read_origin(const charl_config *config, const char *path, origin *out)
{
    charl_status st = CHARL_OK;
    charl_checkpoint_reader *r = NULL;

    CHARL_TRY(charl_checkpoint_open(path, &r));
    out->step = charl_checkpoint_get_state(r)->step;
    snprintf(out->content_id, sizeof out->content_id, "%s",
             charl_checkpoint_get_state(r)->data_content_id);
    CHARL_TRY(find_classes(config, r, &out->classes));
cleanup:
    charl_checkpoint_close(r);
    return st;
}

static charl_status warn_of_other_data(const charl__trainer *t, const origin *from)
{
    charl_status st = CHARL_OK;
    charl__text text = {0};
    const bool named = t->config->train.loss == CHARL_LOSS_CROSS_ENTROPY && t->data.class_names[0];

    if (strcmp(from->content_id, t->data.content_id) == 0) {
        goto cleanup;
    }
    CHARL_TRY(charl__text_printf(&text, "%s is not the data the model was trained on%s",
                                 t->data.path,
                                 named ? "; class names are those of this file" : ""));
    if (t->config->data.normalize.kind == CHARL_NORMALIZE_AUTO) {
        CHARL_TRY(charl__text_printf(
            &text, "; %s: give data.normalize the mean and std of the training data",
            t->data.n_stats > 0 ? "it is normalised by its own mean and std"
                                : "it stores no mean and std to normalise by"));
    }
    charl__trainer_warn(t, charl__text_string(&text));
cleanup:
    charl__text_fini(&text);
    return st;
}

static void batch_fini(batch *b)
{
    charl_free(b->index);
    charl_free(b->outputs);
    charl_free(b->targets);
}

static charl_status batch_init(const charl__trainer *t, batch *b)
{
    charl_status st = CHARL_OK;
    const charl_shape out = charl_var_get_type(t->eval.output).shape;

    b->rows = t->rows;
    b->n_outputs = charl_shape_count(&out) / t->rows;
    b->n_targets = charl_shape_count(&t->data.y_shape);
    CHARL_TRY(charl_alloc_array(t->rows, sizeof *b->index, &b->index));
    CHARL_TRY(charl_alloc_array(charl_shape_count(&out), sizeof *b->outputs, &b->outputs));
    CHARL_TRY(
        charl_alloc_array(t->rows * b->n_targets, charl_dtype_size(t->data.y_dtype), &b->targets));
cleanup:
    return st;
}

/* Rows [first, first + count) of the split. */
static charl_status run_batch(charl__trainer *t, int64_t first, int64_t count, batch *b)
{
    charl_status st = CHARL_OK;

    for (int64_t i = 0; i < count; i++) {
        b->index[i] = first + i;
    }
    CHARL_TRY(charl__trainer_run_eval(t));
    CHARL_TRY(charl_dataset_read(t->ds, t->eval_split, b->index, count, NULL, b->targets));
    CHARL_TRY(charl_tensor_read(charl_var_get_tensor(t->eval.output), b->outputs,
                                (size_t)(b->rows * b->n_outputs) * sizeof *b->outputs));
    for (int64_t i = 0; i < count * b->n_outputs; i++) {
        CHARL_REQUIRE(isfinite(b->outputs[i]), CHARL_ERR_NONFINITE,
                      "%s, %s split: the model's output for row %lld is not finite", t->data.path,
                      charl_split_name(t->eval_split), (long long)(first + i / b->n_outputs));
    }
cleanup:
    return st;
}

static charl_status predict_all(charl__trainer *t, const origin *from, charl_predicted predicted,
                                void *ctx)
{
    charl_status st = CHARL_OK;
    const bool classes = t->data.y_dtype == CHARL_I32;
    const int64_t n = charl__feed_rows(t->eval_feed);
    batch b = {0};

    CHARL_TRY(batch_init(t, &b));
    CHARL_TRY(charl__feed_seek(t->eval_feed, 0));
    for (int64_t first = 0; first < n; first += b.rows) {
        const int64_t count = n - first < b.rows ? n - first : b.rows;

        charl_comm_mark(t->comm, from->step, "prediction");
        CHARL_TRY(run_batch(t, first, count, &b));
        for (int64_t i = 0; i < count; i++) {
            const charl_prediction p = {
                .row = first + i,
                .step = from->step,
                .data = &t->data,
                .n_outputs = b.n_outputs,
                .n_targets = b.n_targets,
                .outputs = b.outputs + i * b.n_outputs,
                .labels = classes ? (const int32_t *)b.targets + i * b.n_targets : NULL,
                .targets = classes ? NULL : (const float *)b.targets + i * b.n_targets};

            CHARL_TRY(predicted(ctx, &p));
        }
    }
cleanup:
    batch_fini(&b);
    return st;
}

charl_status charl_train_predict(const charl_config *config, const charl_train_options *options,
                                 const char *checkpoint, const char *split,
                                 charl_predicted predicted, void *ctx)
{
    charl_status st = CHARL_OK;
    charl__trainer t = {.infers = true};
    const int which = charl__split_of(split);
    origin from = {0};

    CHARL_REQUIRE(charl_comm_size(options->comm) == 1, CHARL_ERR_CONFIG,
                  "prediction runs on one rank, not on %d; HINT start it without mpirun",
                  charl_comm_size(options->comm));
    CHARL_REQUIRE(which >= 0, CHARL_ERR_CONFIG,
                  "there is no split %s; there are train, val and test", split);
    CHARL_TRY(read_origin(config, checkpoint, &from));
    t.classes = from.classes;
    CHARL_TRY(charl__trainer_init(&t, config, options, (charl_split)which));
    CHARL_REQUIRE(t.data.kind != CHARL_DATASET_TOKENS, CHARL_ERR_CONFIG,
                  "%s holds tokens, and predictions are of samples as a whole; HINT charl eval "
                  "measures them",
                  t.data.path);
    CHARL_TRY(charl__trainer_report(&t));
    CHARL_TRY(charl__trainer_load(&t, checkpoint, false));
    CHARL_TRY(warn_of_other_data(&t, &from));
    CHARL_TRY(predict_all(&t, &from, predicted, ctx));
cleanup:
    charl__trainer_fini(&t);
    return st;
}
