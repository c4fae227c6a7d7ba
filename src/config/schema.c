/* The whole key table, assembled once, and lookups. The table is short: every lookup is linear. */
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/registry/registry.h"
#include "base/text/text.h"
#include "charl/optim.h"
#include "config/keys.h"
#include "nn/layer.h"
#include "nn/loss.h"
#include "nn/model.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

enum { MAX_KEYS = 768, MAX_TYPES = 128, ALIGN = 16 };

static charl__key keys[MAX_KEYS];
static charl__type types[MAX_TYPES];
static charl__schema schema;

/* Keys that select a row of a registry. */
static const charl_row *model_row(int i)
{
    const charl_model_type *t = charl__model_type_at(i);

    return t ? &t->row : NULL;
}

static const charl_row *optimizer_row(int i)
{
    const charl__optimizer_rule *t = charl__optimizer_at(i);

    return t ? &t->row : NULL;
}

static const charl_row *schedule_row(int i)
{
    const charl__schedule_type *t = charl__schedule_at(i);

    return t ? &t->row : NULL;
}

static const charl_row *loss_row(int i)
{
    const charl__loss *t = charl__loss_at(i);

    return t ? &t->row : NULL;
}

static const charl__chooser choosers[] = {
    {"model", "type", model_row, offsetof(charl_config, model.settings)},
    {"train", "loss", loss_row, offsetof(charl_config, train.loss_settings)},
    {"optimizer", "type", optimizer_row, offsetof(charl_config, optimizer.settings)},
    {"scheduler", "type", schedule_row, offsetof(charl_config, scheduler.settings)},
};

const charl__chooser *charl__chooser_at(int i)
{
    return i >= 0 && (size_t)i < sizeof choosers / sizeof choosers[0] ? &choosers[i] : NULL;
}

static charl__key_type type_of(charl_key_kind kind)
{
    switch (kind) {
    case CHARL_KEY_INT:
        return CHARL__KEY_INT;
    case CHARL_KEY_SIZE:
        return CHARL__KEY_SIZE;
    case CHARL_KEY_STEPS:
        return CHARL__KEY_STEPS;
    case CHARL_KEY_INTS:
        return CHARL__KEY_INTS;
    case CHARL_KEY_FLOATS:
        return CHARL__KEY_FLOATS;
    case CHARL_KEY_FLOAT:
        return CHARL__KEY_FLOAT;
    case CHARL_KEY_BOOL:
        return CHARL__KEY_BOOL;
    case CHARL_KEY_CHOICE:
        return CHARL__KEY_ENUM;
    case CHARL_KEY_ACTIVATION:
        return CHARL__KEY_CHOICE;
    case CHARL_KEY_PAIR:
    case CHARL_KEY_TRIPLE:
    case CHARL_KEY_TEXT:
    case CHARL_KEY_LAYER:
        break;
    }
    return CHARL__KEY_STRING;
}

static void problem(const char *what, const charl_row *row, const char *key, const char *why)
{
    if (!schema.problem[0]) {
        snprintf(schema.problem, sizeof schema.problem, "%s %.40s: key %.40s %s", what, row->name, key, why);
    }
}

static void add_own_key(const charl__type *owner, const charl_key *k)
{
    if (type_of(k->kind) == CHARL__KEY_STRING) {
        problem(owner->section, owner->row, k->name, "is of a kind that no key of a section has");
        return;
    }
    for (int i = 0; i < charl__section_key_count; i++) {
        if (strcmp(charl__section_keys[i].section, owner->section) == 0 &&
            strcmp(charl__section_keys[i].name, k->name) == 0) {
            problem(owner->section, owner->row, k->name, "belongs to the section already");
            return;
        }
    }
    if (schema.count == MAX_KEYS) {
        problem(owner->section, owner->row, k->name, "is one too many");
        return;
    }
    keys[schema.count++] = (charl__key){.section = owner->section,
                                        .name = k->name,
                                        .type = type_of(k->kind),
                                        .offset = owner->offset + k->offset,
                                        .range = k->range,
                                        .choices = k->choices,
                                        .help = k->help,
                                        .name_at = k->kind == CHARL_KEY_ACTIVATION ? charl_activation_name : NULL,
                                        .owner = owner};
}

static void add_types(const char *section)
{
    const charl_row *row;

    for (size_t c = 0; c < sizeof choosers / sizeof choosers[0]; c++) {
        for (int i = 0; strcmp(choosers[c].section, section) == 0 && (row = choosers[c].at(i)) != NULL; i++) {
            charl__type *t = &types[schema.n_types];

            CHARL_INVARIANT(schema.n_types < MAX_TYPES); /* registries are smaller */
            *t = (charl__type){.section = section, .key = choosers[c].key, .row = row, .offset = schema.bytes};
            schema.n_types++;
            schema.bytes += (row->settings_size + ALIGN - 1) / ALIGN * ALIGN;
            for (int k = 0; k < row->n_keys; k++) {
                add_own_key(t, &row->keys[k]);
            }
        }
    }
}

static void build(void)
{
    charl__registry_close();
    schema.keys = keys;
    schema.types = types;
    schema.bytes = (sizeof(charl_config) + ALIGN - 1) / ALIGN * ALIGN;
    for (int i = 0; i < charl__section_key_count; i++) {
        const char *section = charl__section_keys[i].section;

        keys[schema.count++] = charl__section_keys[i];
        if (i + 1 == charl__section_key_count || strcmp(charl__section_keys[i + 1].section, section) != 0) {
            add_types(section);
        }
    }
}

const charl__schema *charl__config_schema(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, build);
    return &schema;
}

const charl__type *charl__type_chosen(const charl_config *cfg, const char *section, const char *key)
{
    const charl__schema *s = charl__config_schema();

    for (int i = 0; i < s->n_types; i++) {
        const charl__type *t = &s->types[i];

        if (strcmp(t->section, section) == 0 && strcmp(t->key, key) == 0) {
            const size_t at = charl__key_find(section, key, NULL)->offset;

            if (strcmp(t->row->name, *(const char *const *)(const void *)((const char *)cfg + at)) == 0) {
                return t;
            }
        }
    }
    return NULL;
}

bool charl__config_uses(const charl_config *cfg, const charl__key *key)
{
    const charl__type *chosen = key->owner ? charl__type_chosen(cfg, key->section, key->owner->key) : NULL;

    return !chosen || key->owner == chosen;
}

static const charl__key *find_named(const char *section, const char *name)
{
    const charl__schema *s = charl__config_schema();

    for (int i = 0; i < s->count; i++) {
        if ((!section || strcmp(s->keys[i].section, section) == 0) && strcmp(s->keys[i].name, name) == 0) {
            return &s->keys[i];
        }
    }
    return NULL;
}

static const charl__key *find_alias(const char *section, const char *name)
{
    const char *in, *meant = charl__key_alias(section, name, &in);

    return meant ? find_named(in, meant) : NULL;
}

const charl__key *charl__key_find(const char *section, const char *name, bool *alias)
{
    const charl__key *key = find_named(section, name);

    if (alias) {
        *alias = !key;
        if (!key) {
            key = find_alias(section, name);
        }
    }
    return key;
}

const charl__key *charl__key_elsewhere(const char *name)
{
    const charl__key *key = find_named(NULL, name);

    return key ? key : find_alias(NULL, name);
}

bool charl__key_section_known(const char *section)
{
    for (int i = 0; i < charl__section_key_count; i++) {
        if (strcmp(charl__section_keys[i].section, section) == 0) {
            return true;
        }
    }
    return false;
}

const charl__key *charl__key_nearest_elsewhere(const char *name)
{
    const charl__schema *s = charl__config_schema();
    const charl__key *nearest = NULL;
    int best = INT_MAX;

    for (int i = 0; i < s->count; i++) {
        if (charl_text_closer(name, s->keys[i].name, &best)) {
            nearest = &s->keys[i];
        }
    }
    return nearest;
}

bool charl_config_nearest_key(const char *name, bool misspelt, char *text, size_t size)
{
    if (!name || (!text && size > 0)) {
        return false;
    }
    const charl__key *key = charl__key_elsewhere(name);

    if (!key && misspelt) {
        key = charl__key_nearest_elsewhere(name);
    }
    if (key) {
        snprintf(text, size, "%s.%s", key->section, key->name);
    }
    return key != NULL;
}

const char *charl__key_nearest(const char *section, const char *name)
{
    const charl__schema *s = charl__config_schema();
    const char *nearest = NULL;
    int best = INT_MAX;

    for (int i = 0; i < s->count; i++) {
        if (strcmp(s->keys[i].section, section) == 0 && charl_text_closer(name, s->keys[i].name, &best)) {
            nearest = s->keys[i].name;
        }
    }
    return nearest;
}

const char *charl__key_nearest_section(const char *section)
{
    const char *nearest = NULL;
    int best = INT_MAX;

    for (int i = 0; i < charl__section_key_count; i++) {
        if (charl_text_closer(section, charl__section_keys[i].section, &best)) {
            nearest = charl__section_keys[i].section;
        }
    }
    return nearest;
}

const char *charl__key_choice(const charl__key *key, int i, char *word)
{
    const char *cursor = key->choices, *name;
    int k = 0;

    for (; charl__choice_next(&cursor, word, 64); k++) {
        if (k == i) {
            return word;
        }
    }
    name = key->name_at ? key->name_at(i - k) : NULL;
    if (name && key->prefix) {
        snprintf(word, 64, "%s%s", key->prefix, name);
        return word;
    }
    return name;
}

int charl__key_choice_index(const charl__key *key, const char *word)
{
    char text[64];
    const char *choice;

    for (int i = 0; (choice = charl__key_choice(key, i, text)) != NULL; i++) {
        if (strcmp(choice, word) == 0) {
            return i;
        }
    }
    return -1;
}

static const char *choice_at(const void *ctx, int i, char *copy)
{
    return charl__key_choice(ctx, i, copy);
}

const char *charl__key_choice_list(const char *word, const charl__key *key, char *text, size_t size)
{
    return charl__text_names(word, choice_at, key, text, size);
}

const char *charl_config_choice_name(const char *section, const char *key, int index)
{
    static _Thread_local char word[64];
    const charl__key *k = section && key ? find_named(section, key) : NULL;
    const char *choice = k && index >= 0 ? charl__key_choice(k, index, word) : NULL;

    return choice ? choice : "?";
}
