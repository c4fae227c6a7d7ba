/* Compares two configurations by their printed values, so that 1e-3 equals 0.001. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "config/config_private.h"
#include "config/config_rows.h"
#include "config/diff.h"
#include "files/run_path.h"
#include "io/scoped.h"

typedef struct differ {
    charl__text report;
    unsigned wanted, found;
    bool afresh; /* of two new runs: the place of the data counts, and a default as much as any other value */
} differ;

static charl_status say(differ *d, unsigned change, const char *section, const char *key, const char *now,
                        const char *was)
{
    if (!(change & d->wanted)) {
        return CHARL_OK;
    }
    d->found |= change;
    CHARL_TRY(charl__text_printf(&d->report, "%s[%s]%s%s", d->report.length > 0 ? "\n" : "", section, key ? " " : "",
                                 key ? key : ""));
    if (key && now) {
        CHARL_TRY(charl__text_printf(&d->report, " = %s", now));
    }
    if (was) {
        CHARL_TRY(charl__text_printf(&d->report, "%s%s%s", key ? " (was " : " ", was, key ? ")" : ""));
    }
    return CHARL_OK;
}

static unsigned change_of(const differ *d, const charl__key *key)
{
    if (d->afresh && key->effect == CHARL__KEY_LOCAL && strcmp(key->section, "data") == 0) {
        return CHARL__CHANGE_TRAINING;
    }
    switch (key->effect) {
    case CHARL__KEY_RESULT:
        return strcmp(key->section, "model") == 0 ? CHARL__CHANGE_MODEL : CHARL__CHANGE_TRAINING;
    case CHARL__KEY_LENGTH:
        return CHARL__CHANGE_LENGTH;
    case CHARL__KEY_MEASURE:
        return CHARL__CHANGE_MEASURE;
    case CHARL__KEY_START:
        return CHARL__CHANGE_START;
    case CHARL__KEY_MANNER:
    case CHARL__KEY_LOCAL:
    case CHARL__KEY_SOURCE:
        break;
    }
    return 0;
}

/* Whether values of a key are equivalent. For keys of a run's start, a default is no difference: a run that resumes does not read them. Checkpoints of
 * one run count as one start: its links change their targets as it trains. */
static bool is_same(const differ *d, const charl__key *key, const char *now, const char *was)
{
    const bool starts = key->effect == CHARL__KEY_START && !d->afresh;

    return strcmp(now, was) == 0 || (starts && strcmp(now, key->fallback) == 0) ||
           (starts && key->type == CHARL__KEY_PATH && charl__run_is_same(now, was));
}

/* A key is compared if both sides use it; a different type is reported by the key `type`. */
static charl_status diff_keys(differ *d, const charl_config *now, const charl_config *was)
{
    const charl__schema *schema = charl__config_schema();
    CHARL_SCOPED(charl__text_fini) charl__text a = {0};
    CHARL_SCOPED(charl__text_fini) charl__text b = {0};

    for (int i = 0; i < schema->count; i++) {
        const charl__key *key = &schema->keys[i];

        if (!(change_of(d, key) & d->wanted) || !charl__config_uses(now, key) || !charl__config_uses(was, key)) {
            continue;
        }
        charl__text_clear(&a);
        charl__text_clear(&b);
        CHARL_TRY(charl__config_value_print(key, (const char *)now + key->offset, &a));
        CHARL_TRY(charl__config_value_print(key, (const char *)was + key->offset, &b));
        if (!is_same(d, key, charl__text_string(&a), charl__text_string(&b))) {
            CHARL_TRY(
                say(d, change_of(d, key), key->section, key->name, charl__text_string(&a), charl__text_string(&b)));
        }
    }
    return CHARL_OK;
}

static const charl__section *find_section(const charl_config *cfg, const char *header)
{
    for (int i = 0; i < cfg->detail->n_sections; i++) {
        if (strcmp(cfg->detail->sections[i].header, header) == 0) {
            return &cfg->detail->sections[i];
        }
    }
    return NULL;
}

static const char *value_of(const charl__section *layer, const char *key)
{
    for (int i = 0; i < layer->n_keys; i++) {
        if (strcmp(layer->keys[i].key, key) == 0) {
            return layer->keys[i].value;
        }
    }
    return NULL;
}

static charl_status diff_layer(differ *d, const char *section, const charl__section *now, const charl__section *was)
{
    for (int i = 0; i < now->n_keys; i++) {
        const char *old = value_of(was, now->keys[i].key);

        if (!old || strcmp(old, now->keys[i].value) != 0) {
            CHARL_TRY(
                say(d, CHARL__CHANGE_MODEL, section, now->keys[i].key, now->keys[i].value, old ? old : "not given"));
        }
    }
    for (int i = 0; i < was->n_keys; i++) {
        if (!value_of(now, was->keys[i].key)) {
            CHARL_TRY(say(d, CHARL__CHANGE_MODEL, section, was->keys[i].key, NULL, was->keys[i].value));
        }
    }
    return CHARL_OK;
}

static charl_status diff_layers(differ *d, const charl_config *now, const charl_config *was)
{
    bool same_names = now->detail->n_sections == was->detail->n_sections;

    for (int i = 0; i < now->detail->n_sections; i++) {
        const charl__section *layer = &now->detail->sections[i];
        const charl__section *old = find_section(was, layer->header);

        if (old) {
            CHARL_TRY(diff_layer(d, layer->header, layer, old));
        } else {
            CHARL_TRY(say(d, CHARL__CHANGE_MODEL, layer->header, NULL, NULL, "is new"));
        }
        same_names = same_names && old;
    }
    for (int i = 0; i < was->detail->n_sections; i++) {
        const charl__section *layer = &was->detail->sections[i];

        if (!find_section(now, layer->header)) {
            CHARL_TRY(say(d, CHARL__CHANGE_MODEL, layer->header, NULL, NULL, "is gone"));
        } else if (same_names && strcmp(layer->header, now->detail->sections[i].header) != 0) {
            CHARL_TRY(say(d, CHARL__CHANGE_MODEL, layer->header, NULL, NULL, "is in another place"));
        }
    }
    return CHARL_OK;
}

/* `now`, the configuration cfg of a new run, with lengths in tokens as the steps that `was` has; NULL: as it is. */
static charl_status in_steps(const charl_config *cfg, charl_config *now, charl_config *was, charl_config **out)
{
    CHARL_SCOPED(charl__dataset_left) charl_dataset *ds = NULL;
    charl_dataset_info data;

    *out = NULL;
    if (!charl__config_counts_tokens(now) || charl__config_counts_tokens(was)) {
        return CHARL_OK;
    }
    CHARL_TRY(charl_config_open_dataset(cfg, false, &ds));
    charl_dataset_get_info(ds, &data);
    return charl__config_in_steps(now, &data, out);
}

static charl_status compare(differ *d, const charl_config *cfg, const char *text, char **out)
{
    charl_status st = CHARL_OK;
    charl_config *now = NULL, *was = NULL; /* both as printed: with absolute paths */
    CHARL_SCOPED_FREE charl_config *steps = NULL;
    char *printed = NULL;

    *out = NULL;
    CHARL_TRY_CLEANUP(charl_config_parse("/checkpoint", text, strlen(text), NULL, 0, &was));
    CHARL_TRY_CLEANUP(charl_config_print(cfg, false, &printed));
    CHARL_TRY_CLEANUP(charl_config_parse("/checkpoint", printed, strlen(printed), NULL, 0, &now));
    CHARL_TRY_CLEANUP(d->afresh ? in_steps(cfg, now, was, &steps) : CHARL_OK);
    CHARL_TRY_CLEANUP(diff_keys(d, steps ? steps : now, was));
    CHARL_TRY_CLEANUP(diff_layers(d, now, was));
    CHARL_TRY_CLEANUP(charl__strdup(charl__text_string(&d->report), out));
cleanup:
    charl_config_destroy(now);
    charl_config_destroy(was);
    charl_free(printed);
    charl__text_fini(&d->report);
    return st;
}

charl_status charl__config_diff(const charl_config *cfg, const char *text, unsigned wanted, unsigned *found, char **out)
{
    CHARL_GIVEN(cfg, text, found, out);
    differ d = {.wanted = wanted};
    const charl_status st = compare(&d, cfg, text, out);

    *found = st == CHARL_OK ? d.found : 0;
    return st;
}

charl_status charl_config_diff(const charl_config *cfg, const char *text, char **out)
{
    CHARL_GIVEN(cfg, text, out);
    differ d = {.wanted = CHARL__CHANGE_RESULT | CHARL__CHANGE_START, .afresh = true};

    return compare(&d, cfg, text, out);
}
