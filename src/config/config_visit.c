/* The values of a configuration, one by one. */
#include "config/config_visit.h"

#include <stdio.h>

#include "base/error.h"
#include "config/config_private.h"

static charl_status visit_layers(const charl_config *cfg, charl__config_visitor visit, void *ctx)
{
    for (int i = 0; i < cfg->detail->n_sections; i++) {
        const charl__section *s = &cfg->detail->sections[i];

        for (int k = 0; k < s->n_keys; k++) {
            CHARL_TRY(visit(ctx, s->header, s->keys[k].key, s->keys[k].value));
        }
    }
    return CHARL_OK;
}

charl_status charl__config_visit(const charl_config *cfg, charl__config_visitor visit, void *ctx)
{
    const charl__schema *schema = charl__config_schema();
    CHARL_SCOPED(charl__text_fini) charl__text value = {0};

    for (int i = 0; i < schema->count; i++) {
        const charl__key *key = &schema->keys[i];

        if (!charl__effect_is_result(key->effect) || !charl__config_uses(cfg, key)) {
            continue;
        }
        charl__text_clear(&value);
        CHARL_TRY(charl__config_value_print(key, (const char *)cfg + key->offset, &value));
        CHARL_TRY(visit(ctx, key->section, key->name, charl__text_string(&value)));
    }
    CHARL_TRY(visit_layers(cfg, visit, ctx));
    return CHARL_OK;
}
