/* The key table for other programs: the schema, then the outputs and the layers of sequential models. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "charl/layer.h"
#include "config/config_private.h"
#include "nn/layer.h"

/* The keys that every layer has. */
static const charl_config_key common[] = {
    {.section = "layer",
     .name = "type",
     .help = "what the layer computes; or the name of a block",
     .values = "",
     .is_required = true},
    {.section = "layer",
     .name = "input",
     .help = "the layers that it reads, from above; the default is the layer above. input is what the model reads",
     .values = "names of layers, separated by commas"},
    {.section = "layer",
     .name = "repeat",
     .help = "number of copies in sequence, named NAME.0, NAME.1 and so on",
     .values = "integer",
     .range = CHARL__REPEAT_RANGE},
};
enum { N_COMMON = (int)(sizeof common / sizeof common[0]) };

/* Key `index` of the layers: the common ones, then the keys of each type. */
typedef struct layer_place {
    const charl_layer_type *type; /* NULL: a common key, or past the last */
    const charl_key *key;
} layer_place;

static layer_place find_layer_key(int index)
{
    layer_place p = {0};
    const charl_layer_type *type;

    index -= N_COMMON - 1;
    for (int i = 0; index > 0 && (type = charl__layer_type_at(i)) != NULL; i++) {
        if (index <= type->row.n_keys) {
            p = (layer_place){type, &type->row.keys[index - 1]};
            break;
        }
        index -= type->row.n_keys;
    }
    return p;
}

/* A row that a key chooses by its name. */
static const charl_row *chosen_row(const charl__key *key, const char *name)
{
    const charl__schema *s = charl__config_schema();

    for (int i = 0; i < s->n_types; i++) {
        const charl__type *t = &s->types[i];

        if (strcmp(t->section, key->section) == 0 && strcmp(t->key, key->name) == 0 &&
            strcmp(t->row->name, name) == 0) {
            return t->row;
        }
    }
    return NULL;
}

static void copy(const charl__text *t, char *out, size_t size)
{
    snprintf(out, size, "%s", charl__text_string(t));
}

static charl_status describe_key(const charl__key *key, charl_config_key *out)
{
    CHARL_SCOPED(charl__text_fini) charl__text t = {0};

    *out = (charl_config_key){.section = key->section,
                              .name = key->name,
                              .help = key->help,
                              .values = charl__key_type_text(key),
                              .range = key->range,
                              .is_path = key->type == CHARL__KEY_PATH || key->type == CHARL__KEY_MIX,
                              .is_list = key->type == CHARL__KEY_SET,
                              .may_change = !charl__effect_is_result(key->effect)};
    if (key->owner) {
        out->chooser = key->owner->key;
        out->choice = key->owner->row->name;
        out->choice_help = key->owner->row->help;
    }
    CHARL_TRY(charl__key_default_print(key, &t, &out->is_required));
    copy(&t, out->fallback, sizeof out->fallback);
    return CHARL_OK;
}

static charl_status describe_layer_key(int index, charl_config_key *out)
{
    const layer_place p = find_layer_key(index);
    CHARL_SCOPED(charl__text_fini) charl__text t = {0};

    *out = index < N_COMMON ? common[index] : (charl_config_key){.section = "layer", .values = ""};
    if (p.key) {
        out->name = p.key->name;
        out->help = p.key->help;
        out->values = charl__layer_key_type_text(p.key);
        out->range = p.key->range;
        out->chooser = "type";
        out->choice = p.type->row.name;
        out->choice_help = p.type->row.help;
        out->is_required = p.key->required;
        if (!p.key->required) {
            CHARL_TRY(charl__layer_key_default_print(p.key, p.type->row.defaults, &t));
            copy(&t, out->fallback, sizeof out->fallback);
        }
    }
    return CHARL_OK;
}

static charl_config_key describe_output_key(int index)
{
    const charl_key *k = &charl__output_keys[index];
    charl_config_key out = {.section = "output",
                            .name = k->name,
                            .help = k->help,
                            .values = charl__layer_key_type_text(k),
                            .range = k->range};

    snprintf(out.fallback, sizeof out.fallback, "%s", index == CHARL__OUTPUT_KEYS - 1 ? "1" : "");
    return out;
}

charl_status charl_config_key_at(int index, charl_config_key *out)
{
    CHARL_GIVEN(out);
    const charl__schema *s = charl__config_schema();

    if (index < 0) {
        *out = (charl_config_key){0};
        return CHARL_OK;
    }
    if (index < s->count) {
        return describe_key(&s->keys[index], out);
    }
    index -= s->count;
    if (index < CHARL__OUTPUT_KEYS) {
        *out = describe_output_key(index);
        return CHARL_OK;
    }
    return describe_layer_key(index - CHARL__OUTPUT_KEYS, out);
}

static bool put_word(const char *name, char *word)
{
    if (name && name != word) {
        snprintf(word, 64, "%s", name);
    }
    return name != NULL;
}

static bool layer_word(int index, int i, char *word, const char **help)
{
    const charl_layer_type *type = index == 0 ? charl__layer_type_at(i) : NULL;
    const charl_key *key = find_layer_key(index).key;
    const char *choices;

    if (type) {
        *help = type->row.help;
        return put_word(type->row.name, word);
    }
    if (key && key->kind == CHARL_KEY_ACTIVATION) {
        return put_word(charl_activation_name(i), word);
    }
    if (key && key->kind == CHARL_KEY_BOOL) {
        return put_word(i == 0 ? "yes" : i == 1 ? "no" : NULL, word);
    }
    choices = key ? key->choices : NULL;
    while (charl__choice_next(&choices, word, 64)) {
        if (i-- == 0) {
            return true;
        }
    }
    return false;
}

bool charl_config_key_word(int index, int i, char *word, const char **help)
{
    if (!help || !word) {
        return false;
    }
    const charl__schema *s = charl__config_schema();
    const charl__key *key;
    const charl_row *row;
    const char *name, *cursor;
    int named = i;
    char skipped[64];

    *help = NULL;
    if (index < 0 || i < 0) {
        return false;
    }
    if (index >= s->count) {
        index -= s->count + CHARL__OUTPUT_KEYS;
        return index >= 0 && layer_word(index, i, word, help);
    }
    key = &s->keys[index];
    if (key->type == CHARL__KEY_BOOL) {
        return put_word(i == 0 ? "yes" : i == 1 ? "no" : NULL, word);
    }
    name = charl__key_choice(key, i, word);
    if (!name) {
        return false;
    }
    for (cursor = key->choices; charl__choice_next(&cursor, skipped, sizeof skipped);) {
        named--;
    }
    row = chosen_row(key, name);
    *help = row ? row->help : key->help_at && named >= 0 ? key->help_at(named) : NULL;
    return put_word(name, word);
}

bool charl_config_key_is_result(const char *key)
{
    char section[128];
    const char *dot = key ? strrchr(key, '.') : NULL;
    const charl__key *found;

    if (!dot || (size_t)(dot - key) >= sizeof section) {
        return false;
    }
    snprintf(section, sizeof section, "%.*s", (int)(dot - key), key);
    found = charl__key_find(section, dot + 1, NULL);
    return !found || charl__effect_is_result(found->effect);
}
