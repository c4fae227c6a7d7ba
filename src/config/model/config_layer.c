/* Reading layers. Every key that a reader asks for is remembered, so that the rest can be refused
 * by name. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "config/config_private.h"
#include "config/config_rows.h"
#include "nn/layer.h"

static charl_status refuse_at(const charl_config_layer *layer, charl__origin origin, const char *key,
                              const char *reason)
{
    char line[32] = "";

    if (origin.line > 0) {
        snprintf(line, sizeof line, ":%d", origin.line);
    }
    CHARL_FAIL(CHARL_ERR_CONFIG, "%s%s: [%s]%s%s: %s", origin.label, line, layer->header, key ? " " : "",
               key ? key : "", reason);
    return CHARL_OK;
}

static charl__layer_key *find(const charl_config_layer *layer, const char *key)
{
    for (int i = 0; i < layer->n_keys; i++) {
        if (strcmp(layer->keys[i].key, key) == 0) {
            return &layer->keys[i];
        }
    }
    return NULL;
}

/* The key's text or NULL. Remembers the name; memory that runs out costs only a suggestion. */
static const char *ask(charl_config_layer *layer, const char *key)
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

charl_status charl_config_layer_refuse(charl_config_layer *layer, const char *key, const char *reason)
{
    const charl__layer_key *k = key ? find(layer, key) : NULL;

    return refuse_at(layer, k ? k->origin : layer->origin, key, reason);
}

bool charl_config_layer_has(charl_config_layer *layer, const char *key)
{
    return ask(layer, key) != NULL;
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

/* A required key is missing, or has a name that is spelt wrongly. */
static charl_status refuse_missing(charl_config_layer *layer, const char *key)
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
        return charl_config_layer_refuse(layer, key, "is missing");
    }
    snprintf(why, sizeof why, "unknown key for type = %s (did you mean %s?)", layer->type, key);
    return refuse_at(layer, near->origin, near->key, why);
}

static charl_status refuse_int(charl_config_layer *layer, const char *key, int64_t min, int64_t max)
{
    char why[CHARL__WHY];
    const char *value = ask(layer, key);

    if (!value) {
        return refuse_missing(layer, key);
    }
    if (max == INT64_MAX) {
        snprintf(why, sizeof why, "\"%.100s\" is not an integer of at least %" PRId64, value, min);
    } else {
        snprintf(why, sizeof why, "\"%.100s\" is not an integer from %" PRId64 " to %" PRId64, value, min, max);
    }
    return charl_config_layer_refuse(layer, key, why);
}

charl_status charl_config_layer_int(charl_config_layer *layer, const char *key, int64_t fallback, int64_t min,
                                    int64_t max, int64_t *out)
{
    const char *value = ask(layer, key);

    *out = fallback;
    if (value ? !charl__parse_int(value, out) || *out < min || *out > max : fallback == CHARL_CONFIG_REQUIRED) {
        return refuse_int(layer, key, min, max);
    }
    return CHARL_OK;
}

/* n integers, "3x5" or "3, 5", or one for all. */
static charl_status read_extents(charl_config_layer *layer, const char *key, int64_t fallback, int64_t min, int64_t max,
                                 int n, int64_t *out)
{
    const char *value = ask(layer, key);
    int found = 0;

    for (int i = 0; i < n; i++) {
        out[i] = fallback;
    }
    if (!value) {
        return fallback == CHARL_CONFIG_REQUIRED ? refuse_int(layer, key, min, max) : CHARL_OK;
    }
    do {
        const size_t length = strcspn(value, "x, ");
        char number[32];

        snprintf(number, sizeof number, "%.*s", (int)(length < 31 ? length : 31), value);
        value += length + strspn(value + length, " ");
        if (!charl__parse_int(number, &out[found]) || out[found] < min || out[found] > max) {
            return refuse_int(layer, key, min, max);
        }
        found++;
        if (*value == '\0') {
            break;
        }
        value += *value == 'x' || *value == ',';
        value += strspn(value, " ");
    } while (found < n);
    if (*value != '\0' || (found > 1 && found < n)) {
        return refuse_int(layer, key, min, max);
    }
    for (int i = found; i < n; i++) {
        out[i] = out[0];
    }
    return CHARL_OK;
}

charl_status charl_config_layer_pair(charl_config_layer *layer, const char *key, int64_t fallback, int64_t min,
                                     int64_t max, int64_t out[2])
{
    return read_extents(layer, key, fallback, min, max, 2, out);
}

charl_status charl_config_layer_triple(charl_config_layer *layer, const char *key, int64_t fallback, int64_t min,
                                       int64_t max, int64_t out[3])
{
    return read_extents(layer, key, fallback, min, max, 3, out);
}

charl_status charl_config_layer_ints(charl_config_layer *layer, const char *key, int64_t min, int64_t max,
                                     charl_int_list *out)
{
    const char *cursor = ask(layer, key);
    char word[64], why[CHARL__WHY];

    if (!cursor) {
        return refuse_int(layer, key, min, max);
    }
    *out = (charl_int_list){0};
    while (charl__config_element(&cursor, word, sizeof word)) {
        if (out->count == CHARL_CONFIG_LIST) {
            snprintf(why, sizeof why, "more than %d values", CHARL_CONFIG_LIST);
            return charl_config_layer_refuse(layer, key, why);
        }
        if (!charl__parse_int(word, &out->values[out->count]) || out->values[out->count] < min ||
            out->values[out->count] > max) {
            snprintf(why, sizeof why, "\"%.60s\" is not an integer from %" PRId64 " to %" PRId64, word, min, max);
            return charl_config_layer_refuse(layer, key, why);
        }
        out->count++;
    }
    return out->count > 0 ? CHARL_OK
                          : charl_config_layer_refuse(layer, key, "is empty; expected integers, as in 8, 16");
}

charl_status charl_config_layer_float(charl_config_layer *layer, const char *key, double fallback, const char *range,
                                      double *out)
{
    const char *value = ask(layer, key);
    char why[CHARL__WHY];

    *out = fallback;
    if (value && (!charl__parse_float(value, out) || !charl__range_holds(range, *out))) {
        snprintf(why, sizeof why, "\"%.100s\" is not a number%s%s", value, range ? " in " : "", range ? range : "");
        return charl_config_layer_refuse(layer, key, why);
    }
    return CHARL_OK;
}

charl_status charl_config_layer_bool(charl_config_layer *layer, const char *key, bool fallback, bool *out)
{
    const char *value = ask(layer, key);
    char why[CHARL__WHY];

    *out = fallback;
    if (value && !charl__parse_bool(value, out)) {
        snprintf(why, sizeof why, "\"%.100s\" is not yes or no", value);
        return charl_config_layer_refuse(layer, key, why);
    }
    return CHARL_OK;
}

charl_status charl_config_layer_string(charl_config_layer *layer, const char *key, const char *fallback,
                                       const char *choices, const char **out)
{
    const char *value = ask(layer, key);
    char why[CHARL__WHY];
    char list[256];

    *out = value ? value : fallback;
    if (!*out) {
        return refuse_missing(layer, key);
    }
    if (value && choices && charl__choice_index(choices, value) < 0) {
        snprintf(why, sizeof why, "\"%.100s\" is not one of %s", value, charl__choice_list(choices, list, sizeof list));
        return charl_config_layer_refuse(layer, key, why);
    }
    return CHARL_OK;
}

charl_status charl_config_layer_choice(charl_config_layer *layer, const char *key, int fallback, const char *choices,
                                       int *out)
{
    const char *value = NULL;

    *out = fallback;
    if (charl_config_layer_has(layer, key)) {
        CHARL_TRY(charl_config_layer_string(layer, key, NULL, choices, &value));
        *out = charl__choice_index(choices, value);
    }
    return CHARL_OK;
}

/* Keys that the reader did not ask for. */
static charl_status refuse_rest(const charl_config_layer *layer, charl__mistakes *mistakes)
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
        snprintf(why, sizeof why, "unknown key for type = %s%s%s%s", layer->type, near ? " (did you mean " : "",
                 near ? near : "", near ? "?)" : "");
        CHARL_TRY(charl__mistake_add(mistakes, k->origin, layer->header, k->key, why));
    }
    return CHARL_OK;
}

charl_status charl_config_read_layers(const charl_config *cfg, charl_config_layer_reader read, void *user)
{
    charl_status st = CHARL_OK;
    charl__mistakes mistakes = {0};

    for (int i = 0; i < cfg->detail->n_layers; i++) {
        charl_config_layer *layer = &cfg->detail->layers[i];
        const charl_status one = read(layer, user);

        if (one == CHARL_ERR_CONFIG) {
            /* The message carries its place already; the origin only sorts. */
            CHARL_TRY_CLEANUP(charl__mistake_add_text(&mistakes, layer->origin, NULL, charl_error_message()));
        } else {
            CHARL_TRY_CLEANUP(one);
            CHARL_TRY_CLEANUP(refuse_rest(layer, &mistakes));
        }
    }
    CHARL_TRY_CLEANUP(charl__mistakes_report(&mistakes));
cleanup:
    charl__mistakes_fini(&mistakes);
    return st;
}

int charl_config_layer_count(const charl_config *cfg)
{
    return cfg->detail->n_layers;
}

const char *charl_config_layer_name(const charl_config_layer *layer)
{
    return layer->name;
}

int charl_config_layer_inputs(const charl_config_layer *layer, const char *const **names)
{
    *names = (const char *const *)layer->inputs;
    return layer->n_inputs;
}

const char *charl__config_layer_place(const charl_config_layer *layer, char *text, size_t size)
{
    if (layer->origin.line > 0) {
        snprintf(text, size, "%s:%d", layer->origin.label, layer->origin.line);
    } else {
        snprintf(text, size, "%s", layer->origin.label);
    }
    return text;
}

const char *charl_config_layer_type(const charl_config_layer *layer)
{
    return layer->type;
}
