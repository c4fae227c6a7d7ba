/* relu: x > 0 ? x : 0, where NaN stays NaN. d/dx = 1 where out > 0, else 0. */
#include "autograd/launch/map.h"

#include "charl/ops.h"

static void reference_grad(const charl_reference *r)
{
    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        const double y = r->in[0][i], g = r->in[1][i];

        r->out[0][i] = y <= 0 ? 0 : g;
    }
}

static const charl_op_sample samples_grad[] = {
    CHARL_MAP_SAMPLES2(.lo = -3, .hi = 3, .away = 0.01),
};

const charl_op charl_op_relu_grad = {
    .name = "relu_grad",
    .formula = "out = y > 0 ? g : 0",
    .n_in = 2,
    .in_place = true,
    .half = CHARL_HALF_ALL,
    .mixed = true,
    .layout = CHARL_LAYOUT_ALIKE,
    .infer = charl__infer_broadcast,
    .expr = "select(b, CHARL_SPLAT(0.0f), a <= 0.0f)",
    .reference = reference_grad,
    CHARL_SAMPLES(samples_grad),
};

static void backward(const charl_backward *b)
{
    b->gin[0] = charl__apply2(b->g, &charl_op_relu_grad, NULL, b->out[0], b->gout[0]);
}

static void reference(const charl_reference *r)
{
    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        const double x = r->in[0][i];

        r->out[0][i] = x <= 0 ? 0 : x;
    }
}

static const charl_op_sample samples[] = {
    CHARL_MAP_SAMPLES1(.lo = -3, .hi = 3, .away = 0.01),
    CHARL_MAP_SAMPLES1(.lo = -3e38, .hi = 3e38, .away = 1e30, .skip_gradient = true),
};

const charl_op charl_op_relu = {
    .name = "relu",
    .formula = "out = x > 0 ? x : 0",
    .n_in = 1,
    .in_place = true,
    .half = CHARL_HALF_ALL,
    .layout = CHARL_LAYOUT_ALIKE,
    .infer = charl__infer_same,
    .expr = "select(a, CHARL_SPLAT(0.0f), a <= 0.0f)",
    .backward = backward,
    .reference = reference,
    .onnx_type = "Relu",
    CHARL_SAMPLES(samples),
};

charl_var *charl_relu(charl_graph *g, charl_var *x)
{
    return charl__apply1(g, &charl_op_relu, NULL, x);
}
