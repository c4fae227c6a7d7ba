/* lion (Chen et al. 2023, Symbolic Discovery of Optimization Algorithms, algorithm 2): the sign of
 * an interpolated momentum, with decoupled weight decay. */
#include "optim/optimizer.h"

static int count_states(const charl_optimizer_config *c)
{
    (void)c;
    return 1;
}

static charl_status enqueue(const charl_optimizer *o)
{
    return charl__optimizer_update(o, NULL,
                                   &(charl_optimizer_update){
                                       .file = "optim/lion",
                                       .entry = "charl_lion",
                                       .elementwise = true,
                                       .own = {charl__raw(CHARL_ARG_INOUT, o->state[0]),
                                               charl__f32((float)(1.0 - o->config.beta1)),
                                               charl__f32((float)(1.0 - o->config.beta2))},
                                   });
}

static void reference(const charl_optimizer_reference *r)
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

const charl_optimizer_rule charl__optim_lion = {
    .name = "lion",
    .state_name = {"exp_avg"},
    .defaults = {.type = "lion", .beta1 = 0.9, .beta2 = 0.99},
    .count_states = count_states,
    .enqueue = enqueue,
    .copies = true,
    .reference = reference,
};
