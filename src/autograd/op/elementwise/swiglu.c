/* swiglu: silu(gate) * value, both packed in the last extent of x, the output of one matrix
 * product. The gradient is packed in the same way. */
#include <math.h>

#include "autograd/onnx/onnx.h"
#include "autograd/launch/column_chunks.h"
#include "charl/ops.h"

static charl_status check_x(const charl_type *x)
{
    const charl_shape *s = &x->shape;
    char text[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(charl__is_float(x->dtype), CHARL_ERR_DTYPE, "x is %s, not a float", charl_dtype_name(x->dtype));
    CHARL_REQUIRE(s->ndim >= (x->batch == CHARL_BATCHED ? 2 : 1) && s->dim[s->ndim - 1] % 2 == 0, CHARL_ERR_SHAPE,
                  "x %s does not hold gates and as many values in its last extent", charl_shape_format(s, text));
    return CHARL_OK;
}

static charl_type half_of(charl_type x)
{
    x.shape.dim[x.shape.ndim - 1] /= 2;
    return x;
}

/* Outputs per row; rows of x. */
static int64_t columns_of(const charl_shape *x)
{
    return x->dim[x->ndim - 1] / 2;
}

static int64_t rows_of(const charl_shape *x)
{
    const int64_t n = x->dim[x->ndim - 1];

    return n > 0 ? charl_shape_count(x) / n : 0;
}

static charl_status infer(charl__infer *inf)
{
    CHARL_TRY(check_x(&inf->in[0]));
    inf->out[0] = half_of(inf->in[0]);
    return CHARL_OK;
}

static charl_status enqueue(const charl__enqueue *e)
{
    charl__launch l = {
        .file = "elementwise/swiglu", .entry = "charl_swiglu", .args = {charl__in(e->in[0]), charl__out(e->out[0])}};

    return charl__column_chunks_launch(e, &l, 2, rows_of(&e->in[0]->shape), columns_of(&e->in[0]->shape),
                                       e->in[0]->dtype);
}

static void backward(const charl__backward *b)
{
    b->gin[0] = charl__apply2(b->g, &charl_op_swiglu_grad, NULL, b->gout[0], b->in[0]);
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static void reference(const charl__reference *r)
{
    const int64_t n = columns_of(&r->in_type[0].shape);

    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        const double *gate = r->in[0] + i / n * 2 * n + i % n;

        r->out[0][i] = gate[0] * sigmoid(gate[0]) * gate[n];
    }
}

static const charl__op_sample samples[] = {
    {.in = {CHARL_B(F32, 16, 3, 10)}, .lo = -4, .hi = 4, .terms = 2},
    {.in = {CHARL_B(F32, 8, 74)}, .lo = -4, .hi = 4, .terms = 2},
    {.in = {CHARL_R(F32, 3, 2, 600)}, .lo = -4, .hi = 4, .terms = 2},
    {.in = {CHARL_R(F32, 2)}, .lo = -4, .hi = 4, .terms = 2},
    {.in = {CHARL_R(F32, 0, 4)}, .lo = -4, .hi = 4},
    {.in = {CHARL_R(F32, 5, 8)}, .lo = -200, .hi = 200, .terms = 2, .skip_gradient = true},
};

static void onnx(const charl__onnx_node *n)
{
    const int64_t columns = columns_of(&n->in_type[0].shape);
    const char *gate = charl__onnx_slice(n, n->in[0], -1, 0, columns, NULL);
    const char *value = charl__onnx_slice(n, n->in[0], -1, columns, 2 * columns, NULL);
    const char *open = charl__onnx_op(n, "Sigmoid", gate, NULL, NULL);

    charl__onnx_op(n, "Mul", charl__onnx_op(n, "Mul", gate, open, NULL), value, n->out);
}

const charl__op charl_op_swiglu = {
    .name = "swiglu",
    .formula = "out[..., j] = silu(x[..., j]) * x[..., F + j]",
    .n_in = 1,
    .cheap = true,
    .half = CHARL_HALF(0),
    CHARL_RULES(),
    .backward = backward,
    .onnx = onnx,
};

CHARL_BUILDER1(swiglu)

/* swiglu_grad(gout, x) */
static charl_status infer_grad(charl__infer *inf)
{
    charl_type want;

    CHARL_TRY(check_x(&inf->in[1]));
    want = half_of(inf->in[1]);
    CHARL_REQUIRE(inf->in[0].dtype == want.dtype && charl_shape_equal(&inf->in[0].shape, &want.shape), CHARL_ERR_SHAPE,
                  "gout does not fit x");
    inf->out[0] = inf->in[1];
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

static charl_status enqueue_grad(const charl__enqueue *e)
{
    charl__launch l = {.file = "elementwise/swiglu",
                       .entry = "charl_gradient",
                       .args = {charl__in(e->in[0]), charl__in(e->in[1]), charl__out(e->out[0])}};

    return charl__column_chunks_launch(e, &l, 3, rows_of(&e->in[1]->shape), columns_of(&e->in[1]->shape),
                                       e->in[1]->dtype);
}

static void reference_grad(const charl__reference *r)
{
    const int64_t n = columns_of(&r->in_type[1].shape);

    for (int64_t i = 0; i < charl_shape_count(&r->in_type[0].shape); i++) {
        const double *gate = r->in[1] + i / n * 2 * n + i % n;
        double *out = r->out[0] + i / n * 2 * n + i % n;
        const double s = sigmoid(gate[0]);

        out[0] = r->in[0][i] * gate[n] * s * (1 + gate[0] * (1 - s));
        out[n] = r->in[0][i] * gate[0] * s;
    }
}

static const charl__op_sample samples_grad[] = {
    {.in = {CHARL_B(F32, 16, 3, 5), CHARL_B(F32, 16, 3, 10)}, .lo = -4, .hi = 4, .terms = 4},
    {.in = {CHARL_B(F32, 8, 37), CHARL_B(F32, 8, 74)}, .lo = -4, .hi = 4, .terms = 4},
    {.in = {CHARL_R(F32, 3, 2, 300), CHARL_R(F32, 3, 2, 600)}, .lo = -4, .hi = 4, .terms = 4},
    {.in = {CHARL_R(F32, 1), CHARL_R(F32, 2)}, .lo = -4, .hi = 4, .terms = 4},
};

const charl__op charl_op_swiglu_grad = {
    .name = "swiglu_grad",
    .formula = "out[..., j] = gout * x[..., F + j] * silu'(x[..., j]), out[..., F + j] = gout * "
               "silu(x[..., j])",
    .n_in = 2,
    .half = CHARL_HALF(0) | CHARL_HALF(1),
    CHARL_RULES(_grad),
};
