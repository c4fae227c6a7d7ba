/* gelu: x * Phi(x), Phi the normal distribution function, exactly or with a tanh.
 *
 *  exact  Phi = (1 + erf(x / sqrt(2))) / 2             d/dx = Phi + x * exp(-x^2 / 2) / sqrt(2 pi)
 *  tanh   Phi = (1 + tanh(u)) / 2, u = k (x + c x^3)   d/dx = Phi + x (1 - tanh(u)^2) k (1 + 3 c
 * x^2) / 2 with k = sqrt(2 / pi), c = 0.044715.
 */
#include "autograd/launch/map.h"

#include <math.h>

#include "autograd/onnx/onnx.h"
#include "charl/ops.h"

static const bool exact = false, approximate = true;

static double phi(double x, bool by_tanh)
{
    return by_tanh ? 0.5 * (1 + tanh(sqrt(2 / acos(-1.0)) * (x + 0.044715 * x * x * x)))
                   : 0.5 * erfc(-x / sqrt(2.0));
}

static double derivative(double x, bool by_tanh)
{
    const double pi = acos(-1.0), t = 2 * phi(x, by_tanh) - 1;

    return by_tanh
               ? phi(x, true) + 0.5 * x * (1 - t * t) * sqrt(2 / pi) * (1 + 3 * 0.044715 * x * x)
               : phi(x, false) + x * exp(-x * x / 2) / sqrt(2 * pi);
}

/* kernels/prelude/math.clh, quick.clh */
static void express_grad(const void *attr, int n_in, charl_expr *x)
{
    (void)n_in;
    *x = (charl_expr){.text = "b * charl_gelu_slope(a)",
                      .half_text = "b * charl_gelu_slope_half(a)"};
    if (*(const bool *)attr) {
        *x = (charl_expr){.text = "b * charl_gelu_tanh_slope(a)",
                          .half_text = "b * charl_gelu_tanh_slope_half(a)"};
    }
}

static void reference_grad(const charl_reference *r)
{
    const bool by_tanh = *(const bool *)r->attr;

    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        const double x = r->in[0][i], g = r->in[1][i];

        r->out[0][i] = g * derivative(x, by_tanh);
    }
}

static const charl_op_sample samples_grad[] = {
    CHARL_MAP_SAMPLES2(.lo = -4, .hi = 4, .terms = 2, .attr = &exact),
    CHARL_MAP_SAMPLES2(.lo = -4, .hi = 4, .terms = 2, .attr = &approximate),
};

const charl_op charl_op_gelu_grad = {
    .name = "gelu_grad",
    .formula = "out = g * (Phi(x) + x * Phi'(x))",
    .n_in = 2,
    .attr_size = sizeof(bool), /* tanh approximation */
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
    *x = (charl_expr){.text = "charl_gelu(a)", .half_text = "charl_gelu_half(a)"};
    if (*(const bool *)attr) {
        *x = (charl_expr){.text = "charl_gelu_tanh(a)", .half_text = "charl_gelu_tanh_half(a)"};
    }
}

static void backward(const charl_backward *b)
{
    b->gin[0] = charl__apply2(b->g, &charl_op_gelu_grad, b->attr, b->in[0], b->gout[0]);
}

static void reference(const charl_reference *r)
{
    const bool by_tanh = *(const bool *)r->attr;

    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        const double x = r->in[0][i];

        r->out[0][i] = x * phi(x, by_tanh);
    }
}

static const charl_op_sample samples[] = {
    CHARL_MAP_SAMPLES1(.lo = -4, .hi = 4, .terms = 2, .attr = &exact),
    CHARL_MAP_SAMPLES1(.lo = -4, .hi = 4, .terms = 2, .attr = &approximate),
    CHARL_MAP_SAMPLES1(.lo = -50, .hi = 50, .terms = 2, .attr = &exact),
};

/* x * (1 + erf(x / sqrt(2))) / 2, or with tanh(sqrt(2 / pi) * (x + 0.044715 x^3)) for erf */
static void onnx(const charl_onnx_node *n)
{
    const char *x = n->in[0], *half, *s;

    if (*(const bool *)n->attr) {
        s = charl__onnx_op(n, "Mul", x, x, NULL);
        s = charl__onnx_op(n, "Mul", s, charl__onnx_float(n, 0.044715), NULL);
        s = charl__onnx_op(n, "Add", s, charl__onnx_float(n, 1.0), NULL);
        s = charl__onnx_op(n, "Mul", s, x, NULL);
        s = charl__onnx_op(n, "Mul", s, charl__onnx_float(n, sqrt(2.0 / acos(-1.0))), NULL);
        s = charl__onnx_op(n, "Tanh", s, NULL, NULL);
    } else {
        s = charl__onnx_op(n, "Mul", x, charl__onnx_float(n, sqrt(0.5)), NULL);
        s = charl__onnx_op(n, "Erf", s, NULL, NULL);
    }
    s = charl__onnx_op(n, "Add", s, charl__onnx_float(n, 1.0), NULL);
    half = charl__onnx_op(n, "Mul", x, charl__onnx_float(n, 0.5), NULL);
    charl__onnx_op(n, "Mul", half, s, n->out);
}

const charl_op charl_op_gelu = {
    .name = "gelu",
    .formula = "out = x * Phi(x)",
    .n_in = 1,
    .attr_size = sizeof(bool), /* tanh approximation */
    .in_place = true,
    .half = CHARL_HALF_ALL,
    .infer = charl__infer_same,
    .express = express,
    .backward = backward,
    .reference = reference,
    .onnx = onnx,
    CHARL_SAMPLES(samples),
};

charl_var *charl_gelu(charl_graph *g, charl_var *x, bool tanh_approximation)
{
    return charl__apply1(g, &charl_op_gelu, &tanh_approximation, x);
}
