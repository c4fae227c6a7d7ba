/* linear: out = x @ w^T + bias, and linear_wgrad: the sum over rows that is its weight's gradient.
 *
 * d x = d out @ w; d w and, with a bias, d bias (the sum of d out over rows) come from linear_grads, without one d w = linear_wgrad(d out, x).
 *
 * linear_fp8 is linear whose operands are rounded to E4M3 (fp8.c); its gradients' products take d out rounded to E5M2.
 */
#include "autograd/launch/gemm_slices.h"
#include "autograd/op/linear/fp8.h"
#include "autograd/op/linear/linear.h"
#include "autograd/onnx/onnx.h"
#include "charl/ops.h"

static int64_t rows_of(const charl_shape *s)
{
    int64_t rows = 1;

    for (int i = 0; i + 1 < s->ndim; i++) {
        rows *= s->dim[i];
    }
    return rows;
}

static int64_t columns_of(const charl_shape *s)
{
    return s->dim[s->ndim - 1];
}

/* a @ op(b), where a may be a single row without its extent of 1 */
static charl_var *times(charl_graph *g, charl_var *a, charl_var *b, bool tb)
{
    const charl_shape s = a ? charl_var_get_type(a).shape : (charl_shape){0};

    if (s.ndim != 1) {
        return charl_matmul(g, a, b, false, tb);
    }
    a = charl_matmul(g, charl_reshape(g, a, (charl_shape){2, {1, s.dim[0]}}), b, false, tb);
    return charl_reshape(g, a, (charl_shape){1, {-1}});
}

charl_status charl__infer_linear(charl__infer *inf, bool plain)
{
    const charl_shape *x = &inf->in[0].shape, *w = &inf->in[1].shape;
    const int n = plain ? 1 : 0;
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT];

    CHARL_TRY(charl__infer_floats(inf, 0, inf->n_in));
    CHARL_REQUIRE(x->ndim >= 1 && w->ndim == 2 && x->dim[x->ndim - 1] == w->dim[1 - n], CHARL_ERR_SHAPE,
                  "x %s and w %s: the last extents must agree", charl_shape_format(x, a), charl_shape_format(w, b));
    CHARL_REQUIRE(inf->n_in < 3 || (inf->in[2].shape.ndim == 1 && inf->in[2].shape.dim[0] == w->dim[n]),
                  CHARL_ERR_SHAPE, "bias %s does not fit w %s", charl_shape_format(&inf->in[inf->n_in - 1].shape, a),
                  charl_shape_format(w, b));
    CHARL_REQUIRE(inf->in[1].batch != CHARL_BATCHED && (inf->n_in < 3 || inf->in[2].batch != CHARL_BATCHED),
                  CHARL_ERR_SHAPE, "w and bias must be the same for all rows");
    CHARL_REQUIRE(inf->in[0].batch != CHARL_BATCHED || x->ndim >= 2, CHARL_ERR_SHAPE,
                  "x %s has no extent besides the batch", charl_shape_format(x, a));
    inf->out[0] = inf->in[0];
    inf->out[0].shape.dim[x->ndim - 1] = w->dim[n];
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

static charl_status infer(charl__infer *inf)
{
    return charl__infer_linear(inf, false);
}

charl__gemm charl__linear_product(const charl_shape *x, const charl_shape *w, bool plain)
{
    return (charl__gemm){.b = {.kind = plain ? CHARL_GEMM_PLAIN : CHARL_GEMM_TRANSPOSED},
                         .m = rows_of(x),
                         .n = w->dim[plain ? 1 : 0],
                         .k = w->dim[plain ? 0 : 1]};
}

charl_status charl__linear_enqueue(const charl__enqueue *e, charl__gemm p)
{
    p.a.tensor = e->in[0];
    p.b.tensor = e->in[1];
    p.out.tensor = e->out[0];
    p.bias = e->n_in > 2 ? e->in[2] : NULL;
    p.bias_kind = p.bias ? CHARL_GEMM_BIAS_COLUMNS : CHARL_GEMM_NO_BIAS;
    p.epilogue = e->epilogue;
    p.generates = (e->constant & (p.bias ? 6U : 2U)) == (p.bias ? 6U : 2U);
    p.label = e->label;
    return charl__gemm_enqueue(e->dev, &p);
}

static charl_status enqueue(const charl__enqueue *e)
{
    return charl__linear_enqueue(e, charl__linear_product(&e->in[0]->shape, &e->in[1]->shape, false));
}

static void backward(const charl__backward *b)
{
    if (b->needed[0]) {
        b->gin[0] = times(b->g, b->gout[0], b->in[1], false);
    }
    if (b->n_in > 2 && b->needed[1] && b->needed[2]) {
        charl_var *out[CHARL_OP_MAX_OUT];

        charl__apply(b->g, &charl_op_linear_grads, NULL, (charl_var *[]){b->gout[0], b->in[0]}, 2, out);
        b->gin[1] = out[0];
        b->gin[2] = out[1];
        return;
    }
    if (b->needed[1]) {
        b->gin[1] = charl__apply2(b->g, &charl_op_linear_wgrad, NULL, b->gout[0], b->in[0]);
    }
    if (b->n_in > 2 && b->needed[2]) {
        b->gin[2] = charl_sum_to(b->g, b->gout[0], charl_var_get_type(b->gout[0]).shape.ndim - 1);
    }
}

static void backward_fp8(const charl__backward *b)
{
    charl_var *rounded = charl__round_fp8(b->g, b->gout[0], CHARL__E5M2);

    if (b->needed[0]) {
        b->gin[0] = times(b->g, rounded, b->in[1], false);
    }
    if (b->needed[1]) {
        b->gin[1] = charl__apply2(b->g, &charl_op_linear_wgrad, NULL, rounded, b->in[0]);
    }
    if (b->n_in > 2 && b->needed[2]) {
        b->gin[2] = charl_sum_to(b->g, b->gout[0], charl_var_get_type(b->gout[0]).shape.ndim - 1);
    }
}

static void reference(const charl__reference *r)
{
    const int64_t rows = rows_of(&r->in_type[0].shape), k = r->in_type[1].shape.dim[1];
    const int64_t n = r->in_type[1].shape.dim[0];

    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = r->n_in > 2 ? r->in[2][j] : 0;

            for (int64_t l = 0; l < k; l++) {
                sum += r->in[0][i * k + l] * r->in[1][j * k + l];
            }
            r->out[0][i * n + j] = sum;
        }
    }
}

static const charl__op_sample samples[] = {
    {.in = {CHARL_B(F32, 16, 7), CHARL_R(F32, 5, 7), CHARL_R(F32, 5)}, .lo = -1, .hi = 1, .terms = 8},
    {.in = {CHARL_B(F32, 24, 133), CHARL_R(F32, 67, 133)}, .n_in = 2, .lo = -1, .hi = 1, .terms = 133},
    {.in = {CHARL_B(F32, 8, 3, 34), CHARL_R(F32, 33, 34), CHARL_R(F32, 33)}, .lo = -1, .hi = 1, .terms = 35},
    {.in = {CHARL_R(F32, 1, 1), CHARL_R(F32, 1, 1), CHARL_R(F32, 1)}, .lo = -1, .hi = 1, .terms = 2},
    {.in = {CHARL_R(F32, 9), CHARL_R(F32, 2, 9), CHARL_R(F32, 2)}, .lo = -1, .hi = 1, .terms = 10},
    {.in = {CHARL_B(F32, 200, 17), CHARL_R(F32, 3, 17), CHARL_R(F32, 3)}, .lo = -1, .hi = 1, .terms = 18},
    {.in = {CHARL_R(F32, 3, 300), CHARL_R(F32, 140, 300), CHARL_R(F32, 140)}, .lo = -1, .hi = 1, .terms = 301},
};

/* A gemm has two extents only. */
static void onnx(const charl__onnx_node *n)
{
    const char *bias = n->n_in > 2 ? n->in[2] : NULL, *product;

    if (n->in_type[0].shape.ndim == 2) {
        charl__onnx_write_call(
            n, &(charl__onnx_call){
                   .type = "Gemm", .in = {n->in[0], n->in[1], bias}, .out = n->out, .attr = {{"transB", .i = 1}}});
        return;
    }
    product = charl__onnx_op(n, "MatMul", n->in[0], charl__onnx_swap_last(n, n->in[1], 2), bias ? NULL : n->out);
    if (bias) {
        charl__onnx_op(n, "Add", product, bias, n->out);
    }
}

const charl__op charl_op_linear = {
    .name = "linear",
    .flop = charl__flop_product,
    .formula = "out = x @ w^T + bias",
    .n_in = 3,
    .n_optional = 1,
    .epilogue = true,
    .half = CHARL_HALF(0) | CHARL_HALF(1),
    CHARL_RULES(),
    .backward = backward,
    .onnx = onnx,
};

/* The gradient is not that of the formula. */
static const charl__op_sample samples_fp8[] = {
    {.in = {CHARL_B(F32, 8, 3, 34), CHARL_R(F32, 33, 34), CHARL_R(F32, 33)},
     .lo = -1,
     .hi = 1,
     .terms = 35,
     .skip_gradient = true},
};

const charl__op charl_op_linear_fp8 = {
    .name = "linear_fp8",
    .flop = charl__flop_product,
    .formula = "out = x @ w^T + bias, with operands that are rounded to 8 bits",
    .n_in = 3,
    .n_optional = 1,
    .epilogue = true,
    .half = CHARL_HALF(0) | CHARL_HALF(1),
    .infer = infer,
    .enqueue = enqueue,
    .backward = backward_fp8,
    .reference = reference,
    CHARL_SAMPLES(samples_fp8),
};

charl_var *charl_linear(charl_graph *g, charl_var *x, charl_var *w, charl_var *bias)
{
    return charl__apply_n(g, &charl_op_linear, NULL, (charl_var *[]){x, w, bias}, 3);
}

/* The sum over k rows by one product per slice. */
charl__gemm charl__wgrad_product(const charl_shape *p, const charl_shape *q, int64_t slices)
{
    const int64_t m = columns_of(p), n = columns_of(q), k = rows_of(p) / slices;

    return (charl__gemm){.a = {.kind = CHARL_GEMM_TRANSPOSED, .outer = k * m},
                         .b = {.outer = k * n},
                         .out = {.outer = m * n},
                         .m = m,
                         .n = n,
                         .k = k,
                         .count = slices,
                         .inner = 1};
}

charl_status charl__infer_wgrad(charl__infer *inf)
{
    const charl_shape *p = &inf->in[0].shape, *q = &inf->in[1].shape;
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT];

    CHARL_TRY(charl__infer_floats(inf, 0, inf->n_in));
    CHARL_REQUIRE(p->ndim >= 1 && q->ndim >= 1 && rows_of(p) == rows_of(q) && inf->in[0].batch == inf->in[1].batch &&
                      (inf->in[0].batch != CHARL_BATCHED || (p->ndim >= 2 && q->ndim >= 2 && p->dim[0] == q->dim[0])),
                  CHARL_ERR_SHAPE, "operands %s and %s must have the same rows", charl_shape_format(p, a),
                  charl_shape_format(q, b));
    inf->out[0] = (charl_type){CHARL_F32, {2, {columns_of(p), columns_of(q)}}, CHARL_REPLICATED};
    if (inf->in[0].batch == CHARL_BATCHED) {
        const charl__gemm product = charl__wgrad_product(p, q, inf->n_slices);

        inf->out[0].batch = CHARL_PARTIAL;
        inf->workspace = charl__gemm_slices_workspace(&product, inf->in[0].dtype, inf->n_slices);
    }
    return CHARL_OK;
}

static charl_status enqueue_wgrad(const charl__enqueue *e)
{
    charl__gemm p =
        charl__wgrad_product(&e->in[0]->shape, &e->in[1]->shape, charl__is_partial(e, 0) ? e->slices->count : 1);

    p.a.tensor = e->in[0];
    p.b.tensor = e->in[1];
    p.label = e->label;
    return charl__gemm_slices(e, &p, 0);
}

static void backward_wgrad(const charl__backward *b)
{
    charl_var *gout = charl__as_dtype(b->g, b->gout[0], charl_var_get_type(b->in[0]).dtype);

    if (b->needed[0]) {
        b->gin[0] = times(b->g, b->in[1], gout, true);
    }
    if (b->needed[1]) {
        b->gin[1] = times(b->g, b->in[0], gout, false);
    }
}

static void reference_wgrad(const charl__reference *r)
{
    const int64_t m = columns_of(&r->in_type[0].shape), n = columns_of(&r->in_type[1].shape);
    const int64_t rows = rows_of(&r->in_type[0].shape);

    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;

            for (int64_t l = 0; l < rows; l++) {
                sum += r->in[0][l * m + i] * r->in[1][l * n + j];
            }
            r->out[0][i * n + j] = sum;
        }
    }
}

static const charl__op_sample samples_wgrad[] = {
    {.in = {CHARL_B(F32, 16, 5), CHARL_B(F32, 16, 7)}, .lo = -1, .hi = 1, .terms = 16},
    {.in = {CHARL_B(F32, 8, 67), CHARL_B(F32, 8, 133)}, .lo = -1, .hi = 1, .terms = 8},
    {.in = {CHARL_B(F32, 24, 150), CHARL_B(F32, 24, 70)}, .lo = -1, .hi = 1, .terms = 24},
    {.in = {CHARL_B(F32, 8, 20, 3), CHARL_B(F32, 8, 20, 2)}, .lo = -1, .hi = 1, .terms = 160},
    {.in = {CHARL_B(F32, 8, 2048, 3), CHARL_B(F32, 8, 2048, 2)}, .lo = -1, .hi = 1, .terms = 16384},
    {.in = {CHARL_R(F32, 1), CHARL_R(F32, 1)}, .lo = -1, .hi = 1, .terms = 1},
    {.in = {CHARL_R(F32, 300, 3), CHARL_R(F32, 300, 34)}, .lo = -1, .hi = 1, .terms = 300},
};

const charl__op charl_op_linear_wgrad = {
    .name = "linear_wgrad",
    .flop = charl__flop_product,
    .formula = "out[i,j] = sum over rows of p[r,i] q[r,j]",
    .n_in = 2,
    .half = CHARL_HALF(0) | CHARL_HALF(1),
    .infer = charl__infer_wgrad,
    .enqueue = enqueue_wgrad,
    .backward = backward_wgrad,
    .reference = reference_wgrad,
    CHARL_SAMPLES(samples_wgrad),
};
