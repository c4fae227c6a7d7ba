/* Parameters to and from files of either format. */
#include "charl/weights.h"

#include <math.h>
#include <string.h>

#include "autograd/check/opcheck.h"
#include "base/alloc.h"
#include "base/text.h"
#include "charl/config.h"
#include "charl/safetensors.h"
#include "task/weights.h"

static bool is_safetensors(const char *path)
{
    return charl__ends_in(path, ".safetensors");
}

/* Tensors of a set in host memory. */
typedef struct values {
    charl_checkpoint_tensor *tensor;
    float **data;
    int n;
} values;

static void values_fini(values *v)
{
    for (int i = 0; v->data && i < v->n; i++) {
        charl_free(v->data[i]);
    }
    charl_free(v->data);
    charl_free(v->tensor);
}

static charl_status read_values(const charl_params *set, values *v)
{
    v->n = charl_params_get_count(set);
    CHARL_TRY(charl_alloc_array(v->n, sizeof *v->tensor, &v->tensor));
    CHARL_TRY(charl_alloc_array(v->n, sizeof *v->data, &v->data));
    for (int i = 0; i < v->n; i++) {
        const charl_param *p = charl_params_get(set, i);
        const charl_param_spec *spec = charl_param_get_spec(p);

        CHARL_TRY(charl_alloc_array(charl_shape_count(&spec->shape) + 1, sizeof **v->data, &v->data[i]));
        CHARL_TRY(charl_param_read(p, v->data[i]));
        v->tensor[i] = (charl_checkpoint_tensor){
            .group = "model", .name = spec->name, .dtype = CHARL_F32, .shape = spec->shape, .data = v->data[i]};
    }
    return CHARL_OK;
}

static charl_status save_checkpoint(const char *path, const values *v, const charl_params_save_options *o)
{
    charl_status st = CHARL_OK;
    charl_config *config = NULL;
    char *resolved = NULL;
    charl_checkpoint c = {.config_text = o->config_text, .tensors = v->tensor, .n_tensors = v->n, .schema = o->schema};

    if (o->config_text) {
        CHARL_TRY_CLEANUP(
            charl_config_parse("the configuration", o->config_text, strlen(o->config_text), NULL, 0, &config));
        CHARL_TRY_CLEANUP(charl_config_print(config, false, &resolved));
        c.config_resolved = resolved;
    }
    c.state = (charl_checkpoint_state){.step = o->step,
                                       .rng = "philox4x32-10",
                                       .loss_scale = 1.0,
                                       .slices = 1,
                                       .batch_size = 1,
                                       .best_metric = (double)NAN,
                                       .world_size = 1,
                                       .optim_kind = CHARL_CHECKPOINT_NO_OPTIMIZER};
    CHARL_TRY_CLEANUP(charl_checkpoint_save(path, &c));
cleanup:
    charl_config_destroy(config);
    charl_free(resolved);
    return st;
}

charl_status charl_params_save(const charl_params *set, const char *path, const charl_params_save_options *options)
{
    const charl_params_save_options o = options ? *options : (charl_params_save_options){.step = 0};
    charl_status st = CHARL_OK;
    values v = {.n = 0};

    CHARL_REQUIRE_CLEANUP(is_safetensors(path) || charl__ends_in(path, ".h5"), CHARL_ERR_INVALID,
                          "%s: parameters are saved as .safetensors or as .h5", path);
    CHARL_REQUIRE_CLEANUP(!o.config_text || !is_safetensors(path), CHARL_ERR_INVALID,
                          "%s: safetensors hold no configuration; HINT save as .h5", path);
    CHARL_TRY_CLEANUP(read_values(set, &v));
    if (is_safetensors(path)) {
        CHARL_TRY_CLEANUP(charl_safetensors_save(path, v.tensor, v.n, o.schema));
    } else {
        CHARL_TRY_CLEANUP(save_checkpoint(path, &v, &o));
    }
cleanup:
    values_fini(&v);
    return st;
}

/* A file of either format that is open. */
typedef struct source {
    const char *path;
    charl_checkpoint_reader *checkpoint;
    charl_safetensors *tensors;
    const char *group; /* of the checkpoint that trained weights are taken from */
} source;

static void source_close(source *s)
{
    charl_checkpoint_close(s->checkpoint);
    charl_safetensors_close(s->tensors);
}

static charl_status source_open(const char *path, charl_ema_choice ema, source *s)
{
    *s = (source){.path = path};
    if (is_safetensors(path)) {
        CHARL_TRY(charl_safetensors_open(path, &s->tensors));
    } else {
        CHARL_TRY(charl_checkpoint_open(path, &s->checkpoint));
        CHARL_TRY(charl__weights_group(s->checkpoint, path, (int)ema, &s->group));
    }
    return CHARL_OK;
}

/* The tensor of a parameter; what is not in the moving average, as running statistics, is in the model. */
static const charl_checkpoint_tensor *source_find(const source *s, const char *name)
{
    const charl_checkpoint_tensor *t;

    if (s->tensors) {
        return charl_safetensors_find(s->tensors, name);
    }
    t = charl_checkpoint_find(s->checkpoint, s->group, name);
    return t ? t : charl_checkpoint_find(s->checkpoint, "model", name);
}

static charl_status source_read(const source *s, const charl_checkpoint_tensor *t, void *dst)
{
    return s->tensors ? charl_safetensors_read(s->tensors, t, dst) : charl_checkpoint_read(s->checkpoint, t, dst);
}

static bool fits(const charl_checkpoint_tensor *t, const charl_param *p)
{
    return charl__is_float(t->dtype) && charl_shape_equal(&t->shape, &charl_param_get_spec(p)->shape);
}

/* Count and name what the set and the file do not have in common. */
static charl_status compare(const charl_params *set, const source *s, charl_params_report *r, charl__text *text)
{
    const int64_t n = s->tensors ? charl_safetensors_get_count(s->tensors) : charl_checkpoint_get_count(s->checkpoint);

    for (int i = 0; i < charl_params_get_count(set); i++) {
        const charl_param *p = charl_params_get(set, i);
        const charl_param_spec *spec = charl_param_get_spec(p);
        const charl_checkpoint_tensor *t = source_find(s, spec->name);
        char have[CHARL_SHAPE_TEXT], want[CHARL_SHAPE_TEXT];

        if (!t) {
            r->missing++;
            CHARL_TRY(charl__text_printf(text, "missing: %s\n", spec->name));
        } else if (!fits(t, p)) {
            r->misshapen++;
            CHARL_TRY(charl__text_printf(text, "misshapen: %s is %s %s in the file, f32 %s in the model\n", spec->name,
                                         charl_dtype_name(t->dtype), charl_shape_format(&t->shape, have),
                                         charl_shape_format(&spec->shape, want)));
        }
    }
    for (int64_t i = 0; i < n; i++) {
        const charl_checkpoint_tensor *t =
            s->tensors ? charl_safetensors_get(s->tensors, i) : charl_checkpoint_get_tensor(s->checkpoint, i);
        const bool counts =
            s->tensors ? !charl__ends_in(t->name, ".num_batches_tracked") : strcmp(t->group, "model") == 0;

        if (counts && !charl_params_find(set, t->name)) {
            r->extra++;
            CHARL_TRY(charl__text_printf(text, "extra: %s\n", t->name));
        }
    }
    return CHARL_OK;
}

static charl_status load_one(const source *s, const charl_checkpoint_tensor *t, charl_param *p)
{
    charl_status st = CHARL_OK;
    const int64_t n = charl_shape_count(&t->shape);
    void *raw = NULL;
    double *wide = NULL;
    float *value = NULL;

    CHARL_TRY_CLEANUP(charl_alloc_array(n + 1, charl_dtype_size(t->dtype), &raw));
    CHARL_TRY_CLEANUP(source_read(s, t, raw));
    if (t->dtype != CHARL_F32) {
        CHARL_TRY_CLEANUP(charl_alloc_array(n + 1, sizeof *wide, &wide));
        CHARL_TRY_CLEANUP(charl_alloc_array(n + 1, sizeof *value, &value));
        charl__decode(t->dtype, raw, n, wide);
        charl__encode(CHARL_F32, wide, n, value);
    }
    CHARL_TRY_CLEANUP(charl_param_write(p, value ? value : raw));
cleanup:
    charl_free(raw);
    charl_free(wide);
    charl_free(value);
    return st;
}

/* The first line of text, without its end. */
static int first_line(const char *text)
{
    return (int)strcspn(text, "\n");
}

static charl_status load(charl_params *set, const source *s, bool by_name, charl_params_report *r, charl__text *text)
{
    CHARL_TRY(compare(set, s, r, text));
    CHARL_REQUIRE(by_name || r->missing + r->extra + r->misshapen == 0, CHARL_ERR_CHECKPOINT,
                  "%s does not fit the model: %d parameters missing, %d extra, %d of another "
                  "shape; %.*s; HINT "
                  "by_name loads what fits",
                  s->path, r->missing, r->extra, r->misshapen, first_line(charl__text_string(text)),
                  charl__text_string(text));
    for (int i = 0; i < charl_params_get_count(set); i++) {
        charl_param *p = charl_params_get(set, i);
        const charl_checkpoint_tensor *t = source_find(s, charl_param_get_spec(p)->name);

        if (t && fits(t, p)) {
            CHARL_TRY(load_one(s, t, p));
            r->loaded++;
        }
    }
    CHARL_REQUIRE(r->loaded > 0, CHARL_ERR_CHECKPOINT, "%s has no parameter of this model", s->path);
    return CHARL_OK;
}

charl_status charl_params_load(charl_params *set, const char *path, const charl_params_load_options *options,
                               charl_params_report *report)
{
    const charl_params_load_options o = options ? *options : (charl_params_load_options){.by_name = false};
    charl_status st = CHARL_OK;
    charl_params_report found = {.loaded = 0};
    charl__text text = {0};
    source s = {.path = path};

    if (report) {
        *report = found;
    }
    CHARL_TRY_CLEANUP(charl__text_append(&text, "", 0));
    CHARL_TRY_CLEANUP(source_open(path, o.ema, &s));
    CHARL_TRY_CLEANUP(load(set, &s, o.by_name, &found, &text));
cleanup:
    source_close(&s);
    if (report) {
        found.text = charl__text_steal(&text);
        *report = found;
    }
    charl__text_fini(&text);
    return st;
}

void charl_params_report_fini(charl_params_report *report)
{
    charl_free(report->text);
    report->text = NULL;
}
