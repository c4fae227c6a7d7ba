/* Saves and loads parameters in files of either format. */
#include "charl/weights.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/options.h"
#include "base/text/text.h"
#include "charl/safetensors.h"
#include "weights/weights_load.h"
#include "weights/weights_source.h"

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
    CHARL_TRY(charl__alloc_array(v->n, sizeof *v->tensor, &v->tensor));
    CHARL_TRY(charl__alloc_array(v->n, sizeof *v->data, &v->data));
    for (int i = 0; i < v->n; i++) {
        const charl_param *p = charl_params_get(set, i);
        const charl_param_spec *spec = charl_param_get_spec(p);

        CHARL_TRY(charl__alloc_array(charl_shape_count(&spec->shape) + 1, sizeof **v->data, &v->data[i]));
        CHARL_TRY(charl_param_read(p, v->data[i]));
        v->tensor[i] = (charl_checkpoint_tensor){
            .group = "model", .name = spec->name, .dtype = CHARL_F32, .shape = spec->shape, .data = v->data[i]};
    }
    return CHARL_OK;
}

static charl_status save_checkpoint(const char *path, const values *v, const charl_params_save_options *o)
{
    CHARL_SCOPED_FREE char *resolved = NULL;
    charl_checkpoint c = {.config_text = o->config_text, .tensors = v->tensor, .n_tensors = v->n, .schema = o->schema};

    if (o->config_text) {
        CHARL_TRY(charl__weights_resolve(o->config_text, &resolved));
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
    CHARL_TRY(charl_checkpoint_save(path, &c));
    return CHARL_OK;
}

charl_status charl_params_save(const charl_params *set, const char *path, const charl_params_save_options *options)
{
    CHARL_GIVEN(set, path);
    CHARL__OPTIONS(charl_params_save_options, options);
    const charl_params_save_options o =
        options ? *options : (charl_params_save_options){sizeof(charl_params_save_options), .step = 0};
    CHARL_SCOPED(values_fini) values v = {.n = 0};

    CHARL_REQUIRE(is_safetensors(path) || charl__ends_in(path, ".h5"), CHARL_ERR_INVALID,
                  "%s: parameters are saved as .safetensors or as .h5", path);
    CHARL_REQUIRE(!o.config_text || !is_safetensors(path), CHARL_ERR_INVALID,
                  "%s: safetensors hold no configuration; HINT save as .h5", path);
    CHARL_TRY(read_values(set, &v));
    if (is_safetensors(path)) {
        CHARL_TRY(charl_safetensors_save(path, v.tensor, v.n, o.schema));
    } else {
        CHARL_TRY(save_checkpoint(path, &v, &o));
    }
    return CHARL_OK;
}

charl_status charl_params_load(charl_params *set, const char *path, const charl_params_load_options *options,
                               charl_params_report *report)
{
    CHARL_GIVEN(set, path);
    CHARL__OPTIONS(charl_params_load_options, options);
    static const charl__weights_words words = {
        .skip = "skip", .rename = "rename", .effect = "leaves what does not fit as it is, and so does by_name"};
    const charl_params_load_options o =
        options ? *options : (charl_params_load_options){sizeof(charl_params_load_options), .by_name = false};
    charl_status st = CHARL_OK;
    charl_params_report found = {.loaded = 0};
    charl__text text = {0};

    if (report) {
        *report = found;
    }
    CHARL_TRY_CLEANUP(charl__text_append(&text, "", 0));
    CHARL_TRY_CLEANUP(charl__weights_load(set, path, &o, &words, &found, &text));
cleanup:
    if (report) {
        found.text = charl__text_steal(&text);
        *report = found;
    }
    charl__text_fini(&text);
    return st;
}

void charl_params_report_fini(charl_params_report *report)
{
    if (!report) {
        return;
    }
    charl_free(report->text);
    report->text = NULL;
}
