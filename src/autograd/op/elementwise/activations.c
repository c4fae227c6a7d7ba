/* Activations: relu, relu6, hardsigmoid, hardswish, leaky_relu, elu, sigmoid, tanh, gelu, silu, softplus; and the functions exp, log, sqrt.
 *
 * The gradient of an activation is an operator too, charl_op_<name>_grad. Its operands are the activation's operand, or its result if
 * that is enough, and the gradient of the result; its attribute is the activation's.
 */
#include <math.h>

#include "autograd/launch/map.h"
#include "autograd/onnx/onnx.h"
#include "charl/ops.h"

typedef struct gradient {
    const charl__op *op;
    bool of_out;
} gradient;

static void backward(const charl__backward *b)
{
    const gradient *d = b->op->row;

    b->gin[0] = charl__apply2(b->g, d->op, b->attr, d->of_out ? b->out[0] : b->in[0], b->gout[0]);
}

/* word##_grad takes the result or else the operand. */
#define DIFFERENTIATED(word, of_result)                                                                                \
    .backward = backward, .row = &(const gradient)                                                                     \
    {                                                                                                                  \
        &charl_op_##word##_grad, of_result                                                                             \
    }

/* The expression follows the samples; NULL if `express` generates it. */
#define UNARY(word, text, drawn, ...)                                                                                  \
    {                                                                                                                  \
        .name = #word, .n_in = 1, .in_place = true, .half = CHARL_HALF_ALL, .infer = charl__infer_same,                \
        .formula = (text), .element = word##_at, CHARL_SAMPLES(drawn), .expr = __VA_ARGS__                             \
    }

/* Operands of a gradient: a = x or y, b = g. */
#define GRADIENT(word, text, drawn, ...)                                                                               \
    {                                                                                                                  \
        .name = #word "_grad", .n_in = 2, .in_place = true, .half = CHARL_HALF_ALL, .mixed = true,                     \
        .infer = charl__infer_broadcast, .formula = (text), .element = word##_slope, CHARL_SAMPLES(drawn),             \
        .expr = __VA_ARGS__                                                                                            \
    }

/* The attribute is one float: p of the expression. */
#define P .attr_size = sizeof(float), .expr_numbers = 1

static double p_of(const void *attr)
{
    return (double)*(const float *)attr;
}

static void onnx_alpha(const charl__onnx_node *n, const char *type)
{
    charl__onnx_write_call(n, &(charl__onnx_call){.type = type,
                                                  .in = {n->in[0]},
                                                  .out = n->out,
                                                  .attr = {{"alpha", .is_float = true, .f = *(const float *)n->attr}}});
}

/* relu: NaN stays NaN. d/dx = 0 where out <= 0, else 1. */

CHARL_ELEMENT(relu_at, x[0] <= 0 ? 0 : x[0])
CHARL_ELEMENT(relu_slope, x[0] <= 0 ? 0 : x[1])
static const charl__op_sample relu_samples[] = {
    CHARL_MAP_SAMPLES1(.away = 0.01),
    CHARL_MAP_SAMPLES1(.lo = -3e38, .hi = 3e38, .away = 1e30, .skip_gradient = true),
};
static const charl__op_sample relu_grad_samples[] = {CHARL_MAP_SAMPLES2(.away = 0.01)};

const charl__op charl_op_relu =
    UNARY(relu, "out = x <= 0 ? 0 : x", relu_samples, "select(a, CHARL_SPLAT(0.0f), a <= 0.0f)",
          DIFFERENTIATED(relu, true), .layout = CHARL_LAYOUT_ALIKE, .onnx_type = "Relu");
const charl__op charl_op_relu_grad = GRADIENT(relu, "out = y <= 0 ? 0 : g", relu_grad_samples,
                                              "select(b, CHARL_SPLAT(0.0f), a <= 0.0f)", .layout = CHARL_LAYOUT_ALIKE);
CHARL_BUILDER1(relu)

/* relu6, hardsigmoid and hardswish (Howard et al. 2019, section 5.2): NaN stays NaN. relu6: d/dx = 1 where 0 < out < 6, else 0. */

static double clamped(double x)
{
    return x <= 0 ? 0 : x >= 6 ? 6 : x;
}

CHARL_ELEMENT(relu6_at, clamped(x[0]))
CHARL_ELEMENT(relu6_slope, x[0] <= 0 || x[0] >= 6 ? 0 : x[1])
/* On each side of the kinks, and across them. */
static const charl__op_sample relu6_samples[] = {
    CHARL_MAP_SAMPLES1(.lo = 0.1, .hi = 5.9),
    CHARL_MAP_SAMPLES1(.lo = 6.1, .hi = 100),
    CHARL_MAP_SAMPLES1(.lo = -100, .hi = -0.1),
    CHARL_MAP_SAMPLES1(.lo = -20, .hi = 20, .skip_gradient = true),
};
static const charl__op_sample relu6_grad_samples[] = {
    CHARL_MAP_SAMPLES2(.lo = 0.1, .hi = 5.9),
    CHARL_MAP_SAMPLES2(.lo = 6.1, .hi = 9),
    CHARL_MAP_SAMPLES2(.lo = -9, .hi = -0.1),
};

static const char *onnx_clamped(const charl__onnx_node *n, const char *x, const char *out)
{
    return charl__onnx_op(n, "Min", charl__onnx_op(n, "Relu", x, NULL, NULL), charl__onnx_float(n, 6.0), out);
}

static void relu6_onnx(const charl__onnx_node *n)
{
    onnx_clamped(n, n->in[0], n->out);
}

const charl__op charl_op_relu6 = UNARY(relu6, "out = min(max(x, 0), 6)", relu6_samples,
                                       "select(select(a, CHARL_SPLAT(6.0f), a >= 6.0f), CHARL_SPLAT(0.0f), a <= 0.0f)",
                                       DIFFERENTIATED(relu6, true), .onnx = relu6_onnx);
const charl__op charl_op_relu6_grad =
    GRADIENT(relu6, "out = 0 < y && y < 6 ? g : 0", relu6_grad_samples,
             "select(select(b, CHARL_SPLAT(0.0f), a >= 6.0f), CHARL_SPLAT(0.0f), a <= 0.0f)");
CHARL_BUILDER1(relu6)

/* hardsigmoid: d/dx = 1/6 where -3 < x < 3, else 0. */

CHARL_ELEMENT(hardsigmoid_at, clamped(x[0] + 3) / 6)
CHARL_ELEMENT(hardsigmoid_slope, x[0] <= -3 || x[0] >= 3 ? 0 : x[1] / 6)
static const charl__op_sample hard_samples[] = {
    CHARL_MAP_SAMPLES1(.lo = -2.9, .hi = 2.9, .terms = 2),
    CHARL_MAP_SAMPLES1(.lo = 3.1, .hi = 100, .terms = 2),
    CHARL_MAP_SAMPLES1(.lo = -100, .hi = -3.1, .terms = 2),
    CHARL_MAP_SAMPLES1(.lo = -20, .hi = 20, .terms = 2, .skip_gradient = true),
};
static const charl__op_sample hard_grad_samples[] = {
    CHARL_MAP_SAMPLES2(.lo = -2.9, .hi = 2.9, .terms = 2),
    CHARL_MAP_SAMPLES2(.lo = 3.1, .hi = 9, .terms = 2),
    CHARL_MAP_SAMPLES2(.lo = -9, .hi = -3.1, .terms = 2),
};

static const char *onnx_hardsigmoid(const charl__onnx_node *n, const char *out)
{
    const char *x = charl__onnx_op(n, "Add", n->in[0], charl__onnx_float(n, 3.0), NULL);

    return charl__onnx_op(n, "Div", onnx_clamped(n, x, NULL), charl__onnx_float(n, 6.0), out);
}

static void hardsigmoid_onnx(const charl__onnx_node *n)
{
    onnx_hardsigmoid(n, n->out);
}

#define HARD_SIGMOID                                                                                                   \
    "select(select((a + 3.0f) * 0x1.555556p-3f, CHARL_SPLAT(1.0f), a >= 3.0f), CHARL_SPLAT(0.0f), a <= -3.0f)"
const charl__op charl_op_hardsigmoid = UNARY(hardsigmoid, "out = min(max(x + 3, 0), 6) / 6", hard_samples, HARD_SIGMOID,
                                             DIFFERENTIATED(hardsigmoid, false), .onnx = hardsigmoid_onnx);
const charl__op charl_op_hardsigmoid_grad =
    GRADIENT(hardsigmoid, "out = -3 < x && x < 3 ? g / 6 : 0", hard_grad_samples,
             "select(select(b * 0x1.555556p-3f, CHARL_SPLAT(0.0f), a >= 3.0f), CHARL_SPLAT(0.0f), a <= -3.0f)");
CHARL_BUILDER1(hardsigmoid)

/* hardswish: d/dx = 0 where x <= -3, 1 where x >= 3, else (2 x + 3) / 6. */

CHARL_ELEMENT(hardswish_at, x[0] * clamped(x[0] + 3) / 6)
CHARL_ELEMENT(hardswish_slope, x[0] <= -3 ? 0 : x[0] >= 3 ? x[1] : x[1] * (2 * x[0] + 3) / 6)

static void hardswish_onnx(const charl__onnx_node *n)
{
    charl__onnx_op(n, "Mul", n->in[0], onnx_hardsigmoid(n, NULL), n->out);
}

const charl__op charl_op_hardswish =
    UNARY(hardswish, "out = x * min(max(x + 3, 0), 6) / 6", hard_samples, "a * (" HARD_SIGMOID ")",
          DIFFERENTIATED(hardswish, false), .onnx = hardswish_onnx);
const charl__op charl_op_hardswish_grad =
    GRADIENT(hardswish, "out = x <= -3 ? 0 : x >= 3 ? g : g * (2 x + 3) / 6", hard_grad_samples,
             "select(select(b * (fma(a, CHARL_SPLAT(2.0f), CHARL_SPLAT(3.0f)) * 0x1.555556p-3f), b, a >= 3.0f), "
             "CHARL_SPLAT(0.0f), a <= -3.0f)");
CHARL_BUILDER1(hardswish)

/* leaky_relu: d/dx = 1 or slope, the attribute. */

CHARL_ELEMENT(leaky_relu_at, x[0] <= 0 ? p_of(attr) * x[0] : x[0])
CHARL_ELEMENT(leaky_relu_slope, x[0] <= 0 ? p_of(attr) * x[1] : x[1])
static const float slope = 0.01F;
static const charl__op_sample leaky_relu_samples[] = {CHARL_MAP_SAMPLES1(.away = 0.01, .attr = &slope)};
static const charl__op_sample leaky_relu_grad_samples[] = {CHARL_MAP_SAMPLES2(.away = 0.01, .attr = &slope)};

static void leaky_relu_onnx(const charl__onnx_node *n)
{
    onnx_alpha(n, "LeakyRelu");
}

const charl__op charl_op_leaky_relu =
    UNARY(leaky_relu, "out = x <= 0 ? slope * x : x", leaky_relu_samples, "select(a, a * p, a <= 0.0f)", P,
          DIFFERENTIATED(leaky_relu, false), .onnx = leaky_relu_onnx);
const charl__op charl_op_leaky_relu_grad =
    GRADIENT(leaky_relu, "out = x <= 0 ? slope * g : g", leaky_relu_grad_samples, "select(b, b * p, a <= 0.0f)", P);

charl_var *charl_leaky_relu(charl_graph *g, charl_var *x, float negative_slope)
{
    return charl__graph_check_range(g, "leaky_relu", "slope", (double)negative_slope, NULL)
               ? charl__apply1(g, &charl_op_leaky_relu, &negative_slope, x)
               : NULL;
}

/* elu: d/dx = 1 or alpha * exp(x).
 *
 * exp(x) - 1 would cancel near 0. With t = tanh(x / 2) it is 2t / (1 - t), which does not cancel for x
 * <= 0; it is written as 2 / (1/t - 1), which needs t once. */

CHARL_ELEMENT(elu_at, x[0] <= 0 ? p_of(attr) * expm1(x[0]) : x[0])
CHARL_ELEMENT(elu_slope, x[0] <= 0 ? x[1] * p_of(attr) * exp(x[0]) : x[1])
static const float alpha = 0.7F, one = 1.0F;
static const charl__op_sample elu_samples[] = {
    CHARL_MAP_SAMPLES1(.away = 0.01, .attr = &alpha),
    CHARL_MAP_SAMPLES1(.lo = -200, .hi = 200, .away = 0.01, .attr = &one),
    /* around the kink, where exp(x) - 1 would cancel */
    CHARL_MAP_SAMPLES1(.lo = -1e-3, .hi = 1e-3, .attr = &alpha, .skip_gradient = true),
};
static const charl__op_sample elu_grad_samples[] = {
    CHARL_MAP_SAMPLES2(.away = 0.01, .attr = &alpha),
    CHARL_MAP_SAMPLES2(.lo = -80, .hi = 80, .away = 0.01, .attr = &one),
};

static void elu_onnx(const charl__onnx_node *n)
{
    onnx_alpha(n, "Elu");
}

const charl__op charl_op_elu = UNARY(elu, "out = x <= 0 ? alpha * (exp(x) - 1) : x", elu_samples,
                                     "select(a, p * (2.0f / (1.0f / charl_tanh(0.5f * a) - 1.0f)), a <= 0.0f)", P,
                                     DIFFERENTIATED(elu, false), .onnx = elu_onnx);
const charl__op charl_op_elu_grad = GRADIENT(elu, "out = x <= 0 ? g * alpha * exp(x) : g", elu_grad_samples,
                                             "select(b, b * (p * charl_exp(a)), a <= 0.0f)", P);

charl_var *charl_elu(charl_graph *g, charl_var *x, float a)
{
    return charl__graph_check_range(g, "elu", "alpha", (double)a, NULL) ? charl__apply1(g, &charl_op_elu, &a, x) : NULL;
}

/* sigmoid: d/dx = out * (1 - out) */

CHARL_ELEMENT(sigmoid_at, 1 / (1 + exp(-x[0])))
CHARL_ELEMENT(sigmoid_slope, x[1] * x[0] * (1 - x[0]))
static const charl__op_sample sigmoid_samples[] = {
    CHARL_MAP_SAMPLES1(.lo = -4, .hi = 4),
    CHARL_MAP_SAMPLES1(.lo = -200, .hi = 200),
};
static const charl__op_sample sigmoid_grad_samples[] = {CHARL_MAP_SAMPLES2(.lo = -1, .hi = 1)};

const charl__op charl_op_sigmoid = UNARY(sigmoid, "out = 1 / (1 + exp(-x))", sigmoid_samples, "charl_sigmoid(a)",
                                         DIFFERENTIATED(sigmoid, true), .onnx_type = "Sigmoid");
const charl__op charl_op_sigmoid_grad =
    GRADIENT(sigmoid, "out = g * y * (1 - y)", sigmoid_grad_samples, "b * (a * (1.0f - a))");
CHARL_BUILDER1(sigmoid)

/* tanh: d/dx = 1 - out^2 */

CHARL_ELEMENT(tanh_at, tanh(x[0]))
CHARL_ELEMENT(tanh_slope, x[1] * (1 - x[0] * x[0]))
static const charl__op_sample tanh_samples[] = {
    CHARL_MAP_SAMPLES1(),
    CHARL_MAP_SAMPLES1(.lo = -1e-3, .hi = 1e-3),
    CHARL_MAP_SAMPLES1(.lo = -200, .hi = 200),
};

const charl__op charl_op_tanh =
    UNARY(tanh, "out = tanh(x)", tanh_samples, "charl_tanh(a)", DIFFERENTIATED(tanh, true), .onnx_type = "Tanh");
const charl__op charl_op_tanh_grad =
    GRADIENT(tanh, "out = g * (1 - y * y)", sigmoid_grad_samples, "b * fma(-a, a, CHARL_SPLAT(1.0f))");
CHARL_BUILDER1(tanh)

/* gelu: x * Phi(x), Phi the normal distribution function, exact or approximated with tanh: the attribute.
 *
 *      exact   Phi = (1 + erf(x / sqrt(2))) / 2              d/dx = Phi + x * exp(-x^2 / 2) / sqrt(2 pi)
 *      tanh    Phi = (1 + tanh(u)) / 2, u = k (x + c x^3)    d/dx = Phi + x (1 - tanh(u)^2) k (1 + 3 c x^2) / 2
 *              with k = sqrt(2 / pi), c = 0.044715
 */

static double phi(double x, bool by_tanh)
{
    return by_tanh ? 0.5 * (1 + tanh(sqrt(2 / acos(-1.0)) * (x + 0.044715 * x * x * x))) : 0.5 * erfc(-x / sqrt(2.0));
}

CHARL_ELEMENT(gelu_at, x[0] * phi(x[0], *(const bool *)attr))

static double gelu_slope(const void *attr, const double *in)
{
    const bool by_tanh = *(const bool *)attr;
    const double pi = acos(-1.0), x = in[0], t = 2 * phi(x, by_tanh) - 1;

    return in[1] * (by_tanh ? phi(x, true) + 0.5 * x * (1 - t * t) * sqrt(2 / pi) * (1 + 3 * 0.044715 * x * x)
                            : phi(x, false) + x * exp(-x * x / 2) / sqrt(2 * pi));
}

/* kernels/prelude/math.clh, fast_math.clh */
static void gelu_express(const void *attr, int n_in, charl__expr *x)
{
    (void)n_in;
    *x = (charl__expr){.text = "charl_gelu(a)", .half_text = "charl_gelu_half(a)"};
    if (*(const bool *)attr) {
        *x = (charl__expr){.text = "charl_gelu_tanh(a)", .half_text = "charl_gelu_tanh_half(a)"};
    }
}

static void gelu_grad_express(const void *attr, int n_in, charl__expr *x)
{
    (void)n_in;
    *x = (charl__expr){.text = "b * charl_gelu_slope(a)", .half_text = "b * charl_gelu_slope_half(a)"};
    if (*(const bool *)attr) {
        *x = (charl__expr){.text = "b * charl_gelu_tanh_slope(a)", .half_text = "b * charl_gelu_tanh_slope_half(a)"};
    }
}

/* x * (1 + erf(x / sqrt(2))) / 2, or with tanh(sqrt(2 / pi) * (x + 0.044715 x^3)) for erf */
static void gelu_onnx(const charl__onnx_node *n)
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

static const bool exact = false, approximate = true;
static const charl__op_sample gelu_samples[] = {
    CHARL_MAP_SAMPLES1(.lo = -4, .hi = 4, .terms = 2, .attr = &exact),
    CHARL_MAP_SAMPLES1(.lo = -4, .hi = 4, .terms = 2, .attr = &approximate),
    CHARL_MAP_SAMPLES1(.lo = -50, .hi = 50, .terms = 2, .attr = &exact),
};
static const charl__op_sample gelu_grad_samples[] = {
    CHARL_MAP_SAMPLES2(.lo = -4, .hi = 4, .terms = 2, .attr = &exact),
    CHARL_MAP_SAMPLES2(.lo = -4, .hi = 4, .terms = 2, .attr = &approximate),
};

const charl__op charl_op_gelu =
    UNARY(gelu, "out = x * Phi(x)", gelu_samples, NULL, .attr_size = sizeof(bool), /* tanh approximation */
          .express = gelu_express, DIFFERENTIATED(gelu, false), .onnx = gelu_onnx);
const charl__op charl_op_gelu_grad = GRADIENT(gelu, "out = g * (Phi(x) + x * Phi'(x))", gelu_grad_samples, NULL,
                                              .attr_size = sizeof(bool), .express = gelu_grad_express);

charl_var *charl_gelu(charl_graph *g, charl_var *x, bool tanh_approximation)
{
    return charl__apply1(g, &charl_op_gelu, &tanh_approximation, x);
}

/* silu: d/dx = s * (1 + x * (1 - s)) with s = sigmoid(x) */

CHARL_ELEMENT(silu_at, x[0] / (1 + exp(-x[0])))
CHARL_ELEMENT(silu_slope, x[1] / (1 + exp(-x[0])) * (1 + x[0] / (1 + exp(x[0]))))
static const charl__op_sample silu_samples[] = {
    CHARL_MAP_SAMPLES1(.lo = -4, .hi = 4),
    CHARL_MAP_SAMPLES1(.lo = -60, .hi = 200),
};
static const charl__op_sample silu_grad_samples[] = {CHARL_MAP_SAMPLES2(.lo = -4, .hi = 4, .terms = 2)};

static void silu_onnx(const charl__onnx_node *n)
{
    charl__onnx_op(n, "Mul", n->in[0], charl__onnx_op(n, "Sigmoid", n->in[0], NULL, NULL), n->out);
}

const charl__op charl_op_silu =
    UNARY(silu, "out = x * sigmoid(x)", silu_samples, "a * charl_sigmoid(a)",
          .half_expr = "a * charl_sigmoid_for(a, 2)", DIFFERENTIATED(silu, false), .onnx = silu_onnx);
const charl__op charl_op_silu_grad =
    GRADIENT(silu, "out = g * s * (1 + x * (1 - s)), s = sigmoid(x)", silu_grad_samples,
             "b * (charl_sigmoid(a) * (1.0f + a * (1.0f - charl_sigmoid(a))))",
             .half_expr = "b * (charl_sigmoid_for(a, 2) * (1.0f + a * (1.0f - charl_sigmoid_for(a, 2))))");
CHARL_BUILDER1(silu)

/* softplus: max(x, 0) + log(1 + exp(-|x|)), which neither overflows nor cancels. d/dx = sigmoid(x)
 */

CHARL_ELEMENT(softplus_at, (x[0] > 0 ? x[0] : 0) + log1p(exp(-fabs(x[0]))))
CHARL_ELEMENT(softplus_slope, x[1] / (1 + exp(-x[0])))
static const charl__op_sample softplus_grad_samples[] = {CHARL_MAP_SAMPLES2(.lo = -4, .hi = 4)};

const charl__op charl_op_softplus =
    UNARY(softplus, "out = log(1 + exp(x))", sigmoid_samples,
          "select(a, CHARL_SPLAT(0.0f), a < 0.0f) + charl_log1p_unit(charl_exp(-fabs(a)))",
          DIFFERENTIATED(softplus, false), .onnx_type = "Softplus");
const charl__op charl_op_softplus_grad =
    GRADIENT(softplus, "out = g * sigmoid(x)", softplus_grad_samples, "b * charl_sigmoid(a)");
CHARL_BUILDER1(softplus)

/* exp: d/dx = out */

CHARL_ELEMENT(exp_at, exp(x[0]))
static const charl__op_sample exp_samples[] = {
    CHARL_MAP_SAMPLES1(.lo = -4, .hi = 4),
    CHARL_MAP_SAMPLES1(.lo = -110, .hi = 80, .skip_gradient = true),
};

static void exp_backward(const charl__backward *b)
{
    b->gin[0] = charl_mul(b->g, b->gout[0], b->out[0]);
}

const charl__op charl_op_exp =
    UNARY(exp, "out = exp(x)", exp_samples, "charl_exp(a)", .backward = exp_backward, .onnx_type = "Exp");
CHARL_BUILDER1(exp)

/* log: natural logarithm; -inf at 0, NaN below. d/dx = 1 / x */

CHARL_ELEMENT(log_at, log(x[0]))
static const charl__op_sample log_samples[] = {
    CHARL_MAP_SAMPLES1(.lo = 0.1, .hi = 4),
    CHARL_MAP_SAMPLES1(.lo = 1e-44, .hi = 1e-37, .skip_gradient = true),
    CHARL_MAP_SAMPLES1(.lo = 1, .hi = 3e38, .skip_gradient = true),
};

static void log_backward(const charl__backward *b)
{
    b->gin[0] = charl_div(b->g, b->gout[0], b->in[0]);
}

const charl__op charl_op_log =
    UNARY(log, "out = log(x)", log_samples, "charl_log(a)", .backward = log_backward, .onnx_type = "Log");
CHARL_BUILDER1(log)

/* sqrt: d/dx = 1 / (2 * out) */

CHARL_ELEMENT(sqrt_at, sqrt(x[0]))
static const charl__op_sample sqrt_samples[] = {
    CHARL_MAP_SAMPLES1(.lo = 0.1, .hi = 4),
    CHARL_MAP_SAMPLES1(.lo = 0, .hi = 3e38, .skip_gradient = true),
};

static void sqrt_backward(const charl__backward *b)
{
    b->gin[0] = charl_scale(b->g, charl_div(b->g, b->gout[0], b->out[0]), 0.5F, 0.0F);
}

const charl__op charl_op_sqrt =
    UNARY(sqrt, "out = sqrt(x)", sqrt_samples, "sqrt(a)", .backward = sqrt_backward, .onnx_type = "Sqrt");
CHARL_BUILDER1(sqrt)
