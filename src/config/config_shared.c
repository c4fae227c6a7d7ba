/* The values that ranks compare before they train together. */
#include "config/config_shared.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "config/config_private.h"

static charl_status visit_key(const charl_config *cfg, const charl__key *key, charl__text *value,
                              charl__config_visitor visit, void *ctx)
{
    const void *field = (const char *)cfg + key->offset;
    char name[96];

    charl__text_clear(value);
    if (key->type == CHARL__KEY_PATH && charl__key_choice_index(key, *(const char *const *)field) < 0) {
        CHARL_TRY(charl__text_printf(value, "a file"));
    } else {
        CHARL_TRY(charl__config_value_print(key, field, value));
    }
    snprintf(name, sizeof name, "%s.%s", key->section, key->name);
    CHARL_TRY(visit(ctx, name, charl__text_string(value)));
    return CHARL_OK;
}

static charl_status visit_section(const charl__section *s, charl__config_visitor visit, void *ctx)
{
    char name[256];

    for (int k = 0; k < s->n_keys; k++) {
        snprintf(name, sizeof name, "%s.%s", s->header, s->keys[k].key);
        CHARL_TRY(visit(ctx, name, s->keys[k].value));
    }
    return CHARL_OK;
}

charl_status charl__config_each_shared(const charl_config *cfg, charl__config_visitor visit, void *ctx)
{
    const charl__config_detail *d = cfg->detail;
    const charl__schema *schema = charl__config_schema();
    CHARL_SCOPED(charl__text_fini) charl__text text = {0};

    for (int i = 0; i < schema->count; i++) {
        const charl__key *key = &schema->keys[i];

        if (key->effect != CHARL__KEY_LOCAL && charl__config_uses(cfg, key)) {
            CHARL_TRY(visit_key(cfg, key, &text, visit, ctx));
        }
    }
    charl__text_clear(&text);
    for (int i = 0; i < d->n_sections; i++) {
        const bool is_layer = strncmp(d->sections[i].header, "layer ", 6) == 0;

        CHARL_TRY(charl__text_printf(&text, "%s%s", i > 0 ? ", " : "", d->sections[i].header + (is_layer ? 6 : 0)));
    }
    if (d->n_sections > 0) {
        CHARL_TRY(visit(ctx, "layers", charl__text_string(&text)));
    }
    for (int i = 0; i < d->n_sections; i++) {
        CHARL_TRY(visit_section(&d->sections[i], visit, ctx));
    }
    return CHARL_OK;
}
