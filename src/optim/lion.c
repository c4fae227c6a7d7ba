/* lion (Chen et al. 2023, Symbolic Discovery of Optimization Algorithms, algorithm 2): the sign of
 * an interpolated momentum, with decoupled weight decay. */
#include "optim/optimizer.h"

static void reference(const charl__optimizer_reference *r)
{
    const double b1 = r->config->beta1, b2 = r->config->beta2;
    double *m = r->state[0];

    for (int64_t i = 0; i < r->n; i++) {
        const double c = b1 * m[i] + (1.0 - b1) * r->grad[i];

        r->param[i] *= 1.0 - r->lr * r->weight_decay;
        r->param[i] -= r->lr * (double)((c > 0.0) - (c < 0.0));
        m[i] = b2 * m[i] + (1.0 - b2) * r->grad[i];
    }
}

static const charl_key keys[] = {
    CHARL__KEY_BETA1("weight of the momentum against the gradient in the update"),
    CHARL__KEY_BETA2("decay rate of the stored momentum"),
};

static const charl_optimizer_config defaults = {.type = "lion", .beta1 = 0.9, .beta2 = 0.99};

const charl__optimizer_rule charl__optim_lion = {
    .row.name = "lion",
    .row.help = "the sign of a moving mean of the gradient",
    CHARL_KEYS(keys),
    CHARL_DEFAULTS(defaults),
    .state_name = {"exp_avg"},
    .numbers = {CHARL__REST(beta1), CHARL__REST(beta2)},
    .elementwise = true,
    .reference = reference,
};
