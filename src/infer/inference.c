/* A model in a server: one evaluation graph over max_rows rows of raw data.
 *
 *      source [max_rows, x_shape] -> gather_rows normalises -> model -> outputs
 *
 * Rows past the n of a batch are old ones, whose outputs are not read.
 */
#include "infer/inference.h"

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
#include "charl/safetensors.h"
#include "charl/weights.h"
#include "config/config_rows.h"
#include "io/schema.h"
#include "task/augment.h"
#include "task/task.h"
#include "task/weights/weights_source.h"

enum { MAX_ROWS = 64 };

struct charl_inference {
    charl__owner owner;      /* while it runs */
    charl__session *session; /* own, or borrowed */
    charl__session own;
    int64_t max_rows, n_outputs;
    charl_graph *g;
    charl_tensor *source, *index, *shift, *scale;
    charl_tensor *target_mean, *target_std; /* NULL: targets were not scaled */
    charl_var *output;
    unsigned char *x; /* [max_rows, x_shape] */
    float *outputs;   /* [max_rows, n_outputs] */
};

const charl_config_override charl__inference_overrides[CHARL__INFERENCE_OVERRIDES] = {
    {"device.select=auto", "inference"}, {"device.share=yes", "inference"}, {"train.slices=auto", "inference"}};

static charl_status parse(const char *path, const char *text, charl_config **out)
{
    return charl_config_parse(path, text, strlen(text), charl__inference_overrides, CHARL__INFERENCE_OVERRIDES, out);
}

static charl_status read_checkpoint(charl__session *m, const char *path)
{
    charl_status st = CHARL_OK;
    charl_checkpoint_reader *r = NULL;
    const char *text;

    CHARL_TRY_CLEANUP(charl_checkpoint_open(path, &r));
    text = charl_checkpoint_get_config_resolved(r);
    text = text[0] ? text : charl_checkpoint_get_config_text(r);
    CHARL_REQUIRE_CLEANUP(text[0], CHARL_ERR_CHECKPOINT,
                          "%s has no configuration, so its model is not known; HINT save it with "
                          "config_text",
                          path);
    CHARL_REQUIRE_CLEANUP(charl_checkpoint_get_schema(r), CHARL_ERR_CHECKPOINT,
                          "%s does not say what its data look like", path);
    CHARL_TRY_CLEANUP(charl__data_schema_copy(charl_checkpoint_get_schema(r), &m->schema));
    CHARL_TRY_CLEANUP(parse(path, text, &m->own_config));
cleanup:
    charl_checkpoint_close(r);
    return st;
}

static charl_status read_safetensors(charl__session *m, const char *path, const char *text)
{
    charl_status st = CHARL_OK;
    charl_safetensors *s = NULL;

    CHARL_REQUIRE_CLEANUP(text, CHARL_ERR_CONFIG, "%s holds no configuration; HINT config_text says what the model is",
                          path);
    CHARL_TRY_CLEANUP(charl_safetensors_open(path, &s));
    CHARL_REQUIRE_CLEANUP(charl_safetensors_get_schema(s), CHARL_ERR_CHECKPOINT,
                          "%s does not say what its data look like", path);
    CHARL_TRY_CLEANUP(charl__data_schema_copy(charl_safetensors_get_schema(s), &m->schema));
    CHARL_TRY_CLEANUP(parse("config_text", text, &m->own_config));
cleanup:
    charl_safetensors_close(s);
    return st;
}

static charl_status create_tensor(const charl_inference *m, charl_dtype dtype, const charl_shape *shape,
                                  const void *data, charl_tensor **out)
{
    CHARL_TRY(charl_tensor_create(m->session->dev, dtype, shape, out));
    if (data) {
        CHARL_TRY(charl_tensor_write(*out, data, (size_t)charl_shape_count(shape) * charl_dtype_size(dtype)));
    }
    return CHARL_OK;
}

/* The rows, which of them is which (its own number), mean and 1 / std. */
static charl_status create_inputs(charl_inference *m)
{
    charl_status st = CHARL_OK;
    const charl_data_schema *s = m->session->schema;
    const charl_shape rows = {1, {m->max_rows}}, stats = {1, {s->n_stats}}, targets = {1, {s->n_target_stats}};
    charl_shape shape = {s->x_shape.ndim + 1, {m->max_rows}};
    int32_t *index = NULL;
    float *scale = NULL;

    CHARL_REQUIRE_CLEANUP(s->x_shape.ndim < CHARL_MAX_DIMS, CHARL_ERR_CHECKPOINT, "samples of %d extents",
                          s->x_shape.ndim);
    memcpy(shape.dim + 1, s->x_shape.dim, (size_t)s->x_shape.ndim * sizeof shape.dim[0]);
    CHARL_TRY_CLEANUP(charl__alloc_array(m->max_rows, sizeof *index, &index));
    CHARL_TRY_CLEANUP(charl__alloc_array(s->n_stats, sizeof *scale, &scale));
    for (int64_t i = 0; i < m->max_rows; i++) {
        index[i] = (int32_t)i;
    }
    for (int64_t i = 0; i < s->n_stats; i++) {
        scale[i] = 1.0F / s->std[i];
    }
    CHARL_TRY_CLEANUP(create_tensor(m, s->x_dtype, &shape, NULL, &m->source));
    CHARL_TRY_CLEANUP(create_tensor(m, CHARL_I32, &rows, index, &m->index));
    CHARL_TRY_CLEANUP(create_tensor(m, CHARL_F32, &stats, s->mean, &m->shift));
    CHARL_TRY_CLEANUP(create_tensor(m, CHARL_F32, &stats, scale, &m->scale));
    if (s->n_target_stats > 0) {
        CHARL_TRY_CLEANUP(create_tensor(m, CHARL_F32, &targets, s->target_mean, &m->target_mean));
        CHARL_TRY_CLEANUP(create_tensor(m, CHARL_F32, &targets, s->target_std, &m->target_std));
    }
    CHARL_TRY_CLEANUP(charl__alloc_array(charl_shape_count(&shape), charl_dtype_size(s->x_dtype), &m->x));
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

/* The model puts out what its data have targets for. */
static charl_status check_output(charl_inference *m, const charl_shape *out)
{
    const charl_data_schema *s = m->session->schema;
    const int64_t targets = charl_shape_count(&s->y_shape);
    charl_dataset_info data;
    charl_target_kind kind;
    bool fits;
    char text[CHARL_SHAPE_TEXT];

    charl__data_schema_get_info(s, "", &data);
    kind = charl__task_targets(charl__config_loss(m->session->config), &data);
    m->n_outputs = charl_shape_count(out) / m->max_rows;
    fits = kind == CHARL_TARGET_CLASS ? out->ndim == 2 && out->dim[1] >= s->classes
           : kind == CHARL_TARGET_MAPS
               ? out->ndim > 3 && out->dim[1] >= s->classes && m->n_outputs == out->dim[1] * targets
               : m->n_outputs == targets;
    CHARL_REQUIRE(fits, CHARL_ERR_CONFIG, "the model's output for %lld rows is %s, its data have %lld %s",
                  (long long)m->max_rows, charl_shape_format(out, text),
                  (long long)(kind == CHARL_TARGET_CLASS ? s->classes : targets),
                  kind == CHARL_TARGET_CLASS ? "classes" : "targets");
    return CHARL_OK;
}

static charl_var *model_input(const charl_inference *m)
{
    charl_graph *const g = m->g;
    charl_var *source = bound(g, "x", m->source, CHARL_REPLICATED), *row = bound(g, "row", m->index, CHARL_BATCHED), *x;

    if (m->session->schema->kind == CHARL_DATASET_SEQUENCES) {
        const charl_tokenizer *t = m->session->schema->tokenizer;

        return charl__graph_set_padded(g, charl__gather_tokens(g, source, row), t ? charl_tokenizer_get_vocab(t) : 0);
    }
    x = charl__gather_rows(g, source, row, bound(g, "shift", m->shift, CHARL_REPLICATED),
                           bound(g, "scale", m->scale, CHARL_REPLICATED));
    x = charl__center_crop(g, x, m->session->config->data.image_size);
    return charl__as_dtype(g, x, charl_graph_get_precision(g));
}

static charl_status build_graph(charl_inference *m)
{
    charl_graph *g = NULL;
    charl_status st;
    charl_shape out;
    charl_var *x;

    CHARL_TRY(charl_graph_create(m->session->dev, NULL, &m->g));
    g = m->g;
    charl_graph_set_training(g, false);
    charl_graph_set_precision(g, charl__task_precision(m->session->config));
    x = model_input(m);
    m->output = charl__as_dtype(
        g, charl__task_build_model(m->session->config, m->session->model, m->session->params, g, x), CHARL_F32);
    if (m->target_mean) {
        m->output = charl__task_unscale(g, m->output, bound(g, "target_mean", m->target_mean, CHARL_REPLICATED),
                                        bound(g, "target_std", m->target_std, CHARL_REPLICATED));
    }
    charl_graph_keep(g, m->output);
    st = charl_graph_status(g);
    if (st == CHARL_ERR_SHAPE || st == CHARL_ERR_DTYPE) { /* layers that do not fit: the user's */
        st = CHARL_ERR_CONFIG;
    }
    CHARL_TRY(st);
    out = charl_var_get_type(m->output).shape;
    CHARL_TRY(check_output(m, &out));
    CHARL_TRY(charl__alloc_array(charl_shape_count(&out), sizeof *m->outputs, &m->outputs));
    CHARL_TRY(charl_graph_compile(g));
    return CHARL_OK;
}

charl_status charl__inference_create(charl__session *s, const char *path, int64_t max_rows,
                                     const charl_device_request *request, charl_inference **out)
{
    charl_status st = CHARL_OK;
    charl_inference *m = NULL;

    *out = NULL;
    charl__data_schema_get_info(s->schema, path, &s->data);
    CHARL_REQUIRE_CLEANUP(s->data.kind != CHARL_DATASET_TOKENS, CHARL_ERR_CONFIG,
                          "%s is a language model, which cannot be run on rows; HINT "
                          "charl_generate",
                          path);
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *m, &m));
    charl__owner_init(&m->owner);
    m->session = s;
    m->max_rows = max_rows;
    CHARL_TRY_CLEANUP(charl__session_create_model(s));
    CHARL_TRY_CLEANUP(charl__session_open_device(s, request));
    CHARL_TRY_CLEANUP(create_inputs(m));
    CHARL_TRY_CLEANUP(build_graph(m));
    *out = m;
    m = NULL;
cleanup:
    charl_inference_close(m);
    return st;
}

charl_status charl__inference_begin(charl_inference *m)
{
    return charl_graph_warm_up(m->g);
}

charl_status charl_inference_open(const char *path, const charl_inference_options *options, charl_inference **out)
{
    CHARL_GIVEN(path, out);
    CHARL__OPTIONS(charl_inference_options, options);
    const charl_inference_options o =
        options ? *options : (charl_inference_options){sizeof(charl_inference_options), .max_rows = 0};
    const charl_device_request request = {sizeof request, .select = o.device, .local_size = 1, .share = true};
    charl_status st = CHARL_OK;
    charl__session s = {.infers = true};
    charl_inference *m = NULL;

    *out = NULL;
    CHARL_REQUIRE_CLEANUP(o.max_rows >= 0 && o.max_rows <= INT32_MAX, CHARL_ERR_INVALID, "max_rows is %lld",
                          (long long)o.max_rows);
    if (charl__is_safetensors(path)) {
        CHARL_TRY_CLEANUP(read_safetensors(&s, path, o.config_text));
    } else {
        CHARL_TRY_CLEANUP(read_checkpoint(&s, path));
    }
    s.config = s.own_config;
    CHARL_TRY_CLEANUP(charl__inference_create(&s, path, o.max_rows ? o.max_rows : MAX_ROWS, &request, &m));
    CHARL_TRY_CLEANUP(charl_params_load(
        s.params, path, &(charl_params_load_options){sizeof(charl_params_load_options), .ema = o.ema}, NULL));
    CHARL_TRY_CLEANUP(charl__inference_begin(m));
    m->own = s;
    m->session = &m->own;
    s = (charl__session){0};
    *out = m;
    m = NULL;
cleanup:
    charl_inference_close(m);
    charl__session_fini(&s);
    return st;
}

void charl_inference_close(charl_inference *m)
{
    if (!m) {
        return;
    }
    charl_graph_destroy(m->g);
    charl_tensor_release(m->source);
    charl_tensor_release(m->index);
    charl_tensor_release(m->shift);
    charl_tensor_release(m->scale);
    charl_tensor_release(m->target_mean);
    charl_tensor_release(m->target_std);
    charl__session_fini(&m->own);
    charl_free(m->x);
    charl_free(m->outputs);
    charl_free(m);
}

charl_inference_info charl_inference_get_info(const charl_inference *m)
{
    if (!m) {
        return (charl_inference_info){0};
    }
    return (charl_inference_info){.schema = m->session->schema,
                                  .x_dtype = m->session->schema->x_dtype,
                                  .x_shape = m->session->schema->x_shape,
                                  .n_outputs = m->n_outputs,
                                  .max_rows = m->max_rows};
}

charl_shape charl__inference_output_shape(const charl_inference *m)
{
    return charl_var_get_type(m->output).shape;
}

static charl_status run(charl_inference *m, const void *x, int64_t n, float *outputs)
{
    const size_t row =
        (size_t)charl_shape_count(&m->session->schema->x_shape) * charl_dtype_size(m->session->schema->x_dtype);

    CHARL_REQUIRE(n >= 0 && n <= m->max_rows, CHARL_ERR_INVALID, "a batch of %lld rows, the model was opened for %lld",
                  (long long)n, (long long)m->max_rows);
    memcpy(m->x, x, (size_t)n * row);
    CHARL_TRY(charl_tensor_write(m->source, m->x, (size_t)m->max_rows * row));
    CHARL_TRY(charl_graph_run(m->g));
    CHARL_TRY(charl_tensor_read(charl_var_get_tensor(m->output), m->outputs,
                                (size_t)(m->max_rows * m->n_outputs) * sizeof *m->outputs));
    memcpy(outputs, m->outputs, (size_t)(n * m->n_outputs) * sizeof *outputs);
    return CHARL_OK;
}

charl_status charl_inference_run(charl_inference *m, const void *x, int64_t n, float *outputs)
{
    CHARL_GIVEN(m, x || n == 0, outputs || n == 0);
    CHARL_OWNED(&m->owner, "model");
    charl_device_adopt(m->session->dev); /* no other code uses it: this model has opened it */
    CHARL_TRY(run(m, x, n, outputs));
    return CHARL_OK;
}
