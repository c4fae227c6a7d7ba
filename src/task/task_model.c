/* The model that a configuration describes. */
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/registry/key.h"
#include "base/text/text.h"
#include "charl/text.h"
#include "config/config_rows.h"
#include "config/layers.h"
#include "config/outputs.h"
#include "io/dataset/fields.h"
#include "nn/layer.h"
#include "nn/model.h"
#include "nn/model_internal.h"
#include "task/task.h"

static bool has_layer(const charl_model *m, const char *name)
{
    for (int i = 0; i < charl_model_get_count(m); i++) {
        if (strcmp(charl_model_get_layer_name(m, i), name) == 0) {
            return true;
        }
    }
    return false;
}

/* Read a key that a layer type declares into its settings; names of activations and layers are looked up, empty ones mean none. `m` has the
 * earlier layers. */
static charl_status read_key(const charl__config_layer *layer, const charl_key *k, const charl_model *m,
                             unsigned char *config)
{
    const bool is_name = k->kind == CHARL_KEY_ACTIVATION || k->kind == CHARL_KEY_LAYER;
    const char *name = NULL;
    char names[256], reason[CHARL_REASON_BYTES];

    CHARL_TRY(charl__config_layer_read(layer, k, config));
    if (!is_name || !charl__config_layer_has(layer, k->name)) {
        return CHARL_OK;
    }
    memcpy(&name, config + k->offset, sizeof name);
    if (!name[0]) {
        name = NULL;
        memcpy(config + k->offset, &name, sizeof name);
    } else if (k->kind == CHARL_KEY_ACTIVATION && !charl__activation_find(name)) {
        snprintf(reason, sizeof reason, "\"%.100s\" is not one of %s", name,
                 charl__text_list(name, charl_activation_name, names, sizeof names));
        CHARL_TRY(charl__config_layer_refuse(layer, k->name, reason));
    } else if (k->kind == CHARL_KEY_LAYER && !has_layer(m, name)) {
        snprintf(reason, sizeof reason, "no layer before this one is named %.100s", name);
        CHARL_TRY(charl__config_layer_refuse(layer, k->name, reason));
    }
    return CHARL_OK;
}

static charl_status refuse_type(const charl_config *config, const charl__config_layer *layer)
{
    const char *type = charl__config_layer_type(layer);
    int best = INT_MAX;
    const char *near = charl__config_nearest_block(config, type, &best);
    const charl_layer_type *t;
    char text[512];

    for (int i = 0; (t = charl__layer_type_at(i)) != NULL; i++) {
        near = charl_text_closer(type, t->row.name, &best) ? t->row.name : near;
    }
    snprintf(text, sizeof text,
             "there is no layer type or block %.100s%s; charl-train --help-config=layer lists the types", type,
             charl__did_you_mean(near));
    return charl__config_layer_refuse(layer, "type", text);
}

/* The destination of a configuration's layers. */
typedef struct layer_reader {
    const charl_config *config;
    charl_model *model;
    const charl__field *fields; /* inputs first */
    int n_fields;
} layer_reader;

static bool is_input(const layer_reader *r, const char *name)
{
    for (int i = 0; i < r->n_fields; i++) {
        if (!r->fields[i].target && strcmp(r->fields[i].name, name) == 0) {
            return true;
        }
    }
    return strcmp(name, CHARL_MODEL_INPUT) == 0;
}

static charl_status add_layer(const charl__config_layer *layer, void *user)
{
    charl_status st = CHARL_OK;
    const layer_reader *to = user;
    const charl_layer_type *t = charl__layer_type_find(charl__config_layer_type(layer));
    _Alignas(8) unsigned char config[CHARL_LAYER_MAX_SETTINGS] = {0};
    const char *const *inputs;
    const int n_inputs = charl__config_layer_inputs(layer, &inputs);

    if (!t) {
        CHARL_TRY(refuse_type(to->config, layer));
    }
    if (t->row.settings_size) {
        memcpy(config, t->row.defaults, t->row.settings_size);
    }
    for (int i = 0; i < t->row.n_keys; i++) {
        CHARL_TRY(read_key(layer, &t->row.keys[i], to->model, config));
    }
    for (int i = 0; i < n_inputs; i++) {
        if (!has_layer(to->model, inputs[i]) && !is_input(to, inputs[i])) {
            return CHARL_OK; /* the error of that layer has been reported */
        }
    }
    st = charl_model_add_after(to->model, charl__config_layer_name(layer), t->row.name, config, inputs, n_inputs);
    if (st == CHARL_ERR_CONFIG) {
        char reason[512];

        snprintf(reason, sizeof reason, "%s", charl_error_message());
        CHARL_TRY(charl__config_layer_refuse(layer, NULL, reason));
    }
    CHARL_TRY(st);
    return charl__model_locate(to->model, charl__config_layer_place(layer));
}

static charl_status add_layers(const charl_config *config, const charl__field *fields, int n, charl_model *m)
{
    CHARL_REQUIRE(charl__config_layer_count(config) > 0, CHARL_ERR_CONFIG,
                  "model.type = sequential needs [layer NAME] sections; or set model.type to a whole model "
                  "(charl-train --help-config=model)");
    CHARL_TRY(charl__config_read_layers(config, add_layer, &(layer_reader){config, m, fields, n}));
    CHARL_INVARIANT(charl_model_get_count(m) == charl__config_layer_count(config));
    return CHARL_OK;
}

/* The inputs among the fields of the data. */
static charl_status set_inputs(const charl__field *fields, int n, charl_model *m)
{
    charl_model_field inputs[CHARL__MAX_FIELDS];
    int k = 0;

    for (; k < n && !fields[k].target; k++) {
        const charl__field *f = &fields[k];

        inputs[k] = (charl_model_field){f->name, f->first, f->shape, f->kind == CHARL__FIELD_TOKENS,
                                        f->kind == CHARL__FIELD_TOKENS && f->least < 0};
    }
    return k > 0 ? charl_model_set_inputs(m, inputs, k) : CHARL_OK;
}

/* The inputs by name, without data: of some shape. */
static int fields_of(const charl_config *config, charl__field *out)
{
    charl__field_spec specs[CHARL__MAX_FIELDS];
    char why[256];
    const int n = charl__field_specs(config->data.x, specs, why, sizeof why);

    for (int i = 0; i < n; i++) {
        out[i] = (charl__field){.shape = {1, {1}}};
        memcpy(out[i].name, specs[i].name, sizeof out[i].name);
    }
    return n;
}

static charl_status set_outputs(const charl_config *config, const char *fields, charl_model *m)
{
    charl__outputs all;
    charl_model_output outputs[CHARL_MODEL_MAX_OUTPUTS];

    CHARL_TRY(charl__config_outputs(config, fields, &all));
    for (int k = 0; k < all.n; k++) {
        const charl__output *o = &all.at[k];

        outputs[k] = (charl_model_output){
            o->name, o->layer[0] ? o->layer : charl_model_get_layer_name(m, charl_model_get_count(m) - 1), o->count};
    }
    return all.n > 0 ? charl_model_set_outputs(m, outputs, all.n) : CHARL_OK;
}

charl_status charl__task_model(const charl_config *config, int64_t outputs, const char *fields, charl_model **out)
{
    charl__field f[2 * CHARL__MAX_FIELDS];
    const charl_model_type *type = charl__config_model(config);
    const int64_t rows = charl__config_vocab(config, outputs);
    CHARL_SCOPED(charl__model_left) charl_model *m = NULL;
    int n = charl__fields_parse(fields, f);

    *out = NULL;
    CHARL_REQUIRE(rows >= outputs, CHARL_ERR_CONFIG,
                  "model.vocab_size = %lld, but the data have %lld tokens; HINT use data of the "
                  "tokenizer that the model was made for, or set vocab_size = auto",
                  (long long)rows, (long long)outputs);
    if (n == 0 && charl__config_has_outputs(config)) {
        n = fields_of(config, f);
    }
    CHARL_TRY(charl_model_create(&m));
    CHARL_TRY(set_inputs(f, n, m));
    if (type->add) {
        CHARL_TRY(type->add(m, config->model.settings, rows));
    } else {
        CHARL_TRY(add_layers(config, f, n, m));
    }
    CHARL_TRY(fields && fields[0] ? set_outputs(config, fields, m) : CHARL_OK);
    CHARL_TRY(charl_model_set_lora(m, &config->lora));
    *out = m;
    m = NULL;
    return CHARL_OK;
}
