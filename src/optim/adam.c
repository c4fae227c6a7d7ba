/* adam (Kingma and Ba 2015) and adamw (Loshchilov and Hutter 2019), in PyTorch's form. */
#include <math.h>

#include "optim/optimizer.h"

static int count_states(const charl_optimizer_config *c)
{
    (void)c;
    return 2;
}

static charl_status enqueue(const charl_optimizer *o, const char *defines)
{
    const charl_optimizer_config *c = &o->config;

    return charl__launch(
        o->set->dev,
        &(charl_launch){
            .file = "adam",
            .entry = "charl_adam",
            .defines = defines,
            .global = {(size_t)o->set->elements},
            .local = {CHARL_PARAM_ALIGN},
            .args = {charl__raw(CHARL_ARG_INOUT, o->set->value),
                     charl__raw(CHARL_ARG_IN, o->set->sum),
                     charl__raw(CHARL_ARG_INOUT, o->state[0]),
                     charl__raw(CHARL_ARG_INOUT, o->state[1]), charl__raw(CHARL_ARG_IN, o->decay),
                     charl__raw(CHARL_ARG_IN, o->norm), charl__in(charl__steps_tensor(o->steps)),
                     charl__f32(c->weight_decay), charl__f32((float)(1.0 - c->beta1)),
                     charl__f32((float)c->beta2), charl__f32((float)(1.0 - c->beta2)),
                     charl__f32(c->eps)},
            .label = o->type->name,
        });
}

static charl_status enqueue_adam(const charl_optimizer *o)
{
    return enqueue(o, "#define DECOUPLED 0\n");
}

static charl_status enqueue_adamw(const charl_optimizer *o)
{
    return enqueue(o, "#define DECOUPLED 1\n");
}

static void reference(charl_optimizer_reference *r, bool decoupled)
{
    const charl_optimizer_config *c = r->config;
    const double b1 = c->beta1, b2 = c->beta2;
    const double wd = r->decay ? (double)c->weight_decay : 0.0;
    const double g = decoupled ? r->grad : r->grad + wd * r->param;

    if (decoupled) {
        r->param *= 1.0 - r->lr * wd;
    }
    r->state[0] += (1.0 - b1) * (g - r->state[0]);
    r->state[1] = b2 * r->state[1] + (1.0 - b2) * g * g;
    r->param -= r->lr / (1.0 - pow(b1, (double)r->t)) * r->state[0] /
                (sqrt(r->state[1] / (1.0 - pow(b2, (double)r->t))) + (double)c->eps);
}

static void reference_adam(charl_optimizer_reference *r)
{
    reference(r, false);
}

static void reference_adamw(charl_optimizer_reference *r)
{
    reference(r, true);
}

const charl_optimizer_rule charl__optim_adam = {
    .name = "adam",
    .state_name = {"exp_avg", "exp_avg_sq"},
    .defaults = {.type = "adam", .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8F},
    .count_states = count_states,
    .enqueue = enqueue_adam,
    .reference = reference_adam,
};

const charl_optimizer_rule charl__optim_adamw = {
    .name = "adamw",
    .state_name = {"exp_avg", "exp_avg_sq"},
    .defaults =
        {.type = "adamw", .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8F, .weight_decay = 0.01F},
    .count_states = count_states,
    .enqueue = enqueue_adamw,
    .reference = reference_adamw,
};
