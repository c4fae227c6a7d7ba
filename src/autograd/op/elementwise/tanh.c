/* tanh: hyperbolic tangent. d/dx = 1 - out^2. */
#include "autograd/launch/map.h"

#include <math.h>

#include "charl/ops.h"

static void reference_grad(const charl_reference *r)
{
    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        const double y = r->in[0][i], g = r->in[1][i];

        r->out[0][i] = g * (1 - y * y);
    }
}

static const charl_op_sample samples_grad[] = {
    CHARL_MAP_SAMPLES2(.lo = -1, .hi = 1),
};

const charl_op charl_op_tanh_grad = {
    .name = "tanh_grad",
    .formula = "out = g * (1 - y * y)",
    .n_in = 2,
    .in_place = true,
    .half = CHARL_HALF_ALL,
    .mixed = true,
    .infer = charl__infer_broadcast,
    .expr = "b * fma(-a, a, CHARL_SPLAT(1.0f))",
    .reference = reference_grad,
    CHARL_SAMPLES(samples_grad),
};

static void backward(const charl_backward *b)
{
    b->gin[0] = charl__apply2(b->g, &charl_op_tanh_grad, NULL, b->out[0], b->gout[0]);
}

static void reference(const charl_reference *r)
{
    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        const double x = r->in[0][i];

        r->out[0][i] = tanh(x);
    }
}

static const charl_op_sample samples[] = {
    CHARL_MAP_SAMPLES1(.lo = -3, .hi = 3),
    CHARL_MAP_SAMPLES1(.lo = -1e-3, .hi = 1e-3),
    CHARL_MAP_SAMPLES1(.lo = -200, .hi = 200),
};

const charl_op charl_op_tanh = {
    .name = "tanh",
    .formula = "out = tanh(x)",
    .n_in = 1,
    .in_place = true,
    .half = CHARL_HALF_ALL,
    .infer = charl__infer_same,
    .expr = "charl_tanh(a)",
    .backward = backward,
    .reference = reference,
    .onnx_type = "Tanh",
    CHARL_SAMPLES(samples),
};

charl_var *charl_tanh(charl_graph *g, charl_var *x)
{
    return charl__apply1(g, &charl_op_tanh, NULL, x);
}
