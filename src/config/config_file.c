/* The file of a configuration, and its copy. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "config/config_private.h"
#include "config/layers.h"
#include "config/text/ini.h"
#include "io/kind.h"

/* The text of the file: *out owned by the caller. */
static charl_status read_source(const char *path, char **out, size_t *length)
{
    charl_status st = CHARL_OK;
    FILE *f = NULL;
    CHARL_SCOPED_FREE char *text = NULL;

    *out = NULL;
    CHARL_TRY_CLEANUP(charl__alloc(CHARL__CONFIG_SOURCE + 2, &text));
    CHARL_TRY_CLEANUP(charl__acquire("file"));
    f = fopen(path, "re");
    if (!f) {
        charl__drop();
        CHARL_FAIL_CLEANUP(CHARL_ERR_CONFIG, "%s: %s", path, strerror(errno));
    }
    CHARL_TRY_CLEANUP(
        charl__kind_expect(path, CHARL__KIND_CONFIG | CHARL__KIND_RUN, "a configuration", CHARL_ERR_CONFIG));
    *length = fread(text, 1, CHARL__CONFIG_SOURCE + 1, f);
    if (ferror(f)) {
        const int error = errno;
        char inside[4096];

        CHARL_REQUIRE_CLEANUP(snprintf(inside, sizeof inside, "%s/config.ini", path) >= (int)sizeof inside ||
                                  access(inside, R_OK) != 0,
                              CHARL_ERR_CONFIG, "%s is a run directory; HINT its configuration is %s", path, inside);
        CHARL_FAIL_CLEANUP(CHARL_ERR_CONFIG, "%s: %s", path, strerror(error));
    }
    *out = text;
    text = NULL;
cleanup:
    if (f) {
        fclose(f);
        charl__drop();
    }
    return st;
}

charl_status charl_config_load(const char *path, const charl_config_override *overrides, int n_overrides,
                               charl_config **out)
{
    CHARL_GIVEN(path, overrides || n_overrides == 0, out);
    CHARL_SCOPED_FREE char *text = NULL;
    size_t n = 0;

    *out = NULL;
    CHARL_TRY(read_source(path, &text, &n));
    return charl_config_parse(path, text, n, overrides, n_overrides, out);
}

/* Passes the sections and keys of a file on. */
typedef struct scan {
    const char *path;
    char section[CHARL__INI_LINE + 1];
    charl_config_item item;
    void *ctx;
} scan;

static charl_status scan_section(void *ctx, const char *section, int line)
{
    scan *s = ctx;

    snprintf(s->section, sizeof s->section, "%s", section ? section : "");
    return s->item(s->ctx, s->section, NULL, NULL, line);
}

static charl_status scan_item(void *ctx, const char *key, const char *value, int line)
{
    const scan *s = ctx;

    return s->item(s->ctx, s->section, key, value, line);
}

static charl_status scan_mistake(void *ctx, int line, const char *reason)
{
    CHARL_FAIL(CHARL_ERR_CONFIG, "%s:%d: %s", ((const scan *)ctx)->path, line, reason);
}

charl_status charl_config_scan(const char *path, charl_config_item item, void *ctx)
{
    CHARL_GIVEN(path, item);
    scan s = {.path = path, .item = item, .ctx = ctx};
    const charl__ini_events events = {.ctx = &s, .section = scan_section, .item = scan_item, .mistake = scan_mistake};
    CHARL_SCOPED_FREE char *text = NULL;
    size_t n = 0;

    CHARL_TRY(read_source(path, &text, &n));
    CHARL_REQUIRE(n <= CHARL__CONFIG_SOURCE, CHARL_ERR_CONFIG, "%s: larger than %d bytes", path, CHARL__CONFIG_SOURCE);
    return charl__ini_parse(text, n, &events);
}

static void keys_destroy(charl__layer_key *keys, int n)
{
    for (int k = 0; k < n; k++) {
        charl_free(keys[k].key);
        charl_free(keys[k].value);
    }
    charl_free(keys);
}

void charl_config_destroy(charl_config *cfg)
{
    charl__config_detail *d = cfg ? cfg->detail : NULL;

    if (d) {
        for (int i = 0; i < d->n_sections; i++) {
            keys_destroy(d->sections[i].keys, d->sections[i].n_keys);
            charl_free(d->sections[i].header);
        }
        charl_free(d->sections);
        for (int i = 0; i < d->n_layers; i++) {
            charl__config_layer *layer = &d->layers[i];

            keys_destroy(layer->keys, layer->n_keys);
            for (int k = 0; k < layer->n_inputs; k++) {
                charl_free(layer->inputs[k]);
            }
            charl_free(layer->name);
            charl_free(layer->type);
        }
        charl_free(d->layers);
        charl__config_strings_fini(&d->strings);
        charl__config_strings_fini(&d->notices);
        charl_free(d->origins);
        charl_free(d->words);
        charl_free(d->source);
    }
    charl_free(d);
    charl_free(cfg);
}

const char *charl__config_source(const charl_config *cfg, size_t *length)
{
    if (length) {
        *length = cfg ? cfg->detail->source_length : 0;
    }
    return cfg ? cfg->detail->source : NULL;
}

const char *charl_config_get_notice(const charl_config *cfg, int index)
{
    if (!cfg) {
        return NULL;
    }
    const charl__config_strings *n = &cfg->detail->notices;

    return index >= 0 && index < n->count ? n->items[index] : NULL;
}

int charl__config_slices(const charl_config *cfg)
{
    if (!cfg) {
        return 0;
    }
    int slices = cfg->dist.balance == CHARL__BALANCE_SPEED ? CHARL_GRAPH_SLICES : 8;

    if (cfg->train.slices > 0) {
        return (int)cfg->train.slices;
    }
    while (cfg->train.batch_size % slices != 0) {
        slices /= 2;
    }
    return slices;
}
