/* concat: operands one after another along an axis. The gradient of each operand is its slice. */
#include <string.h>

#include "autograd/onnx/onnx.h"
#include "autograd/launch/rows.h"
#include "charl/ops.h"

static charl_status infer(charl__infer *inf)
{
    const charl_type *x = &inf->in[0];
    const int axis = charl__axis(&x->shape, *(const int *)inf->attr);
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(axis >= 0, CHARL_ERR_SHAPE, "%s has no axis %d", charl_shape_format(&x->shape, a),
                  *(const int *)inf->attr);
    inf->out[0] = *x;
    for (int i = 1; i < inf->n_in; i++) {
        charl_shape s = inf->in[i].shape;
        const int64_t extent = s.ndim == x->shape.ndim ? s.dim[axis] : 0;

        CHARL_REQUIRE(inf->in[i].dtype == x->dtype, CHARL_ERR_DTYPE, "operands are %s and %s",
                      charl_dtype_name(x->dtype), charl_dtype_name(inf->in[i].dtype));
        CHARL_REQUIRE(inf->in[i].batch == x->batch, CHARL_ERR_SHAPE, "only some operands have the batch extent");
        s.dim[axis] = x->shape.dim[axis];
        CHARL_REQUIRE(charl_shape_equal(&s, &x->shape), CHARL_ERR_SHAPE, "%s and %s differ besides axis %d",
                      charl_shape_format(&x->shape, a), charl_shape_format(&inf->in[i].shape, b), axis);
        inf->out[0].shape.dim[axis] += extent;
    }
    CHARL_REQUIRE(axis > 0 || x->batch != CHARL_BATCHED, CHARL_ERR_SHAPE, "the batch extent cannot grow");
    return CHARL_OK;
}

static charl_status enqueue(const charl__enqueue *e)
{
    const int axis = charl__axis(&e->out[0]->shape, *(const int *)e->attr);
    int64_t outer, n, inner, at = 0;

    charl__split_axis_of(e->out[0], axis, &outer, &n, &inner);
    for (int i = 0; i < e->n_in; i++) {
        const int64_t length = e->in[i]->shape.dim[axis] * inner;

        CHARL_TRY(charl__strided_copy_enqueue(e, &(charl__strided_copy){.from = e->in[i],
                                                                        .to = e->out[0],
                                                                        .to_at = at,
                                                                        .outer = outer,
                                                                        .length = length,
                                                                        .from_row = length,
                                                                        .to_row = n * inner}));
        at += length;
    }
    return CHARL_OK;
}

static void backward(const charl__backward *b)
{
    const charl_type out = charl_var_get_type(b->out[0]);
    const int axis = charl__axis(&out.shape, *(const int *)b->attr);
    int64_t at = 0;

    for (int i = 0; i < b->n_in; i++) {
        const int64_t length = charl_var_get_type(b->in[i]).shape.dim[axis];

        if (b->needed[i]) {
            b->gin[i] = charl_slice(b->g, b->gout[0], axis, at, length);
        }
        at += length;
    }
}

static void reference(const charl__reference *r)
{
    const int axis = charl__axis(&r->out_type[0].shape, *(const int *)r->attr);
    int64_t outer, n, inner, at = 0;

    charl__split_axis(&r->out_type[0].shape, axis, &outer, &n, &inner);
    for (int k = 0; k < r->n_in; k++) {
        const int64_t length = r->in_type[k].shape.dim[axis] * inner;

        for (int64_t i = 0; i < outer * length; i++) {
            r->out[0][i / length * n * inner + at + i % length] = r->in[k][i];
        }
        at += length;
    }
}

static const int axis0 = 0, axis1 = 1, axis_last = -1;
static const charl__op_sample samples[] = {
    {.in = {CHARL_R(F32, 3, 5), CHARL_R(F32, 2, 5)}, .n_in = 2, .attr = &axis0},
    {.in = {CHARL_R(F32, 3, 5)}, .n_in = 1, .attr = &axis1},
    {.in = {CHARL_R(F32, 1), CHARL_R(F32, 0), CHARL_R(F32, 2)}, .n_in = 3, .attr = &axis0},
    {.in = {CHARL_R(U8, 3, 5, 7), CHARL_R(U8, 3, 1, 7), CHARL_R(U8, 3, 6, 7)},
     .n_in = 3,
     .attr = &axis1,
     .int_end = 256},
    {.in = {CHARL_B(F32, 16, 3, 5), CHARL_B(F32, 16, 3, 40), CHARL_B(F32, 16, 3, 1), CHARL_B(F32, 16, 3, 300)},
     .n_in = 4,
     .attr = &axis_last},
};

static void onnx(const charl__onnx_node *n)
{
    charl__onnx_call c = {.type = "Concat", .out = n->out, .attr = {{"axis", .i = *(const int *)n->attr}}};

    memcpy(c.in, n->in, (size_t)n->n_in * sizeof *c.in);
    charl__onnx_write_call(n, &c);
}

const charl__op charl_op_concat = {
    .name = "concat",
    .formula = "out = operands one after another along an axis",
    .n_in = -1,
    .attr_size = sizeof(int), /* axis, may count from the end */
    .moves = true,
    .half = CHARL_HALF_ALL,
    .layout = CHARL_LAYOUT_CHANNELS,
    CHARL_RULES(),
    .backward = backward,
    .onnx = onnx,
};

charl_var *charl_concat(charl_graph *g, charl_var *const *x, int n, int axis)
{
    CHARL_BUILDER_GIVEN(g, "concat", x);
    if (n < 1 || n > CHARL_OP_MAX_IN) {
        return charl__graph_fail(g, CHARL_ERR_INVALID, "concat: %d operands, not 1 to %d", n, CHARL_OP_MAX_IN);
    }
    return charl__apply_n(g, &charl_op_concat, &axis, x, n);
}
