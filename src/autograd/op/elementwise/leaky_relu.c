/* leaky_relu: x > 0 ? x : slope * x. d/dx = 1 or slope, by the sign of x. */
#include "autograd/launch/map.h"

#include "autograd/onnx/onnx.h"
#include "charl/ops.h"

static const float slope_sample = 0.01F;

static void express_grad(const void *attr, int n_in, charl_expr *x)
{
    (void)n_in;
    *x = (charl_expr){
        .text = "select(b, b * p, a <= 0.0f)", .numbers = 1, .p = *(const float *)attr};
}

static void reference_grad(const charl_reference *r)
{
    const double slope = (double)*(const float *)r->attr;

    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        const double x = r->in[0][i], g = r->in[1][i];

        r->out[0][i] = x <= 0 ? slope * g : g;
    }
}

static const charl_op_sample samples_grad[] = {
    CHARL_MAP_SAMPLES2(.lo = -3, .hi = 3, .away = 0.01, .attr = &slope_sample),
};

const charl_op charl_op_leaky_relu_grad = {
    .name = "leaky_relu_grad",
    .formula = "out = x > 0 ? g : slope * g",
    .n_in = 2,
    .attr_size = sizeof(float), /* slope */
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
    *x = (charl_expr){
        .text = "select(a, a * p, a <= 0.0f)", .numbers = 1, .p = *(const float *)attr};
}

static void backward(const charl_backward *b)
{
    b->gin[0] = charl__apply2(b->g, &charl_op_leaky_relu_grad, b->attr, b->in[0], b->gout[0]);
}

static void reference(const charl_reference *r)
{
    const double slope = (double)*(const float *)r->attr;

    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        const double x = r->in[0][i];

        r->out[0][i] = x <= 0 ? slope * x : x;
    }
}

static const charl_op_sample samples[] = {
    CHARL_MAP_SAMPLES1(.lo = -3, .hi = 3, .away = 0.01, .attr = &slope_sample),
};

static void onnx(const charl_onnx_node *n)
{
    charl__onnx_call(
        n, &(charl_onnx_call){.type = "LeakyRelu",
                              .in = {n->in[0]},
                              .out = n->out,
                              .attr = {{"alpha", .is_float = true, .f = *(const float *)n->attr}}});
}

const charl_op charl_op_leaky_relu = {
    .name = "leaky_relu",
    .formula = "out = x > 0 ? x : slope * x",
    .n_in = 1,
    .attr_size = sizeof(float), /* slope */
    .in_place = true,
    .half = CHARL_HALF_ALL,
    .infer = charl__infer_same,
    .express = express,
    .backward = backward,
    .reference = reference,
    .onnx = onnx,
    CHARL_SAMPLES(samples),
};

charl_var *charl_leaky_relu(charl_graph *g, charl_var *x, float slope)
{
    return charl__apply1(g, &charl_op_leaky_relu, &slope, x);
}
