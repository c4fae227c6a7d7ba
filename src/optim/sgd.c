/* sgd: stochastic gradient descent with momentum (Sutskever et al. 2013, in PyTorch's form). */
#include "optim/optimizer.h"

static int count_states(const charl_optimizer_config *c)
{
    return c->momentum > 0.0F ? 1 : 0;
}

static charl_status enqueue(const charl_optimizer *o)
{
    const charl_optimizer_config *c = &o->config;
    const charl_arg step = charl__in(charl__steps_tensor(o->steps));
    const charl_arg param = charl__raw(CHARL_ARG_INOUT, o->set->value);
    const charl_arg grad = charl__raw(CHARL_ARG_IN, o->set->sum);
    const charl_arg decay = charl__raw(CHARL_ARG_IN, o->decay),
                    norm = charl__raw(CHARL_ARG_IN, o->norm);
    charl_launch l = {.file = "sgd",
                      .entry = "charl_sgd",
                      .global = {(size_t)o->set->elements},
                      .local = {CHARL_PARAM_ALIGN},
                      .label = "sgd"};

    if (o->n_states == 0) {
        const charl_arg args[] = {
            param, grad, decay, norm, step, charl__f32(c->weight_decay), charl__f32(0.0F)};

        l.defines = "#define MOMENTUM 0\n";
        for (size_t i = 0; i < sizeof args / sizeof args[0]; i++) {
            l.args[i] = args[i];
        }
    } else {
        const charl_arg args[] = {param,
                                  grad,
                                  charl__raw(CHARL_ARG_INOUT, o->state[0]),
                                  decay,
                                  norm,
                                  step,
                                  charl__f32(c->weight_decay),
                                  charl__f32(c->momentum)};

        l.defines = c->nesterov ? "#define NESTEROV 1\n" : "#define NESTEROV 0\n";
        for (size_t i = 0; i < sizeof args / sizeof args[0]; i++) {
            l.args[i] = args[i];
        }
    }
    return charl__launch(o->set->dev, &l);
}

static void reference(charl_optimizer_reference *r)
{
    const charl_optimizer_config *c = r->config;
    double u = r->grad + (r->decay ? (double)c->weight_decay : 0.0) * r->param;

    if (c->momentum > 0.0F) {
        r->state[0] = (double)c->momentum * r->state[0] + u;
        u = c->nesterov ? u + (double)c->momentum * r->state[0] : r->state[0];
    }
    r->param -= r->lr * u;
}

const charl_optimizer_rule charl__optim_sgd = {
    .name = "sgd",
    .state_name = {"momentum_buffer"},
    .defaults = {.type = "sgd"},
    .count_states = count_states,
    .enqueue = enqueue,
    .reference = reference,
};
