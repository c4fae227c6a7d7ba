/* softplus: log(1 + exp(x)), as max(x, 0) + log(1 + exp(-|x|)), which neither overflows nor
 * cancels. d/dx = sigmoid(x). */
#include "autograd/launch/map.h"

#include <math.h>

#include "charl/ops.h"

static void reference_grad(const charl_reference *r)
{
    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        const double x = r->in[0][i], g = r->in[1][i];

        r->out[0][i] = g / (1 + exp(-x));
    }
}

static const charl_op_sample samples_grad[] = {
    CHARL_MAP_SAMPLES2(.lo = -4, .hi = 4),
};

const charl_op charl_op_softplus_grad = {
    .name = "softplus_grad",
    .formula = "out = g * sigmoid(x)",
    .n_in = 2,
    .in_place = true,
    .half = CHARL_HALF_ALL,
    .mixed = true,
    .infer = charl__infer_broadcast,
    .expr = "b * charl_sigmoid(a)",
    .reference = reference_grad,
    CHARL_SAMPLES(samples_grad),
};

static void backward(const charl_backward *b)
{
    b->gin[0] = charl__apply2(b->g, &charl_op_softplus_grad, NULL, b->in[0], b->gout[0]);
}

static void reference(const charl_reference *r)
{
    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        const double x = r->in[0][i];

        r->out[0][i] = (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
    }
}

static const charl_op_sample samples[] = {
    CHARL_MAP_SAMPLES1(.lo = -4, .hi = 4),
    CHARL_MAP_SAMPLES1(.lo = -200, .hi = 200),
};

const charl_op charl_op_softplus = {
    .name = "softplus",
    .formula = "out = log(1 + exp(x))",
    .n_in = 1,
    .in_place = true,
    .half = CHARL_HALF_ALL,
    .infer = charl__infer_same,
    .expr = "select(a, CHARL_SPLAT(0.0f), a < 0.0f) + charl_log1p_unit(charl_exp(-fabs(a)))",
    .backward = backward,
    .reference = reference,
    .onnx_type = "Softplus",
    CHARL_SAMPLES(samples),
};

charl_var *charl_softplus(charl_graph *g, charl_var *x)
{
    return charl__apply1(g, &charl_op_softplus, NULL, x);
}
