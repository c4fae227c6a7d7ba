/* sgd: stochastic gradient descent with momentum (Sutskever et al. 2013, in PyTorch's form). */
#include <stdio.h>

#include "optim/optimizer.h"

static int count_states(const charl_optimizer_config *c)
{
    return c->momentum > 0.0 ? 1 : 0;
}

static void reference(const charl__optimizer_reference *r)
{
    const double momentum = r->config->momentum;
    double *m = r->state[0];

    for (int64_t i = 0; i < r->n; i++) {
        double u = r->grad[i] + r->weight_decay * r->param[i];

        if (momentum > 0.0) {
            m[i] = momentum * m[i] + u;
            u = r->config->nesterov ? u + momentum * m[i] : m[i];
        }
        r->param[i] -= r->lr * u;
    }
}

static bool check(const void *settings, const char **key, char *reason)
{
    const charl_optimizer_config *c = settings;

    if (c->nesterov && c->momentum == 0.0) {
        *key = "nesterov";
        snprintf(reason, CHARL_REASON_BYTES, "needs momentum above 0");
        return false;
    }
    return true;
}

static const charl_key keys[] = {
    CHARL__KEY_MOMENTUM("momentum"),
    CHARL__KEY_NESTEROV("use Nesterov momentum"),
};

static const charl_optimizer_config defaults = {.type = "sgd", .momentum = 0.9};

const charl__optimizer_rule charl__optim_sgd = {
    .row.name = "sgd",
    .row.help = "stochastic gradient descent with momentum",
    CHARL_KEYS(keys),
    CHARL_DEFAULTS(defaults),
    .state_name = {"momentum_buffer"},
    .row.check = check,
    .count_states = count_states,
    .flag = {"NESTEROV", offsetof(charl_optimizer_config, nesterov)},
    .numbers = {CHARL__NUMBER(momentum)},
    .elementwise = true,
    .reference = reference,
};
