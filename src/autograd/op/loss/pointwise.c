/* Losses of a prediction x [B, ...] and a target t of the same shape, out[b] = mean of f(x, t) over
 * row b: mse, l1, huber, pinball and bce_with_logits; and the metric binary_accuracy.
 *
 * Their gradients take a third operand, the gradient of each row's loss. f may have one f32 parameter, the operator's attribute.
 */
#include <math.h>

#include "autograd/launch/map.h"
#include "autograd/launch/rows.h"
#include "charl/ops.h"

/* The differences of these operators. */
typedef struct pair {
    /* Loss: f(a = x, b = t, p = parameter). Gradient: the result, with c the gradient of the row's loss, p = 1 / elements of a row and
     * q = parameter. */
    const char *expr;
    double (*f)(const void *attr, const double *x); /* f, or df/dx of a gradient, at x[0] = x, x[1] = t */
    const charl__op *grad;                          /* NULL: a gradient, not differentiable, or its own rule */
} pair;

static float parameter_of(const void *attr)
{
    return attr ? *(const float *)attr : 0.0F;
}

/* Elements of a row; 0 without rows. */
static int64_t rest_of(const charl_shape *s)
{
    return s->ndim > 0 && s->dim[0] > 0 ? charl_shape_count(s) / s->dim[0] : 0;
}

static charl_status infer(charl__infer *inf)
{
    const charl_type *x = &inf->in[0], *t = &inf->in[1];
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(charl__is_float(x->dtype) && charl__is_float(t->dtype), CHARL_ERR_DTYPE,
                  "operands are %s and %s, not floats", charl_dtype_name(x->dtype), charl_dtype_name(t->dtype));
    CHARL_REQUIRE(x->shape.ndim > 0 && charl_shape_equal(&x->shape, &t->shape), CHARL_ERR_SHAPE,
                  "%s and target %s are not the same [B, ...]", charl_shape_format(&x->shape, a),
                  charl_shape_format(&t->shape, b));
    CHARL_TRY(charl__infer_same_rows(inf, 0, 1));
    inf->out[0] = *x;
    inf->out[0].dtype = CHARL_F32;
    inf->out[0].shape.ndim = 1;
    inf->workspace = charl__reduce_scratch(x->shape.dim[0], rest_of(&x->shape), 1) * 4;
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

/* out[0] = type of x. */
static charl_status infer_grad(charl__infer *inf)
{
    charl_type in[3];
    charl__infer same = *inf;

    CHARL_TRY(charl__infer_floats(inf, 0, 3));
    for (int i = 0; i < 3; i++) {
        in[i] = inf->in[i];
        in[i].dtype = inf->in[0].dtype; /* the kernel takes any */
    }
    same.in = in;
    CHARL_TRY(charl__infer_broadcast(&same));
    inf->out[0] = same.out[0];
    return CHARL_OK;
}

static charl_status enqueue(const charl__enqueue *e)
{
    const charl_shape *s = &e->in[0]->shape;

    return charl__reduce_sum(e, &(charl_reduce){.expr = ((const pair *)e->op->row)->expr,
                                                .a = charl__in(e->in[0]),
                                                .b = charl__in(e->in[1]),
                                                .a_type = e->in[0]->dtype,
                                                .b_type = e->in[1]->dtype,
                                                .n_in = 2,
                                                .outer = s->dim[0],
                                                .n = rest_of(s),
                                                .inner = 1,
                                                .out = charl__out(e->out[0]),
                                                .p = parameter_of(e->attr),
                                                .scale = 1.0F / (float)rest_of(s)});
}

/* The loss's gradient as the third operand of its gradient operator. */
static charl_var *by_row(const charl__backward *b)
{
    charl_shape s = charl_var_get_type(b->in[0]).shape;

    for (int i = 1; i < s.ndim; i++) {
        s.dim[i] = 1;
    }
    return charl_reshape(b->g, b->gout[0], s);
}

/* For f of x - t: the gradient of t is the negative of the gradient of x. */
static void backward(const charl__backward *b)
{
    charl_var *of_x = charl__apply_n(b->g, ((const pair *)b->op->row)->grad, b->attr,
                                     (charl_var *[]){b->in[0], b->in[1], by_row(b)}, 3);

    if (b->needed[0]) {
        b->gin[0] = of_x;
    }
    if (b->needed[1]) {
        const charl_type t = charl_var_get_type(b->in[1]);

        b->gin[1] = charl__as_dtype(b->g, charl_scale(b->g, of_x, -1.0F, 0.0F), t.dtype);
    }
}

static charl_status enqueue_grad(const charl__enqueue *e)
{
    return charl__map_run(e, &(charl__map){.expr = ((const pair *)e->op->row)->expr,
                                           .in = e->in,
                                           .n_in = 3,
                                           .out = e->out[0],
                                           .p = 1.0F / (float)rest_of(&e->in[0]->shape),
                                           .q = parameter_of(e->attr)});
}

static void reference(const charl__reference *r)
{
    const pair *p = r->op->row;
    const int64_t n = rest_of(&r->in_type[0].shape);

    for (int64_t i = 0; i < r->out_type[0].shape.dim[0]; i++) {
        double sum = 0.0;

        for (int64_t j = i * n; j < (i + 1) * n; j++) {
            sum += p->f(r->attr, (const double[]){r->in[0][j], r->in[1][j]});
        }
        r->out[0][i] = sum / (double)n;
    }
}

static void reference_grad(const charl__reference *r)
{
    const pair *p = r->op->row;
    const int64_t n = rest_of(&r->in_type[0].shape);

    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        r->out[0][i] = r->in[2][i / n] / (double)n * p->f(r->attr, (const double[]){r->in[0][i], r->in[1][i]});
    }
}

/* A loss: name, expression, f and gradient. Then its gradient. Either may have other fields at the end. */
#define PAIR(word, text, drawn, expression, f, gradient, ...)                                                          \
    {                                                                                                                  \
        .name = #word, .n_in = 2, .half = CHARL_HALF(0) | CHARL_HALF(1), .mixed = true, .infer = infer,                \
        .enqueue = enqueue, .reference = reference, .formula = (text), CHARL_SAMPLES(drawn),                           \
        .row = &(const pair){expression, f, gradient}, .backward = __VA_ARGS__                                         \
    }
#define GRADIENT(word, drawn, expression, slope, ...)                                                                  \
    {                                                                                                                  \
        .name = #word "_grad", .n_in = 3, .half = CHARL_HALF(0) | CHARL_HALF(1), .mixed = true, .infer = infer_grad,   \
        .enqueue = enqueue_grad, .reference = reference_grad, CHARL_SAMPLES(drawn),                                    \
        .row = &(const pair){.expr = expression, .f = slope}, .formula = __VA_ARGS__                                   \
    }

/* clang-format off */
/* Samples of the loss, and of its gradient; `parameter` is a const float * or NULL. */
#define PAIR_SAMPLE(KIND, length, parameter, ...) \
    {.in = {CHARL_##KIND(F32, __VA_ARGS__), CHARL_##KIND(F32, __VA_ARGS__)}, .terms = (length), .attr = (parameter)}
#define PAIR_SAMPLES(parameter) \
    PAIR_SAMPLE(R, 5, parameter, 3, 5), PAIR_SAMPLE(R, 2, parameter, 5), PAIR_SAMPLE(R, 2100, parameter, 2, 3, 700), \
    PAIR_SAMPLE(R, 9001, parameter, 2, 9001), PAIR_SAMPLE(R, 0, parameter, 0, 4), PAIR_SAMPLE(B, 37, parameter, 16, 37)
#define GRAD_SAMPLE(x, g, parameter) {.in = {x, x, g}, .terms = 2, .attr = (parameter)}
#define GRAD_SAMPLES(parameter) \
    GRAD_SAMPLE(CHARL_R(F32, 3, 5), CHARL_R(F32, 3, 1), parameter), \
    GRAD_SAMPLE(CHARL_R(F32, 5), CHARL_R(F32, 5), parameter), \
    GRAD_SAMPLE(CHARL_R(F32, 2, 3, 700), CHARL_R(F32, 2, 1, 1), parameter), \
    GRAD_SAMPLE(CHARL_B(F32, 16, 37), CHARL_B(F32, 16, 1), parameter)
/* clang-format on */

static const charl__op_sample samples[] = {PAIR_SAMPLES(NULL)};
static const charl__op_sample grad_samples[] = {GRAD_SAMPLES(NULL)};

/* mse: d/dx = 2 (x - t) / n */

CHARL_ELEMENT(square, (x[0] - x[1]) * (x[0] - x[1]))
CHARL_ELEMENT(square_slope, 2 * (x[0] - x[1]))

const charl__op charl_op_mse = PAIR(mse, "out[b] = mean over the rest of (x - t)^2", samples, "(a - b) * (a - b)",
                                    square, &charl_op_mse_grad, backward);
const charl__op charl_op_mse_grad = GRADIENT(mse, grad_samples, "c * p * (2.0f * (a - b))", square_slope,
                                             "out = g / n * 2 * (x - t), n elements in a row");
CHARL_BUILDER2(mse)

/* l1: d/dx = sign(x - t) / n, 0 where they are equal */

CHARL_ELEMENT(distance, fabs(x[0] - x[1]))
CHARL_ELEMENT(distance_slope, x[0] > x[1] ? 1.0 : x[0] < x[1] ? -1.0 : x[0] - x[1]) /* NaN stays NaN */

const charl__op charl_op_l1 =
    PAIR(l1, "out[b] = mean over the rest of |x - t|", samples, "fabs(a - b)", distance, &charl_op_l1_grad, backward);
const charl__op charl_op_l1_grad =
    GRADIENT(l1, grad_samples, "c * p * select(select(a - b, CHARL_SPLAT(1.0f), a > b), CHARL_SPLAT(-1.0f), a < b)",
             distance_slope, "out = g / n * sign(x - t), n elements in a row");
CHARL_BUILDER2(l1)

/* huber: with d = x - t, d^2 / 2 where |d| <= delta, else delta * (|d| - delta / 2). d/dx = d, held
 * within [-delta, delta], / n */

static double huber(const void *attr, const double *x)
{
    const double d = fabs(x[0] - x[1]), delta = (double)parameter_of(attr);

    return d <= delta ? 0.5 * d * d : delta * (d - 0.5 * delta);
}

static double huber_slope(const void *attr, const double *x)
{
    const double d = x[0] - x[1], delta = (double)parameter_of(attr);

    return d > delta ? delta : d < -delta ? -delta : d; /* NaN stays NaN */
}

static const float one = 1.0F;
static const charl__op_sample huber_samples[] = {
    PAIR_SAMPLES(&one),
    {.in = {CHARL_R(F32, 4, 9), CHARL_R(F32, 4, 9)}, .terms = 9, .lo = -0.4, .hi = 0.4, .attr = &one},
};
static const charl__op_sample huber_grad_samples[] = {GRAD_SAMPLES(&one)};

const charl__op charl_op_huber =
    PAIR(huber, "out[b] = mean over the rest of Huber's function of x - t", huber_samples,
         "select(p * (fabs(a - b) - 0.5f * p), 0.5f * (a - b) * (a - b), fabs(a - b) <= p)", huber,
         &charl_op_huber_grad, backward, .attr_size = sizeof(float)); /* delta */
const charl__op charl_op_huber_grad = GRADIENT(
    huber, huber_grad_samples, "c * p * select(select(a - b, CHARL_SPLAT(q), a - b > q), CHARL_SPLAT(-q), a - b < -q)",
    huber_slope, "out = g / n * (x - t, held within [-delta, delta]), n elements in a row", .attr_size = sizeof(float));

charl_var *charl_huber(charl_graph *g, charl_var *x, charl_var *target, float delta)
{
    return charl__graph_check_range(g, "huber", "delta", (double)delta, "(0,inf)")
               ? charl__apply2(g, &charl_op_huber, &delta, x, target)
               : NULL;
}

/* pinball: (t - x) * (q - (x > t)). d/dx = 1 - q above t, -q below, / n, 0 where they are equal */

static double pinball(const void *attr, const double *x)
{
    return (x[1] - x[0]) * ((double)parameter_of(attr) - (x[0] > x[1] ? 1.0 : 0.0));
}

static double pinball_slope(const void *attr, const double *x)
{
    const double q = (double)parameter_of(attr);

    return x[0] > x[1] ? 1.0 - q : x[0] < x[1] ? -q : x[0] - x[1]; /* NaN stays NaN */
}

static const float most = 0.875F;
static const charl__op_sample pinball_samples[] = {PAIR_SAMPLES(&most)};
static const charl__op_sample pinball_grad_samples[] = {GRAD_SAMPLES(&most)};

const charl__op charl_op_pinball =
    PAIR(pinball, "out[b] = mean over the rest of (t - x) * (q - (x > t))", pinball_samples,
         "(b - a) * select(CHARL_SPLAT(p), CHARL_SPLAT(p - 1.0f), a > b)", pinball, &charl_op_pinball_grad, backward,
         .attr_size = sizeof(float)); /* q, the quantile */
const charl__op charl_op_pinball_grad =
    GRADIENT(pinball, pinball_grad_samples,
             "c * p * select(select(a - b, CHARL_SPLAT(1.0f - q), a > b), CHARL_SPLAT(-q), a < b)", pinball_slope,
             "out = g / n * ((x > t) - q), 0 where x = t, n elements in a row", .attr_size = sizeof(float));

charl_var *charl_pinball(charl_graph *g, charl_var *x, charl_var *target, float quantile)
{
    return charl__graph_check_range(g, "pinball", "quantile", (double)quantile, "(0,1)")
               ? charl__apply2(g, &charl_op_pinball, &quantile, x, target)
               : NULL;
}

/* bce_with_logits: softplus(x) - x * t, the binary cross entropy of sigmoid(x). d/dx = (sigmoid(x)
 * - t) / n, d/dt = -x / n */

CHARL_ELEMENT(bce, (x[0] > 0 ? x[0] : 0) + log1p(exp(-fabs(x[0]))) - x[0] * x[1])
CHARL_ELEMENT(bce_slope, 1 / (1 + exp(-x[0])) - x[1])

static void bce_backward(const charl__backward *b)
{
    charl_var *g = by_row(b);

    if (b->needed[0]) {
        b->gin[0] =
            charl__apply_n(b->g, &charl_op_bce_with_logits_grad, NULL, (charl_var *[]){b->in[0], b->in[1], g}, 3);
    }
    if (b->needed[1]) {
        const charl_shape s = charl_var_get_type(b->in[0]).shape;

        b->gin[1] = charl_mul(b->g, b->in[0], charl__scale(b->g, g, -1.0F / (float)rest_of(&s), 0.0F));
    }
}

static const charl__op_sample bce_samples[] = {
    PAIR_SAMPLES(NULL),
    {.in = {CHARL_R(F32, 4, 9), CHARL_R(F32, 4, 9)}, .terms = 9, .lo = -100, .hi = 100, .skip_gradient = true},
};

const charl__op charl_op_bce_with_logits = PAIR(
    bce_with_logits, "out[b] = mean over the rest of softplus(x) - x * t", bce_samples,
    "select(a, CHARL_SPLAT(0.0f), a < 0.0f) + charl_log1p_unit(charl_exp(-fabs(a))) - a * b", bce, NULL, bce_backward);
const charl__op charl_op_bce_with_logits_grad =
    GRADIENT(bce_with_logits, grad_samples, "c * p * (charl_sigmoid(a) - b)", bce_slope,
             "out = g / n * (sigmoid(x) - t), n elements in a row");
CHARL_BUILDER2(bce_with_logits)

/* binary_accuracy: fraction of a row's binary predictions that are correct: logit x above 0 (a probability of 1/2) if and only if
 * the target is above 1/2. Not differentiable. */

CHARL_ELEMENT(is_right, (x[0] > 0.0) == (x[1] > 0.5) ? 1.0 : 0.0)

const charl__op charl_op_binary_accuracy =
    PAIR(binary_accuracy, "out[b] = mean over the rest of (x > 0) == (t > 1/2)", samples,
         "select(CHARL_SPLAT(0.0f), CHARL_SPLAT(1.0f), (a > 0.0f) == (b > 0.5f))", is_right, NULL, NULL);
CHARL_BUILDER2(binary_accuracy)
