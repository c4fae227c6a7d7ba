/* log: natural logarithm; -inf at 0, NaN below. d/dx = 1 / x. */
#include "autograd/launch/map.h"

#include <math.h>

#include "charl/ops.h"

static void backward(const charl_backward *b)
{
    b->gin[0] = charl_div(b->g, b->gout[0], b->in[0]);
}

static void reference(const charl_reference *r)
{
    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        const double x = r->in[0][i];

        r->out[0][i] = log(x);
    }
}

static const charl_op_sample samples[] = {
    CHARL_MAP_SAMPLES1(.lo = 0.1, .hi = 4),
    CHARL_MAP_SAMPLES1(.lo = 1e-44, .hi = 1e-37, .skip_gradient = true),
    CHARL_MAP_SAMPLES1(.lo = 1, .hi = 3e38, .skip_gradient = true),
};

const charl_op charl_op_log = {
    .name = "log",
    .formula = "out = log(x)",
    .n_in = 1,
    .in_place = true,
    .half = CHARL_HALF_ALL,
    .infer = charl__infer_same,
    .expr = "charl_log(a)",
    .backward = backward,
    .reference = reference,
    .onnx_type = "Log",
    CHARL_SAMPLES(samples),
};

charl_var *charl_log(charl_graph *g, charl_var *x)
{
    return charl__apply1(g, &charl_op_log, NULL, x);
}
