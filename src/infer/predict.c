/* Prediction: the outputs of the evaluation graph, row by row in the order of the split.
 *
 * The last batch is filled up with rows from the beginning, which are dropped. The data may be
 * others than those of the training, so the checkpoint says how many classes the model has: labels
 * of new data may not reach the last class.
 */
#include "charl/predict.h"

#include <math.h>

#include "base/alloc.h"
#include "train/trainer.h"

/* What the checkpoint says of the training. */
typedef struct origin {
    int64_t step;
} origin;

/* What to predict, and the host side of one batch of it. */
typedef struct batch {
    const charl_image_files *files; /* NULL: the split */
    charl_image_format format;
    int64_t rows, n_outputs, n_targets;
    int64_t *index;
    unsigned char *images; /* [rows, channels, height, width] */
    float *outputs;
    void *targets;
} batch;

static charl_status read_origin(const char *path, origin *out)
{
    charl_status st = CHARL_OK;
    charl_checkpoint_reader *r = NULL;

    CHARL_TRY(charl_checkpoint_open(path, &r));
    out->step = charl_checkpoint_get_state(r)->step;
cleanup:
    charl_checkpoint_close(r);
    return st;
}

static void batch_fini(batch *b)
{
    charl_free(b->index);
    charl_free(b->images);
    charl_free(b->outputs);
    charl_free(b->targets);
}

/* How an image file becomes a sample of these data. */
static charl_status find_format(const charl_dataset_info *data, charl_image_format *out)
{
    charl_status st = CHARL_OK;
    const charl_shape *x = &data->x_shape;
    const int64_t channels = x->ndim == 3 ? x->dim[0] : 1;
    const charl_image_fit fit = charl_image_fit_of(data->fit);
    char text[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(data->x_dtype == CHARL_U8 && (x->ndim == 2 || x->ndim == 3) &&
                      (channels == 1 || channels == 3),
                  CHARL_ERR_CONFIG,
                  "images cannot become samples of %s: those are %s %s, not u8 [1 or 3, height, "
                  "width]",
                  data->path, charl_dtype_name(data->x_dtype), charl_shape_format(x, text));
    *out = (charl_image_format){channels, x->dim[x->ndim - 2], x->dim[x->ndim - 1],
                                fit < CHARL_FIT_COUNT ? fit : CHARL_FIT_CROP};
cleanup:
    return st;
}

static charl_status batch_init(const charl__trainer *t, const charl_image_files *files, batch *b)
{
    charl_status st = CHARL_OK;
    const charl_shape out = charl_var_get_type(t->eval.output).shape;

    b->files = files;
    if (files) {
        CHARL_TRY(find_format(&t->data, &b->format));
        CHARL_TRY(
            charl_alloc_array(t->rows, (size_t)charl_shape_count(&t->data.x_shape), &b->images));
    }
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

static charl_status put_images(charl__trainer *t, int64_t first, int64_t count, batch *b)
{
    charl_status st = CHARL_OK;
    const int64_t bytes = charl_shape_count(&t->data.x_shape);

    for (int64_t i = 0; i < count; i++) {
        CHARL_TRY(charl_image_read(b->files->paths[first + i], &b->format, b->images + i * bytes));
    }
    CHARL_TRY(charl__feed_put(t->eval_feed, b->images, count));
cleanup:
    return st;
}

static charl_status check_finite(const charl__trainer *t, const batch *b, int64_t row)
{
    charl_status st = CHARL_OK;
    const float *outputs = b->outputs + row % b->rows * b->n_outputs;

    for (int64_t i = 0; i < b->n_outputs; i++) {
        CHARL_REQUIRE(isfinite(outputs[i]) || b->files, CHARL_ERR_NONFINITE,
                      "%s, %s split: the model's output for row %lld is not finite", t->data.path,
                      charl_split_name(t->eval_split), (long long)row);
        CHARL_REQUIRE(isfinite(outputs[i]), CHARL_ERR_NONFINITE,
                      "%s: the model's output for it is not finite", b->files->paths[row]);
    }
cleanup:
    return st;
}

/* Rows [first, first + count) of the split or the files; first is a multiple of the batch. */
static charl_status run_batch(charl__trainer *t, int64_t first, int64_t count, batch *b)
{
    charl_status st = CHARL_OK;

    if (b->files) {
        CHARL_TRY(put_images(t, first, count, b));
    }
    CHARL_TRY(charl__trainer_run_eval(t));
    for (int64_t i = 0; i < count; i++) {
        b->index[i] = first + i;
    }
    if (!b->files) {
        CHARL_TRY(charl_dataset_read(t->ds, t->eval_split, b->index, count, NULL, b->targets));
    }
    CHARL_TRY(charl_tensor_read(charl_var_get_tensor(t->eval.output), b->outputs,
                                (size_t)(b->rows * b->n_outputs) * sizeof *b->outputs));
    for (int64_t i = 0; i < count; i++) {
        CHARL_TRY(check_finite(t, b, first + i));
    }
cleanup:
    return st;
}

static charl_status predict_all(charl__trainer *t, const origin *from,
                                const charl_image_files *files, charl_predicted predicted,
                                void *ctx)
{
    charl_status st = CHARL_OK;
    const bool classes = t->data.y_dtype == CHARL_I32;
    const int64_t n = files ? files->count : charl__feed_rows(t->eval_feed);
    batch b = {0};

    CHARL_TRY(batch_init(t, files, &b));
    CHARL_TRY(charl__feed_seek(t->eval_feed, 0));
    for (int64_t first = 0; first < n; first += b.rows) {
        const int64_t count = n - first < b.rows ? n - first : b.rows;

        charl_comm_mark(t->comm, from->step, "prediction");
        CHARL_TRY(run_batch(t, first, count, &b));
        for (int64_t i = 0; i < count; i++) {
            const charl_prediction p = {
                .row = first + i,
                .n_rows = n,
                .file = files ? files->paths[first + i] : NULL,
                .step = from->step,
                .data = &t->data,
                .n_outputs = b.n_outputs,
                .n_targets = b.n_targets,
                .outputs = b.outputs + i * b.n_outputs,
                .labels = classes && !files ? (const int32_t *)b.targets + i * b.n_targets : NULL,
                .targets = classes || files ? NULL : (const float *)b.targets + i * b.n_targets};

            CHARL_TRY(predicted(ctx, &p));
        }
    }
cleanup:
    batch_fini(&b);
    return st;
}

/* A split of the data, or image files. */
typedef struct subject {
    charl_split split;
    const charl_image_files *files;
} subject;

static charl_status predict_with(const charl_config *config, const charl_train_options *options,
                                 const char *checkpoint, const subject *what,
                                 charl_predicted predicted, void *ctx)
{
    charl_status st = CHARL_OK;
    charl__trainer t = {.infers = true, .brings_rows = what->files, .origin = checkpoint};
    origin from = {0};

    CHARL_REQUIRE(charl_comm_size(options->comm) == 1, CHARL_ERR_CONFIG,
                  "prediction runs on one rank, not on %d; HINT start it without mpirun",
                  charl_comm_size(options->comm));
    CHARL_TRY(read_origin(checkpoint, &from));
    CHARL_TRY(charl__trainer_init(&t, config, options, what->split));
    CHARL_REQUIRE(t.data.kind != CHARL_DATASET_TOKENS, CHARL_ERR_CONFIG,
                  "%s holds tokens, and predictions are of samples as a whole; HINT charl eval "
                  "measures them",
                  t.data.path);
    CHARL_TRY(charl__trainer_report(&t));
    CHARL_TRY(charl__trainer_load(&t, checkpoint, false));
    CHARL_TRY(predict_all(&t, &from, what->files, predicted, ctx));
cleanup:
    charl__trainer_fini(&t);
    return st;
}

charl_status charl_predict(const charl_config *config, const charl_train_options *options,
                           const char *checkpoint, const char *split, charl_predicted predicted,
                           void *ctx)
{
    charl_status st = CHARL_OK;
    const int which = charl__split_of(split);

    CHARL_REQUIRE(which >= 0, CHARL_ERR_CONFIG,
                  "there is no split %s; there are train, val and test", split);
    CHARL_TRY(predict_with(config, options, checkpoint, &(subject){.split = (charl_split)which},
                           predicted, ctx));
cleanup:
    return st;
}

charl_status charl_predict_images(const charl_config *config, const charl_train_options *options,
                                  const char *checkpoint, const charl_image_files *files,
                                  charl_predicted predicted, void *ctx)
{
    return predict_with(config, options, checkpoint,
                        &(subject){.split = CHARL_SPLIT_TRAIN, .files = files}, predicted, ctx);
}
