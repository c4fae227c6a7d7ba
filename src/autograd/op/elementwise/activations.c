/* Activations: relu, leaky_relu, elu, sigmoid, tanh, gelu, silu, softplus; and the functions exp, log, sqrt.
 *
 * The gradient of an activation is an operator too, charl_op_<name>_grad. Its operands are the activation's operand, or its result where
 * that is enough, and the gradient of the result; its attribute is the activation's.
 */
#include <math.h>

#include "autograd/launch/map.h"
#include "autograd/onnx/onnx.h"
#include "charl/ops.h"

#define UNARY(word) .name = (word), .n_in = 1, .in_place = true, .half = CHARL_HALF_ALL, .infer = charl__infer_same

/* Operands of a gradient: a = x or y, b = g. */
#define GRADIENT(word)                                                                                                 \
    .name = (word), .n_in = 2, .in_place = true, .half = CHARL_HALF_ALL, .mixed = true, .infer = charl__infer_broadcast

typedef struct gradient {
    const charl__op *op;
    bool of_out;
} gradient;

static void backward(const charl__backward *b)
{
    const gradient *d = b->op->row;

    b->gin[0] = charl__apply2(b->g, d->op, b->attr, d->of_out ? b->out[0] : b->in[0], b->gout[0]);
}

#define BY_IN(name)                                                                                                    \
    .backward = backward, .row = &(const gradient)                                                                     \
    {                                                                                                                  \
        &charl_op_##name##_grad, false                                                                                 \
    }
#define BY_OUT(name)                                                                                                   \
    .backward = backward, .row = &(const gradient)                                                                     \
    {                                                                                                                  \
        &charl_op_##name##_grad, true                                                                                  \
    }

/* The attribute is one float: p of the expression. */
static void express_p(const void *attr, int n_in, charl__expr *x)
{
    (void)n_in;
    x->numbers = 1;
    x->p = *(const float *)attr;
}

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

CHARL_ELEMENT(relu, x[0] <= 0 ? 0 : x[0])
CHARL_ELEMENT(relu_grad, x[0] <= 0 ? 0 : x[1])

static const charl__op_sample relu_samples[] = {
    CHARL_MAP_SAMPLES1(.lo = -3, .hi = 3, .away = 0.01),
    CHARL_MAP_SAMPLES1(.lo = -3e38, .hi = 3e38, .away = 1e30, .skip_gradient = true),
};
static const charl__op_sample relu_grad_samples[] = {
    CHARL_MAP_SAMPLES2(.lo = -3, .hi = 3, .away = 0.01),
};

const charl__op charl_op_relu = {
    UNARY("relu"),
    .formula = "out = x <= 0 ? 0 : x",
    .layout = CHARL_LAYOUT_ALIKE,
    .expr = "select(a, CHARL_SPLAT(0.0f), a <= 0.0f)",
    .element = relu,
    BY_OUT(relu),
    .onnx_type = "Relu",
    CHARL_SAMPLES(relu_samples),
};

const charl__op charl_op_relu_grad = {
    GRADIENT("relu_grad"),        .formula = "out = y <= 0 ? 0 : g",
    .layout = CHARL_LAYOUT_ALIKE, .expr = "select(b, CHARL_SPLAT(0.0f), a <= 0.0f)",
    .element = relu_grad,         CHARL_SAMPLES(relu_grad_samples),
};

charl_var *charl_relu(charl_graph *g, charl_var *x)
{
    return charl__apply1(g, &charl_op_relu, NULL, x);
}

/* leaky_relu: d/dx = 1 or slope, the attribute. */

static double leaky_relu(const void *attr, const double *x)
{
    return x[0] <= 0 ? p_of(attr) * x[0] : x[0];
}

static double leaky_relu_grad(const void *attr, const double *x)
{
    return x[0] <= 0 ? p_of(attr) * x[1] : x[1];
}

static void leaky_relu_onnx(const charl__onnx_node *n)
{
    onnx_alpha(n, "LeakyRelu");
}

static const float slope = 0.01F;
static const charl__op_sample leaky_relu_samples[] = {
    CHARL_MAP_SAMPLES1(.lo = -3, .hi = 3, .away = 0.01, .attr = &slope),
};
static const charl__op_sample leaky_relu_grad_samples[] = {
    CHARL_MAP_SAMPLES2(.lo = -3, .hi = 3, .away = 0.01, .attr = &slope),
};

const charl__op charl_op_leaky_relu = {
    UNARY("leaky_relu"),
    .formula = "out = x <= 0 ? slope * x : x",
    .attr_size = sizeof(float), /* slope */
    .expr = "select(a, a * p, a <= 0.0f)",
    .express = express_p,
    .element = leaky_relu,
    BY_IN(leaky_relu),
    .onnx = leaky_relu_onnx,
    CHARL_SAMPLES(leaky_relu_samples),
};

const charl__op charl_op_leaky_relu_grad = {
    GRADIENT("leaky_relu_grad"),
    .formula = "out = x <= 0 ? slope * g : g",
    .attr_size = sizeof(float), /* slope */
    .expr = "select(b, b * p, a <= 0.0f)",
    .express = express_p,
    .element = leaky_relu_grad,
    CHARL_SAMPLES(leaky_relu_grad_samples),
};

charl_var *charl_leaky_relu(charl_graph *g, charl_var *x, float negative_slope)
{
    return charl__graph_takes(g, "leaky_relu", "slope", (double)negative_slope, NULL)
               ? charl__apply1(g, &charl_op_leaky_relu, &negative_slope, x)
               : NULL;
}

/* elu: d/dx = 1 or alpha * exp(x).
 *
 * exp(x) - 1 would cancel near 0. With t = tanh(x / 2) it is 2t / (1 - t), where nothing does for x
 * <= 0; written as 2 / (1/t - 1) to need t once. */

static double elu(const void *attr, const double *x)
{
    return x[0] <= 0 ? p_of(attr) * expm1(x[0]) : x[0];
}

static double elu_grad(const void *attr, const double *x)
{
    return x[0] <= 0 ? x[1] * p_of(attr) * exp(x[0]) : x[1];
}

static void elu_onnx(const charl__onnx_node *n)
{
    onnx_alpha(n, "Elu");
}

static const float alpha = 0.7F, one = 1.0F;
static const charl__op_sample elu_samples[] = {
    CHARL_MAP_SAMPLES1(.lo = -3, .hi = 3, .away = 0.01, .attr = &alpha),
    CHARL_MAP_SAMPLES1(.lo = -200, .hi = 200, .away = 0.01, .attr = &one),
    /* around the kink, where exp(x) - 1 would cancel */
    CHARL_MAP_SAMPLES1(.lo = -1e-3, .hi = 1e-3, .attr = &alpha, .skip_gradient = true),
};
static const charl__op_sample elu_grad_samples[] = {
    CHARL_MAP_SAMPLES2(.lo = -3, .hi = 3, .away = 0.01, .attr = &alpha),
    CHARL_MAP_SAMPLES2(.lo = -80, .hi = 80, .away = 0.01, .attr = &one),
};

const charl__op charl_op_elu = {
    UNARY("elu"),
    .formula = "out = x <= 0 ? alpha * (exp(x) - 1) : x",
    .attr_size = sizeof(float), /* alpha */
    .expr = "select(a, p * (2.0f / (1.0f / charl_tanh(0.5f * a) - 1.0f)), a <= 0.0f)",
    .express = express_p,
    .element = elu,
    BY_IN(elu),
    .onnx = elu_onnx,
    CHARL_SAMPLES(elu_samples),
};

const charl__op charl_op_elu_grad = {
    GRADIENT("elu_grad"),
    .formula = "out = x <= 0 ? g * alpha * exp(x) : g",
    .attr_size = sizeof(float), /* alpha */
    .expr = "select(b, b * (p * charl_exp(a)), a <= 0.0f)",
    .express = express_p,
    .element = elu_grad,
    CHARL_SAMPLES(elu_grad_samples),
};

charl_var *charl_elu(charl_graph *g, charl_var *x, float a)
{
    return charl__graph_takes(g, "elu", "alpha", (double)a, NULL) ? charl__apply1(g, &charl_op_elu, &a, x) : NULL;
}

/* sigmoid: d/dx = out * (1 - out) */

CHARL_ELEMENT(sigmoid, 1 / (1 + exp(-x[0])))
CHARL_ELEMENT(sigmoid_grad, x[1] * x[0] * (1 - x[0]))

static const charl__op_sample sigmoid_samples[] = {
    CHARL_MAP_SAMPLES1(.lo = -4, .hi = 4),
    CHARL_MAP_SAMPLES1(.lo = -200, .hi = 200),
};
static const charl__op_sample sigmoid_grad_samples[] = {
    CHARL_MAP_SAMPLES2(.lo = -1, .hi = 1),
};

const charl__op charl_op_sigmoid = {
    UNARY("sigmoid"),
    .formula = "out = 1 / (1 + exp(-x))",
    .expr = "charl_sigmoid(a)",
    .element = sigmoid,
    BY_OUT(sigmoid),
    .onnx_type = "Sigmoid",
    CHARL_SAMPLES(sigmoid_samples),
};

const charl__op charl_op_sigmoid_grad = {
    GRADIENT("sigmoid_grad"), .formula = "out = g * y * (1 - y)",  .expr = "b * (a * (1.0f - a))",
    .element = sigmoid_grad,  CHARL_SAMPLES(sigmoid_grad_samples),
};

charl_var *charl_sigmoid(charl_graph *g, charl_var *x)
{
    return charl__apply1(g, &charl_op_sigmoid, NULL, x);
}

/* tanh: d/dx = 1 - out^2 */

CHARL_ELEMENT(hyperbolic_tangent, tanh(x[0]))
CHARL_ELEMENT(tanh_grad, x[1] * (1 - x[0] * x[0]))

static const charl__op_sample tanh_samples[] = {
    CHARL_MAP_SAMPLES1(.lo = -3, .hi = 3),
    CHARL_MAP_SAMPLES1(.lo = -1e-3, .hi = 1e-3),
    CHARL_MAP_SAMPLES1(.lo = -200, .hi = 200),
};

const charl__op charl_op_tanh = {
    UNARY("tanh"), .formula = "out = tanh(x)", .expr = "charl_tanh(a)",     .element = hyperbolic_tangent,
    BY_OUT(tanh),  .onnx_type = "Tanh",        CHARL_SAMPLES(tanh_samples),
};

const charl__op charl_op_tanh_grad = {
    GRADIENT("tanh_grad"), .formula = "out = g * (1 - y * y)",  .expr = "b * fma(-a, a, CHARL_SPLAT(1.0f))",
    .element = tanh_grad,  CHARL_SAMPLES(sigmoid_grad_samples),
};

charl_var *charl_tanh(charl_graph *g, charl_var *x)
{
    return charl__apply1(g, &charl_op_tanh, NULL, x);
}

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

static double gelu(const void *attr, const double *x)
{
    return x[0] * phi(x[0], *(const bool *)attr);
}

static double gelu_grad(const void *attr, const double *in)
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

const charl__op charl_op_gelu = {
    UNARY("gelu"),
    .formula = "out = x * Phi(x)",
    .attr_size = sizeof(bool), /* tanh approximation */
    .express = gelu_express,
    .element = gelu,
    BY_IN(gelu),
    .onnx = gelu_onnx,
    CHARL_SAMPLES(gelu_samples),
};

const charl__op charl_op_gelu_grad = {
    GRADIENT("gelu_grad"),
    .formula = "out = g * (Phi(x) + x * Phi'(x))",
    .attr_size = sizeof(bool), /* tanh approximation */
    .express = gelu_grad_express,
    .element = gelu_grad,
    CHARL_SAMPLES(gelu_grad_samples),
};

charl_var *charl_gelu(charl_graph *g, charl_var *x, bool tanh_approximation)
{
    return charl__apply1(g, &charl_op_gelu, &tanh_approximation, x);
}

/* silu: d/dx = s * (1 + x * (1 - s)) with s = sigmoid(x) */

CHARL_ELEMENT(silu, x[0] / (1 + exp(-x[0])))
CHARL_ELEMENT(silu_grad, x[1] / (1 + exp(-x[0])) * (1 + x[0] / (1 + exp(x[0]))))

static void silu_onnx(const charl__onnx_node *n)
{
    charl__onnx_op(n, "Mul", n->in[0], charl__onnx_op(n, "Sigmoid", n->in[0], NULL, NULL), n->out);
}

static const charl__op_sample silu_samples[] = {
    CHARL_MAP_SAMPLES1(.lo = -4, .hi = 4),
    CHARL_MAP_SAMPLES1(.lo = -60, .hi = 200),
};
static const charl__op_sample silu_grad_samples[] = {
    CHARL_MAP_SAMPLES2(.lo = -4, .hi = 4, .terms = 2),
};

const charl__op charl_op_silu = {
    UNARY("silu"),
    .formula = "out = x * sigmoid(x)",
    .expr = "a * charl_sigmoid(a)",
    .half_expr = "a * charl_sigmoid_for(a, 2)",
    .element = silu,
    BY_IN(silu),
    .onnx = silu_onnx,
    CHARL_SAMPLES(silu_samples),
};

const charl__op charl_op_silu_grad = {
    GRADIENT("silu_grad"),
    .formula = "out = g * s * (1 + x * (1 - s)), s = sigmoid(x)",
    .expr = "b * (charl_sigmoid(a) * (1.0f + a * (1.0f - charl_sigmoid(a))))",
    .half_expr = "b * (charl_sigmoid_for(a, 2) * (1.0f + a * (1.0f - charl_sigmoid_for(a, 2))))",
    .element = silu_grad,
    CHARL_SAMPLES(silu_grad_samples),
};

charl_var *charl_silu(charl_graph *g, charl_var *x)
{
    return charl__apply1(g, &charl_op_silu, NULL, x);
}

/* softplus: max(x, 0) + log(1 + exp(-|x|)), which neither overflows nor cancels. d/dx = sigmoid(x)
 */

CHARL_ELEMENT(softplus, (x[0] > 0 ? x[0] : 0) + log1p(exp(-fabs(x[0]))))
CHARL_ELEMENT(softplus_grad, x[1] / (1 + exp(-x[0])))

static const charl__op_sample softplus_grad_samples[] = {
    CHARL_MAP_SAMPLES2(.lo = -4, .hi = 4),
};

const charl__op charl_op_softplus = {
    UNARY("softplus"),
    .formula = "out = log(1 + exp(x))",
    .expr = "select(a, CHARL_SPLAT(0.0f), a < 0.0f) + charl_log1p_unit(charl_exp(-fabs(a)))",
    .element = softplus,
    BY_IN(softplus),
    .onnx_type = "Softplus",
    CHARL_SAMPLES(sigmoid_samples),
};

const charl__op charl_op_softplus_grad = {
    GRADIENT("softplus_grad"), .formula = "out = g * sigmoid(x)",    .expr = "b * charl_sigmoid(a)",
    .element = softplus_grad,  CHARL_SAMPLES(softplus_grad_samples),
};

charl_var *charl_softplus(charl_graph *g, charl_var *x)
{
    return charl__apply1(g, &charl_op_softplus, NULL, x);
}

/* exp: d/dx = out */

CHARL_ELEMENT(exponential, exp(x[0]))

static void exp_backward(const charl__backward *b)
{
    b->gin[0] = charl_mul(b->g, b->gout[0], b->out[0]);
}

static const charl__op_sample exp_samples[] = {
    CHARL_MAP_SAMPLES1(.lo = -4, .hi = 4),
    CHARL_MAP_SAMPLES1(.lo = -110, .hi = 80, .skip_gradient = true),
};

const charl__op charl_op_exp = {
    UNARY("exp"),
    .formula = "out = exp(x)",
    .expr = "charl_exp(a)",
    .element = exponential,
    .backward = exp_backward,
    .onnx_type = "Exp",
    CHARL_SAMPLES(exp_samples),
};

charl_var *charl_exp(charl_graph *g, charl_var *x)
{
    return charl__apply1(g, &charl_op_exp, NULL, x);
}

/* log: natural logarithm; -inf at 0, NaN below. d/dx = 1 / x */

CHARL_ELEMENT(logarithm, log(x[0]))

static void log_backward(const charl__backward *b)
{
    b->gin[0] = charl_div(b->g, b->gout[0], b->in[0]);
}

static const charl__op_sample log_samples[] = {
    CHARL_MAP_SAMPLES1(.lo = 0.1, .hi = 4),
    CHARL_MAP_SAMPLES1(.lo = 1e-44, .hi = 1e-37, .skip_gradient = true),
    CHARL_MAP_SAMPLES1(.lo = 1, .hi = 3e38, .skip_gradient = true),
};

const charl__op charl_op_log = {
    UNARY("log"),
    .formula = "out = log(x)",
    .expr = "charl_log(a)",
    .element = logarithm,
    .backward = log_backward,
    .onnx_type = "Log",
    CHARL_SAMPLES(log_samples),
};

charl_var *charl_log(charl_graph *g, charl_var *x)
{
    return charl__apply1(g, &charl_op_log, NULL, x);
}

/* sqrt: d/dx = 1 / (2 * out) */

CHARL_ELEMENT(square_root, sqrt(x[0]))

static void sqrt_backward(const charl__backward *b)
{
    b->gin[0] = charl_scale(b->g, charl_div(b->g, b->gout[0], b->out[0]), 0.5F, 0.0F);
}

static const charl__op_sample sqrt_samples[] = {
    CHARL_MAP_SAMPLES1(.lo = 0.1, .hi = 4),
    CHARL_MAP_SAMPLES1(.lo = 0, .hi = 3e38, .skip_gradient = true),
};

const charl__op charl_op_sqrt = {
    UNARY("sqrt"),
    .formula = "out = sqrt(x)",
    .expr = "sqrt(a)",
    .element = square_root,
    .backward = sqrt_backward,
    .onnx_type = "Sqrt",
    CHARL_SAMPLES(sqrt_samples),
};

charl_var *charl_sqrt(charl_graph *g, charl_var *x)
{
    return charl__apply1(g, &charl_op_sqrt, NULL, x);
}
