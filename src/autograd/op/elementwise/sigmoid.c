/* sigmoid: 1 / (1 + exp(-x)). d/dx = out * (1 - out). */
#include "autograd/launch/map.h"

#include <math.h>

#include "charl/ops.h"

static void reference_grad(const charl_reference *r)
{
    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        const double y = r->in[0][i], g = r->in[1][i];

        r->out[0][i] = g * y * (1 - y);
    }
}

static const charl_op_sample samples_grad[] = {
    CHARL_MAP_SAMPLES2(.lo = -1, .hi = 1),
};

const charl_op charl_op_sigmoid_grad = {
    .name = "sigmoid_grad",
    .formula = "out = g * y * (1 - y)",
    .n_in = 2,
    .in_place = true,
    .half = CHARL_HALF_ALL,
    .mixed = true,
    .infer = charl__infer_broadcast,
    .expr = "b * (a * (1.0f - a))",
    .reference = reference_grad,
    CHARL_SAMPLES(samples_grad),
};

static void backward(const charl_backward *b)
{
    b->gin[0] = charl__apply2(b->g, &charl_op_sigmoid_grad, NULL, b->out[0], b->gout[0]);
}

static void reference(const charl_reference *r)
{
    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        const double x = r->in[0][i];

        r->out[0][i] = 1 / (1 + exp(-x));
    }
}

static const charl_op_sample samples[] = {
    CHARL_MAP_SAMPLES1(.lo = -4, .hi = 4),
    CHARL_MAP_SAMPLES1(.lo = -200, .hi = 200),
};

const charl_op charl_op_sigmoid = {
    .name = "sigmoid",
    .formula = "out = 1 / (1 + exp(-x))",
    .n_in = 1,
    .in_place = true,
    .half = CHARL_HALF_ALL,
    .infer = charl__infer_same,
    .expr = "charl_sigmoid(a)",
    .backward = backward,
    .reference = reference,
    .onnx_type = "Sigmoid",
    CHARL_SAMPLES(samples),
};

charl_var *charl_sigmoid(charl_graph *g, charl_var *x)
{
    return charl__apply1(g, &charl_op_sigmoid, NULL, x);
}
