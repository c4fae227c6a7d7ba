/* binary_accuracy: part of a row's yes-or-no answers that are right: the logit x is above 0, a
 * probability of 1/2, where the target is above 1/2. Not differentiable. */
#include "autograd/op/loss/loss_pair.h"
#include "charl/ops.h"

static charl_status enqueue(const charl_enqueue *e)
{
    return charl__pair_enqueue(
        e, "select(CHARL_SPLAT(0.0f), CHARL_SPLAT(1.0f), (a > 0.0f) == (b > 0.5f))");
}

static double is_right(double x, double t, double unused)
{
    (void)unused;
    return (x > 0.0) == (t > 0.5) ? 1.0 : 0.0;
}

static void reference(const charl_reference *r)
{
    charl__pair_reference(r, is_right);
}

static const charl_op_sample samples[] = {CHARL_PAIR_SAMPLES(NULL)};

const charl_op charl_op_binary_accuracy = {
    .name = "binary_accuracy",
    .formula = "out[b] = mean over the rest of (x > 0) == (t > 1/2)",
    .n_in = 2,
    .half = CHARL_HALF(0) | CHARL_HALF(1),
    .mixed = true,
    .infer = charl__pair_infer,
    .enqueue = enqueue,
    .reference = reference,
    CHARL_SAMPLES(samples),
};

charl_var *charl_binary_accuracy(charl_graph *g, charl_var *logits, charl_var *target)
{
    return charl__apply2(g, &charl_op_binary_accuracy, NULL, logits, target);
}
