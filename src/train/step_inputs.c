/* The samples of a step as a training delivers them: the loader of a single rank that has the whole batch, and a graph with nothing but its inputs. */
#include "charl/replay.h"

#include <math.h>
#include <string.h>

#include "autograd/graph.h"
#include "base/alloc.h"
#include "data/image/sample_png.h"
#include "task/session.h"
#include "tensor/step_params.h"

typedef struct reading {
    charl_step_inputs inputs; /* what the caller sees */
    charl_step_rows *rows;
    charl__session session;
    charl__device_loader *loader;
    charl_steps *steps; /* random numbers of the graph are those of seed and step */
    charl_graph *g;
} reading;

/* The first rows of a step, as much of v as a graph of them has; *out of elements of 4 bytes. */
static charl_status read_var(const charl_var *v, void *out)
{
    const charl_type type = charl_var_get_type(v);
    const int64_t count = charl_shape_count(&type.shape);
    void **field = out;

    CHARL_TRY(charl__alloc_array(count, sizeof(float), field));
    return charl_tensor_read(charl_var_get_tensor(v), *field, (size_t)count * sizeof(float));
}

static charl_shape shape_of_row(const charl_var *v)
{
    const charl_type type = charl_var_get_type(v);
    charl_shape row = {type.shape.ndim - 1, {0}};

    memcpy(row.dim, type.shape.dim + 1, (size_t)row.ndim * sizeof row.dim[0]);
    return row;
}

/* Undo the normalization; integers are those of the data again, and blends of them multiples of 1/1024. */
static void to_units(const charl_data_schema *s, charl_step_inputs *in)
{
    const int64_t size = charl_shape_count(&in->x_shape), each = s->n_stats > 0 ? size / s->n_stats : 0;
    const double unit = s->x_dtype == CHARL_F32 ? 0 : 1024;

    for (int64_t i = 0; i < in->n * size && each > 0; i++) {
        const int64_t c = i % size / each;
        const double v = (double)in->x[i] * (double)s->std[c] + (double)s->mean[c];

        in->x[i] = (float)(unit > 0 ? nearbyint(v * unit) / unit + 0.0 : v);
    }
}

static charl_status read_weights(const charl__device_loader_vars *v, charl_step_inputs *in)
{
    const charl_var *count = v->count ? v->count : v->weight;
    const charl_type type = charl_var_get_type(count);
    const int64_t each = charl_shape_count(&type.shape) / in->n;
    CHARL_SCOPED_FREE float *weight = NULL;

    CHARL_TRY(read_var(count, &weight));
    CHARL_TRY(charl__alloc_array(in->n, sizeof *in->weight, &in->weight));
    for (int64_t i = 0; i < in->n * each; i++) {
        in->weight[i / each] = weight[i] > in->weight[i / each] ? weight[i] : in->weight[i / each];
    }
    return CHARL_OK;
}

static charl_status read_step(reading *r, int64_t step)
{
    charl__device_loader_options o = charl__session_loader(&r->session, CHARL_SPLIT_TRAIN, true);
    const uint64_t seed = o.seed, at = (uint64_t)step - 1;
    const charl__step_params record = {.seed_lo = (uint32_t)seed,
                                       .seed_hi = (uint32_t)(seed >> 32),
                                       .step_lo = (uint32_t)at,
                                       .step_hi = (uint32_t)(at >> 32)};
    charl_step_inputs *in = &r->inputs;
    charl__device_loader_vars v;

    o.rows = o.batch;
    o.on_demand = true;
    CHARL_TRY(charl__device_loader_create(&o, &r->loader));
    CHARL_TRY(charl_steps_create(r->session.dev, NULL, &r->steps));
    CHARL_TRY(charl_graph_create(r->session.dev, NULL, &r->g));
    charl_graph_set_steps(r->g, r->steps);
    charl__device_loader_attach(r->loader, r->g, in->n, &v);
    charl_graph_keep(r->g, v.x);
    charl_graph_keep(r->g, v.y);
    charl_graph_keep(r->g, v.count ? v.count : v.weight);
    CHARL_TRY(charl_graph_compile(r->g));
    CHARL_TRY(charl__device_loader_seek(r->loader, step - 1));
    CHARL_TRY(charl__steps_push(r->steps, &record));
    CHARL_TRY(charl__device_loader_next(r->loader));
    CHARL_TRY(charl_graph_run(r->g));
    CHARL_TRY(charl__device_loader_used(r->loader));
    in->x_shape = shape_of_row(v.x);
    in->y_shape = shape_of_row(v.y);
    CHARL_TRY(read_var(v.x, charl_var_get_type(v.x).dtype == CHARL_F32 ? (void *)&in->x : (void *)&in->tokens));
    CHARL_TRY(read_var(v.y, charl_var_get_type(v.y).dtype == CHARL_F32 ? (void *)&in->y : (void *)&in->labels));
    if (in->x) {
        to_units(r->session.schema, in);
    }
    return read_weights(&v, in);
}

static charl_status read_samples(reading *r, const charl_config *config, int64_t step, int64_t count)
{
    const charl_device_request request = {sizeof request, .select = config->device.select, .local_size = 1,
                                          .share = config->device.share, .allow_tf32 = config->device.allow_tf32};

    r->session.config = config;
    CHARL_TRY(charl_step_rows_create(config, step, &r->rows));
    CHARL_TRY(charl__session_open_data(&r->session, CHARL_SPLIT_TRAIN));
    CHARL_TRY(charl__session_match_data(&r->session));
    CHARL_TRY(charl__session_weigh_classes(&r->session));
    CHARL_TRY(charl__session_forget_rows(&r->session));
    CHARL_TRY(charl__session_open_device(&r->session, &request));
    r->inputs = (charl_step_inputs){.rows = r->rows,
                                    .data = &r->session.data,
                                    .n = count < r->rows->n ? count : r->rows->n,
                                    .tokenizer = r->session.schema->tokenizer};
    return read_step(r, step);
}

charl_status charl_step_inputs_create(const charl_config *config, int64_t step, int64_t count, charl_step_inputs **out)
{
    CHARL_GIVEN(config, out);
    charl_status st = CHARL_OK;
    reading *r = NULL;

    *out = NULL;
    CHARL_REQUIRE(count >= 1, CHARL_ERR_INVALID, "count is %lld; there must be at least one sample", (long long)count);
    CHARL_TRY(charl__alloc(sizeof *r, &r));
    st = read_samples(r, config, step, count);
    if (st != CHARL_OK) {
        charl_step_inputs_destroy(&r->inputs);
        return st;
    }
    *out = &r->inputs;
    return CHARL_OK;
}

void charl_step_inputs_destroy(charl_step_inputs *inputs)
{
    reading *r = (reading *)inputs;

    if (r) {
        charl_graph_destroy(r->g);
        charl_steps_destroy(r->steps);
        charl__device_loader_destroy(r->loader);
        charl__session_fini(&r->session);
        charl_step_rows_destroy(r->rows);
        charl_free(r->inputs.x);
        charl_free(r->inputs.tokens);
        charl_free(r->inputs.y);
        charl_free(r->inputs.labels);
        charl_free(r->inputs.weight);
        charl_free(r);
    }
}

int64_t charl_step_inputs_columns(const charl_step_inputs *inputs)
{
    return inputs ? charl__sheet_columns(inputs->n) : 0;
}

charl_status charl_step_inputs_draw(const charl_step_inputs *inputs, const char *file)
{
    CHARL_GIVEN(inputs, file);
    const charl_dataset_info *data = inputs->data;
    const size_t n = strlen(file);

    CHARL_GIVEN(data);
    CHARL_REQUIRE(n > 4 && strcmp(file + n - 4, ".png") == 0, CHARL_ERR_CONFIG,
                  "%s: samples are drawn in a PNG file; HINT name a file .png", file);

    CHARL_REQUIRE(data->kind == CHARL_DATASET_IMAGES && inputs->x, CHARL_ERR_CONFIG,
                  "%s: %s holds no images (%s); HINT leave out the picture", file, data->path,
                  charl_dataset_kind_name(data->kind));
    return charl__sheet_write(file, &inputs->x_shape, inputs->x, inputs->n, 0, data->x_dtype == CHARL_U8 ? 255 : 0);
}
