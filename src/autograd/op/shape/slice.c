/* slice: a range of one axis. Its gradient is zero outside the range: slice_grad. */
#include "autograd/launch/map.h"
#include "autograd/onnx/onnx.h"
#include "autograd/launch/rows.h"
#include "autograd/op/shape/slice.h"
#include "charl/ops.h"

enum { WORD_BYTES = 16 };

static charl_status infer(charl__infer *inf)
{
    const charl__slice_attr *attr = inf->attr;
    const charl_type *x = &inf->in[0];
    const int axis = charl__axis(&x->shape, attr->axis);
    char text[CHARL_SHAPE_TEXT];

    charl_shape_format(&x->shape, text);
    CHARL_REQUIRE(axis >= 0, CHARL_ERR_SHAPE, "%s has no axis %d", text, attr->axis);
    CHARL_REQUIRE(attr->start >= 0 && attr->length >= 0 && attr->start <= x->shape.dim[axis] - attr->length,
                  CHARL_ERR_SHAPE, "%lld elements from %lld on are outside axis %d of %s", (long long)attr->length,
                  (long long)attr->start, axis, text);
    CHARL_REQUIRE(axis > 0 || x->batch != CHARL_BATCHED, CHARL_ERR_SHAPE, "the batch extent cannot be cut");
    inf->out[0] = *x;
    inf->out[0].shape.dim[axis] = attr->length;
    return CHARL_OK;
}

/* An operand from element `at` on, in words of so many elements. */
static charl__arg words_of(charl__arg a, int64_t at, int64_t elements)
{
    a.v.offset = (a.v.offset + at) / elements;
    a.count = (a.count - at) / elements;
    a.size *= (size_t)elements;
    return a;
}

charl_status charl__strided_copy_enqueue(const charl__enqueue *e, const charl__strided_copy *s)
{
    const charl__arg from = charl__in(s->from), to = charl__out(s->to);
    const int64_t wide = WORD_BYTES / (int64_t)charl_dtype_size(s->to->dtype);
    const bool is_wide = (from.v.offset + s->from_at) % wide == 0 && (to.v.offset + s->to_at) % wide == 0 &&
                         s->length % wide == 0 && s->from_row % wide == 0 && s->to_row % wide == 0;
    const int64_t word = is_wide ? wide : 1, total = s->outer * s->length / word;
    const int64_t span = charl__span(e->dev, total, is_wide ? 2 : 4);
    charl__launch l = {.file = "shape/strided_copy",
                       .entry = "charl_copy",
                       .params = {{"T", .text = is_wide ? "uint4" : charl__word_type(s->to->dtype)}},
                       .args = {words_of(from, s->from_at, word), words_of(to, s->to_at, word), charl__i64(s->outer),
                                charl__i64(s->length / word), charl__i64(s->from_row / word),
                                charl__i64(s->to_row / word), charl__i64(span)},
                       .label = e->label};

    charl__span_launch(e->dev, total, span, &l);
    return total > 0 ? charl__launch_enqueue(e->dev, &l) : CHARL_OK;
}

static charl_status enqueue(const charl__enqueue *e)
{
    const charl__slice_attr *attr = e->attr;
    int64_t outer, n, inner;

    charl__split_axis_of(e->in[0], charl__axis(&e->in[0]->shape, attr->axis), &outer, &n, &inner);
    return charl__strided_copy_enqueue(e, &(charl__strided_copy){.from = e->in[0],
                                                                 .to = e->out[0],
                                                                 .from_at = attr->start * inner,
                                                                 .outer = outer,
                                                                 .length = attr->length * inner,
                                                                 .from_row = n * inner,
                                                                 .to_row = attr->length * inner});
}

static void backward(const charl__backward *b)
{
    const charl_type x = charl_var_get_type(b->in[0]);
    charl__slice_attr attr = *(const charl__slice_attr *)b->attr;

    attr.axis = charl__axis(&x.shape, attr.axis);
    attr.extent = x.shape.dim[attr.axis];
    b->gin[0] = charl__apply1(b->g, &charl_op_slice_grad, &attr, b->gout[0]);
}

static void reference(const charl__reference *r)
{
    const charl__slice_attr *attr = r->attr;
    int64_t outer, n, inner;

    charl__split_axis(&r->in_type[0].shape, charl__axis(&r->in_type[0].shape, attr->axis), &outer, &n, &inner);
    for (int64_t i = 0; i < outer * attr->length * inner; i++) {
        const int64_t o = i / (attr->length * inner), j = i / inner % attr->length;

        r->out[0][i] = r->in[0][(o * n + attr->start + j) * inner + i % inner];
    }
}

static charl_status infer_grad(charl__infer *inf)
{
    const charl__slice_attr *attr = inf->attr;

    inf->out[0] = inf->in[0];
    inf->out[0].shape.dim[attr->axis] = attr->extent;
    return CHARL_OK;
}

static charl_status enqueue_grad(const charl__enqueue *e)
{
    const charl__slice_attr *attr = e->attr;
    const int64_t total = charl__tensor_count(e->out[0]), span = charl__span(e->dev, total, 4);
    charl__launch l = {.file = "shape/strided_copy",
                       .entry = "charl_pad",
                       .params = {{"T", .text = charl__word_type(e->out[0]->dtype)}},
                       .label = e->label};
    int64_t outer, n, inner;

    charl__split_axis_of(e->out[0], attr->axis, &outer, &n, &inner);
    l.args[0] = charl__in(e->in[0]);
    l.args[1] = charl__out(e->out[0]);
    l.args[2] = charl__i64(outer);
    l.args[3] = charl__i64(n * inner);
    l.args[4] = charl__i64(attr->start * inner);
    l.args[5] = charl__i64(attr->length * inner);
    l.args[6] = charl__i64(span);
    charl__span_launch(e->dev, total, span, &l);
    return total > 0 ? charl__launch_enqueue(e->dev, &l) : CHARL_OK;
}

static void backward_grad(const charl__backward *b)
{
    const charl__slice_attr *attr = b->attr;

    b->gin[0] = charl_slice(b->g, b->gout[0], attr->axis, attr->start, attr->length);
}

static void reference_grad(const charl__reference *r)
{
    const charl__slice_attr *attr = r->attr;
    int64_t outer, n, inner;

    charl__split_axis(&r->out_type[0].shape, attr->axis, &outer, &n, &inner);
    for (int64_t i = 0; i < outer * n * inner; i++) {
        const int64_t j = i / inner % n - attr->start;

        r->out[0][i] =
            j >= 0 && j < attr->length ? r->in[0][(i / (n * inner) * attr->length + j) * inner + i % inner] : 0.0;
    }
}

static const charl__slice_attr pad0 = {0, 2, 3, 9}, pad1 = {1, 3, 5, 8};
static const charl__op_sample samples_grad[] = {
    {.in = {CHARL_R(F32, 3, 5)}, .attr = &pad0},
    {.in = {CHARL_R(F32, 3, 5, 301)}, .attr = &pad1},
    {.in = {CHARL_B(F32, 16, 5)}, .attr = &pad1},
};

const charl__op charl_op_slice_grad = {
    .name = "slice_grad",
    .formula = "out[..., start + j, ...] = g[..., j, ...], 0 elsewhere",
    .n_in = 1,
    .attr_size = sizeof(charl__slice_attr),
    .moves = true,
    .half = CHARL_HALF_ALL,
    .layout = CHARL_LAYOUT_CHANNELS,
    CHARL_RULES(_grad),
    .backward = backward_grad,
};

static const charl__slice_attr front = {0, 0, 2, 0}, middle = {1, 1, 3, 0}, end = {-1, 7, 30, 0},
                               nothing = {1, 2, 0, 0};
static const charl__op_sample samples[] = {
    {.in = {CHARL_R(F32, 3, 5)}, .attr = &front},      {.in = {CHARL_R(U8, 3, 5, 7)}, .attr = &middle, .int_end = 256},
    {.in = {CHARL_R(F32, 300, 37)}, .attr = &end},     {.in = {CHARL_R(F32, 3, 5)}, .attr = &nothing},
    {.in = {CHARL_B(F32, 16, 4, 6)}, .attr = &middle},
};

static void onnx(const charl__onnx_node *n)
{
    const charl__slice_attr *t = n->attr;

    charl__onnx_slice(n, n->in[0], t->axis, t->start, t->start + t->length, n->out);
}

const charl__op charl_op_slice = {
    .name = "slice",
    .formula = "out[..., j, ...] = x[..., start + j, ...]",
    .n_in = 1,
    .attr_size = sizeof(charl__slice_attr),
    .moves = true,
    .half = CHARL_HALF_ALL,
    .layout = CHARL_LAYOUT_CHANNELS,
    CHARL_RULES(),
    .backward = backward,
    .onnx = onnx,
};

charl_var *charl_slice(charl_graph *g, charl_var *x, int axis, int64_t start, int64_t length)
{
    return charl__apply1(g, &charl_op_slice, &(charl__slice_attr){axis, start, length, 0}, x);
}
