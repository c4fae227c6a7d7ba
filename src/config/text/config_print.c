/* The configuration and the key table as text. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "config/config_private.h"

enum { COMMENT_COLUMN = 40 };

/* End the line that began at `start`, with the origin of the value if requested. */
static charl_status end_line(charl__text *t, size_t start, const charl__origin *origin, bool origins)
{
    const size_t width = t->length - start;
    const int pad = width < COMMENT_COLUMN ? (int)(COMMENT_COLUMN - width) : 1;

    if (origins) {
        CHARL_TRY(charl__text_printf(t, "%*s; %s", pad, "", origin->label ? charl__origin_text(*origin) : "default"));
    }
    CHARL_TRY(charl__text_append(t, "\n", 1));
    return CHARL_OK;
}

static charl_status print_path(const charl__key *key, const char *value, const char *here, charl__text *t)
{
    CHARL_SCOPED_FREE char *full = NULL;

    if (value[0] == '/' || charl__key_choice_index(key, value) >= 0) {
        CHARL_TRY(charl__config_quote(value, t));
    } else {
        CHARL_TRY(charl__config_path(here, value, &full));
        CHARL_TRY(charl__config_quote(full, t));
    }
    return CHARL_OK;
}

/* The keys of sections and of the selected types; the others have no effect. */
static charl_status print_keys(const charl_config *cfg, bool origins, const char *here, charl__text *t)
{
    const charl__schema *schema = charl__config_schema();
    const char *section = "";

    for (int i = 0; i < schema->count; i++) {
        const charl__key *key = &schema->keys[i];
        const void *field = (const char *)cfg + key->offset;
        size_t start;

        if (!charl__config_uses(cfg, key) || (field == &cfg->data.path && !cfg->data.path[0])) {
            continue;
        }
        if (strcmp(section, key->section) != 0) {
            section = key->section;
            CHARL_TRY(charl__text_printf(t, "%s[%s]\n", i > 0 ? "\n" : "", section));
        }
        start = t->length;
        CHARL_TRY(charl__text_printf(t, "%s = ", key->name));
        if (key->effect == CHARL__KEY_SOURCE && !origins) {
            CHARL_TRY(charl__text_printf(t, "%s", key->fallback));
        } else if (key->type == CHARL__KEY_PATH) {
            CHARL_TRY(print_path(key, *(const char *const *)field, here, t));
        } else if (key->type == CHARL__KEY_MIX) {
            CHARL_TRY(charl__config_mix_print(field, here, t));
        } else {
            CHARL_TRY(charl__config_value_print(key, field, t));
        }
        CHARL_TRY(end_line(t, start, &cfg->detail->origins[i], origins));
    }
    return CHARL_OK;
}

static charl_status print_layers(const charl_config *cfg, bool origins, charl__text *t)
{
    for (int i = 0; i < cfg->detail->n_sections; i++) {
        const charl__section *layer = &cfg->detail->sections[i];

        CHARL_TRY(charl__text_printf(t, "\n[%s]\n", layer->header));
        for (int k = 0; k < layer->n_keys; k++) {
            const size_t start = t->length;

            CHARL_TRY(charl__text_printf(t, "%s = ", layer->keys[k].key));
            CHARL_TRY(charl__config_quote(layer->keys[k].value, t));
            CHARL_TRY(end_line(t, start, &layer->keys[k].origin, origins));
        }
    }
    return CHARL_OK;
}

charl_status charl_config_print(const charl_config *cfg, bool origins, char **out)
{
    CHARL_GIVEN(cfg, out);
    CHARL_SCOPED(charl__text_fini) charl__text t = {0};
    char here[PATH_MAX];

    *out = NULL;
    CHARL_REQUIRE(getcwd(here, sizeof here), CHARL_ERR_IO, "current directory: %s", strerror(errno));
    CHARL_TRY(print_keys(cfg, origins, here, &t));
    CHARL_TRY(print_layers(cfg, origins, &t));
    *out = charl__text_steal(&t);
    return CHARL_OK;
}

const char *charl__key_type_text(const charl__key *key)
{
    static const char *const names[] = {
        [CHARL__KEY_STRING] = "text",
        [CHARL__KEY_PATH] = "path",
        [CHARL__KEY_CHOICE] = "",
        [CHARL__KEY_DEVICE] = "device",
        [CHARL__KEY_BOOL] = "yes or no",
        [CHARL__KEY_INT] = "integer",
        [CHARL__KEY_SIZE] = "integer; suffixes k, M, G are powers of 1024",
        [CHARL__KEY_STEPS] = "integer, or N tokens",
        [CHARL__KEY_FLOAT] = "number",
        [CHARL__KEY_ENUM] = "",
        [CHARL__KEY_SET] = "list of",
        [CHARL__KEY_INTS] = "integers",
        [CHARL__KEY_FLOATS] = "numbers",
        [CHARL__KEY_INTERVAL] = "interval",
        [CHARL__KEY_DURATION] = "time",
        [CHARL__KEY_NORMALIZE] = "MEANS / STDS",
        [CHARL__KEY_FOLD] = "K/N",
        [CHARL__KEY_MIX] = "list of PATH:WEIGHT",
        [CHARL__KEY_AUGMENT] = "list of flip, crop:N, rotate:N, cutout:N, mixup:A",
    };

    return names[key->type];
}

/* The default of a type's key is in the type's settings. */
charl_status charl__key_default_print(const charl__key *key, charl__text *t, bool *required)
{
    const charl_row *row = key->owner ? key->owner->row : NULL;

    *required = false;
    if (!row && key->fallback) {
        return charl__text_printf(t, "%s", key->fallback);
    }
    for (int i = 0; row && i < row->n_keys; i++) {
        if (row->keys[i].name == key->name && !row->keys[i].required) {
            return charl__config_value_print(key, (const char *)row->defaults + row->keys[i].offset, t);
        }
    }
    *required = true;
    return CHARL_OK;
}

static charl_status help_default(const charl__key *key, charl__text *t)
{
    const size_t start = t->length;
    bool required;

    CHARL_TRY(charl__text_printf(t, " = "));
    CHARL_TRY(charl__key_default_print(key, t, &required));
    if (required) {
        t->length = start;
        return charl__text_printf(t, " (required)");
    }
    return CHARL_OK;
}

static charl_status help_key(const charl__key *key, charl__text *t)
{
    const char *type = charl__key_type_text(key);
    const int indent = key->owner ? 4 : 2;
    char choices[512];

    CHARL_TRY(charl__text_printf(t, "%*s%s", indent, "", key->name));
    CHARL_TRY(help_default(key, t));
    charl__key_choice_list(NULL, key, choices, sizeof choices);
    CHARL_TRY(charl__text_printf(t, "\n%*s%s", indent + 4, "", type));
    if (choices[0] && key->type != CHARL__KEY_DEVICE) {
        const bool also = type[0] != '\0' && key->type != CHARL__KEY_SET;

        CHARL_TRY(charl__text_printf(t, "%s%s", also ? " or " : type[0] != '\0' ? " " : "", choices));
    }
    if (key->range) {
        CHARL_TRY(charl__text_printf(t, " in %s", key->range));
    }
    CHARL_TRY(charl__text_printf(t, "%s\n%*s%s\n", charl__effect_is_result(key->effect) ? "" : "; may change on resume",
                                 indent + 4, "", key->help));
    for (int i = 0; key->help_at && key->help_at(i); i++) {
        CHARL_TRY(charl__text_printf(t, "%*s%s: %s\n", indent + 6, "", key->name_at(i), key->help_at(i)));
    }
    return CHARL_OK;
}

/* A section: its own keys, then each of its types with the type's keys. */
static charl_status help_section(const char *section, charl__text *t)
{
    const charl__schema *schema = charl__config_schema();

    CHARL_TRY(charl__text_printf(t, "%s[%s]\n", t->length > 0 ? "\n" : "", section));
    for (int i = 0; i < schema->count; i++) {
        if (strcmp(schema->keys[i].section, section) == 0 && !schema->keys[i].owner) {
            CHARL_TRY(help_key(&schema->keys[i], t));
        }
    }
    for (int k = 0; k < schema->n_types; k++) {
        const charl__type *type = &schema->types[k];

        if (strcmp(type->section, section) == 0) {
            CHARL_TRY(charl__text_printf(t, "  %s = %s\n      %s\n", type->key, type->row->name, type->row->help));
        }
        for (int i = 0; i < schema->count; i++) {
            if (schema->keys[i].owner == type && strcmp(type->section, section) == 0) {
                CHARL_TRY(help_key(&schema->keys[i], t));
            }
        }
    }
    return CHARL_OK;
}

charl_status charl_config_help(const char *section, char **out)
{
    CHARL_GIVEN(out);
    CHARL_SCOPED(charl__text_fini) charl__text t = {0};
    const char *current = "";
    const bool layers = section && strcmp(section, "layer") == 0, outputs = section && strcmp(section, "output") == 0;

    *out = NULL;
    if (section && !layers && !outputs && !charl__key_section_known(section)) {
        const char *near = charl__key_nearest_section(section);

        CHARL_FAIL(CHARL_ERR_CONFIG, "unknown section \"%.100s\"%s", section, charl__did_you_mean(near));
    }
    for (int i = 0; i < charl__section_key_count; i++) {
        const char *here = charl__section_keys[i].section;

        if (strcmp(current, here) != 0 && (!section || strcmp(section, here) == 0)) {
            CHARL_TRY(help_section(here, &t));
        }
        current = here;
    }
    if (!section || layers) {
        CHARL_TRY(charl__text_printf(&t, "%s", layers ? "" : "\n"));
        CHARL_TRY(charl__layer_help(&t));
    }
    if (!section || outputs) {
        CHARL_TRY(charl__text_printf(&t, "%s", outputs ? "" : "\n"));
        CHARL_TRY(charl__output_help(&t));
    }
    *out = charl__text_steal(&t);
    return CHARL_OK;
}
