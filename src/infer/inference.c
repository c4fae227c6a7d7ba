/* A model in a server: evaluation graphs over max_rows rows of raw data, half as many, and so on.
 *
 *      source [rows, x_shape] -> gather_rows normalizes -> model -> outputs
 *
 * A batch runs in the smallest graph that holds it, which is built on first use. All share parameters, rows and activations. Rows
 * after the n of a batch are old ones, whose outputs are not read.
 *
 * Calls from several threads are queued. If no other thread is computing, a thread takes the first calls that fit in a batch, computes them without
 * holding the lock, and answers them all; so a batch consists of the calls that arrived during the previous one. The device is handed over with the lock.
 */
#include "infer/inference.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "autograd/graph.h"
#include "autograd/op.h"
#include "autograd/ops_data.h"
#include "base/alloc.h"
#include "base/options.h"
#include "base/owner.h"
#include "config/values.h"
#include "charl/data_schema.h"
#include "charl/ops.h"
#include "charl/tensor_file.h"
#include "charl/tokenizer.h"
#include "charl/weights.h"
#include "config/config_rows.h"
#include "io/schema.h"
#include "io/scoped.h"
#include "task/augment.h"
#include "task/task.h"
#include "weights/weights_source.h"

CHARL_SCOPED_POINTER(inference_left, charl_inference, charl_inference_close)

enum { MAX_ROWS = 64, SIZES = 32, MESSAGE_BYTES = 2048 };

/* A graph over `rows` rows. Tensors: views of the largest graph's. */
typedef struct sized_graph {
    int64_t rows; /* 0: not built yet */
    charl_graph *g;
    charl_tensor *source, *index;
    charl_var *output;
} sized_graph;

/* A waiting call, on its thread's stack. */
typedef struct waiting {
    const void *x;
    int64_t n;
    float *outputs;
    struct waiting *next;
    bool done;
    charl_status st;
    char message[MESSAGE_BYTES];
} waiting;

struct charl_inference {
    charl__owner owner;      /* the process */
    charl__session *session; /* own, or borrowed; NULL: `model` */
    charl__session own;
    charl_inference_model model; /* of a program */
    charl_device *dev;
    charl_dtype x_dtype;
    charl_shape x_shape;
    int64_t max_rows, n_outputs;
    int64_t n_answers;           /* 0: a model of a program */
    const charl__answer *answer; /* of one output without a name */
    int64_t classes;             /* as it takes them */
    charl__outputs named;        /* n 0: there is one output without a name */
    bool one_size;
    sized_graph
        size[SIZES]; /* the first for max_rows rows, each other for half as many as the one before, rounded up */
    charl_tensor *source, *index, *shift, *scale;
    charl_tensor *target_mean, *target_std; /* NULL: targets were not scaled */
    unsigned char *x;                       /* [max_rows, x_shape] */
    float *outputs;                         /* [max_rows, n_outputs] */
    pthread_mutex_t lock;                   /* of the rest */
    pthread_cond_t answered;
    waiting *first, **last;
    bool busy; /* a thread is computing */
};

const charl_config_override charl__inference_overrides[CHARL__INFERENCE_OVERRIDES] = {
    {"device.select=auto", "inference"}, {"device.share=yes", "inference"}, {"train.slices=auto", "inference"}};

static charl_status parse(const char *path, const char *text, charl_config **out)
{
    return charl_config_parse(path, text, strlen(text), charl__inference_overrides, CHARL__INFERENCE_OVERRIDES, out);
}

static charl_status read_checkpoint(charl__session *m, const char *path)
{
    CHARL_SCOPED(charl__checkpoint_left) charl_checkpoint_reader *r = NULL;
    const char *text;

    CHARL_TRY(charl_checkpoint_open(path, &r));
    text = charl_checkpoint_get_info(r).config_resolved;
    text = text[0] ? text : charl_checkpoint_get_info(r).config_text;
    CHARL_REQUIRE(text[0], CHARL_ERR_CHECKPOINT,
                  "%s has no configuration, so its model is not known; HINT save it with "
                  "config_text",
                  path);
    CHARL_REQUIRE(charl_checkpoint_get_info(r).schema, CHARL_ERR_CHECKPOINT, "%s does not say what its data look like",
                  path);
    CHARL_TRY(charl__data_schema_copy(charl_checkpoint_get_info(r).schema, &m->schema));
    CHARL_TRY(parse(path, text, &m->own_config));
    return CHARL_OK;
}

static charl_status read_safetensors(charl__session *m, const char *path, const char *text)
{
    CHARL_SCOPED(charl__tensor_file_left) charl_tensor_file *s = NULL;

    CHARL_REQUIRE(text, CHARL_ERR_CONFIG, "%s holds no configuration; HINT config_text says what the model is", path);
    CHARL_TRY(charl_tensor_file_open(path, &s));
    CHARL_REQUIRE(charl_tensor_file_get_schema(s), CHARL_ERR_CHECKPOINT, "%s does not say what its data look like",
                  path);
    CHARL_TRY(charl__data_schema_copy(charl_tensor_file_get_schema(s), &m->schema));
    CHARL_TRY(parse("config_text", text, &m->own_config));
    return CHARL_OK;
}

static charl_status create_tensor(const charl_inference *m, charl_dtype dtype, const charl_shape *shape,
                                  const void *data, charl_tensor **out)
{
    CHARL_TRY(charl_tensor_create(m->dev, dtype, shape, out));
    if (data) {
        CHARL_TRY(charl_tensor_write(*out, data, (size_t)charl_shape_count(shape) * charl_dtype_size(dtype)));
    }
    return CHARL_OK;
}

static charl_shape batch_shape(const charl_inference *m, int64_t rows)
{
    charl_shape shape = {m->x_shape.ndim + 1, {rows}};

    memcpy(shape.dim + 1, m->x_shape.dim, (size_t)m->x_shape.ndim * sizeof shape.dim[0]);
    return shape;
}

/* The rows, and their numbers: each row's own. */
static charl_status create_rows(charl_inference *m)
{
    const charl_shape rows = {1, {m->max_rows}};
    charl_shape shape;
    CHARL_SCOPED_FREE int32_t *index = NULL;

    CHARL_REQUIRE(m->x_shape.ndim < CHARL_MAX_DIMS, CHARL_ERR_CHECKPOINT,
                  "samples have %d extents; charl reads up to %d", m->x_shape.ndim, CHARL_MAX_DIMS - 1);
    shape = batch_shape(m, m->max_rows);
    CHARL_TRY(charl_shape_check(&shape));
    CHARL_TRY(charl__alloc_array(m->max_rows, sizeof *index, &index));
    for (int64_t i = 0; i < m->max_rows; i++) {
        index[i] = (int32_t)i;
    }
    CHARL_TRY(create_tensor(m, m->x_dtype, &shape, NULL, &m->source));
    CHARL_TRY(create_tensor(m, CHARL_I32, &rows, index, &m->index));
    CHARL_TRY(charl__alloc_array(charl_shape_count(&shape), charl_dtype_size(m->x_dtype), &m->x));
    return CHARL_OK;
}

/* Mean and 1 / std of rows and targets. */
static charl_status create_stats(charl_inference *m)
{
    const charl_data_schema *s = m->session->schema;
    const charl_shape stats = {1, {s->n_stats}}, targets = {1, {s->n_target_stats}};
    CHARL_SCOPED_FREE float *scale = NULL;

    CHARL_TRY(charl__alloc_array(s->n_stats, sizeof *scale, &scale));
    for (int64_t i = 0; i < s->n_stats; i++) {
        scale[i] = 1.0F / s->std[i];
    }
    CHARL_TRY(create_tensor(m, CHARL_F32, &stats, s->mean, &m->shift));
    CHARL_TRY(create_tensor(m, CHARL_F32, &stats, scale, &m->scale));
    if (s->n_target_stats > 0) {
        CHARL_TRY(create_tensor(m, CHARL_F32, &targets, s->target_mean, &m->target_mean));
        CHARL_TRY(create_tensor(m, CHARL_F32, &targets, s->target_std, &m->target_std));
    }
    return CHARL_OK;
}

static charl_var *bound(charl_graph *g, const char *name, charl_tensor *t, charl_batch batch)
{
    charl_var *v = charl_input(g, name, charl_tensor_get_dtype(t), *charl_tensor_get_shape(t), batch);

    charl__graph_bind_input(g, v, t);
    return v;
}

/* A model's outputs must match the targets of its data; a program's model must give one row per row. */
static charl_status check_output(const charl_inference *m, const sized_graph *p)
{
    const charl_type type = charl_var_get_type(p->output);
    const charl_shape *out = &type.shape;
    const charl_data_schema *s = m->session ? m->session->schema : NULL;
    const int64_t each = charl_shape_count(out) / p->rows;
    int64_t targets = s ? charl_shape_count(&s->y_shape) : 0;
    const charl__loss *loss;
    charl_dataset_info data;
    charl_target_kind kind;
    bool fits;
    char text[CHARL_SHAPE_TEXT];

    if (!s) {
        CHARL_REQUIRE(type.batch == CHARL_BATCHED && out->dim[0] == p->rows &&
                          (m->n_outputs == 0 || m->n_outputs == each),
                      CHARL_ERR_CONFIG,
                      "the output that `build` makes of %lld rows is %s; it must have as many rows, "
                      "BATCHED, of the same outputs for any number of rows",
                      (long long)p->rows, charl_shape_format(out, text));
        return CHARL_OK;
    }
    charl__data_schema_get_info(s, "", &data);
    if (s->fields[0]) {
        return CHARL_OK; /* the model has checked each output */
    }
    loss = charl__config_loss(m->session->config);
    kind = charl__task_targets(loss, &data);
    targets *= charl__loss_values(loss, m->session->config->train.loss_settings);
    fits = kind == CHARL_TARGET_CLASS  ? out->ndim == 2 && out->dim[1] >= s->classes
           : kind == CHARL_TARGET_MAPS ? out->ndim > 3 && out->dim[1] >= s->classes && each == out->dim[1] * targets
                                       : each == targets;
    CHARL_REQUIRE(fits, CHARL_ERR_CONFIG, "the model's output for %lld rows is %s, its data have %lld %s",
                  (long long)p->rows, charl_shape_format(out, text),
                  (long long)(kind == CHARL_TARGET_CLASS ? s->classes : targets),
                  kind == CHARL_TARGET_CLASS ? "classes" : "targets");
    return CHARL_OK;
}

static charl_var *session_input(const charl_inference *m, const sized_graph *p)
{
    charl_graph *const g = p->g;
    charl_var *source = bound(g, "x", p->source, CHARL_REPLICATED), *row = bound(g, "row", p->index, CHARL_BATCHED), *x;

    if (m->session->schema->kind == CHARL_DATASET_SEQUENCES) {
        const charl_tokenizer *t = m->session->schema->tokenizer;

        return charl__graph_set_padded(g, charl__gather_tokens(g, source, row), t ? charl_tokenizer_get_vocab(t) : 0);
    }
    x = charl__gather_rows(g, source, row, bound(g, "shift", m->shift, CHARL_REPLICATED),
                           bound(g, "scale", m->scale, CHARL_REPLICATED));
    return charl__center_crop(g, x, m->session->config->data.image_size);
}

/* The model of the session, as its configuration says. */
static charl_var *session_output(const charl_inference *m, const sized_graph *p)
{
    const charl__session *s = m->session;
    charl_var *y = charl__task_build_model(s->config, s->model, s->params, p->g, session_input(m, p));

    y = charl__as_dtype(p->g, y, CHARL_F32);
    return m->target_mean ? charl__task_unscale(p->g, y, bound(p->g, "target_mean", m->target_mean, CHARL_REPLICATED),
                                                bound(p->g, "target_std", m->target_std, CHARL_REPLICATED))
                          : y;
}

/* Build and compile the graph over `rows` rows, the largest one first. */
static charl_status build_graph(charl_inference *m, int64_t rows, sized_graph *p)
{
    const charl_shape shape = batch_shape(m, rows), index = {1, {rows}};
    charl_status st;

    CHARL_TRY(charl__tensor_view(m->source->buffer, m->x_dtype, &shape, 0, &p->source));
    CHARL_TRY(charl__tensor_view(m->index->buffer, CHARL_I32, &index, 0, &p->index));
    CHARL_TRY(charl_graph_create(m->dev, NULL, &p->g));
    charl_graph_set_training(p->g, false);
    charl_graph_set_precision(p->g, m->session ? charl__task_precision(m->session->config) : m->model.precision);
    p->rows = rows;
    p->output =
        m->session
            ? session_output(m, p)
            : charl__as_dtype(p->g, m->model.build(m->model.ctx, p->g, bound(p->g, "x", p->source, CHARL_BATCHED)),
                              CHARL_F32);
    charl_graph_keep(p->g, p->output);
    st = charl_graph_status(p->g);
    if (m->session &&
        (st == CHARL_ERR_SHAPE || st == CHARL_ERR_DTYPE)) { /* layers that do not fit: an error of the user */
        st = CHARL_ERR_CONFIG;
    }
    CHARL_TRY(st);
    CHARL_REQUIRE(p->output, CHARL_ERR_INVALID, "`build` returned no output");
    CHARL_TRY(check_output(m, p));
    if (p != m->size) {
        charl__graph_share_activations(p->g, m->size[0].g);
    }
    return charl_graph_compile(p->g);
}

static void destroy_graph(sized_graph *p)
{
    charl_graph_destroy(p->g);
    charl_tensor_release(p->source);
    charl_tensor_release(p->index);
    *p = (sized_graph){0};
}

static charl_status create(const charl_inference *like, charl_inference **out)
{
    charl_inference *m = NULL;

    CHARL_TRY(charl__alloc(sizeof *m, &m));
    *m = *like;
    charl__owner_init(&m->owner);
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->answered, NULL);
    m->last = &m->first;
    *out = m;
    return CHARL_OK;
}

/* What the outputs of the session's model mean. */
static charl_status find_answers(charl_inference *m)
{
    const charl__loss *loss = charl__config_loss(m->session->config);
    const charl_shape out = charl__inference_output_shape(m);
    charl_dataset_info data;
    charl_target_kind kind;

    charl__data_schema_get_info(m->session->schema, "", &data);
    kind = charl__task_targets(loss, &data);
    CHARL_TRY(charl__config_outputs(m->session->config, m->session->schema->fields, &m->named));
    m->answer = charl__task_answer(loss, kind);
    m->classes = charl__task_classes(kind, &out);
    for (int k = 0; k < m->named.n; k++) {
        m->n_answers += charl__output_answers(&m->named.at[k], NULL, NULL);
    }
    m->n_answers = m->named.n > 0 ? m->n_answers : m->n_outputs;
    return CHARL_OK;
}

/* Build the largest graph, for rows of x_dtype and x_shape on dev. */
static charl_status build_largest(charl_inference *m)
{
    charl_shape out;

    CHARL_TRY(create_rows(m));
    CHARL_TRY(m->session ? create_stats(m) : CHARL_OK);
    CHARL_TRY(build_graph(m, m->max_rows, m->size));
    out = charl__inference_output_shape(m);
    m->n_outputs = charl_shape_count(&out) / m->max_rows;
    CHARL_TRY(m->session ? find_answers(m) : CHARL_OK);
    return charl__alloc_array(m->max_rows * m->n_outputs, sizeof *m->outputs, &m->outputs);
}

charl_status charl__inference_create(charl__session *s, const char *path, int64_t max_rows,
                                     const charl_device_request *request, charl_inference **out)
{
    CHARL_SCOPED(inference_left) charl_inference *m = NULL;

    *out = NULL;
    charl__data_schema_get_info(s->schema, path, &s->data);
    CHARL_REQUIRE(s->data.kind != CHARL_DATASET_TOKENS, CHARL_ERR_CONFIG,
                  "%s is a language model, which cannot be run on rows; HINT "
                  "charl_generate",
                  path);
    CHARL_TRY(charl__session_create_model(s));
    CHARL_TRY(charl__session_open_device(s, request));
    CHARL_TRY(create(&(charl_inference){.session = s,
                                        .dev = s->dev,
                                        .x_dtype = s->schema->x_dtype,
                                        .x_shape = s->schema->x_shape,
                                        .max_rows = max_rows,
                                        .one_size = true},
                     &m));
    CHARL_TRY(build_largest(m));
    *out = m;
    m = NULL;
    return CHARL_OK;
}

charl_status charl__inference_begin(charl_inference *m)
{
    return charl_graph_warm_up(m->size[0].g);
}

static charl_status check_max_rows(int64_t max_rows)
{
    CHARL_REQUIRE(max_rows >= 0 && max_rows <= INT32_MAX, CHARL_ERR_INVALID,
                  "max_rows is %lld; it is 1 to %d, or 0 for 64", (long long)max_rows, INT32_MAX);
    return CHARL_OK;
}

charl_status charl_inference_create(const charl_inference_model *model, const charl_inference_options *options,
                                    charl_inference **out)
{
    CHARL_GIVEN(model, out);
    CHARL__OPTIONS(charl_inference_model, model);
    CHARL__OPTIONS(charl_inference_options, options);
    CHARL_GIVEN(model->device, model->build);
    const int64_t max_rows = options && options->max_rows != 0 ? options->max_rows : MAX_ROWS;
    CHARL_SCOPED(inference_left) charl_inference *m = NULL;

    *out = NULL;
    CHARL_TRY(check_max_rows(max_rows));
    CHARL_TRY(create(&(charl_inference){.model = *model,
                                        .dev = model->device,
                                        .x_dtype = model->x_dtype,
                                        .x_shape = model->x_shape,
                                        .max_rows = max_rows},
                     &m));
    CHARL_TRY(build_largest(m));
    CHARL_TRY(charl__inference_begin(m));
    *out = m;
    m = NULL;
    return CHARL_OK;
}

charl_status charl_inference_open(const char *path, const charl_inference_options *options, charl_inference **out)
{
    CHARL_GIVEN(path, out);
    CHARL__OPTIONS(charl_inference_options, options);
    const charl_inference_options o =
        options ? *options : (charl_inference_options){sizeof(charl_inference_options), .max_rows = 0};
    const charl_device_request request = {sizeof request, .select = o.device, .local_size = 1, .share = true};
    CHARL_SCOPED(charl__session_fini) charl__session s = {.infers = true};
    CHARL_SCOPED(inference_left) charl_inference *m = NULL;

    *out = NULL;
    CHARL_TRY(check_max_rows(o.max_rows));
    if (charl__is_tensor_file(path)) {
        CHARL_TRY(read_safetensors(&s, path, o.config_text));
    } else {
        CHARL_TRY(read_checkpoint(&s, path));
    }
    s.config = s.own_config;
    CHARL_TRY(charl__inference_create(&s, path, o.max_rows ? o.max_rows : MAX_ROWS, &request, &m));
    CHARL_TRY(charl_params_load(s.params, path,
                                &(charl_params_load_options){sizeof(charl_params_load_options), .ema = o.ema}, NULL));
    CHARL_TRY(charl__inference_begin(m));
    m->own = s;
    m->session = &m->own;
    m->one_size = false;
    s = (charl__session){0};
    *out = m;
    m = NULL;
    return CHARL_OK;
}

void charl_inference_close(charl_inference *m)
{
    if (!m) {
        return;
    }
    charl_device_adopt(m->dev);
    for (int k = SIZES - 1; k >= 0; k--) { /* the first one's memory last */
        destroy_graph(&m->size[k]);
    }
    charl_tensor_release(m->source);
    charl_tensor_release(m->index);
    charl_tensor_release(m->shift);
    charl_tensor_release(m->scale);
    charl_tensor_release(m->target_mean);
    charl_tensor_release(m->target_std);
    charl__session_fini(&m->own);
    pthread_mutex_destroy(&m->lock);
    pthread_cond_destroy(&m->answered);
    charl_free(m->x);
    charl_free(m->outputs);
    charl_free(m);
}

charl_inference_info charl_inference_get_info(const charl_inference *m)
{
    return m ? (charl_inference_info){.schema = m->session ? m->session->schema : NULL,
                                      .x_dtype = m->x_dtype,
                                      .x_shape = m->x_shape,
                                      .n_outputs = m->n_outputs,
                                      .max_rows = m->max_rows}
             : (charl_inference_info){0};
}

charl_shape charl__inference_output_shape(const charl_inference *m)
{
    return charl_var_get_type(m->size[0].output).shape;
}

/* The smallest graph for n rows. */
static charl_status find_graph(charl_inference *m, int64_t n, sized_graph **out)
{
    charl_status st = CHARL_OK;
    sized_graph *p = m->size;
    int64_t rows = m->max_rows;

    while (!m->one_size && rows > 1 && (rows + 1) / 2 >= n) {
        rows = (rows + 1) / 2;
        p++;
    }
    if (!p->rows) {
        CHARL_TRY_CLEANUP(build_graph(m, rows, p));
        CHARL_TRY_CLEANUP(charl_graph_warm_up(p->g));
    }
    *out = p;
cleanup:
    if (st != CHARL_OK) {
        destroy_graph(p);
    }
    return st;
}

/* Compute the calls from `first` on, of n rows together. */
static charl_status answer(charl_inference *m, waiting *first, int64_t n)
{
    const size_t row = (size_t)charl_shape_count(&m->x_shape) * charl_dtype_size(m->x_dtype);
    sized_graph *p;
    int64_t at = 0;

    charl_device_adopt(m->dev);
    CHARL_TRY(find_graph(m, n, &p));
    for (const waiting *r = first; r; r = r->next) {
        memcpy(m->x + (size_t)at * row, r->x, (size_t)r->n * row);
        at += r->n;
    }
    CHARL_TRY(charl_tensor_write(p->source, m->x, (size_t)p->rows * row));
    CHARL_TRY(charl_graph_run(p->g));
    CHARL_TRY(charl_tensor_read(charl_var_get_tensor(p->output), m->outputs,
                                (size_t)(p->rows * m->n_outputs) * sizeof *m->outputs));
    at = 0;
    for (waiting *r = first; r; r = r->next) {
        memcpy(r->outputs, m->outputs + at * m->n_outputs, (size_t)(r->n * m->n_outputs) * sizeof *r->outputs);
        at += r->n;
    }
    return CHARL_OK;
}

/* Take the first calls that fit in a batch, and compute them. The lock is held, except while the device computes. */
static void serve(charl_inference *m)
{
    waiting *const first = m->first, *end = first;
    int64_t n = 0;
    charl_status st;

    for (waiting **link = &m->first; *link && n + (*link)->n <= m->max_rows; link = &(*link)->next) {
        n += (*link)->n;
        end = *link;
    }
    m->first = end->next;
    m->last = m->first ? m->last : &m->first;
    end->next = NULL;
    m->busy = true;
    pthread_mutex_unlock(&m->lock);
    st = answer(m, first, n);
    pthread_mutex_lock(&m->lock);
    for (waiting *r = first, *next; r; r = next) {
        next = r->next; /* completed calls may be gone */
        r->st = st;
        if (st != CHARL_OK) {
            snprintf(r->message, sizeof r->message, "%s", charl_error_message());
        }
        r->done = true;
    }
    m->busy = false;
    pthread_cond_broadcast(&m->answered);
}

charl_status charl_inference_run(charl_inference *m, const void *x, int64_t n, float *outputs)
{
    CHARL_GIVEN(m, x || n == 0, outputs || n == 0);
    waiting r = {.x = x, .n = n, .outputs = outputs};

    CHARL_REQUIRE(n >= 0 && n <= m->max_rows, CHARL_ERR_INVALID, "a batch of %lld rows, the model was opened for %lld",
                  (long long)n, (long long)m->max_rows);
    CHARL_TRY(charl__owner_check_process(&m->owner, "model"));
    if (n == 0) {
        return CHARL_OK;
    }
    pthread_mutex_lock(&m->lock);
    *m->last = &r;
    m->last = &r.next;
    while (!r.done) {
        if (m->busy) {
            pthread_cond_wait(&m->answered, &m->lock);
        } else {
            serve(m);
        }
    }
    pthread_mutex_unlock(&m->lock);
    CHARL_REQUIRE(r.st == CHARL_OK, r.st, "%s", r.message);
    return CHARL_OK;
}

int64_t charl_inference_get_answer_count(const charl_inference *m)
{
    return m ? m->n_answers : 0;
}

charl_status charl_inference_answer(const charl_inference *m, const float *outputs, int64_t n, double *answers)
{
    CHARL_GIVEN(m, outputs || n == 0, answers || n == 0);
    CHARL_REQUIRE(m->n_answers > 0, CHARL_ERR_INVALID,
                  "the model was built by a program, which knows what its outputs mean");
    for (int64_t i = 0; i < n; i++) {
        const float *row = outputs + i * m->n_outputs;
        double *to = answers + i * m->n_answers;

        for (int k = 0; k < m->named.n; k++) {
            to += charl__output_answers(&m->named.at[k], row, to);
        }
        if (m->named.n == 0) {
            m->answer->compute(row, m->n_outputs, m->classes, to);
        }
    }
    return CHARL_OK;
}
