/* silu: x * sigmoid(x). d/dx = s * (1 + x * (1 - s)) with s = sigmoid(x). */
#include "autograd/launch/map.h"

#include <math.h>

#include "autograd/onnx/onnx.h"
#include "charl/ops.h"

static void reference_grad(const charl_reference *r)
{
    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        const double x = r->in[0][i], g = r->in[1][i];

        r->out[0][i] = g / (1 + exp(-x)) * (1 + x / (1 + exp(x)));
    }
}

static const charl_op_sample samples_grad[] = {
    CHARL_MAP_SAMPLES2(.lo = -4, .hi = 4, .terms = 2),
};

const charl_op charl_op_silu_grad = {
    .name = "silu_grad",
    .formula = "out = g * s * (1 + x * (1 - s)), s = sigmoid(x)",
    .n_in = 2,
    .in_place = true,
    .half = CHARL_HALF_ALL,
    .mixed = true,
    .infer = charl__infer_broadcast,
    .expr = "b * (charl_sigmoid(a) * (1.0f + a * (1.0f - charl_sigmoid(a))))",
    .half_expr = "b * (charl_sigmoid_for(a, 2) * (1.0f + a * (1.0f - charl_sigmoid_for(a, 2))))",
    .reference = reference_grad,
    CHARL_SAMPLES(samples_grad),
};

static void backward(const charl_backward *b)
{
    b->gin[0] = charl__apply2(b->g, &charl_op_silu_grad, NULL, b->in[0], b->gout[0]);
}

static void reference(const charl_reference *r)
{
    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        const double x = r->in[0][i];

        r->out[0][i] = x / (1 + exp(-x));
    }
}

static const charl_op_sample samples[] = {
    CHARL_MAP_SAMPLES1(.lo = -4, .hi = 4),
    CHARL_MAP_SAMPLES1(.lo = -60, .hi = 200),
};

static void onnx(const charl_onnx_node *n)
{
    charl__onnx_op(n, "Mul", n->in[0], charl__onnx_op(n, "Sigmoid", n->in[0], NULL, NULL), n->out);
}

const charl_op charl_op_silu = {
    .name = "silu",
    .formula = "out = x * sigmoid(x)",
    .n_in = 1,
    .in_place = true,
    .half = CHARL_HALF_ALL,
    .infer = charl__infer_same,
    .expr = "a * charl_sigmoid(a)",
    .half_expr = "a * charl_sigmoid_for(a, 2)",
    .backward = backward,
    .reference = reference,
    .onnx = onnx,
    CHARL_SAMPLES(samples),
};

charl_var *charl_silu(charl_graph *g, charl_var *x)
{
    return charl__apply1(g, &charl_op_silu, NULL, x);
}
