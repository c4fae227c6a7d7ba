/* top_k_correct: 1 where the label is among the k largest logits of its row, ties counting against it.
 * Not differentiable. */
#include "autograd/launch/rows.h"
#include "charl/ops.h"

static charl_status infer(charl__infer *inf)
{
    const charl_type *x = &inf->in[0], *label = &inf->in[1];
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(charl__is_float(x->dtype) && label->dtype == CHARL_I32, CHARL_ERR_DTYPE,
                  "logits are floats and labels i32, not %s and %s", charl_dtype_name(x->dtype),
                  charl_dtype_name(label->dtype));
    CHARL_REQUIRE(charl__is_rows_of(&label->shape, &x->shape), CHARL_ERR_SHAPE,
                  "logits %s and labels %s are not [..., C] and [...]", charl_shape_format(&x->shape, a),
                  charl_shape_format(&label->shape, b));
    CHARL_REQUIRE(x->shape.dim[x->shape.ndim - 1] <= 1 << 24, CHARL_ERR_SHAPE, "more than 2^24 classes");
    CHARL_TRY(charl__infer_same_rows(inf, 0, 1));
    inf->out[0] = *x;
    inf->out[0].dtype = CHARL_F32;
    inf->out[0].shape.ndim--;
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

static charl_status enqueue(const charl__enqueue *e)
{
    const charl_shape *x = &e->in[0]->shape;
    int64_t rows, n, inner, per_item;
    charl__launch l = {.file = "metric/top_k_correct",
                       .entry = "charl_top_k_correct",
                       .params = {{"ACT", .text = charl__kernel_type(e->in[0]->dtype)}},
                       .label = e->label};

    charl__split_axis(x, x->ndim - 1, &rows, &n, &inner);
    if (rows == 0) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__rows_launch(e->dev, rows, n, &l, &per_item));
    l.args[0] = charl__in(e->in[0]);
    l.args[1] = charl__in(e->in[1]);
    l.args[2] = charl__out(e->out[0]);
    l.args[3] = charl__i64(rows);
    l.args[4] = charl__i64(per_item);
    l.args[5] = charl__i64(n);
    l.args[6] = charl__i32(*(const int *)e->attr);
    CHARL_TRY(charl__launch_enqueue(e->dev, &l));
    return CHARL_OK;
}

static void reference(const charl__reference *r)
{
    const charl_shape *shape = &r->in_type[0].shape;
    int64_t rows, n, inner;

    charl__split_axis(shape, shape->ndim - 1, &rows, &n, &inner);
    for (int64_t i = 0; i < rows; i++) {
        const double *x = r->in[0] + i * n, label = r->in[1][i];
        const bool valid = label >= 0 && label < (double)n && x[(int64_t)label] == x[(int64_t)label];
        int64_t rank = 0; /* elements that are not below the label's, including itself */

        for (int64_t c = 0; valid && c < n; c++) {
            rank += !(x[c] < x[(int64_t)label]);
        }
        r->out[0][i] = valid && rank <= *(const int *)r->attr;
    }
}

static const int top1 = 1, top5 = 5;
static const charl__op_sample samples[] = {
    {.in = {CHARL_R(F32, 300, 5), CHARL_R(I32, 300)}, .attr = &top1, .int_end = 5},
    {.in = {CHARL_R(F32, 40, 5), CHARL_R(I32, 40)}, .attr = &top1, .int_end = 20},
    {.in = {CHARL_R(F32, 40, 5), CHARL_R(I32, 40)}, .attr = &top5, .int_end = 5},
    {.in = {CHARL_R(F32, 70, 37), CHARL_R(I32, 70)}, .attr = &top5, .int_end = 37},
    {.in = {CHARL_R(F32, 50, 1), CHARL_R(I32, 50)}, .attr = &top1, .int_end = 2},
    {.in = {CHARL_R(F32, 0, 4), CHARL_R(I32, 0)}, .attr = &top1, .int_end = 4},
    {.in = {CHARL_R(F32, 30, 3), CHARL_R(I32, 30)}, .attr = &top1, .int_end = 3, .lo = 1, .hi = 1}, /* all tied */
    {.in = {CHARL_B(F32, 8, 3, 37), CHARL_B(I32, 8, 3)}, .attr = &top5, .int_end = 37},
    {.in = {CHARL_B(F32, 64, 10), CHARL_B(I32, 64)}, .attr = &top1, .int_end = 10},
};

const charl__op charl_op_top_k_correct = {
    .name = "top_k_correct",
    .formula = "out[...] = 1 if x[..., label[...]] is among the k largest of its row, else 0",
    .n_in = 2,
    .attr_size = sizeof(int), /* k */
    .half = CHARL_HALF(0),
    CHARL_RULES(),
};

charl_var *charl_top_k_correct(charl_graph *g, charl_var *logits, charl_var *label, int k)
{
    if (k < 1) {
        return charl__graph_fail(g, CHARL_ERR_INVALID, "top_k_correct: k is %d, not at least 1", k);
    }
    return charl__apply2(g, &charl_op_top_k_correct, &k, logits, label);
}
