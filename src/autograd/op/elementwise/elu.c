/* elu: x > 0 ? x : alpha * (exp(x) - 1). d/dx = 1 or alpha * exp(x).
 *
 * exp(x) - 1 would cancel near 0. With t = tanh(x / 2) it is 2t / (1 - t), where nothing does for
 * x <= 0; written as 2 / (1/t - 1) to need t once.
 */
#include "autograd/launch/map.h"

#include <math.h>

#include "autograd/onnx/onnx.h"
#include "charl/ops.h"

static const float alpha_sample = 0.7F, alpha_default = 1.0F;

static void express_grad(const void *attr, int n_in, charl_expr *x)
{
    (void)n_in;
    *x = (charl_expr){.text = "select(b, b * (p * charl_exp(a)), a <= 0.0f)",
                      .numbers = 1,
                      .p = *(const float *)attr};
}

static void reference_grad(const charl_reference *r)
{
    const double alpha = (double)*(const float *)r->attr;

    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        const double x = r->in[0][i], g = r->in[1][i];

        r->out[0][i] = x <= 0 ? g * alpha * exp(x) : g;
    }
}

static const charl_op_sample samples_grad[] = {
    CHARL_MAP_SAMPLES2(.lo = -3, .hi = 3, .away = 0.01, .attr = &alpha_sample),
    CHARL_MAP_SAMPLES2(.lo = -80, .hi = 80, .away = 0.01, .attr = &alpha_default),
};

const charl_op charl_op_elu_grad = {
    .name = "elu_grad",
    .formula = "out = x > 0 ? g : g * alpha * exp(x)",
    .n_in = 2,
    .attr_size = sizeof(float), /* alpha */
    .in_place = true,
    .half = CHARL_HALF_ALL,
    .mixed = true,
    .infer = charl__infer_broadcast,
    .express = express_grad,
    .reference = reference_grad,
    CHARL_SAMPLES(samples_grad),
};

static void express(const void *attr, int n_in, charl_expr *x)
{
    (void)n_in;
    *x = (charl_expr){.text = "select(a, p * (2.0f / (1.0f / charl_tanh(0.5f * a) - 1.0f)), "
                              "a <= 0.0f)",
                      .numbers = 1,
                      .p = *(const float *)attr};
}

static void backward(const charl_backward *b)
{
    b->gin[0] = charl__apply2(b->g, &charl_op_elu_grad, b->attr, b->in[0], b->gout[0]);
}

static void reference(const charl_reference *r)
{
    const double alpha = (double)*(const float *)r->attr;

    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        const double x = r->in[0][i];

        r->out[0][i] = x <= 0 ? alpha * expm1(x) : x;
    }
}

static const charl_op_sample samples[] = {
    CHARL_MAP_SAMPLES1(.lo = -3, .hi = 3, .away = 0.01, .attr = &alpha_sample),
    CHARL_MAP_SAMPLES1(.lo = -200, .hi = 200, .away = 0.01, .attr = &alpha_default),
    /* around the kink, where exp(x) - 1 would cancel */
    CHARL_MAP_SAMPLES1(.lo = -1e-3, .hi = 1e-3, .attr = &alpha_sample, .skip_gradient = true),
};

static void onnx(const charl_onnx_node *n)
{
    charl__onnx_call(
        n, &(charl_onnx_call){.type = "Elu",
                              .in = {n->in[0]},
                              .out = n->out,
                              .attr = {{"alpha", .is_float = true, .f = *(const float *)n->attr}}});
}

const charl_op charl_op_elu = {
    .name = "elu",
    .formula = "out = x > 0 ? x : alpha * (exp(x) - 1)",
    .n_in = 1,
    .attr_size = sizeof(float), /* alpha */
    .in_place = true,
    .half = CHARL_HALF_ALL,
    .infer = charl__infer_same,
    .express = express,
    .backward = backward,
    .reference = reference,
    .onnx = onnx,
    CHARL_SAMPLES(samples),
};

charl_var *charl_elu(charl_graph *g, charl_var *x, float alpha)
{
    return charl__apply1(g, &charl_op_elu, &alpha, x);
}
