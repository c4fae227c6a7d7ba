/* The configuration and the key table as text. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "config/config_private.h"

enum { COMMENT_COLUMN = 40 };

/* End the line that began at `start`, with where the value comes from if wanted. */
static charl_status end_line(charl__text *t, size_t start, const charl__origin *origin,
                             bool origins)
{
    const size_t width = t->length - start;
    const int pad = width < COMMENT_COLUMN ? (int)(COMMENT_COLUMN - width) : 1;

    if (origins) {
        CHARL_TRY(
            charl__text_printf(t, "%*s; %s", pad, "", origin->label ? origin->label : "default"));
        if (origin->line > 0) {
            CHARL_TRY(charl__text_printf(t, ":%d", origin->line));
        }
    }
    CHARL_TRY(charl__text_append(t, "\n", 1));
    return CHARL_OK;
}

static charl_status print_path(const charl__key *key, const char *value, const char *here,
                               charl__text *t)
{
    charl_status st = CHARL_OK;
    char *full = NULL;

    if (value[0] == '/' || charl__choice_index(key->choices, value) >= 0) {
        CHARL_TRY_CLEANUP(charl__config_quote(value, t));
    } else {
        CHARL_TRY_CLEANUP(charl__config_path(here, value, &full));
        CHARL_TRY_CLEANUP(charl__config_quote(full, t));
    }
cleanup:
    charl_free(full);
    return st;
}

static charl_status print_keys(const charl_config *cfg, bool origins, const char *here,
                               charl__text *t)
{
    const char *section = "";

    for (int i = 0; i < charl__key_count; i++) {
        const charl__key *key = &charl__keys[i];
        const void *field = (const char *)cfg + key->offset;
        size_t start;

        if (key->only) {
            continue; /* holds the one value there is */
        }
        if (strcmp(section, key->section) != 0) {
            section = key->section;
            CHARL_TRY(charl__text_printf(t, "%s[%s]\n", i > 0 ? "\n" : "", section));
        }
        start = t->length;
        CHARL_TRY(charl__text_printf(t, "%s = ", key->name));
        if (key->type == CHARL__KEY_PATH) {
            CHARL_TRY(print_path(key, *(const char *const *)field, here, t));
        } else {
            CHARL_TRY(charl__config_value_print(key, field, t));
        }
        CHARL_TRY(end_line(t, start, &cfg->detail->origins[i], origins));
    }
    return CHARL_OK;
}

static charl_status print_layers(const charl_config *cfg, bool origins, charl__text *t)
{
    for (int i = 0; i < cfg->detail->n_layers; i++) {
        const charl_config_layer *layer = &cfg->detail->layers[i];

        CHARL_TRY(charl__text_printf(t, "\n[layer %s]\n", layer->name));
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
    charl_status st = CHARL_OK;
    charl__text t = {0};
    char here[PATH_MAX];

    *out = NULL;
    CHARL_REQUIRE_CLEANUP(getcwd(here, sizeof here), CHARL_ERR_IO, "current directory: %s",
                          strerror(errno));
    CHARL_TRY_CLEANUP(print_keys(cfg, origins, here, &t));
    CHARL_TRY_CLEANUP(print_layers(cfg, origins, &t));
    *out = charl__text_steal(&t);
cleanup:
    charl__text_fini(&t);
    return st;
}

static const char *type_text(const charl__key *key)
{
    static const char *const names[] = {
        [CHARL__KEY_STRING] = "text",
        [CHARL__KEY_PATH] = "path",
        [CHARL__KEY_CHOICE] = "",
        [CHARL__KEY_DEVICE] = "device",
        [CHARL__KEY_BOOL] = "yes or no",
        [CHARL__KEY_INT] = "integer",
        [CHARL__KEY_SIZE] = "integer; suffixes k, M, G are powers of 1024",
        [CHARL__KEY_FLOAT] = "number",
        [CHARL__KEY_ENUM] = "",
        [CHARL__KEY_SET] = "list of",
        [CHARL__KEY_INTS] = "integers",
        [CHARL__KEY_INTERVAL] = "interval",
        [CHARL__KEY_DURATION] = "time",
        [CHARL__KEY_NORMALIZE] = "MEANS / STDS",
        [CHARL__KEY_AUGMENT] = "list of flip, crop:N, rotate:N, cutout:N, mixup:A",
    };

    return names[key->type];
}

static charl_status help_key(const charl__key *key, charl__text *t)
{
    const char *type = type_text(key);
    char choices[256];

    CHARL_TRY(charl__text_printf(t, "  %s", key->name));
    if (!key->fallback) {
        CHARL_TRY(charl__text_printf(t, " (required)"));
    } else {
        CHARL_TRY(charl__text_printf(t, " = %s", key->fallback));
    }
    charl__choice_list(key->choices, choices, sizeof choices);
    CHARL_TRY(charl__text_printf(t, "\n      %s", type));
    if (key->choices && key->type != CHARL__KEY_DEVICE) {
        const bool also = type[0] != '\0' && key->type != CHARL__KEY_SET;

        CHARL_TRY(charl__text_printf(t, "%s%s",
                                     also              ? " or "
                                     : type[0] != '\0' ? " "
                                                       : "",
                                     choices));
    }
    if (key->range) {
        CHARL_TRY(charl__text_printf(t, " in %s", key->range));
    }
    if (key->uses) {
        char list[128];

        CHARL_TRY(
            charl__text_printf(t, "; with type = %s",
                               charl__choice_list(key->uses + strlen("type="), list, sizeof list)));
    }
    CHARL_TRY(charl__text_printf(t, "%s\n      %s\n",
                                 key->effect == CHARL__KEY_RESULT ? "" : "; may change on resume",
                                 key->help));
    return CHARL_OK;
}

charl_status charl_config_help(const char *section, char **out)
{
    charl_status st = CHARL_OK;
    charl__text t = {0};
    const char *current = "";
    const bool layers = section && strcmp(section, "layer") == 0;

    *out = NULL;
    if (section && !layers && !charl__key_section_known(section)) {
        const char *near = charl__key_nearest_section(section);

        CHARL_FAIL_CLEANUP(CHARL_ERR_CONFIG, "unknown section \"%.100s\"%s%s%s", section,
                           near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
    }
    for (int i = 0; i < charl__key_count; i++) {
        const charl__key *key = &charl__keys[i];

        if (key->only || (section && strcmp(key->section, section) != 0)) {
            continue;
        }
        if (strcmp(current, key->section) != 0) {
            CHARL_TRY_CLEANUP(
                charl__text_printf(&t, "%s[%s]\n", current[0] != '\0' ? "\n" : "", key->section));
            current = key->section;
        }
        CHARL_TRY_CLEANUP(help_key(key, &t));
    }
    if (!section || layers) {
        CHARL_TRY_CLEANUP(charl__text_printf(&t, "%s", layers ? "" : "\n"));
        CHARL_TRY_CLEANUP(charl__layer_help(&t));
    }
    *out = charl__text_steal(&t);
    if (!*out) {
        CHARL_TRY_CLEANUP(
            charl_strdup("", out)); /* a section whose keys are all of later versions */
    }
cleanup:
    charl__text_fini(&t);
    return st;
}
