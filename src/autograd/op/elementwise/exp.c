/* exp: exponential. d/dx = out. */
#include "autograd/launch/map.h"

#include <math.h>

#include "charl/ops.h"

static void backward(const charl_backward *b)
{
    b->gin[0] = charl_mul(b->g, b->gout[0], b->out[0]);
}

static void reference(const charl_reference *r)
{
    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        const double x = r->in[0][i];

        r->out[0][i] = exp(x);
    }
}

static const charl_op_sample samples[] = {
    CHARL_MAP_SAMPLES1(.lo = -4, .hi = 4),
    CHARL_MAP_SAMPLES1(.lo = -110, .hi = 80, .skip_gradient = true),
};

const charl_op charl_op_exp = {
    .name = "exp",
    .formula = "out = exp(x)",
    .n_in = 1,
    .in_place = true,
    .half = CHARL_HALF_ALL,
    .infer = charl__infer_same,
    .expr = "charl_exp(a)",
    .backward = backward,
    .reference = reference,
    .onnx_type = "Exp",
    CHARL_SAMPLES(samples),
};

charl_var *charl_exp(charl_graph *g, charl_var *x)
{
    return charl__apply1(g, &charl_op_exp, NULL, x);
}
