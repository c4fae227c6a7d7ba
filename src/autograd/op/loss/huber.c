/* huber: mean over a row of d^2 / 2 where |d| <= delta, else delta * (|d| - delta / 2), with d = x
 * - t.
 *
 *  d/dx = d, held within [-delta, delta], / n; d/dt its negative.
 */
#include <math.h>

#include "autograd/op/loss/loss_pair.h"
#include "charl/ops.h"

static charl_status enqueue(const charl_enqueue *e)
{
    return charl__pair_enqueue(
        e, "select(p * (fabs(a - b) - 0.5f * p), 0.5f * (a - b) * (a - b), fabs(a - b) <= p)");
}

static void backward(const charl_backward *b)
{
    charl__pair_backward(b, &charl_op_huber_grad);
}

static double loss(double x, double t, double delta)
{
    const double d = fabs(x - t);

    return d <= delta ? 0.5 * d * d : delta * (d - 0.5 * delta);
}

static void reference(const charl_reference *r)
{
    charl__pair_reference(r, loss);
}

static charl_status enqueue_grad(const charl_enqueue *e)
{
    return charl__pair_enqueue_grad(e, "c * p * select(select(a - b, CHARL_SPLAT(q), a - b > q), "
                                       "CHARL_SPLAT(-q), a - b < -q)");
}

static double slope(double x, double t, double delta)
{
    return x - t > delta ? delta : x - t < -delta ? -delta : x - t; /* NaN stays NaN */
}

static void reference_grad(const charl_reference *r)
{
    charl__pair_reference_grad(r, slope);
}

static const float one = 1.0F;
static const charl_op_sample samples_grad[] = {CHARL_PAIR_SAMPLES_GRAD(&one)};

const charl_op charl_op_huber_grad = {
    .name = "huber_grad",
    .formula = "out = g / n * (x - t, held within [-delta, delta]), n elements in a row",
    .n_in = 3,
    .attr_size = sizeof(float), /* delta */
    .half = CHARL_HALF(0) | CHARL_HALF(1),
    .mixed = true,
    .infer = charl__pair_infer_grad,
    .enqueue = enqueue_grad,
    .reference = reference_grad,
    CHARL_SAMPLES(samples_grad),
};

static const charl_op_sample samples[] = {
    CHARL_PAIR_SAMPLES(&one),
    {.in = {CHARL_R(F32, 4, 9), CHARL_R(F32, 4, 9)},
     .terms = 9,
     .lo = -0.4,
     .hi = 0.4,
     .attr = &one},
};

const charl_op charl_op_huber = {
    .name = "huber",
    .formula = "out[b] = mean over the rest of Huber's function of x - t",
    .n_in = 2,
    .attr_size = sizeof(float), /* delta */
    .half = CHARL_HALF(0) | CHARL_HALF(1),
    .mixed = true,
    .infer = charl__pair_infer,
    .enqueue = enqueue,
    .backward = backward,
    .reference = reference,
    CHARL_SAMPLES(samples),
};

charl_var *charl_huber(charl_graph *g, charl_var *x, charl_var *target, float delta)
{
    if (!(delta > 0.0F)) {
        return charl__graph_fail(g, CHARL_ERR_INVALID, "huber: delta %g is not positive",
                                 (double)delta);
    }
    return charl__apply2(g, &charl_op_huber, &delta, x, target);
}
