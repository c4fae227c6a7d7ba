/* rms_norm (Zhang and Sennrich 2019), and add_rms_norm, which adds a residual first; rms_norm_grad
 * is the gradient of x, rms_norm_wgrad that of the weight. See row_norm.h. */
#include "autograd/op/norm/row_norm_samples.h"
#include "charl/ops.h"

static const charl_row_norm usual = {1e-5F, false}, large = {0.1F, false};

static const charl_op_sample samples[] = {
    {.in = {CHARL_B(F32, 16, 5), CHARL_R(F32, 5)}, .attr = &large, .lo = -1, .hi = 1, .terms = 16},
    {.in = {CHARL_B(F32, 8, 3, 37), CHARL_R(F32, 37)},
     .n_in = 2,
     .attr = &usual,
     .lo = -1,
     .hi = 1,
     .terms = 37},
    {.in = {CHARL_R(F32, 5, 300)}, .n_in = 1, .attr = &usual, .lo = -1, .hi = 1, .terms = 300},
    {.in = {CHARL_R(F32, 3, 1), CHARL_R(F32, 1)}, .attr = &large, .lo = -1, .hi = 1, .terms = 2},
    {.in = {CHARL_R(F32, 768), CHARL_R(F32, 768)}, .attr = &usual, .lo = -1, .hi = 1, .terms = 768},
};

const charl_op charl_op_rms_norm = {
    .name = "rms_norm",
    .formula = "out = x / sqrt(mean(x^2) + eps) * weight, over the last axis",
    .n_in = 2,
    .n_optional = 1,
    .attr_size = sizeof(charl_row_norm),
    .half = CHARL_HALF(0),
    .infer = charl__row_norm_infer,
    .enqueue = charl__row_norm_enqueue,
    .backward = charl__row_norm_backward,
    .reference = charl__row_norm_reference,
    .onnx = charl__row_norm_onnx,
    CHARL_SAMPLES(samples),
};

charl_var *charl_rms_norm(charl_graph *g, charl_var *x, charl_var *weight, float eps)
{
    const charl_row_norm t = {eps, false};
    charl_var *out[CHARL_OP_MAX_OUT];

    charl__apply(g, &charl_op_rms_norm, &t, (charl_var *[]){x, weight}, 2, out);
    return out[0];
}

static const charl_op_sample samples_add[] = {
    {.in = {CHARL_B(F32, 16, 5), CHARL_B(F32, 16, 5), CHARL_R(F32, 5)},
     .attr = &large,
     .lo = -1,
     .hi = 1,
     .terms = 16},
    {.in = {CHARL_B(F32, 8, 3, 37), CHARL_B(F32, 8, 3, 37), CHARL_R(F32, 37)},
     .n_in = 3,
     .attr = &large,
     .lo = -1,
     .hi = 1,
     .terms = 37},
    {.in = {CHARL_R(F32, 5, 300), CHARL_R(F32, 5, 300), CHARL_R(F32, 300)},
     .attr = &usual,
     .lo = -1,
     .hi = 1,
     .terms = 300},
    {.in = {CHARL_R(F32, 3, 1), CHARL_R(F32, 3, 1), CHARL_R(F32, 1)},
     .attr = &large,
     .lo = -1,
     .hi = 1,
     .terms = 2},
};

const charl_op charl_op_add_rms_norm = {
    .name = "add_rms_norm",
    .formula = "out0 = a + b, out1 = rms_norm(out0)",
    .n_in = 3,
    .n_optional = 0,
    .attr_size = sizeof(charl_row_norm),
    .in_place = true,
    .half = CHARL_HALF(0) | CHARL_HALF(1),
    .infer = charl__row_norm_add_infer,
    .enqueue = charl__row_norm_add_enqueue,
    .backward = charl__row_norm_add_backward,
    .reference = charl__row_norm_add_reference,
    .onnx = charl__row_norm_add_onnx,
    CHARL_SAMPLES(samples_add),
};

charl_var *charl_add_rms_norm(charl_graph *g, charl_var *a, charl_var *b, charl_var *weight,
                              float eps, charl_var **sum)
{
    const charl_row_norm t = {eps, false};
    charl_var *out[CHARL_OP_MAX_OUT];

    charl__apply(g, &charl_op_add_rms_norm, &t, (charl_var *[]){a, b, weight}, 3, out);
    *sum = out[0];
    return out[1];
}

static const charl_op_sample samples_grad[] = {CHARL_ROW_NORM_GRAD_SAMPLES(&usual, &large)};

const charl_op charl_op_rms_norm_grad = {
    .name = "rms_norm_grad",
    .formula = "out = invstd * (u - h * mean(u * h)) + extra, u = gout * weight, h = x * invstd",
    .n_in = 4,
    .n_optional = 2,
    .attr_size = sizeof(charl_row_norm),
    .half = CHARL_HALF(0) | CHARL_HALF(1) | CHARL_HALF(3),
    .infer = charl__row_norm_grad_infer,
    .enqueue = charl__row_norm_grad_enqueue,
    .reference = charl__row_norm_grad_reference,
    CHARL_SAMPLES(samples_grad),
};

static const charl_op_sample samples_wgrad[] = {CHARL_ROW_NORM_WGRAD_SAMPLES(&usual, &large)};

const charl_op charl_op_rms_norm_wgrad = {
    .name = "rms_norm_wgrad",
    .formula = "out = sum over rows of gout * h, h = x * invstd",
    .n_in = 2,
    .attr_size = sizeof(charl_row_norm),
    .half = CHARL_HALF(0) | CHARL_HALF(1),
    .infer = charl__row_norm_wgrad_infer,
    .enqueue = charl__row_norm_wgrad_enqueue,
    .reference = charl__row_norm_wgrad_reference,
    CHARL_SAMPLES(samples_wgrad),
};

static const charl_op_sample samples_grads[] = {CHARL_ROW_NORM_GRADS_SAMPLES(&usual, &large)};

const charl_op charl_op_rms_norm_grads = {
    .name = "rms_norm_grads",
    .formula = "out0 = rms_norm_grad, out1 = rms_norm_wgrad",
    .n_in = 4,
    .n_optional = 1,
    .attr_size = sizeof(charl_row_norm),
    .half = CHARL_HALF(0) | CHARL_HALF(1) | CHARL_HALF(3),
    .infer = charl__row_norm_grads_infer,
    .enqueue = charl__row_norm_grads_enqueue,
    .reference = charl__row_norm_grads_reference,
    CHARL_SAMPLES(samples_grads),
};
