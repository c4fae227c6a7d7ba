/* Prediction: one graph of a checkpoint's model over a batch of rows from a source.
 *
 *      charl__rows_next -> source [batch, x_shape] on the device -> gather_rows normalizes -> model
 * -> output
 *
 * The first batch is read before the device is opened, so that mistakes in the data are reported at once, and a
 * single row is not computed as a whole batch. Later partial batches leave old rows
 * after their own, whose outputs are not read.
 */
#include "charl/predict.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/options.h"
#include "charl/checkpoint.h"
#include "config/config_rows.h"
#include "infer/ensemble.h"
#include "infer/inference.h"
#include "data/rows/rows.h"
#include "io/schema.h"
#include "task/evaluation.h"
#include "task/task.h"
#include "task/weights/weights.h"

enum { MOST_BYTES = 1 << 26, MOST_IMAGES = 64 };

typedef struct predictor {
    const char *checkpoint;
    const charl_predict_options *o;
    charl__session session; /* its data: the schema as the task reads it */
    charl__rows *rows;
    charl_predict_info info;
    const char **inputs; /* of info */

    int64_t capacity; /* number of rows of x and y */
    void *x, *y;
    int64_t batch; /* rows of the model's graph */
    charl_inference *model;
    charl__ensemble ensemble;     /* of this and other models */
    float *outputs;               /* [batch, n_outputs] */
    double *answers;              /* of one row */
    charl__text answer_names;     /* of info */
    int32_t *map;                 /* [n_targets] MAPS: predicted classes of one row; else NULL */
    int32_t *map_labels;          /* [n_targets] MAPS: labels of one row, 0 where a pixel does not count; else NULL */
    float *map_weights;           /* [n_targets] MAPS: 1, or 0 where a pixel does not count; else NULL */
    charl__evaluation evaluation; /* of the rows with labels */
} predictor;

static void predictor_fini(predictor *p)
{
    charl_inference_close(p->model);
    charl__ensemble_fini(&p->ensemble);
    charl__evaluation_fini(&p->evaluation);
    charl__rows_close(p->rows);
    charl__session_fini(&p->session);
    charl_free(p->inputs);
    charl_free(p->outputs);
    charl_free(p->answers);
    charl__text_fini(&p->answer_names);
    charl_free(p->map);
    charl_free(p->map_labels);
    charl_free(p->map_weights);
    charl_free(p->x);
    charl_free(p->y);
}

static void pass_notes(const predictor *p)
{
    char *warnings = charl__rows_drain_notes(p->rows, true);
    char *notes = charl__rows_drain_notes(p->rows, false);

    charl__session_warn(&p->session, warnings);
    if (p->o->noted && notes && notes[0]) {
        p->o->noted(p->o->ctx, notes);
    }
    charl_free(warnings);
    charl_free(notes);
}

/* A checkpoint of version 1 has no schema: its data must exist and be the same, even if the
 * caller's overrides name other data. */
static charl_status schema_of_data(predictor *p)
{
    const char *text = charl_checkpoint_get_info(p->session.reader).config_resolved;
    CHARL_SCOPED(charl__config_left) charl_config *trained = NULL;

    CHARL_TRY(charl_config_parse(p->checkpoint, text, strlen(text), NULL, 0, &trained));
    CHARL_TRY(charl__session_schema_of_data(&p->session, trained, p->o->trained_on, "--data FILE.h5"));
    return CHARL_OK;
}

static bool overrides_key(const charl_predict_options *o, const char *key)
{
    for (int i = 0; i < o->n_overrides; i++) {
        if (strncmp(o->overrides[i].text, key, strlen(key)) == 0) {
            return true;
        }
    }
    return false;
}

static charl_status find_schema(predictor *p)
{
    const charl_data_schema *own = charl_checkpoint_get_info(p->session.reader).schema;

    CHARL_REQUIRE(!own || !p->o->trained_on, CHARL_ERR_CONFIG,
                  "--data %s: %s knows the data it was trained on; HINT give the data to predict after "
                  "the model, without --data",
                  p->o->trained_on, p->checkpoint);
    if (own) {
        CHARL_TRY(charl__data_schema_copy(own, &p->session.schema));
        charl__session_warn_normalize(&p->session);
    } else {
        CHARL_TRY(schema_of_data(p));
    }
    charl__data_schema_get_info(p->session.schema, p->checkpoint, &p->session.data);
    return CHARL_OK;
}

/* The checkpoints with their configurations, and the caller's overrides. */
static charl_status open_checkpoints(predictor *p)
{
    CHARL_SCOPED_FREE charl_config_override *overrides = NULL;
    const int n = CHARL__INFERENCE_OVERRIDES + p->o->n_overrides;

    CHARL_TRY(charl__alloc_array(n, sizeof *overrides, &overrides));
    for (int i = 0; i < n; i++) {
        overrides[i] = i < CHARL__INFERENCE_OVERRIDES ? charl__inference_overrides[i]
                                                      : p->o->overrides[i - CHARL__INFERENCE_OVERRIDES];
    }
    CHARL_TRY(charl__session_open_checkpoint(&p->session, p->checkpoint));
    CHARL_TRY(charl__session_read_config(&p->session, overrides, n));
    CHARL_TRY(find_schema(p));
    return charl__ensemble_open(p->o->members, p->o->n_members, overrides, n, &p->session, &p->ensemble);
}

/* All files and folders to read. */
static charl_status list_inputs(predictor *p)
{
    const bool has_schema = charl_checkpoint_get_info(p->session.reader).schema != NULL;
    const char *const others[] = {p->checkpoint, charl__config_init_from(p->session.config), p->o->trained_on,
                                  p->o->n_paths == 0 || !has_schema ? p->session.config->data.path : NULL};
    int64_t n = 0;

    CHARL_TRY(charl__alloc_array(p->o->n_paths + p->o->n_members + (int64_t)(sizeof others / sizeof *others),
                                 sizeof *p->inputs, &p->inputs));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (others[i]) {
            p->inputs[n++] = others[i];
        }
    }
    for (int64_t i = 0; i < p->o->n_paths; i++) {
        p->inputs[n++] = p->o->paths[i];
    }
    for (int i = 0; i < p->o->n_members; i++) {
        p->inputs[n++] = p->o->members[i];
    }
    p->info.inputs = p->inputs;
    p->info.n_inputs = n;
    return CHARL_OK;
}

static charl_status open_rows(predictor *p)
{
    charl_status st = CHARL_OK;
    const bool given = p->o->n_paths > 0;
    const char *own = p->session.config->data.path;
    charl__rows_options rows = {.schema = p->session.schema,
                                .model = p->checkpoint,
                                .paths = given ? p->o->paths : &own,
                                .n_paths = given ? p->o->n_paths : 1,
                                .separator = p->o->separator,
                                .decimal = p->o->decimal,
                                .id = p->o->id,
                                .split = given || p->o->split ? p->o->split : "val",
                                .dataset = charl_config_get_dataset_options(p->session.config)};

    CHARL_REQUIRE(given || own[0], CHARL_ERR_CONFIG, "%s names no data to predict; HINT charl predict MODEL.h5 DATA",
                  p->checkpoint);
    CHARL_REQUIRE(p->session.config->data.masked <= 0, CHARL_ERR_CONFIG,
                  "%s is a masked language model, which charl predict does not support; HINT charl eval measures it",
                  p->checkpoint);
    CHARL_REQUIRE(p->session.config->diffusion.schedule == CHARL__NOISE_NONE, CHARL_ERR_CONFIG,
                  "%s is a diffusion model, which charl predict does not support; HINT charl sample draws samples, and "
                  "charl eval measures the loss",
                  p->checkpoint);
    if (p->o->x) {
        rows.dataset.x = p->o->x;
        rows.dataset.y = p->o->y;
    } else if (given && !p->session.schema->fields[0] && !overrides_key(p->o, "data.x=")) {
        /* The configuration names arrays of other data; a model with named inputs needs these names. */
        rows.other_x = rows.dataset.x;
        rows.other_y = rows.dataset.y;
        rows.dataset.x = rows.dataset.y = NULL;
    }
    if (given && !overrides_key(p->o, "data.val_split=") && !overrides_key(p->o, "data.fold=")) {
        rows.trained_on = charl_checkpoint_get_info(p->session.reader).state->data_content_id;
    }
    st = charl__rows_open(&rows, &p->rows);
    if (st == CHARL_ERR_DATA && !given) {
        char text[1200];

        snprintf(text, sizeof text, "%s", charl_error_message());
        CHARL_FAIL(st, "%s%s", text,
                   strstr(text, "HINT") ? ""
                                        : "; HINT give the data to predict after the model: "
                                          "charl predict MODEL.h5 DATA");
    }
    CHARL_TRY(st);
    pass_notes(p);
    if (!given && strcmp(rows.split, "val") == 0) {
        charl__ensemble_warn_rows(&p->ensemble, &p->session);
    }
    CHARL_TRY(charl__evaluation_open(p->session.config, p->session.schema, true, false, &p->evaluation));
    CHARL_TRY(charl__output_names(&p->evaluation.outputs, &p->answer_names));
    CHARL_TRY(charl__quantile_names(p->evaluation.loss, p->evaluation.loss_settings, p->session.schema->targets,
                                    charl_shape_count(&p->session.schema->y_shape), &p->answer_names));
    p->info = (charl_predict_info){.schema = p->session.schema,
                                   .targets = p->evaluation.data.targets,
                                   .answer = p->evaluation.outputs.n > 0 ? "predicted" : p->evaluation.answer->name,
                                   .answer_names = charl__text_string(&p->answer_names),
                                   .subject = p->rows->subject,
                                   .step = charl_checkpoint_get_info(p->session.reader).state->step,
                                   .n_rows = -1,
                                   .n_models = 1 + p->o->n_members,
                                   .n_targets = charl_shape_count(&p->session.schema->y_shape),
                                   .has_targets = p->rows->has_targets,
                                   .files = p->rows->files.count > 0 ? &p->rows->files : NULL};
    p->info.has_names = p->info.files || p->o->id;
    CHARL_TRY(list_inputs(p));
    if (p->o->counts) {
        CHARL_TRY(charl__rows_count(p->rows, &p->info.n_rows));
    }
    return st;
}

/* As many rows as a training batch, unless they take too much host memory. */
static charl_status reserve_batch(predictor *p)
{
    const int64_t row = charl_shape_count(&p->session.schema->x_shape) * (int64_t)sizeof(float);
    const int64_t most = row < MOST_BYTES ? MOST_BYTES / row : 1;

    p->capacity = p->session.config->train.batch_size < most ? p->session.config->train.batch_size : most;
    if (p->info.files && p->capacity > MOST_IMAGES) {
        p->capacity = MOST_IMAGES;
    }
    CHARL_TRY(charl__alloc_array(p->capacity * charl_shape_count(&p->session.schema->x_shape),
                                 charl_dtype_size(p->session.schema->x_dtype), &p->x));
    CHARL_TRY(charl__alloc_array(p->capacity * p->info.n_targets, charl_dtype_size(p->session.schema->y_dtype), &p->y));
    if (p->info.targets == CHARL_TARGET_MAPS) {
        CHARL_TRY(charl__alloc_array(p->info.n_targets, sizeof *p->map, &p->map));
        CHARL_TRY(charl__alloc_array(p->info.n_targets, sizeof *p->map_labels, &p->map_labels));
        CHARL_TRY(charl__alloc_array(p->info.n_targets, sizeof *p->map_weights, &p->map_weights));
    }
    return CHARL_OK;
}

static charl_status build(predictor *p)
{
    const charl_device_request r = {sizeof r,
                                    .select = p->session.config->device.select,
                                    .local_size = 1,
                                    .share = p->session.config->device.share,
                                    .allow_tf32 = p->session.config->device.allow_tf32,
                                    .compiling = p->o->compiling,
                                    .compiling_ctx = p->o->ctx};
    const char *group;
    charl_shape out;

    CHARL_TRY(charl__weights_group(p->session.reader, p->checkpoint, p->o->ema, &group));
    CHARL_TRY(charl__inference_create(&p->session, p->checkpoint, p->batch, &r, &p->model));
    p->info.n_outputs = charl_inference_get_info(p->model).n_outputs;
    CHARL_TRY(charl__alloc_array(p->batch * p->info.n_outputs, sizeof *p->outputs, &p->outputs));
    CHARL_TRY(charl__alloc_array(charl_inference_get_answer_count(p->model), sizeof *p->answers, &p->answers));
    out = charl__inference_output_shape(p->model);
    CHARL_TRY(charl__evaluation_begin(&p->evaluation, &out));
    CHARL_TRY(charl__session_load_weights(&p->session, p->checkpoint, p->o->ema));
    CHARL_TRY(charl__inference_begin(p->model));
    return charl__ensemble_build(&p->ensemble, p->batch, &r, p->o->ema, p->model);
}

static charl_status check_finite(const predictor *p, int64_t row, const char *name, const float *outputs)
{
    for (int64_t i = 0; i < p->info.n_outputs; i++) {
        CHARL_REQUIRE(isfinite(outputs[i]), CHARL_ERR_NONFINITE, "%s, row %lld%s%s: the model's output is not finite",
                      p->info.subject, (long long)row, name ? ", " : "", name ? name : "");
    }
    return CHARL_OK;
}

/* Whether any pixel of a row with classes counts. */
static bool is_labelled(const predictor *p, const charl_prediction *row)
{
    bool any = false, all = true;

    for (int64_t i = 0; i < p->info.n_targets; i++) {
        const bool known = row->labels ? row->labels[i] >= 0 : row->targets && !isnan(row->targets[i]);

        any = any || known;
        all = all && known;
    }
    return p->map ? any : all;
}

/* Update the metrics with a row that has labels. */
static charl_status evaluate_row(predictor *p, const charl_prediction *row, const void *y)
{
    const charl_dtype dtype = p->session.schema->y_dtype;

    for (int64_t i = 0; p->map && i < p->info.n_targets; i++) {
        p->map_weights[i] = row->labels[i] >= 0 ? 1.0F : 0.0F;
        p->map_labels[i] = row->labels[i] >= 0 ? row->labels[i] : 0;
    }
    return charl__evaluation_add(&p->evaluation, 1, row->outputs, dtype, p->map ? p->map_labels : y, p->info.n_targets,
                                 p->map_weights, p->map ? p->info.n_targets : 1);
}

/* Classes of several outputs that do not count are unknown. */
static void leave_unknown(const predictor *p, float *y)
{
    const charl__outputs *all = &p->evaluation.outputs;

    for (int k = 0; k < all->n; k++) {
        const charl__output *o = &all->at[k];

        for (int64_t i = o->target; charl__output_has_labels(o) && i < o->target + o->n_targets; i++) {
            y[i] = y[i] < 0.0F ? NAN : y[i];
        }
    }
}

static charl_status run_batch(predictor *p, int64_t n, charl_predict_result *result)
{
    const charl_data_schema *schema = p->session.schema;
    const bool labels = schema->y_dtype == CHARL_I32;

    CHARL_TRY(charl_inference_run(p->model, p->x, n, p->outputs));
    CHARL_TRY(charl__ensemble_run(&p->ensemble, p->model, p->x, n, p->outputs));
    for (int64_t i = 0; i < n; i++) {
        void *y = (char *)p->y + (size_t)(i * p->info.n_targets) * charl_dtype_size(schema->y_dtype);
        charl_prediction row = {.info = &p->info,
                                .row = result->rows,
                                .name = charl__rows_name(p->rows, i),
                                .outputs = p->outputs + i * p->info.n_outputs,
                                .answers = p->answers,
                                .map = p->map,
                                .labels = p->info.has_targets && labels ? y : NULL,
                                .targets = p->info.has_targets && !labels ? y : NULL};

        CHARL_TRY(check_finite(p, row.row, row.name, row.outputs));
        if (p->ensemble.n > 0) {
            charl__ensemble_row(&p->ensemble, i, p->outputs + i * p->info.n_outputs);
            row.answers = p->ensemble.means;
            row.deviations = p->ensemble.deviations;
        } else {
            CHARL_TRY(charl_inference_answer(p->model, row.outputs, 1, p->answers));
        }
        row.predicted = p->info.targets == CHARL_TARGET_CLASS ? charl__largest(row.outputs, p->info.n_outputs, 1) : -1;
        for (int64_t k = 0; p->map && k < p->info.n_targets; k++) {
            p->map[k] = (int32_t)charl__largest(row.outputs + k, p->evaluation.data.classes, p->info.n_targets);
        }
        if (p->info.has_targets && is_labelled(p, &row)) {
            CHARL_TRY(evaluate_row(p, &row, y));
            result->labelled++;
        }
        leave_unknown(p, (float *)y);
        CHARL_TRY(p->o->predicted(p->o->ctx, &row));
        result->rows++;
    }
    return CHARL_OK;
}

static charl_status finish_result(predictor *p, charl_predict_result *r)
{
    r->loss = charl__evaluation_loss(&p->evaluation);
    return charl__evaluation_finish(&p->evaluation, r->loss, NULL, r->metrics, &r->n_metrics, NULL);
}

static charl_status predict_all(predictor *p, charl_predict_result *result)
{
    int64_t n;

    CHARL_TRY(reserve_batch(p));
    CHARL_TRY(charl__rows_next(p->rows, p->capacity, p->x, p->y, &n));
    pass_notes(p);
    CHARL_REQUIRE(n > 0, CHARL_ERR_DATA,
                  p->rows->skipped > 0 ? "%s: none can be read" : "%s: there are no rows to predict", p->info.subject);
    p->batch = n;
    if (p->o->started) {
        CHARL_TRY(p->o->started(p->o->ctx, &p->info));
    }
    CHARL_TRY(build(p));
    while (n > 0) {
        CHARL_TRY(run_batch(p, n, result));
        CHARL_TRY(charl__rows_next(p->rows, p->batch, p->x, p->y, &n));
    }
    pass_notes(p);
    result->skipped = p->rows->skipped;
    return CHARL_OK;
}

charl_status charl_predict(const char *checkpoint, const charl_predict_options *options, charl_predict_result *result)
{
    CHARL_GIVEN(checkpoint, options, result);
    CHARL__OPTIONS(charl_predict_options, options);
    CHARL_SCOPED(predictor_fini)
    predictor p = {.checkpoint = checkpoint,
                   .o = options,
                   .session = {.infers = true, .warned = options->warned, .warned_ctx = options->ctx}};

    *result = (charl_predict_result){.loss = (double)NAN};
    CHARL_TRY(open_checkpoints(&p));
    CHARL_TRY(open_rows(&p));
    CHARL_TRY(predict_all(&p, result));
    CHARL_TRY(finish_result(&p, result));
    return CHARL_OK;
}
