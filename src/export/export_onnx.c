/* Models as ONNX: the evaluation graph of the checkpoint's configuration, from rows as stored in
 * the data file to the model's output, with a batch of any size; and graphs that a program built.
 *
 * The former includes normalization, so that users need not know how the data were prepared: shift and
 * scale are two more parameters of the graph, whose values come from the checkpoint's schema. No
 * device is opened.
 */
#include <stdio.h>
#include <string.h>

#include "autograd/onnx/onnx.h"
#include "base/alloc.h"
#include "base/options.h"
#include "charl/data_schema.h"
#include "charl/export.h"
#include "charl/ops.h"
#include "config/config_rows.h"
#include "config/outputs.h"
#include "io/dataset/fields.h"
#include "io/commit.h"
#include "io/schema.h"
#include "task/augment.h"
#include "export/export.h"
#include "io/tensors/safetensors.h"
#include "task/schema.h"
#include "task/session.h"
#include "task/task.h"
#include "task/weights/weights.h"
#include "task/weights/weights_base.h"

static const char shift_name[] = "input.shift", scale_name[] = "input.scale", mean_name[] = "output.mean",
                  std_name[] = "output.std";

typedef struct onnx_export {
    const charl__export *e;
    charl__session session; /* its data: as the schema says; no device */
    float *scale;           /* 1 / std */
    charl_graph *g;
} onnx_export;

static charl_status read_value(void *ctx, const charl_param *p, float *dst)
{
    const charl_param_spec *spec = charl_param_get_spec(p);
    const onnx_export *x = ctx;
    CHARL_SCOPED_FREE float *stored = NULL;
    const float *own = strcmp(spec->name, shift_name) == 0   ? x->session.schema->mean
                       : strcmp(spec->name, scale_name) == 0 ? x->scale
                       : strcmp(spec->name, mean_name) == 0  ? x->session.schema->target_mean
                       : strcmp(spec->name, std_name) == 0   ? x->session.schema->target_std
                                                             : NULL;

    if (own) {
        memcpy(dst, own, (size_t)charl_shape_count(&spec->shape) * sizeof *own);
    } else {
        CHARL_TRY(charl__weights_read(x->session.reader, x->e->checkpoint, spec->trainable ? x->e->group : "model",
                                      spec->name, &spec->shape, &stored));
        memcpy(dst, stored, (size_t)charl_shape_count(&spec->shape) * sizeof *stored);
    }
    return CHARL_OK;
}

static charl_status open_schema(onnx_export *x)
{
    const charl_data_schema *stored = charl_checkpoint_get_info(x->session.reader).schema;

    if (stored) {
        CHARL_REQUIRE(x->session.config->data.normalize.kind == CHARL__NORMALIZE_AUTO ||
                          !charl__task_normalizes_otherwise(x->session.config, stored),
                      CHARL_ERR_CONFIG, "data.normalize is not what %s was trained with", x->e->checkpoint);
        CHARL_TRY(charl__data_schema_copy(stored, &x->session.schema));
    } else {
        CHARL_TRY(charl__session_schema_of_data(&x->session, x->session.config, NULL, "data.path=FILE"));
    }
    charl__data_schema_get_info(x->session.schema, x->e->checkpoint, &x->session.data);
    CHARL_TRY(charl__alloc_array(x->session.schema->n_stats, sizeof *x->scale, &x->scale));
    for (int64_t i = 0; i < x->session.schema->n_stats; i++) {
        x->scale[i] = 1.0F / x->session.schema->std[i];
    }
    return CHARL_OK;
}

static charl_var *factor(onnx_export *x, const char *name)
{
    charl_param_spec spec = {.name = name, .shape = {1, {x->session.schema->n_stats}}};
    charl_param *p = NULL;
    charl_status st;

    if (x->session.schema->n_stats > 1) { /* per channel: [C, 1, ...] */
        spec.shape.ndim = x->session.data.x_shape.ndim;
        for (int i = 1; i < spec.shape.ndim; i++) {
            spec.shape.dim[i] = 1;
        }
    }
    st = charl_params_add(x->session.params, &spec, &p);
    return st == CHARL_OK ? charl_parameter(x->g, p) : charl__graph_fail(x->g, st, "%s", charl_error_message());
}

/* The output in units of the data. */
static charl_var *unscaled(onnx_export *x, charl_var *output)
{
    charl_var *f[2] = {NULL};

    for (int i = 0; i < 2 && x->session.schema->n_target_stats > 0; i++) {
        const charl_param_spec spec = {.name = i == 0 ? mean_name : std_name,
                                       .shape = {1, {x->session.schema->n_target_stats}}};
        charl_param *p = NULL;
        const charl_status st = charl_params_add(x->session.params, &spec, &p);

        f[i] = st == CHARL_OK ? charl_parameter(x->g, p) : charl__graph_fail(x->g, st, "%s", charl_error_message());
    }
    return charl__task_unscale(x->g, output, f[0], f[1]);
}

/* Several inputs, each by its name, and the row of all that the model takes. */
static charl_var *inputs(onnx_export *x)
{
    charl__field f[2 * CHARL__MAX_FIELDS];
    const int n = charl__fields_parse(x->session.schema->fields, f);
    charl_var *row[CHARL__MAX_FIELDS];
    int k = 0;

    for (; k < n && !f[k].target; k++) {
        charl_shape shape = {f[k].shape.ndim + 1, {1}};

        memcpy(shape.dim + 1, f[k].shape.dim, (size_t)f[k].shape.ndim * sizeof shape.dim[0]);
        row[k] = charl_input(x->g, f[k].name, f[k].kind == CHARL__FIELD_TOKENS ? CHARL_I32 : CHARL_F32, shape,
                             CHARL_BATCHED);
        row[k] = f[k].kind == CHARL__FIELD_TOKENS ? charl_cast(x->g, row[k], CHARL_F32) : row[k];
        row[k] = charl_reshape(x->g, row[k], (charl_shape){2, {1, f[k].count}});
    }
    return k == 1 ? row[0] : charl_concat(x->g, row, k, 1);
}

/* The outputs of several, in their shapes. */
static charl_status split_outputs(onnx_export *x, const charl__outputs *all, charl_var *row, charl_var **out)
{
    charl__field f[2 * CHARL__MAX_FIELDS];
    const int n = charl__fields_parse(x->session.schema->fields, f);

    for (int k = 0; k < all->n; k++) {
        const charl__output *o = &all->at[k];
        charl_shape shape = {2, {1, o->count}};

        for (int i = 0; i < n; i++) {
            const bool own = f[i].target && f[i].first == o->target;

            if (own && o->kind == CHARL_TARGET_TOKENS) {
                shape = (charl_shape){3, {1, o->n_targets, o->classes}};
            } else if (own && o->kind != CHARL_TARGET_CLASS) {
                const bool maps = o->kind == CHARL_TARGET_MAPS;
                const int skip = maps || o->quantiles > 1 ? 2 : 1;

                shape = (charl_shape){skip + f[i].shape.ndim, {1, maps ? o->classes : o->quantiles}};
                memcpy(shape.dim + skip, f[i].shape.dim, (size_t)f[i].shape.ndim * sizeof shape.dim[0]);
            }
        }
        out[k] = charl_reshape(x->g, charl_slice(x->g, row, 1, o->first, o->count), shape);
    }
    return charl_graph_status(x->g);
}

/* The input as stored in the data file (if ONNX does not support its type, as f32), and as the model sees it. */
static charl_var *input(onnx_export *x)
{
    charl_shape shape = {x->session.data.x_shape.ndim + 1, {1}};
    const bool tokens = charl__kind_has_tokens(x->session.data.kind);
    const charl_dtype dtype = tokens ? CHARL_I32 : x->session.data.x_dtype == CHARL_U8 ? CHARL_U8 : CHARL_F32;
    charl_var *v;

    if (x->session.schema->fields[0]) {
        v = charl_sub(x->g, inputs(x), factor(x, shift_name));
        return charl_mul(x->g, v, factor(x, scale_name));
    }
    memcpy(shape.dim + 1, x->session.data.x_shape.dim, (size_t)x->session.data.x_shape.ndim * sizeof shape.dim[0]);
    v = charl_input(x->g, "input", dtype, shape, CHARL_BATCHED);
    if (tokens) {
        return x->session.data.kind == CHARL_DATASET_SEQUENCES ? charl__graph_set_padded(x->g, v, 0) : v;
    }
    v = dtype == CHARL_U8 ? charl_cast(x->g, v, CHARL_F32) : v;
    v = charl__center_crop(x->g, v, x->session.config->data.image_size);
    v = charl_sub(x->g, v, factor(x, shift_name));
    return charl_mul(x->g, v, factor(x, scale_name));
}

static charl_status build(onnx_export *x, charl_var **output)
{
    charl_status st = CHARL_OK;
    CHARL_REQUIRE(x->session.data.x_shape.ndim < CHARL_MAX_DIMS, CHARL_ERR_DATA, "%s: samples have too many extents",
                  x->session.data.path);
    CHARL_TRY(charl__session_create_model(&x->session));
    CHARL_TRY(charl_graph_create(NULL, NULL, &x->g));
    charl_graph_set_training(x->g, false);
    *output = unscaled(x, charl_model_build(x->session.model, x->g, x->session.params, input(x)));
    st = charl_graph_status(x->g);
    if (st == CHARL_ERR_SHAPE || st == CHARL_ERR_DTYPE) { /* layers that do not fit the data */
        st = CHARL_ERR_CONFIG;
    }
    CHARL_TRY(st);
    return CHARL_OK;
}

/* How an image is converted to an input, in words; "": the inputs are not images. */
static void describe_picture(const charl_data_schema *s, char *text, size_t size)
{
    const char *box = strcmp(s->fit, "crop") == 0  ? "the largest box of the same aspect ratio in its middle"
                      : strcmp(s->fit, "pad") == 0 ? "all of it, centred on black with its own aspect ratio"
                                                   : "all of it, whatever its aspect ratio";

    text[0] = '\0';
    if (s->fit[0] && s->x_shape.ndim == 3) {
        snprintf(
            text, size,
            "u8 [N, %lld, %lld, %lld], %s, 0 to 255, not normalized; of a picture %s, resized with a triangle filter "
            "(Pillow: Image.BILINEAR with a box of floats)",
            (long long)s->x_shape.dim[0], (long long)s->x_shape.dim[1], (long long)s->x_shape.dim[2],
            s->x_shape.dim[0] == 1 ? "gray (0.299 R + 0.587 G + 0.114 B)" : "RGB", box);
    }
}

static void export_fini(onnx_export *x)
{
    charl_graph_destroy(x->g);
    charl_free(x->scale);
    charl__session_fini(&x->session);
}

/* Translate a graph, and write it to `path`. */
static charl_status write_onnx(const charl_graph *g, const charl__onnx_export *x, const char *path)
{
    charl_status st = CHARL_OK;
    charl__onnx_model model = {0};
    charl__commit c = {.fd = -1};

    CHARL_TRY_CLEANUP(charl__graph_onnx(g, x, &model));
    CHARL_TRY_CLEANUP(charl__commit_begin(path, &c));
    CHARL_TRY_CLEANUP(charl__commit_write(&c, model.head.data, model.head.length));
    CHARL_TRY_CLEANUP(charl__commit_write(&c, model.graph.data, model.graph.length));
    CHARL_TRY_CLEANUP(charl__commit_end(&c, NULL, NULL));
cleanup:
    charl__commit_fini(&c);
    charl__text_fini(&model.head);
    charl__text_fini(&model.graph);
    return st;
}

static const char *const output_name = "output";

charl_status charl__export_onnx(const charl__export *e)
{
    CHARL_SCOPED(export_fini) onnx_export x = {.e = e, .session = {.infers = true}};
    charl_var *output = NULL, *parts[CHARL_MODEL_MAX_OUTPUTS];
    const char *names[CHARL_MODEL_MAX_OUTPUTS];
    charl__outputs all;
    char picture[384];
    const char *metadata[][2] = {{"charl.schema", NULL}, {CHARL__EXPORT_LOCK, e->lock}, {"charl.input", picture}};
    charl__onnx_export onnx = {.metadata = metadata,
                               .n_metadata = sizeof metadata / sizeof *metadata,
                               .outputs = &output,
                               .output_names = &output_name,
                               .n_outputs = 1,
                               .read = read_value,
                               .ctx = &x};
    CHARL_SCOPED_FREE char *json = NULL;

    CHARL_TRY(charl__session_open_checkpoint(&x.session, e->checkpoint));
    CHARL_TRY(charl__session_read_config(&x.session, e->overrides, e->n_overrides));
    CHARL_TRY(charl__weights_find_base(x.session.reader, e->checkpoint, charl__config_init_from(x.session.config)));
    CHARL_TRY(open_schema(&x));
    CHARL_TRY(build(&x, &output));
    CHARL_TRY(charl__config_outputs(x.session.config, x.session.schema->fields, &all));
    if (all.n > 0) {
        CHARL_TRY(split_outputs(&x, &all, output, parts));
        for (int k = 0; k < all.n; k++) {
            names[k] = all.at[k].name;
        }
        onnx.outputs = parts;
        onnx.output_names = names;
        onnx.n_outputs = all.n;
    }
    CHARL_TRY(charl_data_schema_print(x.session.schema, &json));
    describe_picture(x.session.schema, picture, sizeof picture);
    metadata[0][1] = json;
    onnx.name = x.session.config->run.name;
    CHARL_TRY(write_onnx(x.g, &onnx, e->path));
    return CHARL_OK;
}

static charl_status read_param(void *unused, const charl_param *p, float *dst)
{
    (void)unused;
    return charl_param_read(p, dst);
}

charl_status charl_export_onnx(const charl_graph *g, charl_var *const *outputs, int n_outputs,
                               const charl_onnx_options *options, const char *path)
{
    CHARL_GIVEN(g, outputs, path);
    CHARL__OPTIONS(charl_onnx_options, options);
    const char *const *names = options ? options->output_names : NULL;

    CHARL_REQUIRE(n_outputs > 0 && (n_outputs == 1 || names), CHARL_ERR_INVALID,
                  "%d outputs%s; HINT there is one at least, and each of several has a name in output_names", n_outputs,
                  names ? "" : " without names");
    CHARL_REQUIRE(!charl_graph_is_training(g), CHARL_ERR_INVALID,
                  "the graph was built for training; HINT charl_graph_set_training(g, false) before it is built");
    return write_onnx(g,
                      &(charl__onnx_export){.name = options && options->name ? options->name : "model",
                                            .outputs = outputs,
                                            .output_names = names ? names : &output_name,
                                            .n_outputs = n_outputs,
                                            .read = read_param},
                      path);
}
