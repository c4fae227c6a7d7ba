/* sum: over one axis. Every element of the axis receives the gradient of its sum.
 *
 * Over the rows of the batch: one sum per slice, folded in the fixed tree. mean is a sum and a
 * scale.
 */
#include "autograd/launch/map.h"
#include "autograd/onnx/onnx.h"
#include "autograd/launch/rows.h"
#include "charl/ops.h"

typedef struct sum_attr {
    int axis; /* may count from the end */
    bool keep;
} sum_attr;

typedef struct expand_attr {
    int axis;
    int64_t n; /* ignored if operand 1 determines it */
} expand_attr;

static charl_status infer_expand(charl__infer *inf)
{
    const expand_attr *attr = inf->attr;
    const charl_type *x = &inf->in[0];

    CHARL_REQUIRE(x->shape.ndim < CHARL_MAX_DIMS && attr->axis <= x->shape.ndim, CHARL_ERR_SHAPE,
                  "cannot insert axis %d", attr->axis);
    inf->out[0] = *x;
    inf->out[0].shape = charl__shape_expanded(&x->shape, attr->axis, attr->n);
    if (inf->n_in > 1) {
        CHARL_REQUIRE(attr->axis == 0 && inf->in[1].shape.ndim > 0 && x->batch == CHARL_REPLICATED, CHARL_ERR_SHAPE,
                      "only the leading axis can be the batch");
        inf->out[0].shape.dim[0] = inf->in[1].shape.dim[0];
        inf->out[0].batch = inf->in[1].batch;
    }
    return CHARL_OK;
}

static charl_status enqueue_expand(const charl__enqueue *e)
{
    const expand_attr *attr = e->attr;
    const int64_t total = charl__tensor_count(e->out[0]), span = charl__span(e->dev, total, 4);
    charl__launch l = {.file = "shape/strided_copy",
                       .entry = "charl_repeat",
                       .params = {{"T", .text = charl__word_type(e->out[0]->dtype)}},
                       .label = e->label};
    int64_t outer, n, inner;

    charl__split_axis(&e->out[0]->shape, attr->axis, &outer, &n, &inner);
    l.args[0] = charl__in(e->in[0]);
    l.args[1] = charl__out(e->out[0]);
    l.args[2] = charl__i64(outer);
    l.args[3] = charl__i64(n);
    l.args[4] = charl__i64(inner);
    l.args[5] = charl__i64(span);
    charl__span_launch(e->dev, total, span, &l);
    return total > 0 ? charl__launch_enqueue(e->dev, &l) : CHARL_OK;
}

static void reference_expand(const charl__reference *r)
{
    const expand_attr *attr = r->attr;
    int64_t outer, n, inner;

    charl__split_axis(&r->out_type[0].shape, attr->axis, &outer, &n, &inner);
    for (int64_t i = 0; i < outer * n * inner; i++) {
        r->out[0][i] = r->in[0][i / (n * inner) * inner + i % inner];
    }
}

static const expand_attr first_5 = {0, 5}, second_7 = {1, 7}, second_none = {1, 0}, last_300 = {2, 300}, rows = {0, 0};
static const charl__op_sample samples_expand[] = {
    {.in = {CHARL_R(F32, 3, 4)}, .n_in = 1, .attr = &first_5},
    {.in = {CHARL_R(F32, 3, 41)}, .n_in = 1, .attr = &second_7},
    {.in = {CHARL_R(F32, 3, 4)}, .n_in = 1, .attr = &second_none},
    {.in = {CHARL_R(F32, 9, 5)}, .n_in = 1, .attr = &last_300},
    {.in = {CHARL_SCALAR(F32)}, .n_in = 1, .attr = &first_5},
    {.in = {CHARL_B(F32, 16, 3)}, .n_in = 1, .attr = &second_7},
    {.in = {CHARL_R(F32, 3), CHARL_B(F32, 16, 3)}, .n_in = 2, .attr = &rows},
    {.in = {CHARL_SCALAR(F32), CHARL_B(F32, 8)}, .n_in = 2, .attr = &rows},
};

const charl__op charl_op_expand = {
    .name = "expand",
    .formula = "out[..., j, ...] = x[..., ...] for j < n; n is the rows of operand 1, if given",
    .n_in = 2,
    .n_optional = 1,
    .attr_size = sizeof(expand_attr),
    .half = CHARL_HALF(0) | CHARL_HALF(1),
    .mixed = true,
    CHARL_RULES(_expand),
};

static charl_status infer(charl__infer *inf)
{
    const sum_attr *attr = inf->attr;
    const charl_type *x = &inf->in[0];
    const int axis = charl__axis(&x->shape, attr->axis);
    char text[CHARL_SHAPE_TEXT];
    int64_t outer, n, inner;

    CHARL_TRY(charl__infer_floats(inf, 0, 1));
    CHARL_REQUIRE(axis >= 0, CHARL_ERR_SHAPE, "%s has no axis %d", charl_shape_format(&x->shape, text), attr->axis);
    inf->out[0] = *x;
    inf->out[0].dtype = CHARL_F32;
    inf->out[0].shape = charl__shape_reduced(&x->shape, axis, attr->keep);
    charl__split_axis(&x->shape, axis, &outer, &n, &inner);
    if (axis == 0 && x->batch == CHARL_BATCHED) {
        inf->out[0].batch = CHARL_PARTIAL;
        outer = inf->n_slices;
        n /= outer;
        inf->workspace = outer * inner * 4;
    }
    inf->workspace += charl__reduce_scratch(outer, n, inner) * 4;
    return CHARL_OK;
}

static charl_status enqueue(const charl__enqueue *e)
{
    const sum_attr *attr = e->attr;
    charl_reduce r = {
        .a = charl__in(e->in[0]), .a_type = e->in[0]->dtype, .n_in = 1, .out = charl__out(e->out[0]), .scale = 1.0F};

    charl__split_axis(&e->in[0]->shape, charl__axis(&e->in[0]->shape, attr->axis), &r.outer, &r.n, &r.inner);
    if (!charl__is_partial(e, 0)) {
        CHARL_TRY(charl__reduce_sum(e, &r));
        return CHARL_OK;
    }
    r.outer = e->slices->count;
    r.n /= r.outer;
    r.scratch = r.outer * r.inner;
    CHARL_TRY(charl__reduce_slices(e, &r, 0));
    return CHARL_OK;
}

static void backward(const charl__backward *b)
{
    const sum_attr *attr = b->attr;
    const charl_type x = charl_var_get_type(b->in[0]);
    const int axis = charl__axis(&x.shape, attr->axis);
    charl_var *in[2];

    in[0] = charl_reshape(b->g, b->gout[0], charl__shape_reduced(&x.shape, axis, false));
    in[1] = axis == 0 && x.batch == CHARL_BATCHED ? b->in[0] : NULL; /* determines the number of rows */
    b->gin[0] = charl__as_dtype(
        b->g, charl__apply_n(b->g, &charl_op_expand, &(expand_attr){axis, x.shape.dim[axis]}, in, in[1] ? 2 : 1),
        charl__gradient_dtype(&x));
}

static void reference(const charl__reference *r)
{
    const sum_attr *attr = r->attr;
    int64_t outer, n, inner;

    charl__split_axis(&r->in_type[0].shape, charl__axis(&r->in_type[0].shape, attr->axis), &outer, &n, &inner);
    for (int64_t i = 0; i < outer * inner; i++) {
        r->out[0][i] = 0.0;
        for (int64_t j = 0; j < n; j++) {
            r->out[0][i] += r->in[0][(i / inner * n + j) * inner + i % inner];
        }
    }
}

static const sum_attr axis0 = {0, false}, axis1 = {1, false}, last = {-1, true}, axis0_keep = {0, true};
static const charl__op_sample samples[] = {
    {.in = {CHARL_R(F32, 3, 5)}, .attr = &axis0, .terms = 3},
    {.in = {CHARL_R(F32, 3, 5)}, .attr = &last, .terms = 5},
    {.in = {CHARL_R(F32, 3, 37, 41)}, .attr = &axis1, .terms = 37},
    {.in = {CHARL_R(F32, 2, 613, 19)}, .attr = &axis1, .terms = 613},
    {.in = {CHARL_R(F32, 70001)}, .attr = &axis0, .terms = 70001},
    {.in = {CHARL_R(F32, 3, 300)}, .attr = &last, .terms = 300},
    {.in = {CHARL_R(F32, 70000, 2)}, .attr = &axis0, .terms = 70000},
    {.in = {CHARL_R(F32, 1)}, .attr = &axis0},
    {.in = {CHARL_R(F32, 4, 0)}, .attr = &axis1},
    {.in = {CHARL_R(F32, 0, 4)}, .attr = &axis1},
    {.in = {CHARL_B(F32, 16, 37)}, .attr = &axis0, .terms = 16},
    {.in = {CHARL_B(F32, 16, 37)}, .attr = &last, .terms = 37},
    {.in = {CHARL_B(F32, 8)}, .attr = &axis0_keep, .terms = 8},
    {.in = {CHARL_B(F32, 2400, 5)}, .attr = &axis0, .terms = 2400},
    {.in = {CHARL_B(F32, 40000, 1)}, .attr = &axis0, .terms = 40000},
};

static void onnx(const charl__onnx_node *n)
{
    const sum_attr *t = n->attr;
    const int64_t axis = t->axis;

    charl__onnx_write_call(n, &(charl__onnx_call){.type = "ReduceSum",
                                                  .in = {n->in[0], charl__onnx_ints(n, &axis, 1)},
                                                  .out = n->out,
                                                  .attr = {{"keepdims", .i = t->keep}}});
}

const charl__op charl_op_sum = {
    .name = "sum",
    .formula = "out = sum of x over one axis",
    .n_in = 1,
    .attr_size = sizeof(sum_attr),
    .half = CHARL_HALF(0),
    CHARL_RULES(),
    .backward = backward,
    .onnx = onnx,
};

charl_var *charl_sum(charl_graph *g, charl_var *x, int axis, bool keep)
{
    return charl__apply1(g, &charl_op_sum, &(sum_attr){axis, keep}, x);
}

charl_var *charl_mean(charl_graph *g, charl_var *x, int axis, bool keep)
{
    charl_var *sum = charl_sum(g, x, axis, keep);
    charl_type t;
    double n;

    if (!sum) {
        return NULL;
    }
    t = charl_var_get_type(x);
    axis = charl__axis(&t.shape, axis);
    n = (double)t.shape.dim[axis];
    if (axis == 0 && t.batch == CHARL_BATCHED) { /* over the global batch */
        const charl_slices *s = charl__graph_slices(g);

        n = n / s->count * s->total;
    }
    return charl__scale(g, sum, (float)(1.0 / n), 0.0F);
}
