/* Reading layers. Every key that a reader asks for is recorded, so that other keys can be rejected
 * by name. */
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

/* The key's text or NULL. Records the name; if memory runs out, only a suggestion is lost. */
static const char *ask(charl__config_layer *layer, const char *key)
{
    charl__layer_key *k = find(layer, key);
    bool known = false;

    for (size_t at = 0; at < layer->asked.length && !known; at += strlen(layer->asked.data + at) + 1) {
        known = strcmp(layer->asked.data + at, key) == 0;
    }
    if (!known && charl__text_append(&layer->asked, key, strlen(key) + 1) != CHARL_OK) {
        charl_error_clear();
    }
    if (k) {
        k->asked = true;
    }
    return k ? k->value : NULL;
}

charl_status charl__config_layer_refuse(charl__config_layer *layer, const char *key, const char *reason)
{
    CHARL_GIVEN(layer, reason);
    const charl__layer_key *k = key ? find(layer, key) : NULL;

    return refuse_at(layer, k ? k->origin : layer->origin, key, reason);
}

bool charl__config_layer_has(charl__config_layer *layer, const char *key)
{
    return layer && key && ask(layer, key) != NULL;
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
static charl_status refuse_missing(charl__config_layer *layer, const char *key)
{
    const charl__layer_key *near = NULL;
    int best = INT_MAX;
    char why[CHARL__WHY];

    for (int i = 0; i < layer->n_keys; i++) {
        const charl__layer_key *k = &layer->keys[i];

        if (!k->asked && !is_key_of(layer->type, k->key) && charl_text_closer(k->key, key, &best)) {
            near = k;
        }
    }
    if (!near) {
        return charl__config_layer_refuse(layer, key, "is missing");
    }
    snprintf(why, sizeof why, "unknown key for type = %s (did you mean %s?)", layer->type, key);
    return refuse_at(layer, near->origin, near->key, why);
}

charl_status charl__config_layer_read(charl__config_layer *layer, const charl_key *key, void *settings)
{
    CHARL_GIVEN(layer, key, settings);
    const char *value = ask(layer, key->name);
    char why[CHARL_REASON_BYTES];

    if (!value) {
        return key->required ? refuse_missing(layer, key->name) : CHARL_OK;
    }
    return charl_key_parse(key, value, settings, why) ? CHARL_OK : charl__config_layer_refuse(layer, key->name, why);
}

/* Keys that the reader did not ask for. */
static charl_status refuse_rest(const charl__config_layer *layer, charl__mistakes *mistakes)
{
    for (int i = 0; i < layer->n_keys; i++) {
        const charl__layer_key *k = &layer->keys[i];
        const char *near = NULL;
        int best = INT_MAX;
        char why[CHARL__WHY];

        if (k->asked) {
            continue;
        }
        for (size_t at = 0; at < layer->asked.length; at += strlen(layer->asked.data + at) + 1) {
            if (charl_text_closer(k->key, layer->asked.data + at, &best)) {
                near = layer->asked.data + at;
            }
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
        charl__config_layer *layer = &cfg->detail->layers[i];
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
