/* bce_with_logits: mean over a row of softplus(x) - x * t, the binary cross entropy of sigmoid(x).
 *
 *  d/dx = (sigmoid(x) - t) / n, d/dt = -x / n.
 */
#include <math.h>

#include "autograd/op/loss/loss_pair.h"
#include "charl/ops.h"

static charl_status enqueue(const charl_enqueue *e)
{
    return charl__pair_enqueue(e, "select(a, CHARL_SPLAT(0.0f), a < 0.0f) + "
                                  "charl_log1p_unit(charl_exp(-fabs(a))) - a * b");
}

static void backward(const charl_backward *b)
{
    charl_var *out[CHARL_OP_MAX_OUT], *g = charl__pair_by_row(b);

    if (b->needed[0]) {
        charl__apply(b->g, &charl_op_bce_with_logits_grad, NULL,
                     (charl_var *[]){b->in[0], b->in[1], g}, 3, out);
        b->gin[0] = out[0];
    }
    if (b->needed[1]) {
        const charl_shape s = charl_var_get_type(b->in[0]).shape;
        const float scale = -1.0F / (float)charl__pair_rest(&s);

        b->gin[1] = charl_mul(b->g, b->in[0], charl_scale(b->g, g, scale, 0.0F));
    }
}

static double loss(double x, double t, double unused)
{
    (void)unused;
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x))) - x * t;
}

static void reference(const charl_reference *r)
{
    charl__pair_reference(r, loss);
}

static charl_status enqueue_grad(const charl_enqueue *e)
{
    return charl__pair_enqueue_grad(e, "c * p * (charl_sigmoid(a) - b)");
}

static double slope(double x, double t, double unused)
{
    (void)unused;
    return 1 / (1 + exp(-x)) - t;
}

static void reference_grad(const charl_reference *r)
{
    charl__pair_reference_grad(r, slope);
}

static const charl_op_sample samples_grad[] = {CHARL_PAIR_SAMPLES_GRAD(NULL)};

const charl_op charl_op_bce_with_logits_grad = {
    .name = "bce_with_logits_grad",
    .formula = "out = g / n * (sigmoid(x) - t), n elements in a row",
    .n_in = 3,
    .half = CHARL_HALF(0) | CHARL_HALF(1),
    .mixed = true,
    .infer = charl__pair_infer_grad,
    .enqueue = enqueue_grad,
    .reference = reference_grad,
    CHARL_SAMPLES(samples_grad),
};

static const charl_op_sample samples[] = {
    CHARL_PAIR_SAMPLES(NULL),
    {.in = {CHARL_R(F32, 4, 9), CHARL_R(F32, 4, 9)},
     .terms = 9,
     .lo = -100,
     .hi = 100,
     .skip_gradient = true},
};

const charl_op charl_op_bce_with_logits = {
    .name = "bce_with_logits",
    .formula = "out[b] = mean over the rest of softplus(x) - x * t",
    .n_in = 2,
    .half = CHARL_HALF(0) | CHARL_HALF(1),
    .mixed = true,
    .infer = charl__pair_infer,
    .enqueue = enqueue,
    .backward = backward,
    .reference = reference,
    CHARL_SAMPLES(samples),
};

charl_var *charl_bce_with_logits(charl_graph *g, charl_var *x, charl_var *target)
{
    return charl__apply2(g, &charl_op_bce_with_logits, NULL, x, target);
}
