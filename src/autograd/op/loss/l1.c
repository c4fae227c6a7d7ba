/* l1: mean over a row of |x - t|. d/dx = sign(x - t) / n, 0 where they are equal; d/dt its
 * negative. */
#include <math.h>

#include "autograd/op/loss/loss_pair.h"
#include "charl/ops.h"

static charl_status enqueue(const charl_enqueue *e)
{
    return charl__pair_enqueue(e, "fabs(a - b)");
}

static void backward(const charl_backward *b)
{
    charl__pair_backward(b, &charl_op_l1_grad);
}

static double loss(double x, double t, double unused)
{
    (void)unused;
    return fabs(x - t);
}

static void reference(const charl_reference *r)
{
    charl__pair_reference(r, loss);
}

static charl_status enqueue_grad(const charl_enqueue *e)
{
    return charl__pair_enqueue_grad(
        e, "c * p * select(select(a - b, CHARL_SPLAT(1.0f), a > b), CHARL_SPLAT(-1.0f), a < b)");
}

static double slope(double x, double t, double unused)
{
    (void)unused;
    return x > t ? 1.0 : x < t ? -1.0 : x - t; /* NaN stays NaN */
}

static void reference_grad(const charl_reference *r)
{
    charl__pair_reference_grad(r, slope);
}

static const charl_op_sample samples_grad[] = {CHARL_PAIR_SAMPLES_GRAD(NULL)};

const charl_op charl_op_l1_grad = {
    .name = "l1_grad",
    .formula = "out = g / n * sign(x - t), n elements in a row",
    .n_in = 3,
    .half = CHARL_HALF(0) | CHARL_HALF(1),
    .mixed = true,
    .infer = charl__pair_infer_grad,
    .enqueue = enqueue_grad,
    .reference = reference_grad,
    CHARL_SAMPLES(samples_grad),
};

static const charl_op_sample samples[] = {CHARL_PAIR_SAMPLES(NULL)};

const charl_op charl_op_l1 = {
    .name = "l1",
    .formula = "out[b] = mean over the rest of |x - t|",
    .n_in = 2,
    .half = CHARL_HALF(0) | CHARL_HALF(1),
    .mixed = true,
    .infer = charl__pair_infer,
    .enqueue = enqueue,
    .backward = backward,
    .reference = reference,
    CHARL_SAMPLES(samples),
};

charl_var *charl_l1(charl_graph *g, charl_var *x, charl_var *target)
{
    return charl__apply2(g, &charl_op_l1, NULL, x, target);
}
