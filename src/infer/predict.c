/* Prediction: a checkpoint's model as one graph over a batch of rows, which a source brings.
 *
 *      charl__rows_next -> source [batch, x_shape] on the device -> gather_rows normalises -> model
 * -> output
 *
 * The first batch is read before the device is opened: mistakes in the data come at once, and a
 * single row is not computed as a whole batch. Later batches that are not full leave old rows
 * behind theirs, whose outputs nobody reads.
 */
#include "charl/predict.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "autograd/graph.h"
#include "autograd/op.h"
#include "base/alloc.h"
#include "charl/checkpoint.h"
#include "charl/ops.h"
#include "io/rows/rows.h"
#include "task/session.h"
#include "task/task.h"
#include "task/weights.h"

enum { MOST_BYTES = 1 << 26, MOST_IMAGES = 64, OWN_OVERRIDES = 3 };

/* What matters to training does not matter here; the caller's overrides come after these. */
static const char *const own_overrides[OWN_OVERRIDES] = {"device.select=auto", "device.share=yes", "train.slices=auto"};

typedef struct predictor {
    const char *checkpoint;
    const charl_predict_options *o;
    charl__session session; /* its data: the schema as the task reads it */
    charl__rows *rows;
    charl_predict_info info;

    int64_t capacity; /* rows that x and y hold */
    void *x, *y;
    int64_t batch; /* rows of the graph */
    charl_graph *g;
    charl_tensor *source, *index, *shift, *scale;
    charl_var *output;
    float *outputs;            /* [batch, n_outputs] */
    double loss, hits, errors; /* sums over labelled rows */
} predictor;

static void predictor_fini(predictor *p)
{
    charl_graph_destroy(p->g);
    charl_tensor_release(p->source);
    charl_tensor_release(p->index);
    charl_tensor_release(p->shift);
    charl_tensor_release(p->scale);
    charl__rows_close(p->rows);
    charl__session_fini(&p->session);
    charl_free(p->outputs);
    charl_free(p->x);
    charl_free(p->y);
}

static void pass_notes(const predictor *p)
{
    char *warnings = charl__rows_take_notes(p->rows, true);
    char *notes = charl__rows_take_notes(p->rows, false);

    charl__session_warn(&p->session, warnings);
    if (p->o->noted && notes && notes[0]) {
        p->o->noted(p->o->ctx, notes);
    }
    charl_free(warnings);
    charl_free(notes);
}

/* The checkpoint with its configuration, and the caller's overrides. */
static charl_status open_checkpoint(predictor *p)
{
    charl_status st = CHARL_OK;
    charl_config_override *overrides = NULL;
    const int n = OWN_OVERRIDES + p->o->n_overrides;

    CHARL_TRY_CLEANUP(charl_alloc_array(n, sizeof *overrides, &overrides));
    for (int i = 0; i < n; i++) {
        overrides[i] = i < OWN_OVERRIDES ? (charl_config_override){own_overrides[i], "prediction"}
                                         : p->o->overrides[i - OWN_OVERRIDES];
    }
    CHARL_TRY_CLEANUP(charl__session_open_checkpoint(&p->session, p->checkpoint));
    CHARL_TRY_CLEANUP(charl__session_read_config(&p->session, overrides, n));
cleanup:
    charl_free(overrides);
    return st;
}

/* A checkpoint of version 1 does not know its data: they must be there, and be the same, whatever the
 * caller's overrides say of other data. */
static charl_status schema_of_data(predictor *p)
{
    charl_status st = CHARL_OK;
    const char *text = charl_checkpoint_get_config_resolved(p->session.reader);
    charl_config *trained = NULL;

    CHARL_TRY_CLEANUP(charl_config_parse(p->checkpoint, text, strlen(text), NULL, 0, &trained));
    CHARL_TRY_CLEANUP(charl__session_schema_of_data(&p->session, trained, p->o->trained_on, "--data FILE.h5"));
cleanup:
    charl_config_destroy(trained);
    return st;
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
    const charl_data_schema *own = charl_checkpoint_get_schema(p->session.reader);

    CHARL_REQUIRE(!own || !p->o->trained_on, CHARL_ERR_CONFIG,
                  "--data %s: %s knows the data it was trained on; HINT data to predict stand "
                  "behind the model, without --data",
                  p->o->trained_on, p->checkpoint);
    if (own) {
        CHARL_TRY(charl_data_schema_copy(own, &p->session.schema));
        charl__session_warn_normalize(&p->session);
    } else {
        CHARL_TRY(schema_of_data(p));
    }
    charl_data_schema_get_info(p->session.schema, p->checkpoint, &p->session.data);
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
                                .id = p->o->id,
                                .split = given || p->o->split ? p->o->split : "val",
                                .dataset = charl__task_dataset_options(p->session.config)};

    CHARL_REQUIRE(given || own[0], CHARL_ERR_CONFIG, "%s names no data to predict; HINT charl predict MODEL.h5 DATA",
                  p->checkpoint);
    if (p->o->x) {
        rows.dataset.x = p->o->x;
        rows.dataset.y = p->o->y;
    } else if (given && !overrides_key(p->o, "data.x=")) { /* the configuration speaks of other data */
        rows.other_x = rows.dataset.x;
        rows.other_y = rows.dataset.y;
        rows.dataset.x = rows.dataset.y = NULL;
    }
    if (given && !overrides_key(p->o, "data.val_split=")) {
        rows.trained_on = charl_checkpoint_get_state(p->session.reader)->data_content_id;
    }
    st = charl__rows_open(&rows, &p->rows);
    if (st == CHARL_ERR_DATA && !given) {
        char text[1200];

        snprintf(text, sizeof text, "%s", charl_error_message());
        CHARL_FAIL(st, "%s%s", text,
                   strstr(text, "HINT") ? ""
                                        : "; HINT data to predict stand behind the model: "
                                          "charl predict MODEL.h5 DATA");
    }
    CHARL_TRY(st);
    pass_notes(p);
    p->info = (charl_predict_info){.schema = p->session.schema,
                                   .loss = p->session.config->train.loss,
                                   .subject = charl__rows_subject(p->rows),
                                   .step = charl_checkpoint_get_state(p->session.reader)->step,
                                   .n_rows = -1,
                                   .n_targets = charl_shape_count(&p->session.schema->y_shape),
                                   .has_targets = charl__rows_has_targets(p->rows),
                                   .files = charl__rows_files(p->rows)};
    p->info.has_names = p->info.files || p->o->id;
    if (p->o->counts) {
        CHARL_TRY(charl__rows_count(p->rows, &p->info.n_rows));
    }
    return st;
}

/* Room for the rows of a training batch, unless these take too much of the host. */
static charl_status reserve_batch(predictor *p)
{
    const int64_t row = charl_shape_count(&p->session.schema->x_shape) * (int64_t)sizeof(float);
    const int64_t most = row < MOST_BYTES ? MOST_BYTES / row : 1;

    p->capacity = p->session.config->train.batch_size < most ? p->session.config->train.batch_size : most;
    if (p->info.files && p->capacity > MOST_IMAGES) {
        p->capacity = MOST_IMAGES;
    }
    CHARL_TRY(charl_alloc_array(p->capacity * charl_shape_count(&p->session.schema->x_shape),
                                charl_dtype_size(p->session.schema->x_dtype), &p->x));
    CHARL_TRY(charl_alloc_array(p->capacity * p->info.n_targets, charl_dtype_size(p->session.schema->y_dtype), &p->y));
    return CHARL_OK;
}

static charl_status create_tensor(const predictor *p, charl_dtype dtype, const charl_shape *shape, const void *data,
                                  charl_tensor **out)
{
    CHARL_TRY(charl_tensor_create(p->session.dev, dtype, shape, out));
    if (data) {
        CHARL_TRY(charl_tensor_write(*out, data, (size_t)charl_shape_count(shape) * charl_dtype_size(dtype)));
    }
    return CHARL_OK;
}

/* The source of the batch, which row of it is which (its own number), mean and 1 / std. */
static charl_status create_inputs(predictor *p)
{
    charl_status st = CHARL_OK;
    const charl_data_schema *s = p->session.schema;
    const charl_shape rows = {1, {p->batch}}, stats = {1, {s->n_stats}};
    charl_shape shape = {s->x_shape.ndim + 1, {p->batch}};
    int32_t *index = NULL;
    float *scale = NULL;

    CHARL_REQUIRE_CLEANUP(s->x_shape.ndim < CHARL_MAX_DIMS, CHARL_ERR_DATA, "%s: samples of %d extents", p->checkpoint,
                          s->x_shape.ndim);
    memcpy(shape.dim + 1, s->x_shape.dim, (size_t)s->x_shape.ndim * sizeof shape.dim[0]);
    CHARL_TRY_CLEANUP(charl_alloc_array(p->batch, sizeof *index, &index));
    CHARL_TRY_CLEANUP(charl_alloc_array(s->n_stats, sizeof *scale, &scale));
    for (int64_t i = 0; i < p->batch; i++) {
        index[i] = (int32_t)i;
    }
    for (int64_t i = 0; i < s->n_stats; i++) {
        scale[i] = 1.0F / s->std[i];
    }
    CHARL_TRY_CLEANUP(create_tensor(p, s->x_dtype, &shape, NULL, &p->source));
    CHARL_TRY_CLEANUP(create_tensor(p, CHARL_I32, &rows, index, &p->index));
    CHARL_TRY_CLEANUP(create_tensor(p, CHARL_F32, &stats, s->mean, &p->shift));
    CHARL_TRY_CLEANUP(create_tensor(p, CHARL_F32, &stats, scale, &p->scale));
cleanup:
    charl_free(index);
    charl_free(scale);
    return st;
}

static charl_var *bound(charl_graph *g, const char *name, charl_tensor *t, charl_batch batch)
{
    charl_var *v = charl_input(g, name, charl_tensor_get_dtype(t), *charl_tensor_get_shape(t), batch);

    charl__graph_bind_input(g, v, t);
    return v;
}

static charl_status check_output(predictor *p, const charl_shape *out)
{
    const bool classes = p->info.loss == CHARL_LOSS_CROSS_ENTROPY;
    char text[CHARL_SHAPE_TEXT];

    p->info.n_outputs = charl_shape_count(out) / p->batch;
    CHARL_REQUIRE(
        classes ? out->ndim == 2 && out->dim[1] >= p->session.schema->classes : p->info.n_outputs == p->info.n_targets,
        CHARL_ERR_CONFIG, "the model's output for %lld rows is %s, its data have %lld %s", (long long)p->batch,
        charl_shape_format(out, text), (long long)(classes ? p->session.schema->classes : p->info.n_targets),
        classes ? "classes" : "targets");
    CHARL_TRY(charl_alloc_array(charl_shape_count(out), sizeof *p->outputs, &p->outputs));
    return CHARL_OK;
}

static charl_status build_graph(predictor *p)
{
    charl_status st = CHARL_OK;
    charl_graph *g = NULL;
    charl_var *x;
    charl_shape out;

    CHARL_TRY(charl_graph_create(p->session.dev, NULL, &p->g));
    g = p->g;
    charl_graph_set_training(g, false);
    charl_graph_set_precision(g, charl__task_precision(p->session.config));
    x = charl_gather_rows(g, bound(g, "x", p->source, CHARL_REPLICATED), bound(g, "row", p->index, CHARL_BATCHED),
                          bound(g, "shift", p->shift, CHARL_REPLICATED), bound(g, "scale", p->scale, CHARL_REPLICATED));
    x = charl__as_dtype(g, x, charl_graph_get_precision(g));
    p->output = charl__as_dtype(g, charl_model_build(p->session.model, g, p->session.params, x), CHARL_F32);
    charl_graph_keep(g, p->output);
    st = charl_graph_status(g);
    if (st == CHARL_ERR_SHAPE || st == CHARL_ERR_DTYPE) { /* layers that do not fit: the user's */
        st = CHARL_ERR_CONFIG;
    }
    CHARL_TRY(st);
    out = charl_var_get_type(p->output).shape;
    CHARL_TRY(check_output(p, &out));
    CHARL_TRY(charl_graph_compile(g));
    return st;
}

static charl_status build(predictor *p)
{
    const charl_device_request r = {.select = p->session.config->device.select,
                                    .local_size = 1,
                                    .share = p->session.config->device.share,
                                    .allow_tf32 = p->session.config->device.allow_tf32,
                                    .compiling = p->o->compiling,
                                    .compiling_ctx = p->o->ctx};
    const char *group;

    CHARL_TRY(charl__weights_group(p->session.reader, p->checkpoint, p->o->ema, &group));
    CHARL_TRY(charl__session_create_model(&p->session));
    CHARL_TRY(charl__session_open_device(&p->session, &r));
    CHARL_TRY(create_inputs(p));
    CHARL_TRY(build_graph(p));
    CHARL_TRY(charl__session_load_weights(&p->session, p->checkpoint, p->o->ema));
    CHARL_TRY(charl_graph_warm_up(p->g));
    return CHARL_OK;
}

static charl_status check_finite(const predictor *p, int64_t row, const char *name, const float *outputs)
{
    for (int64_t i = 0; i < p->info.n_outputs; i++) {
        CHARL_REQUIRE(isfinite(outputs[i]), CHARL_ERR_NONFINITE, "%s, row %lld%s%s: the model's output is not finite",
                      p->info.subject, (long long)row, name ? ", " : "", name ? name : "");
    }
    return CHARL_OK;
}

static bool is_labelled(const predictor *p, const charl_prediction *row)
{
    for (int64_t i = 0; i < p->info.n_targets; i++) {
        if (row->labels ? row->labels[i] < 0 : !row->targets || isnan(row->targets[i])) {
            return false;
        }
    }
    return true;
}

static double log_sum_exp(const float *v, int64_t n)
{
    double most = (double)v[0], sum = 0;

    for (int64_t i = 1; i < n; i++) {
        most = (double)v[i] > most ? (double)v[i] : most;
    }
    for (int64_t i = 0; i < n; i++) {
        sum += exp((double)v[i] - most);
    }
    return most + log(sum);
}

static int64_t largest(const float *v, int64_t n)
{
    int64_t best = 0;

    for (int64_t i = 1; i < n; i++) {
        best = v[i] > v[best] ? i : best;
    }
    return best;
}

/* The losses of charl/ops.h, in double. */
static void add_metrics(predictor *p, const charl_prediction *row)
{
    const int64_t n = p->info.n_outputs;
    const float *out = row->outputs;

    if (p->info.loss == CHARL_LOSS_CROSS_ENTROPY) {
        p->loss += log_sum_exp(out, n) - (double)out[row->labels[0]];
        p->hits += largest(out, n) == row->labels[0];
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const double v = (double)out[i];
        const double target = row->labels ? (double)row->labels[i] : (double)row->targets[i];
        const double error = fabs(v - target);

        if (p->info.loss == CHARL_LOSS_BCE) {
            p->loss += ((v > 0 ? v : 0) + log1p(exp(-fabs(v))) - v * target) / (double)n;
            p->hits += ((v > 0) == (target > 0.5)) / (double)n;
        } else {
            p->loss += (p->info.loss == CHARL_LOSS_MSE ? error * error
                        : error < 1                    ? 0.5 * error * error
                                                       : error - 0.5) /
                       (double)n;
            p->errors += error / (double)n;
        }
    }
}

static charl_status run_batch(predictor *p, int64_t n, charl_predict_result *result)
{
    const bool labels = p->session.schema->y_dtype == CHARL_I32;
    const size_t row_bytes =
        (size_t)charl_shape_count(&p->session.schema->x_shape) * charl_dtype_size(p->session.schema->x_dtype);

    CHARL_TRY(charl_tensor_write(p->source, p->x, (size_t)p->batch * row_bytes));
    CHARL_TRY(charl_graph_run(p->g));
    CHARL_TRY(charl_tensor_read(charl_var_get_tensor(p->output), p->outputs,
                                (size_t)(p->batch * p->info.n_outputs) * sizeof *p->outputs));
    for (int64_t i = 0; i < n; i++) {
        const charl_prediction row = {
            .info = &p->info,
            .row = result->rows,
            .name = charl__rows_name(p->rows, i),
            .outputs = p->outputs + i * p->info.n_outputs,
            .labels = p->info.has_targets && labels ? (const int32_t *)p->y + i * p->info.n_targets : NULL,
            .targets = p->info.has_targets && !labels ? (const float *)p->y + i * p->info.n_targets : NULL};

        CHARL_TRY(check_finite(p, row.row, row.name, row.outputs));
        if (p->info.has_targets && is_labelled(p, &row)) {
            add_metrics(p, &row);
            result->labelled++;
        }
        CHARL_TRY(p->o->predicted(p->o->ctx, &row));
        result->rows++;
    }
    return CHARL_OK;
}

static void finish_result(const predictor *p, charl_predict_result *r)
{
    const double n = (double)r->labelled;
    const bool hits = p->info.loss == CHARL_LOSS_CROSS_ENTROPY || p->info.loss == CHARL_LOSS_BCE;

    r->loss = n > 0 ? p->loss / n : (double)NAN;
    r->accuracy = n > 0 && hits ? p->hits / n : (double)NAN;
    r->mae = n > 0 && !hits ? p->errors / n : (double)NAN;
}

static charl_status predict_all(predictor *p, charl_predict_result *result)
{
    int64_t n;

    CHARL_TRY(reserve_batch(p));
    CHARL_TRY(charl__rows_next(p->rows, p->capacity, p->x, p->y, &n));
    CHARL_REQUIRE(n > 0, CHARL_ERR_DATA, "%s: there are no rows to predict", p->info.subject);
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
    return CHARL_OK;
}

charl_status charl_predict(const char *checkpoint, const charl_predict_options *options, charl_predict_result *result)
{
    charl_status st = CHARL_OK;
    predictor p = {.checkpoint = checkpoint,
                   .o = options,
                   .session = {.infers = true, .warned = options->warned, .warned_ctx = options->ctx}};

    *result = (charl_predict_result){.loss = (double)NAN, .accuracy = (double)NAN, .mae = (double)NAN};
    CHARL_TRY_CLEANUP(open_checkpoint(&p));
    CHARL_TRY_CLEANUP(find_schema(&p));
    CHARL_TRY_CLEANUP(open_rows(&p));
    CHARL_TRY_CLEANUP(predict_all(&p, result));
    finish_result(&p, result);
cleanup:
    predictor_fini(&p);
    return st;
}
