/* rmsprop (Tieleman and Hinton 2012), in PyTorch's form without centering; beta2 is PyTorch's
 * alpha. */
#include <math.h>

#include "optim/optimizer.h"

static int count_states(const charl_optimizer_config *c)
{
    return c->momentum > 0.0 ? 2 : 1;
}

static void reference(const charl__optimizer_reference *r)
{
    const double b2 = r->config->beta2, momentum = r->config->momentum;
    double *v = r->state[0], *buf = r->state[1];

    for (int64_t i = 0; i < r->n; i++) {
        const double g = r->grad[i] + r->weight_decay * r->param[i];
        double u;

        v[i] = b2 * v[i] + (1.0 - b2) * g * g;
        u = g / (sqrt(v[i]) + r->config->eps);
        if (momentum > 0.0) {
            buf[i] = momentum * buf[i] + u;
            u = buf[i];
        }
        r->param[i] -= r->lr * u;
    }
}

static const charl_key keys[] = {
    CHARL__KEY_BETA2("decay rate of the second moment (mean of the squared gradient)"),
    CHARL__KEY_MOMENTUM("momentum"),
    CHARL__KEY_EPS("added to the denominator for numerical stability"),
};

static const charl_optimizer_config defaults = {.type = "rmsprop", .beta2 = 0.99, .eps = 1e-8};

const charl__optimizer_rule charl__optim_rmsprop = {
    .row.name = "rmsprop",
    .row.help = "the gradient over the root of its moving mean square",
    CHARL_KEYS(keys),
    CHARL_DEFAULTS(defaults),
    .state_name = {"square_avg", "momentum_buffer"},
    .count_states = count_states,
    .numbers = {CHARL__NUMBER(beta2), CHARL__REST(beta2), CHARL__NUMBER(momentum), CHARL__NUMBER(eps)},
    .elementwise = true,
    .nonnegative = 1U << 0,
    .reference = reference,
};
