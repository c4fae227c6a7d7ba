/* max: largest element along one axis, and its index. The gradient goes to the first of the
 * largest. */
#include "autograd/launch/map.h"
#include "autograd/onnx/onnx.h"
#include "autograd/launch/rows.h"
#include "charl/ops.h"

enum { GROUP = 256, LONG_ROW = 256, LARGE_GROUP = 1024, LONGER_ROW = 16384 };

typedef struct max_attr {
    int axis; /* may count from the end */
    bool keep;
    int64_t n; /* extent of the axis; only the gradient needs it */
} max_attr;

static charl_status infer(charl__infer *inf)
{
    const max_attr *attr = inf->attr;
    const charl_type *x = &inf->in[0];
    const int axis = charl__axis(&x->shape, attr->axis);
    char text[CHARL_SHAPE_TEXT];

    CHARL_TRY(charl__infer_floats(inf, 0, 1));
    CHARL_REQUIRE(axis >= 0, CHARL_ERR_SHAPE, "%s has no axis %d", charl_shape_format(&x->shape, text), attr->axis);
    CHARL_REQUIRE(x->shape.dim[axis] > 0 && x->shape.dim[axis] <= INT32_MAX, CHARL_ERR_SHAPE,
                  "%s: axis %d has no largest element", charl_shape_format(&x->shape, text), attr->axis);
    CHARL_REQUIRE(axis > 0 || x->batch != CHARL_BATCHED, CHARL_ERR_SHAPE,
                  "max cannot run over the batch axis: it is not a sum over rows");
    inf->out[0] = *x;
    inf->out[0].shape = charl__shape_reduced(&x->shape, axis, attr->keep);
    inf->n_out = 2;
    inf->out[1] = inf->out[0];
    inf->out[1].dtype = CHARL_I32;
    return CHARL_OK;
}

static charl_status enqueue(const charl__enqueue *e)
{
    const max_attr *attr = e->attr;
    const int64_t total = charl__tensor_count(e->out[0]);
    charl__launch l = {.file = "reduce/max",
                       .entry = "charl_max",
                       .params = {{"ACT", .text = charl__kernel_type(e->out[0]->dtype)}},
                       .label = e->label};
    int64_t outer, n, inner;

    charl__split_axis(&e->in[0]->shape, charl__axis(&e->in[0]->shape, attr->axis), &outer, &n, &inner);
    l.args[0] = charl__in(e->in[0]);
    l.args[1] = charl__out(e->out[0]);
    l.args[2] = charl__out(e->out[1]);
    if (inner == 1 && n >= LONG_ROW && !charl__is_ungrouped(e->dev) &&
        charl_device_get_info(e->dev)->max_group >= GROUP) {
        const int group =
            n >= LONGER_ROW && charl_device_get_info(e->dev)->max_group >= LARGE_GROUP ? LARGE_GROUP : GROUP;

        l.entry = "charl_max_row";
        charl__launch_set(&l, "GROUP", group);
        l.args[3] = charl__i32((int32_t)n);
        l.local[0] = (size_t)group;
        l.global[0] = (size_t)(total * group);
    } else {
        l.args[3] = charl__i64(total);
        l.args[4] = charl__i64(n);
        l.args[5] = charl__i64(inner);
        charl__span_launch(e->dev, total, 1, &l);
    }
    return total > 0 ? charl__launch_enqueue(e->dev, &l) : CHARL_OK;
}

static void backward(const charl__backward *b)
{
    const max_attr *attr = b->attr;
    const charl_type x = charl_var_get_type(b->in[0]);
    const int axis = charl__axis(&x.shape, attr->axis);

    b->gin[0] = charl__apply2(b->g, &charl_op_max_grad, &(max_attr){axis, attr->keep, x.shape.dim[axis]}, b->gout[0],
                              b->out[1]);
}

static void reference(const charl__reference *r)
{
    const max_attr *attr = r->attr;
    int64_t outer, n, inner;

    charl__split_axis(&r->in_type[0].shape, charl__axis(&r->in_type[0].shape, attr->axis), &outer, &n, &inner);
    for (int64_t i = 0; i < outer * inner; i++) {
        const double *x = r->in[0] + i / inner * n * inner + i % inner;
        int64_t at = 0;

        for (int64_t j = 1; j < n; j++) {
            if (x[j * inner] > x[at * inner] || (x[j * inner] != x[j * inner] && x[at * inner] == x[at * inner])) {
                at = j;
            }
        }
        r->out[0][i] = x[at * inner];
        r->out[1][i] = (double)at;
    }
}

static charl_status infer_grad(charl__infer *inf)
{
    const max_attr *attr = inf->attr;
    const charl_shape reduced = charl__shape_reduced(&inf->in[0].shape, attr->keep ? attr->axis : -1, false);

    inf->out[0] = inf->in[0];
    inf->out[0].shape = charl__shape_expanded(&reduced, attr->axis, attr->n);
    return charl__infer_rows(inf);
}

static charl_status enqueue_grad(const charl__enqueue *e)
{
    const max_attr *attr = e->attr;
    const int64_t total = charl__tensor_count(e->out[0]);
    charl__launch l = {.file = "reduce/max",
                       .entry = "charl_gradient",
                       .params = {{"ACT", .text = charl__kernel_type(e->out[0]->dtype)}},
                       .label = e->label};
    int64_t outer, n, inner;

    charl__split_axis(&e->out[0]->shape, attr->axis, &outer, &n, &inner);
    l.args[0] = charl__in(e->in[0]);
    l.args[1] = charl__in(e->in[1]);
    l.args[2] = charl__out(e->out[0]);
    l.args[3] = charl__i64(total);
    l.args[4] = charl__i64(n);
    l.args[5] = charl__i64(inner);
    charl__span_launch(e->dev, total, 1, &l);
    return total > 0 ? charl__launch_enqueue(e->dev, &l) : CHARL_OK;
}

static void reference_grad(const charl__reference *r)
{
    const max_attr *attr = r->attr;
    int64_t outer, n, inner;

    charl__split_axis(&r->out_type[0].shape, attr->axis, &outer, &n, &inner);
    for (int64_t i = 0; i < outer * n * inner; i++) {
        const int64_t from = i / (n * inner) * inner + i % inner;

        r->out[0][i] = r->in[1][from] == (double)(i / inner % n) ? r->in[0][from] : 0.0;
    }
}

static const max_attr axis0 = {0, false, 0}, axis1 = {1, false, 0}, last = {-1, true, 0}, grad1 = {1, false, 5},
                      grad_keep = {1, true, 5};
static const charl__op_sample samples_grad[] = {
    {.in = {CHARL_R(F32, 3, 4), CHARL_R(I32, 3, 4)}, .attr = &grad1, .int_end = 5},
    {.in = {CHARL_R(F32, 3), CHARL_R(I32, 3)}, .attr = &grad1, .int_end = 5},
    {.in = {CHARL_B(F32, 16, 1, 37), CHARL_B(I32, 16, 1, 37)}, .attr = &grad_keep, .int_end = 5},
};

const charl__op charl_op_max_grad = {
    .name = "max_grad",
    .formula = "out[..., j, ...] = g where j is the index, else 0",
    .n_in = 2,
    .attr_size = sizeof(max_attr),
    .half = CHARL_HALF(0),
    CHARL_RULES(_grad),
};

static const charl__op_sample samples[] = {
    {.in = {CHARL_R(F32, 3, 5)}, .attr = &axis0},
    {.in = {CHARL_R(F32, 3, 5)}, .attr = &last, .lo = -3e38, .hi = 3e38, .skip_gradient = true},
    {.in = {CHARL_R(F32, 3, 37, 41)}, .attr = &axis1},
    {.in = {CHARL_R(F32, 1)}, .attr = &axis0},
    {.in = {CHARL_R(F32, 0, 4)}, .attr = &axis1},
    {.in = {CHARL_B(F32, 16, 37)}, .attr = &axis1},
    {.in = {CHARL_B(F32, 16, 7, 6)}, .attr = &last},
    {.in = {CHARL_B(F32, 16, 1300)}, .attr = &last, .skip_gradient = true},
    {.in = {CHARL_B(F32, 8, 17000)}, .attr = &last, .skip_gradient = true},
};

static void onnx(const charl__onnx_node *n)
{
    const max_attr *t = n->attr;
    const int64_t axis = t->axis;

    charl__onnx_write_call(n,
                           &(charl__onnx_call){.type = "ReduceMax",
                                               .in = {n->in[0]},
                                               .out = n->out,
                                               .attr = {{"axes", .n = 1, .ints = &axis}, {"keepdims", .i = t->keep}}});
}

const charl__op charl_op_max = {
    .name = "max",
    .formula = "out = the largest of x along one axis; index = where it is first",
    .n_in = 1,
    .attr_size = sizeof(max_attr),
    .half = CHARL_HALF(0),
    CHARL_RULES(),
    .backward = backward,
    .onnx = onnx,
};

charl_var *charl_max(charl_graph *g, charl_var *x, int axis, bool keep)
{
    return charl__apply1(g, &charl_op_max, &(max_attr){axis, keep, 0}, x);
}

charl_var *charl__max_index(charl_graph *g, charl_var *x, int axis, charl_var **index)
{
    charl_var *out[CHARL_OP_MAX_OUT];

    charl__apply(g, &charl_op_max, &(max_attr){axis, true, 0}, &x, 1, out);
    *index = out[1];
    return out[0];
}
