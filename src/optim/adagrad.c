/* adagrad (Duchi, Hazan and Singer 2011), in PyTorch's form. */
#include <math.h>

#include "optim/optimizer.h"

static void reference(const charl__optimizer_reference *r)
{
    double *sum = r->state[0];

    for (int64_t i = 0; i < r->n; i++) {
        const double g = r->grad[i] + r->weight_decay * r->param[i];

        sum[i] += g * g;
        r->param[i] -= r->lr * g / (sqrt(sum[i]) + r->config->eps);
    }
}

static const charl_key keys[] = {
    CHARL__KEY_EPS("added to the denominator for numerical stability"),
};

static const charl_optimizer_config defaults = {.type = "adagrad", .eps = 1e-10};

const charl__optimizer_rule charl__optim_adagrad = {
    .row.name = "adagrad",
    .row.help = "the gradient over the root of the sum of its squares",
    CHARL_KEYS(keys),
    CHARL_DEFAULTS(defaults),
    .state_name = {"sum"},
    .numbers = {CHARL__NUMBER(eps)},
    .elementwise = true,
    .nonnegative = 1U << 0,
    .reference = reference,
};
