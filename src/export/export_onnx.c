/* Models as ONNX: the evaluation graph of the checkpoint's configuration, from rows as they lie in
 * the data file to the model's output, with a batch of any size.
 *
 * Normalisation is part of it, so that nobody has to know how the data were prepared: shift and
 * scale are two more parameters of the graph, whose values come from the checkpoint's schema. No
 * device is opened.
 */
#include <string.h>

#include "autograd/onnx/onnx.h"
#include "base/alloc.h"
#include "charl/data_schema.h"
#include "charl/ops.h"
#include "io/commit.h"
#include "export/export.h"
#include "task/schema.h"
#include "task/task.h"
#include "task/weights.h"

static const char shift_name[] = "input.shift", scale_name[] = "input.scale";

typedef struct onnx_export {
    const charl__export *e;
    charl_config *config;
    charl_data_schema *schema;
    charl_dataset_info data; /* as the schema says */
    float *scale;            /* 1 / std */
    charl_model *model;
    charl_params *params;
    charl_graph *g;
} onnx_export;

static charl_status read_value(void *ctx, const charl_param_spec *spec, float *dst)
{
    charl_status st = CHARL_OK;
    const onnx_export *x = ctx;
    float *stored = NULL;
    const float *own = strcmp(spec->name, shift_name) == 0   ? x->schema->mean
                       : strcmp(spec->name, scale_name) == 0 ? x->scale
                                                             : NULL;

    if (own) {
        memcpy(dst, own, (size_t)x->schema->n_stats * sizeof *own);
    } else {
        CHARL_TRY_CLEANUP(charl__weights_read(x->e->r, x->e->checkpoint,
                                              spec->trainable ? x->e->group : "model", spec->name,
                                              &spec->shape, &stored));
        memcpy(dst, stored, (size_t)charl_shape_count(&spec->shape) * sizeof *stored);
    }
cleanup:
    charl_free(stored);
    return st;
}

static charl_status open_config(onnx_export *x)
{
    charl_status st = CHARL_OK;
    const char *text = charl_checkpoint_get_config_resolved(x->e->r);

    /* Paths are absolute in it. */
    st = charl_config_parse("/config/resolved", text, strlen(text), x->e->overrides,
                            x->e->n_overrides, &x->config);
    if (st == CHARL_ERR_CONFIG) {
        charl__error_prefix("%s: ", x->e->checkpoint);
    }
    CHARL_TRY(st);
    return st;
}

/* A checkpoint of version 1 does not say what its data look like: the data file does. */
static charl_status describe_data(onnx_export *x)
{
    charl_status st = CHARL_OK;
    const charl_dataset_options o = charl__task_dataset_options(x->config);
    charl_dataset *ds = NULL;
    int64_t classes;

    CHARL_REQUIRE_CLEANUP(x->config->data.path[0], CHARL_ERR_CONFIG,
                          "%s does not say which data it was trained on; HINT give data.path=FILE",
                          x->e->checkpoint);
    st = charl_dataset_open(x->config->data.path, &o, &ds);
    CHARL_REQUIRE_CLEANUP(
        st == CHARL_OK, st,
        "%s; HINT %s was written by an older charl, which did not store what a sample "
        "looks like; if the data moved, give data.path=FILE",
        charl_error_message(), x->e->checkpoint);
    CHARL_TRY_CLEANUP(charl__task_schema(x->config, ds, &x->schema));
    CHARL_TRY_CLEANUP(charl__weights_classes(x->config, x->e->r, &classes));
    x->schema->classes = classes > x->schema->classes ? classes : x->schema->classes;
cleanup:
    charl_dataset_close(ds);
    return st;
}

static charl_status open_schema(onnx_export *x)
{
    const charl_data_schema *stored = charl_checkpoint_get_schema(x->e->r);

    if (stored) {
        CHARL_REQUIRE(x->config->data.normalize.kind == CHARL_NORMALIZE_AUTO ||
                          !charl__task_normalizes_otherwise(x->config, stored),
                      CHARL_ERR_CONFIG, "data.normalize is not what %s was trained with",
                      x->e->checkpoint);
        CHARL_TRY(charl_data_schema_copy(stored, &x->schema));
    } else {
        CHARL_TRY(describe_data(x));
    }
    charl_data_schema_get_info(x->schema, x->e->checkpoint, &x->data);
    CHARL_TRY(charl_alloc_array(x->schema->n_stats, sizeof *x->scale, &x->scale));
    for (int64_t i = 0; i < x->schema->n_stats; i++) {
        x->scale[i] = 1.0F / x->schema->std[i];
    }
    return CHARL_OK;
}

static charl_var *factor(onnx_export *x, const char *name)
{
    charl_param_spec spec = {.name = name, .shape = {1, {x->schema->n_stats}}};
    charl_param *p = NULL;
    charl_status st;

    if (x->schema->n_stats > 1) { /* per channel: [C, 1, ...] */
        spec.shape.ndim = x->data.x_shape.ndim;
        for (int i = 1; i < spec.shape.ndim; i++) {
            spec.shape.dim[i] = 1;
        }
    }
    st = charl_params_add(x->params, &spec, &p);
    return st == CHARL_OK ? charl_parameter(x->g, p)
                          : charl__graph_fail(x->g, st, "%s", charl_error_message());
}

/* The input as the data file holds it (what ONNX has no use for as f32), and normalised. */
static charl_var *input(onnx_export *x)
{
    charl_shape shape = {x->data.x_shape.ndim + 1, {1}};
    const bool tokens = x->data.kind == CHARL_DATASET_TOKENS;
    const charl_dtype dtype = tokens                        ? CHARL_I32
                              : x->data.x_dtype == CHARL_U8 ? CHARL_U8
                                                            : CHARL_F32;
    charl_var *v;

    memcpy(shape.dim + 1, x->data.x_shape.dim, (size_t)x->data.x_shape.ndim * sizeof shape.dim[0]);
    v = charl_input(x->g, "input", dtype, shape, CHARL_BATCHED);
    if (tokens) {
        return v;
    }
    v = dtype == CHARL_U8 ? charl_cast(x->g, v, CHARL_F32) : v;
    v = charl_sub(x->g, v, factor(x, shift_name));
    return charl_mul(x->g, v, factor(x, scale_name));
}

static charl_status build(onnx_export *x, charl_var **output)
{
    charl_status st = CHARL_OK;
    int64_t outputs;

    CHARL_REQUIRE(x->data.x_shape.ndim < CHARL_MAX_DIMS, CHARL_ERR_DATA,
                  "%s: samples have too many extents", x->data.path);
    CHARL_TRY(charl__task_outputs(x->config, &x->data, &outputs));
    CHARL_TRY(charl__task_model(x->config, outputs, &x->model));
    CHARL_TRY(charl_params_create(&x->params));
    CHARL_TRY(charl_graph_create(NULL, NULL, &x->g));
    charl_graph_set_training(x->g, false);
    *output = charl_model_build(x->model, x->g, x->params, input(x));
    st = charl_graph_status(x->g);
    if (st == CHARL_ERR_SHAPE || st == CHARL_ERR_DTYPE) { /* layers that do not fit the data */
        st = CHARL_ERR_CONFIG;
    }
    CHARL_TRY(st);
    return st;
}

static void export_fini(onnx_export *x)
{
    charl_graph_destroy(x->g);
    charl_params_destroy(x->params);
    charl_model_destroy(x->model);
    charl_free(x->scale);
    charl_data_schema_destroy(x->schema);
    charl_config_destroy(x->config);
}

charl_status charl__export_onnx(const charl__export *e)
{
    static const char *const output_name = "output";
    charl_status st = CHARL_OK;
    onnx_export x = {.e = e};
    charl_var *output = NULL;
    charl_onnx_model model = {0};
    charl__commit c = {.fd = -1};
    char *json = NULL;

    CHARL_TRY_CLEANUP(open_config(&x));
    CHARL_TRY_CLEANUP(open_schema(&x));
    CHARL_TRY_CLEANUP(build(&x, &output));
    CHARL_TRY_CLEANUP(charl_data_schema_print(x.schema, &json));
    CHARL_TRY_CLEANUP(charl__graph_onnx(x.g,
                                        &(charl_onnx_export){.name = x.config->run.name,
                                                             .metadata_key = "charl.schema",
                                                             .metadata = json,
                                                             .outputs = &output,
                                                             .output_names = &output_name,
                                                             .n_outputs = 1,
                                                             .read = read_value,
                                                             .ctx = &x},
                                        &model));
    CHARL_TRY_CLEANUP(charl__commit_begin(e->path, &c));
    CHARL_TRY_CLEANUP(charl__commit_write(&c, model.head.data, model.head.length));
    CHARL_TRY_CLEANUP(charl__commit_write(&c, model.graph.data, model.graph.length));
    CHARL_TRY_CLEANUP(charl__commit_end(&c, NULL, NULL));
cleanup:
    charl__commit_fini(&c);
    charl__text_fini(&model.head);
    charl__text_fini(&model.graph);
    charl_free(json);
    export_fini(&x);
    return st;
}
