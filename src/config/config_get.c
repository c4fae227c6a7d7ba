/* Values by name, for programs. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "config/config_place.h"
#include "config/config_private.h"
#include "config/config_rows.h"

/* The key that `name`, "section.key", means in this configuration. */
static charl_status find(const charl_config *cfg, const char *name, const charl__key **out)
{
    const charl__schema *schema = charl__config_schema();
    const char *dot = strchr(name, '.');
    const size_t n = dot ? (size_t)(dot - name) : 0;
    const charl__key *unused = NULL;
    char nearest[128];

    for (int i = 0; dot && i < schema->count; i++) {
        const charl__key *key = &schema->keys[i];

        if (strncmp(key->section, name, n) == 0 && !key->section[n] && strcmp(key->name, dot + 1) == 0) {
            if (charl__config_uses(cfg, key)) {
                *out = key;
                return CHARL_OK;
            }
            unused = key;
        }
    }
    if (unused) {
        CHARL_FAIL(CHARL_ERR_INVALID, "%s has no value: %s.%s is not %s", name, unused->section, unused->owner->key,
                   unused->owner->row->name);
    }
    CHARL_REQUIRE(!charl_config_nearest_key(dot ? dot + 1 : name, true, nearest, sizeof nearest), CHARL_ERR_INVALID,
                  "there is no key %s (did you mean %s?)", name, nearest);
    CHARL_FAIL(CHARL_ERR_INVALID, "there is no key %s; HINT charl-train --help-config lists the keys", name);
}

static charl_status wrong(const charl__key *key, const char *get)
{
    const char *text = charl__key_type_text(key);

    CHARL_FAIL(CHARL_ERR_INVALID, "charl_config_get_%s cannot read %s.%s, whose values are: %s", get, key->section,
               key->name, text[0] ? text : "words");
}

charl_status charl_config_get_int(const charl_config *cfg, const char *key, int64_t *out)
{
    CHARL_GIVEN(cfg, key, out);
    const charl__key *k;

    CHARL_TRY(find(cfg, key, &k));

    const void *field = (const char *)cfg + k->offset;

    switch (k->type) {
    case CHARL__KEY_INT:
    case CHARL__KEY_SIZE:
    case CHARL__KEY_STEPS:
        CHARL_REQUIRE(k->type != CHARL__KEY_STEPS || *(const int64_t *)field < CHARL__TOKENS, CHARL_ERR_INVALID,
                      "%s is in tokens, not in steps", key);
        *out = *(const int64_t *)field;
        return CHARL_OK;
    case CHARL__KEY_BOOL:
        *out = *(const bool *)field;
        return CHARL_OK;
    default:
        return wrong(k, "int");
    }
}

charl_status charl_config_get_number(const charl_config *cfg, const char *key, double *out)
{
    CHARL_GIVEN(cfg, key, out);
    const charl__key *k;

    CHARL_TRY(find(cfg, key, &k));
    if (k->type != CHARL__KEY_FLOAT && k->type != CHARL__KEY_DURATION) {
        return wrong(k, "number");
    }
    *out = *(const double *)(const void *)((const char *)cfg + k->offset);
    return CHARL_OK;
}

charl_status charl_config_get_text(const charl_config *cfg, const char *key, const char **out)
{
    CHARL_GIVEN(cfg, key, out);
    const charl__key *k;

    CHARL_TRY(find(cfg, key, &k));
    switch (k->type) {
    case CHARL__KEY_STRING:
    case CHARL__KEY_PATH:
    case CHARL__KEY_CHOICE:
    case CHARL__KEY_DEVICE:
        *out = *(const char *const *)(const void *)((const char *)cfg + k->offset);
        *out = *out ? *out : "";
        return CHARL_OK;
    case CHARL__KEY_ENUM:
        *out = cfg->detail->words[k - charl__config_schema()->keys];
        return CHARL_OK;
    default:
        return wrong(k, "text");
    }
}

charl_status charl_config_get_settings(const charl_config *cfg, const char *section, const void **out)
{
    CHARL_GIVEN(cfg, section, out);
    const charl__chooser *c;

    for (int i = 0; (c = charl__chooser_at(i)) != NULL; i++) {
        if (strcmp(c->section, section) == 0) {
            *out = *(const void *const *)(const void *)((const char *)cfg + c->settings);
            return CHARL_OK;
        }
    }
    CHARL_FAIL(CHARL_ERR_INVALID, "section %s has no settings of a type; model, train, optimizer and scheduler have",
               section);
}

charl_status charl__config_keep_words(charl_config *cfg)
{
    const charl__schema *schema = charl__config_schema();
    charl__config_detail *d = cfg->detail;

    CHARL_TRY(charl__alloc_array(schema->count, sizeof *d->words, &d->words));
    for (int i = 0; i < schema->count; i++) {
        const charl__key *k = &schema->keys[i];
        char word[64];

        if (k->type == CHARL__KEY_ENUM) {
            const int value = *(const int *)(const void *)((const char *)cfg + k->offset);

            CHARL_TRY(charl__config_keep(&d->strings, charl__key_choice(k, value, word), &d->words[i]));
        }
    }
    return CHARL_OK;
}

charl_status charl_config_open_dataset(const charl_config *cfg, bool draws, charl_dataset **out)
{
    CHARL_GIVEN(cfg, out);
    const charl__mix *mix = &cfg->data.mix;
    charl_dataset_options o = charl_config_get_dataset_options(cfg);

    *out = NULL;
    o.sampling = draws ? cfg->data.sampling : CHARL_SAMPLING_ONCE;
    CHARL_REQUIRE(mix->count > 0 || cfg->data.path[0], CHARL_ERR_CONFIG,
                  "[data] path is missing; HINT path = FILE names the data set");
    return charl__config_name_option(mix->count > 0
                                         ? charl_dataset_open_mix(mix->path, mix->weight, mix->count, &o, out)
                                         : charl_dataset_open(cfg->data.path, &o, out),
                                     "data");
}
