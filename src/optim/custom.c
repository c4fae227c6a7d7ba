/* Optimizers that a program has registered: their settings and their update become parameters of kernels/optim/custom.cl. */
#include <inttypes.h>
#include <string.h>

#include "base/text/text.h"
#include "optim/optimizer.h"

charl_status charl__custom_check(const charl_optimizer_type *type)
{
    const char *name = type->row.name ? type->row.name : "";

    CHARL_REQUIRE(type->update && type->update[0] && !strchr(type->update, '#') && !strstr(type->update, "//"),
                  CHARL_ERR_INVALID, "optimizer %s: its update is missing, or holds # or //", name);
    CHARL_REQUIRE(type->n_states >= 0 && type->n_states <= CHARL_OPTIM_MAX_STATES, CHARL_ERR_INVALID,
                  "optimizer %s has %d states; it can have %d", name, type->n_states, CHARL_OPTIM_MAX_STATES);
    for (int k = 0; k < type->n_states; k++) {
        const char *state = type->state_names[k];

        CHARL_REQUIRE(state && state[0] && strspn(state, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(state),
                      CHARL_ERR_INVALID,
                      "optimizer %s: state %d is named \"%s\"; names have lower-case letters, "
                      "digits and underscores",
                      name, k, state ? state : "");
        for (int j = 0; j < k; j++) {
            CHARL_REQUIRE(strcmp(state, type->state_names[j]) != 0, CHARL_ERR_INVALID,
                          "optimizer %s: two states are named %s", name, state);
        }
    }
    for (int i = 0; i < type->row.n_keys; i++) {
        const charl_key_kind kind = type->row.keys[i].kind;

        CHARL_REQUIRE(kind == CHARL_KEY_INT || kind == CHARL_KEY_FLOAT || kind == CHARL_KEY_BOOL ||
                          kind == CHARL_KEY_CHOICE,
                      CHARL_ERR_INVALID, "optimizer %s: key %s is not an INT, FLOAT, BOOL or CHOICE", name,
                      type->row.keys[i].name ? type->row.keys[i].name : "");
    }
    return CHARL_OK;
}

int charl__custom_states(const charl_optimizer_config *c)
{
    return charl__optimizer_find(c->type)->custom->n_states;
}

void charl__custom_fill(const charl_optimizer_config *c, int64_t t, charl__step_params *record)
{
    const charl_optimizer_type *type = charl__optimizer_find(c->type)->custom;
    float scalar[2] = {0.0F, 0.0F};

    if (type->scalars) {
        type->scalars(c->settings, t, scalar);
    }
    record->bias1 = scalar[0];
    record->bias2 = scalar[1];
}

static charl_status declare(const charl_key *k, const void *settings, charl__text *t)
{
    const void *at = (const char *)settings + k->offset;

    switch (k->kind) {
    case CHARL_KEY_FLOAT: /* a hexadecimal constant is exact */
        return charl__text_printf(t, "const float %s = %af; (void)%s; ", k->name, (double)(float)*(const double *)at,
                                  k->name);
    case CHARL_KEY_INT:
        return charl__text_printf(t, "const long %s = %" PRId64 "L; (void)%s; ", k->name, *(const int64_t *)at,
                                  k->name);
    case CHARL_KEY_BOOL:
        return charl__text_printf(t, "const int %s = %d; (void)%s; ", k->name, *(const bool *)at, k->name);
    default:
        return charl__text_printf(t, "const int %s = %d; (void)%s; ", k->name, *(const int *)at, k->name);
    }
}

charl_status charl__custom_enqueue(const charl_optimizer *o)
{
    const charl_optimizer_type *type = o->type->custom;
    CHARL_SCOPED(charl__text_fini) charl__text settings = {0};
    charl__optimizer_update u = {
        .file = "optim/custom",
        .entry = "charl_custom",
        .elementwise = true,
        .params = {{"CHARL_STATES", type->n_states},
                   {"CHARL_UPDATE(p, g, lr, weight_decay, scalar0, scalar1, s0, s1, s2)", .text = type->update}}};

    for (int i = 0; i < type->row.n_keys; i++) {
        CHARL_TRY(declare(&type->row.keys[i], o->config.settings, &settings));
    }
    for (int k = 0; k < type->n_states; k++) {
        u.own[k] = charl__raw(CHARL_ARG_INOUT, o->state[k]);
    }
    u.params[2] = (charl__kernel_param){"CHARL_SETTINGS", .text = charl__text_string(&settings)};
    CHARL_TRY(charl__optimizer_update_enqueue(o, NULL, &u));
    return CHARL_OK;
}
