/* Low-rank adapters in the form that the Python package peft loads onto a model of transformers: adapter_config.json and
 * adapter_model.safetensors.
 *
 * peft adapts modules. If one of charl's weights corresponds to several modules, such as queries, keys and values, each module has a copy of
 * A and its own rows of B.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/options.h"
#include "base/text/text.h"
#include "charl/export.h"
#include "config/config_rows.h"
#include "export/folder.h"
#include "nn/layer.h"
#include "task/task.h"

static const char down_end[] = ".lora_A.weight", weight_end[] = ".weight";

/* Tensors to be written, with their memory. */
typedef struct bundle {
    charl_checkpoint_tensor *tensor;
    char (*name)[CHARL__LAYOUT_NAME + 32];
    int64_t n;
    float **data;
    int64_t n_data;
    charl__text modules; /* of target_modules */
    bool transposed;     /* the modules store their matrices as [in, out] */
} bundle;

/* The adapters must be the only trained parameters: peft's file contains nothing else. */
static charl_status check_trained(const charl__folder *f)
{
    charl_status st = CHARL_OK;
    charl_params *set = NULL;

    CHARL_TRY_CLEANUP(charl_params_create(&set));
    for (int64_t i = 0; i < charl_checkpoint_get_info(f->e.r).n_tensors; i++) {
        const charl_checkpoint_tensor *t = charl_checkpoint_get_tensor(f->e.r, i);
        charl_param *p;

        if (strcmp(t->group, "model") == 0) {
            CHARL_TRY_CLEANUP(
                charl_params_add(set, &(charl_param_spec){.name = t->name, .shape = t->shape, .trainable = true}, &p));
        }
    }
    CHARL_TRY_CLEANUP(charl__task_freeze(f->config, set));
    for (int i = 0; i < charl_params_get_count(set); i++) {
        const charl_param *p = charl_params_get(set, i);

        CHARL_REQUIRE_CLEANUP(
            charl_param_is_frozen(p) || charl__is_adapter(charl_param_get_spec(p)->name), CHARL_ERR_CONFIG,
            "%s was trained in addition to adapters (train.freeze), and peft's files hold adapters only; HINT "
            "--layout huggingface writes the whole model",
            charl_param_get_spec(p)->name);
    }
cleanup:
    charl_params_destroy(set);
    return st;
}

static charl_status read_adapter(const charl__folder *f, bundle *b, const char *name,
                                 const charl_checkpoint_tensor **out)
{
    const charl_checkpoint_tensor *t = charl_checkpoint_find(f->e.r, f->e.group, name);

    *out = t = t ? t : charl_checkpoint_find(f->e.r, "model", name);
    CHARL_REQUIRE(t && t->dtype == CHARL_F32 && t->shape.ndim == 2, CHARL_ERR_CHECKPOINT, "%s has no matrix %s",
                  f->e.checkpoint, name);
    CHARL_TRY(charl__alloc_array(charl_shape_count(&t->shape) + 1, sizeof(float), &b->data[b->n_data]));
    b->n_data++;
    CHARL_TRY(charl_checkpoint_read(f->e.r, t, b->data[b->n_data - 1]));
    return CHARL_OK;
}

/* `module` ends in .weight, which the names in the file omit. */
static void put(bundle *b, const char *module, const char *which, const charl_shape *shape, const float *data)
{
    char *name = b->name[b->n];

    snprintf(name, sizeof b->name[0], "base_model.model.%.*s.%s.weight", (int)(strlen(module) - strlen(weight_end)),
             module, which);
    b->tensor[b->n++] = (charl_checkpoint_tensor){.name = name, .dtype = CHARL_F32, .shape = *shape, .data = data};
}

/* The adapters of the layer that `name`, its lora_A.weight, belongs to. */
static charl_status add_layer(const charl__folder *f, bundle *b, const char *name)
{
    const int layer = (int)(strlen(name) - strlen(down_end));
    const charl_checkpoint_tensor *down, *up;
    const charl__weights_rule *rule;
    const float *a, *rows;
    int64_t block;
    char own[CHARL__LAYOUT_NAME], theirs[CHARL__LAYOUT_NAME];

    CHARL_TRY(read_adapter(f, b, name, &down));
    a = b->data[b->n_data - 1];
    CHARL_REQUIRE(snprintf(own, sizeof own, "%.*s.lora_B.weight", layer, name) < (int)sizeof own, CHARL_ERR_CHECKPOINT,
                  "the name of %.100s is too long", name);
    CHARL_TRY(read_adapter(f, b, own, &up));
    rows = b->data[b->n_data - 1];
    snprintf(own, sizeof own, "%.*s.weight", layer, name);
    rule = charl__layout_rule(f->layout, own, &block);
    CHARL_REQUIRE(rule, CHARL_ERR_CONFIG, "%s: layout %s has no weight like %s", f->e.checkpoint, f->layout->row.name,
                  own);
    b->transposed = b->transposed || rule->transposed;
    if (rule->row) {
        const int64_t columns = up->shape.dim[1];

        CHARL_TRY(charl__alloc_array(charl_shape_count(&up->shape) + 1, sizeof(float), &b->data[b->n_data]));
        charl__layout_order(rule, f->settings, up->shape.dim[0], columns, rows, true, b->data[b->n_data]);
        rows = b->data[b->n_data++];
    }
    for (int k = 0; k < charl__layout_parts(rule); k++) {
        const charl_shape whole = {2, {up->shape.dim[0], down->shape.dim[1]}};
        const charl_shape part = charl__layout_part_shape(rule, f->settings, &whole, k);
        /* a matrix that is stored transposed is not split: its outputs are the rows of B all the same */
        const charl_shape shape = {2, {rule->transposed ? up->shape.dim[0] : part.dim[0], up->shape.dim[1]}};

        CHARL_REQUIRE(charl__layout_expand(rule->theirs[k], block, theirs) && charl__ends_in(theirs, weight_end),
                      CHARL_ERR_CONFIG, "%s: layout %s has no module for %.100s", f->e.checkpoint, f->layout->row.name,
                      own);
        put(b, theirs, "lora_A", &down->shape, a);
        put(b, theirs, "lora_B", &shape, rows);
        rows += charl_shape_count(&shape);
        theirs[strlen(theirs) - strlen(weight_end)] = '\0';
        CHARL_TRY(charl__text_printf(&b->modules, "%s\n    ", b->modules.length ? "," : ""));
        CHARL_TRY(charl__text_json(&b->modules, theirs));
    }
    return CHARL_OK;
}

static charl_status add_layers(const charl__folder *f, bundle *b)
{
    const int64_t n = charl_checkpoint_get_info(f->e.r).n_tensors;

    CHARL_TRY(charl__alloc_array(2 * CHARL__WEIGHTS_PARTS * n + 1, sizeof *b->tensor, &b->tensor));
    CHARL_TRY(charl__alloc_array(2 * CHARL__WEIGHTS_PARTS * n + 1, sizeof *b->name, &b->name));
    CHARL_TRY(charl__alloc_array(3 * n + 1, sizeof *b->data, &b->data));
    for (int64_t i = 0; i < n; i++) {
        const charl_checkpoint_tensor *t = charl_checkpoint_get_tensor(f->e.r, i);

        if (strcmp(t->group, "model") == 0 && charl__ends_in(t->name, down_end)) {
            CHARL_TRY(add_layer(f, b, t->name));
        }
    }
    CHARL_REQUIRE(b->n > 0, CHARL_ERR_CONFIG,
                  "%s has no low-rank adapters; HINT --layout huggingface writes the whole model", f->e.checkpoint);
    return CHARL_OK;
}

static void bundle_fini(bundle *b)
{
    for (int64_t i = 0; i < b->n_data; i++) {
        charl_free(b->data[i]);
    }
    charl_free(b->data);
    charl_free(b->name);
    charl_free(b->tensor);
    charl__text_fini(&b->modules);
}

static charl_status write_config(charl__folder *f, const bundle *b, const char *base)
{
    CHARL_SCOPED(charl__text_fini) charl__text text = {0};

    base = base ? base : charl__config_init_from(f->config);
    CHARL_TRY(charl__text_printf(&text, "{\n  \"base_model_name_or_path\": "));
    CHARL_TRY(base ? charl__text_json(&text, base) : charl__text_printf(&text, "null"));
    CHARL_TRY(charl__text_printf(
        &text,
        ",\n  \"bias\": \"none\",\n  \"fan_in_fan_out\": %s,\n  \"inference_mode\": true,\n"
        "  \"lora_alpha\": %.17g,\n  \"lora_dropout\": %.17g,\n  \"peft_type\": \"LORA\",\n  \"r\": %" PRId64
        ",\n  \"target_modules\": [%s\n  ],\n  \"task_type\": \"CAUSAL_LM\"\n}\n",
        b->transposed ? "true" : "false", f->config->lora.alpha, f->config->lora.dropout, f->config->lora.rank,
        charl__text_string(&b->modules)));
    CHARL_TRY(charl__folder_write(f, "adapter_config.json", &text));
    return CHARL_OK;
}

charl_status charl_export_peft(const char *checkpoint, const charl_export_options *options, const char *path)
{
    CHARL_GIVEN(checkpoint, path);
    CHARL__OPTIONS(charl_export_options, options);
    charl_status st = CHARL_OK;
    const charl_export_options o =
        options ? *options : (charl_export_options){sizeof(charl_export_options), .base = NULL};
    charl__folder f = {.e = {.checkpoint = checkpoint, .path = path, .adapters_only = true}};
    bundle b = {0};

    CHARL_TRY_CLEANUP(charl__folder_open(&f, o.base, (int)o.ema));
    CHARL_TRY_CLEANUP(add_layers(&f, &b));
    CHARL_TRY_CLEANUP(check_trained(&f));
    CHARL_TRY_CLEANUP(charl__folder_make(&f));
    CHARL_TRY_CLEANUP(charl__folder_save(&f, "adapter_model.safetensors", b.tensor, b.n, NULL));
    CHARL_TRY_CLEANUP(write_config(&f, &b, o.base));
cleanup:
    if (st != CHARL_OK) {
        charl__folder_undo(&f);
    }
    bundle_fini(&b);
    charl__folder_fini(&f);
    return st;
}
