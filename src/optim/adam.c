/* adam (Kingma and Ba 2015) and adamw (Loshchilov and Hutter 2019), in PyTorch's form. */
#include <math.h>

#include "optim/optimizer.h"

static int count_states(const charl_optimizer_config *c)
{
    (void)c;
    return 2;
}

static charl_status enqueue(const charl_optimizer *o, bool decoupled)
{
    const charl_optimizer_config *c = &o->config;

    return charl__optimizer_update_enqueue(
        o, NULL,
        &(charl__optimizer_update){
            .file = "optim/adam",
            .entry = "charl_adam",
            .elementwise = true,
            .params = {{"DECOUPLED", decoupled}},
            .own = {charl__raw(CHARL_ARG_INOUT, o->state[0]), charl__raw(CHARL_ARG_INOUT, o->state[1]),
                    charl__f32((float)(1.0 - c->beta1)), charl__f32((float)c->beta2),
                    charl__f32((float)(1.0 - c->beta2)), charl__f32((float)c->eps)},
        });
}

static charl_status enqueue_adam(const charl_optimizer *o)
{
    return enqueue(o, false);
}

static charl_status enqueue_adamw(const charl_optimizer *o)
{
    return enqueue(o, true);
}

static void reference(const charl__optimizer_reference *r, bool decoupled)
{
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

static void reference_adam(const charl__optimizer_reference *r)
{
    reference(r, false);
}

static void reference_adamw(const charl__optimizer_reference *r)
{
    reference(r, true);
}

static const charl_key keys[] = {
    CHARL__KEY_BETA1("decay rate of the first moment (mean of the gradient)"),
    CHARL__KEY_BETA2("decay rate of the second moment (mean of the squared gradient)"),
    CHARL__KEY_EPS("added to the denominator for numerical stability"),
};

static const charl_optimizer_config adam_defaults = {.type = "adam", .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};

const charl__optimizer_rule charl__optim_adam = {
    .row.name = "adam",
    .row.help = "Adam: moving means of the gradient and of its square",
    CHARL_KEYS(keys),
    CHARL_DEFAULTS(adam_defaults),
    .state_name = {"exp_avg", "exp_avg_sq"},
    .count_states = count_states,
    .enqueue = enqueue_adam,
    .elementwise = true,
    .nonnegative = 1U << 1,
    .reference = reference_adam,
};

static const charl_optimizer_config adamw_defaults = {
    .type = "adamw", .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01F};

const charl__optimizer_rule charl__optim_adamw = {
    .row.name = "adamw",
    .row.help = "Adam with weight decay decoupled from the gradient",
    CHARL_KEYS(keys),
    CHARL_DEFAULTS(adamw_defaults),
    .state_name = {"exp_avg", "exp_avg_sq"},
    .count_states = count_states,
    .enqueue = enqueue_adamw,
    .elementwise = true,
    .nonnegative = 1U << 1,
    .reference = reference_adamw,
};
