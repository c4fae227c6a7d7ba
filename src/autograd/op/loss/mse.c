/* mse: mean over a row of (x - t)^2. d/dx = 2 (x - t) / n, d/dt its negative. */
#include "autograd/op/loss/loss_pair.h"
#include "charl/ops.h"

static charl_status enqueue(const charl_enqueue *e)
{
    return charl__pair_enqueue(e, "(a - b) * (a - b)");
}

static void backward(const charl_backward *b)
{
    charl__pair_backward(b, &charl_op_mse_grad);
}

static double loss(double x, double t, double unused)
{
    (void)unused;
    return (x - t) * (x - t);
}

static void reference(const charl_reference *r)
{
    charl__pair_reference(r, loss);
}

static charl_status enqueue_grad(const charl_enqueue *e)
{
    return charl__pair_enqueue_grad(e, "c * p * (2.0f * (a - b))");
}

static double slope(double x, double t, double unused)
{
    (void)unused;
    return 2 * (x - t);
}

static void reference_grad(const charl_reference *r)
{
    charl__pair_reference_grad(r, slope);
}

static const charl_op_sample samples_grad[] = {CHARL_PAIR_SAMPLES_GRAD(NULL)};

const charl_op charl_op_mse_grad = {
    .name = "mse_grad",
    .formula = "out = g / n * 2 * (x - t), n elements in a row",
    .n_in = 3,
    .half = CHARL_HALF(0) | CHARL_HALF(1),
    .mixed = true,
    .infer = charl__pair_infer_grad,
    .enqueue = enqueue_grad,
    .reference = reference_grad,
    CHARL_SAMPLES(samples_grad),
};

static const charl_op_sample samples[] = {CHARL_PAIR_SAMPLES(NULL)};

const charl_op charl_op_mse = {
    .name = "mse",
    .formula = "out[b] = mean over the rest of (x - t)^2",
    .n_in = 2,
    .half = CHARL_HALF(0) | CHARL_HALF(1),
    .mixed = true,
    .infer = charl__pair_infer,
    .enqueue = enqueue,
    .backward = backward,
    .reference = reference,
    CHARL_SAMPLES(samples),
};

charl_var *charl_mse(charl_graph *g, charl_var *x, charl_var *target)
{
    return charl__apply2(g, &charl_op_mse, NULL, x, target);
}
