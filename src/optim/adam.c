/* adam (Kingma and Ba 2015) and adamw (Loshchilov and Hutter 2019), in PyTorch's form. */
#include <math.h>
#include <string.h>

#include "optim/optimizer.h"

static void reference(const charl__optimizer_reference *r)
{
    const bool decoupled = strcmp(r->config->type, "adam") != 0; /* muon's too */
    const double b1 = r->config->beta1, b2 = r->config->beta2;
    const double bias1 = 1.0 - pow(b1, (double)r->t), bias2 = 1.0 - pow(b2, (double)r->t);
    double *m = r->state[0], *v = r->state[1];

    for (int64_t i = 0; i < r->n; i++) {
        double g = r->grad[i];

        if (decoupled) {
            r->param[i] *= 1.0 - r->lr * r->weight_decay;
        } else {
            g += r->weight_decay * r->param[i];
        }
        m[i] += (1.0 - b1) * (g - m[i]);
        v[i] = b2 * v[i] + (1.0 - b2) * g * g;
        r->param[i] -= r->lr / bias1 * m[i] / (sqrt(v[i] / bias2) + r->config->eps);
    }
}

static const charl_key keys[] = {
    CHARL__KEY_BETA1("decay rate of the first moment (mean of the gradient)"),
    CHARL__KEY_BETA2("decay rate of the second moment (mean of the squared gradient)"),
    CHARL__KEY_EPS("added to the denominator for numerical stability"),
};

static const charl_optimizer_config adam_defaults = {.type = "adam", .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
                                    adamw_defaults = {.type = "adamw",
                                                      .beta1 = 0.9,
                                                      .beta2 = 0.999,
                                                      .eps = 1e-8,
                                                      .weight_decay = 0.01F};

#define ADAM(word, text, decoupled)                                                                                    \
    {                                                                                                                  \
        .row.name = #word, .row.help = (text), CHARL_KEYS(keys), CHARL_DEFAULTS(word##_defaults),                      \
        .state_name = {"exp_avg", "exp_avg_sq"}, .kernel = "adam", .param = {"DECOUPLED", decoupled},                  \
        .numbers = {CHARL__REST(beta1), CHARL__NUMBER(beta2), CHARL__REST(beta2), CHARL__NUMBER(eps)},                 \
        .elementwise = true, .nonnegative = 1U << 1, .reference = reference,                                           \
    }

const charl__optimizer_rule charl__optim_adam = ADAM(adam, "Adam: moving means of the gradient and of its square", 0);
const charl__optimizer_rule charl__optim_adamw = ADAM(adamw, "Adam with weight decay decoupled from the gradient", 1);
