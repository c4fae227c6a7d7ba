/* Reading layers. The keys of a layer are those of its type; others are rejected by name. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "config/config_private.h"
#include "config/config_rows.h"
#include "config/layers.h"
#include "nn/layer.h"

static charl_status refuse_at(const charl__config_layer *layer, charl__origin origin, const char *key,
                              const char *reason)
{
    CHARL_FAIL(CHARL_ERR_CONFIG, "%s: [%s]%s%s: %s", charl__origin_text(origin), layer->header, key ? " " : "",
               key ? key : "", reason);
    return CHARL_OK;
}

static charl__layer_key *find(const charl__config_layer *layer, const char *key)
{
    for (int i = 0; i < layer->n_keys; i++) {
        if (strcmp(layer->keys[i].key, key) == 0) {
            return &layer->keys[i];
        }
    }
    return NULL;
}

static const char *value_of(const charl__config_layer *layer, const char *key)
{
    const charl__layer_key *k = find(layer, key);

    return k ? k->value : NULL;
}

charl_status charl__config_layer_refuse(const charl__config_layer *layer, const char *key, const char *reason)
{
    CHARL_GIVEN(layer, reason);
    const charl__layer_key *k = key ? find(layer, key) : NULL;

    return refuse_at(layer, k ? k->origin : layer->origin, key, reason);
}

bool charl__config_layer_has(const charl__config_layer *layer, const char *key)
{
    return layer && key && value_of(layer, key) != NULL;
}

static bool is_key_of(const char *type, const char *key)
{
    const charl_layer_type *t = charl__layer_type_find(type);

    for (int i = 0; t && i < t->row.n_keys; i++) {
        if (strcmp(t->row.keys[i].name, key) == 0) {
            return true;
        }
    }
    return false;
}

/* A required key is missing or misspelt. */
static charl_status refuse_missing(const charl__config_layer *layer, const char *key)
{
    const charl__layer_key *near = NULL;
    int best = INT_MAX;
    char why[CHARL__WHY];

    for (int i = 0; i < layer->n_keys; i++) {
        const charl__layer_key *k = &layer->keys[i];

        if (!is_key_of(layer->type, k->key) && charl_text_closer(k->key, key, &best)) {
            near = k;
        }
    }
    if (!near) {
        return charl__config_layer_refuse(layer, key, "is missing");
    }
    snprintf(why, sizeof why, "unknown key for type = %s (did you mean %s?)", layer->type, key);
    return refuse_at(layer, near->origin, near->key, why);
}

charl_status charl__config_layer_read(const charl__config_layer *layer, const charl_key *key, void *settings)
{
    CHARL_GIVEN(layer, key, settings);
    const char *value = value_of(layer, key->name);
    char why[CHARL_REASON_BYTES];

    if (!value) {
        return key->required ? refuse_missing(layer, key->name) : CHARL_OK;
    }
    return charl_key_parse(key, value, settings, why) ? CHARL_OK : charl__config_layer_refuse(layer, key->name, why);
}

/* Keys that the layer's type does not have. */
static charl_status refuse_rest(const charl__config_layer *layer, charl__mistakes *mistakes)
{
    const charl_layer_type *t = charl__layer_type_find(layer->type);

    for (int i = 0; i < layer->n_keys; i++) {
        const charl__layer_key *k = &layer->keys[i];
        const char *near = NULL;
        int best = INT_MAX;
        char why[CHARL__WHY];

        if (is_key_of(layer->type, k->key)) {
            continue;
        }
        for (int j = 0; t && j < t->row.n_keys; j++) {
            near = charl_text_closer(k->key, t->row.keys[j].name, &best) ? t->row.keys[j].name : near;
        }
        snprintf(why, sizeof why, "unknown key for type = %s%s", layer->type, charl__did_you_mean(near));
        CHARL_TRY(charl__mistake_add(mistakes, k->origin, layer->header, k->key, why));
    }
    return CHARL_OK;
}

charl_status charl__config_read_layers(const charl_config *cfg, charl__config_layer_reader read, void *user)
{
    CHARL_GIVEN(cfg, read);
    CHARL_SCOPED(charl__mistakes_fini) charl__mistakes mistakes = {0};

    for (int i = 0; i < cfg->detail->n_layers; i++) {
        const charl__config_layer *layer = &cfg->detail->layers[i];
        const charl_status one = read(layer, user);

        if (one == CHARL_ERR_CONFIG) {
            /* The message already has its location; the origin is only for sorting. */
            CHARL_TRY(charl__mistake_add_text(&mistakes, layer->origin, NULL, charl_error_message()));
        } else {
            CHARL_TRY(one);
            CHARL_TRY(refuse_rest(layer, &mistakes));
        }
    }
    CHARL_TRY(charl__mistakes_report(&mistakes));
    return CHARL_OK;
}

int charl__config_layer_count(const charl_config *cfg)
{
    return cfg ? cfg->detail->n_layers : 0;
}

const char *charl__config_layer_name(const charl__config_layer *layer)
{
    return layer ? layer->name : NULL;
}

int charl__config_layer_inputs(const charl__config_layer *layer, const char *const **names)
{
    if (!layer || !names) {
        return 0;
    }
    *names = (const char *const *)layer->inputs;
    return layer->n_inputs;
}

const char *charl__config_layer_place(const charl__config_layer *layer)
{
    return charl__origin_text(layer->origin);
}

const char *charl__config_layer_type(const charl__config_layer *layer)
{
    return layer ? layer->type : NULL;
}
