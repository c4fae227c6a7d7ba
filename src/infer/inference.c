/* A model in a server: one evaluation graph over max_rows rows of raw data.
 *
 *      source [max_rows, x_shape] -> gather_rows normalises -> model -> outputs
 *
 * Rows past the n of a batch are old ones, whose outputs are not read.
 */
#include "charl/inference.h"

#include <string.h>

#include "autograd/graph.h"
#include "autograd/op.h"
#include "base/alloc.h"
#include "base/text.h"
#include "charl/config.h"
#include "charl/data_schema.h"
#include "charl/ops.h"
#include "charl/safetensors.h"
#include "charl/weights.h"
#include "task/task.h"

enum { MAX_ROWS = 64 };

struct charl_inference {
    charl_config *config;
    charl_data_schema *schema;
    int64_t max_rows, n_outputs;
    charl_device *dev;
    charl_model *model;
    charl_params *params;
    charl_graph *g;
    charl_tensor *source, *index, *shift, *scale;
    charl_var *output;
    unsigned char *x; /* [max_rows, x_shape] */
    float *outputs;   /* [max_rows, n_outputs] */
};

/* A row can be computed on any device, in any number. */
static charl_status parse(const char *path, const char *text, charl_config **out)
{
    static const charl_config_override own[] = {
        {"device.select=auto", "inference"}, {"device.share=yes", "inference"}, {"train.slices=auto", "inference"}};

    return charl_config_parse(path, text, strlen(text), own, sizeof own / sizeof own[0], out);
}

static charl_status read_checkpoint(charl_inference *m, const char *path)
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
    CHARL_TRY_CLEANUP(charl_data_schema_copy(charl_checkpoint_get_schema(r), &m->schema));
    CHARL_TRY_CLEANUP(parse(path, text, &m->config));
cleanup:
    charl_checkpoint_close(r);
    return st;
}

static charl_status read_safetensors(charl_inference *m, const char *path, const char *text)
{
    charl_status st = CHARL_OK;
    charl_safetensors *s = NULL;

    CHARL_REQUIRE_CLEANUP(text, CHARL_ERR_CONFIG, "%s holds no configuration; HINT config_text says what the model is",
                          path);
    CHARL_TRY_CLEANUP(charl_safetensors_open(path, &s));
    CHARL_REQUIRE_CLEANUP(charl_safetensors_get_schema(s), CHARL_ERR_CHECKPOINT,
                          "%s does not say what its data look like", path);
    CHARL_TRY_CLEANUP(charl_data_schema_copy(charl_safetensors_get_schema(s), &m->schema));
    CHARL_TRY_CLEANUP(parse("config_text", text, &m->config));
cleanup:
    charl_safetensors_close(s);
    return st;
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

/* The rows, which of them is which (its own number), mean and 1 / std. */
static charl_status create_inputs(charl_inference *m)
{
    charl_status st = CHARL_OK;
    const charl_data_schema *s = m->schema;
    const charl_shape rows = {1, {m->max_rows}}, stats = {1, {s->n_stats}};
    charl_shape shape = {s->x_shape.ndim + 1, {m->max_rows}};
    int32_t *index = NULL;
    float *scale = NULL;

    CHARL_REQUIRE_CLEANUP(s->x_shape.ndim < CHARL_MAX_DIMS, CHARL_ERR_CHECKPOINT, "samples of %d extents",
                          s->x_shape.ndim);
    memcpy(shape.dim + 1, s->x_shape.dim, (size_t)s->x_shape.ndim * sizeof shape.dim[0]);
    CHARL_TRY_CLEANUP(charl_alloc_array(m->max_rows, sizeof *index, &index));
    CHARL_TRY_CLEANUP(charl_alloc_array(s->n_stats, sizeof *scale, &scale));
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
    CHARL_TRY_CLEANUP(charl_alloc_array(charl_shape_count(&shape), charl_dtype_size(s->x_dtype), &m->x));
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

static charl_status build_graph(charl_inference *m)
{
    charl_graph *g = NULL;
    charl_shape out;
    charl_var *x;

    CHARL_TRY(charl_graph_create(m->dev, NULL, &m->g));
    g = m->g;
    charl_graph_set_training(g, false);
    charl_graph_set_precision(g, charl__task_precision(m->config));
    x = charl_gather_rows(g, bound(g, "x", m->source, CHARL_REPLICATED), bound(g, "row", m->index, CHARL_BATCHED),
                          bound(g, "shift", m->shift, CHARL_REPLICATED), bound(g, "scale", m->scale, CHARL_REPLICATED));
    x = charl__as_dtype(g, x, charl_graph_get_precision(g));
    m->output = charl__as_dtype(g, charl_model_build(m->model, g, m->params, x), CHARL_F32);
    charl_graph_keep(g, m->output);
    CHARL_TRY(charl_graph_compile(g));
    out = charl_var_get_type(m->output).shape;
    m->n_outputs = charl_shape_count(&out) / m->max_rows;
    CHARL_TRY(charl_alloc_array(charl_shape_count(&out), sizeof *m->outputs, &m->outputs));
    return CHARL_OK;
}

static charl_status build(charl_inference *m, const char *path, const charl_inference_options *o)
{
    const charl_device_request request = {.select = o->device, .local_size = 1, .share = true};
    charl_dataset_info data;
    int64_t outputs;

    charl_data_schema_get_info(m->schema, path, &data);
    CHARL_REQUIRE(data.kind != CHARL_DATASET_TOKENS, CHARL_ERR_CONFIG,
                  "%s is a model of tokens, which has no rows to answer; HINT charl_generate", path);
    CHARL_TRY(charl__task_outputs(m->config, &data, &outputs));
    CHARL_TRY(charl__task_model(m->config, outputs, &m->model));
    CHARL_TRY(charl_params_create(&m->params));
    CHARL_TRY(charl_device_open(&request, &m->dev));
    CHARL_TRY(create_inputs(m));
    CHARL_TRY(build_graph(m));
    CHARL_TRY(charl_params_load(m->params, path, &(charl_params_load_options){.ema = o->ema}, NULL));
    CHARL_TRY(charl_graph_warm_up(m->g));
    return CHARL_OK;
}

charl_status charl_inference_open(const char *path, const charl_inference_options *options, charl_inference **out)
{
    const charl_inference_options o = options ? *options : (charl_inference_options){.max_rows = 0};
    charl_status st = CHARL_OK;
    charl_inference *m = NULL;

    *out = NULL;
    CHARL_REQUIRE_CLEANUP(o.max_rows >= 0 && o.max_rows <= INT32_MAX, CHARL_ERR_INVALID, "max_rows is %lld",
                          (long long)o.max_rows);
    CHARL_TRY_CLEANUP(charl_alloc(sizeof *m, &m));
    m->max_rows = o.max_rows ? o.max_rows : MAX_ROWS;
    if (charl__ends_in(path, ".safetensors")) {
        CHARL_TRY_CLEANUP(read_safetensors(m, path, o.config_text));
    } else {
        CHARL_TRY_CLEANUP(read_checkpoint(m, path));
    }
    CHARL_TRY_CLEANUP(build(m, path, &o));
    *out = m;
    m = NULL;
cleanup:
    charl_inference_close(m);
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
    charl_params_destroy(m->params);
    charl_model_destroy(m->model);
    charl_device_close(m->dev);
    charl_data_schema_destroy(m->schema);
    charl_config_destroy(m->config);
    charl_free(m->x);
    charl_free(m->outputs);
    charl_free(m);
}

charl_inference_info charl_inference_get_info(const charl_inference *m)
{
    return (charl_inference_info){.schema = m->schema,
                                  .x_dtype = m->schema->x_dtype,
                                  .x_shape = m->schema->x_shape,
                                  .n_outputs = m->n_outputs,
                                  .max_rows = m->max_rows};
}

charl_status charl_inference_run(charl_inference *m, const void *x, int64_t n, float *outputs)
{
    const size_t row = (size_t)charl_shape_count(&m->schema->x_shape) * charl_dtype_size(m->schema->x_dtype);

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
