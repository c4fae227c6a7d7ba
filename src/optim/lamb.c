/* lamb (You et al. 2020, Large Batch Optimization for Deep Learning, algorithm 2): adamw's
 * direction, scaled per tensor by the ratio of the norms of parameter and direction. Vectors
 * (biases, norm weights) keep ratio 1, as in the authors' code. */
#include <math.h>

#include "base/alloc.h"
#include "optim/optimizer.h"

enum { DIRECTION, MATRIX };

static charl_status prepare(charl_optimizer *o)
{
    const size_t bytes = (size_t)o->set->count * sizeof(uint32_t);
    CHARL_SCOPED_FREE uint32_t *matrix = NULL;

    CHARL_TRY(charl__tensor_sums_create(o->set, o->own_at, o->own_elements, &o->sums));
    CHARL_TRY(charl__buffer_create(o->set->dev, (size_t)o->own_elements * 4, "lamb direction", &o->scratch[DIRECTION]));
    CHARL_TRY(charl__alloc_array(o->set->count, sizeof *matrix, &matrix));
    for (int i = 0; i < o->set->count; i++) {
        matrix[i] = o->set->param[i]->spec.shape.ndim > 1;
    }
    CHARL_TRY(charl__buffer_create(o->set->dev, bytes, "lamb table", &o->scratch[MATRIX]));
    CHARL_TRY(charl__buffer_write(CHARL_QUEUE_COMPUTE, o->scratch[MATRIX], 0, matrix, bytes, true));
    return CHARL_OK;
}

static charl_status enqueue(const charl_optimizer *o)
{
    const charl_optimizer_config *c = &o->config;

    CHARL_TRY(charl__optimizer_update_enqueue(
        o, NULL,
        &(charl__optimizer_update){
            .file = "optim/lamb",
            .entry = "charl_lamb_direction",
            .own = {charl__raw(CHARL_ARG_INOUT, o->state[0]), charl__raw(CHARL_ARG_INOUT, o->state[1]),
                    charl__raw(CHARL_ARG_OUT, o->scratch[DIRECTION]), charl__f32((float)(1.0 - c->beta1)),
                    charl__f32((float)c->beta2), charl__f32((float)(1.0 - c->beta2))},
        }));
    CHARL_TRY(charl__tensor_sums_squares(o->sums, o->set->value, 0));
    CHARL_TRY(charl__tensor_sums_squares(o->sums, o->scratch[DIRECTION], 1));
    CHARL_TRY(charl__optimizer_update_enqueue(
        o, NULL,
        &(charl__optimizer_update){
            .file = "optim/lamb",
            .entry = "charl_lamb_apply",
            .own = {charl__raw(CHARL_ARG_IN, o->scratch[DIRECTION]), charl__raw(CHARL_ARG_IN, o->sums->owner),
                    charl__raw(CHARL_ARG_IN, o->scratch[MATRIX]), charl__raw(CHARL_ARG_IN, o->sums->square),
                    charl__i32(o->set->count)},
        }));
    return CHARL_OK;
}

static void reference(const charl__optimizer_reference *r)
{
    const double b1 = r->config->beta1, b2 = r->config->beta2;
    const double bias1 = 1.0 - pow(b1, (double)r->t), bias2 = 1.0 - pow(b2, (double)r->t);
    double *m = r->state[0], *v = r->state[1];
    double pp = 0.0, uu = 0.0, ratio = 1.0;

    for (int64_t i = 0; i < r->n; i++) {
        double u;

        m[i] = b1 * m[i] + (1.0 - b1) * r->grad[i];
        v[i] = b2 * v[i] + (1.0 - b2) * r->grad[i] * r->grad[i];
        u = m[i] / bias1 / (sqrt(v[i] / bias2) + r->config->eps) + r->weight_decay * r->param[i];
        pp += r->param[i] * r->param[i];
        uu += u * u;
    }
    if (r->shape.ndim > 1 && pp > 0.0 && uu > 0.0) {
        ratio = sqrt(pp / uu);
    }
    for (int64_t i = 0; i < r->n; i++) {
        r->param[i] -=
            r->lr * ratio * (m[i] / bias1 / (sqrt(v[i] / bias2) + r->config->eps) + r->weight_decay * r->param[i]);
    }
}

static const charl_key keys[] = {
    CHARL__KEY_BETA1("decay rate of the first moment (mean of the gradient)"),
    CHARL__KEY_BETA2("decay rate of the second moment (mean of the squared gradient)"),
    CHARL__KEY_EPS("added to the denominator for numerical stability"),
};

static const charl_optimizer_config defaults = {
    .type = "lamb", .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-6, .weight_decay = 0.01F};

const charl__optimizer_rule charl__optim_lamb = {
    .row.name = "lamb",
    .row.help = "Adam with a step per tensor in proportion to the norm of its weights",
    CHARL_KEYS(keys),
    CHARL_DEFAULTS(defaults),
    .state_name = {"exp_avg", "exp_avg_sq"},
    .prepare = prepare,
    .enqueue = enqueue,
    .reference = reference,
};
