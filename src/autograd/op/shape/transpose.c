/* transpose: another order of the extents. The gradient is transposed by the inverse order.
 *
 * Extents that remain neighbours are merged first. If the result is [outer, rows, cols] -> [outer, cols,
 * rows], it is copied by tiles.
 */
#include <string.h>

#include "shape/permute_args.h"
#include "autograd/graph.h"
#include "autograd/launch/map.h"
#include "autograd/launch/rows.h"
#include "autograd/op/shape/transpose.h"

#include "autograd/onnx/onnx.h"
#include "charl/ops.h"

/* The order that moves the channels of images to the end, or back: channels-last memory already is in the requested order. */
static charl__op_layout layout_of(const charl__transpose_attr *t)
{
    static const int last[] = {0, 2, 3, 1}, first[] = {0, 3, 1, 2};

    if (t->n == 4 && memcmp(t->perm, last, sizeof last) == 0) {
        return CHARL_LAYOUT_FROM_LAST;
    }
    return t->n == 4 && memcmp(t->perm, first, sizeof first) == 0 ? CHARL_LAYOUT_TO_LAST : CHARL_LAYOUT_ROWS;
}

static charl_status infer(charl__infer *inf)
{
    const charl__transpose_attr *attr = inf->attr;
    const charl_type *x = &inf->in[0];
    unsigned seen = 0;
    char text[CHARL_SHAPE_TEXT];

    inf->out[0] = *x;
    inf->layout = layout_of(attr);
    CHARL_REQUIRE(attr->n == x->shape.ndim, CHARL_ERR_SHAPE, "an order of %d extents for %s", attr->n,
                  charl_shape_format(&x->shape, text));
    for (int i = 0; i < attr->n; i++) {
        CHARL_REQUIRE(attr->perm[i] >= 0 && attr->perm[i] < attr->n && !(seen >> attr->perm[i] & 1U), CHARL_ERR_INVALID,
                      "perm is not a permutation: perm[%d] = %d", i, attr->perm[i]);
        seen |= 1U << attr->perm[i];
        inf->out[0].shape.dim[i] = x->shape.dim[attr->perm[i]];
    }
    CHARL_REQUIRE(x->batch != CHARL_BATCHED || attr->perm[0] == 0, CHARL_ERR_SHAPE,
                  "the batch extent must stay in front");
    return CHARL_OK;
}

/* Merged extents of out, fastest last, and the distance of their elements in x. */
typedef struct layout {
    int n;
    int64_t extent[CHARL_MAX_DIMS], step[CHARL_MAX_DIMS];
} layout;

static layout merge(const charl_shape *x, const int *perm)
{
    int64_t step[CHARL_MAX_DIMS], s = 1;
    layout l = {0};

    for (int i = x->ndim - 1; i >= 0; i--) {
        step[i] = s;
        s *= x->dim[i];
    }
    for (int i = 0; i < x->ndim; i++) {
        const int64_t extent = x->dim[perm[i]], apart = step[perm[i]];

        if (extent == 1) {
            continue;
        }
        if (l.n > 0 && l.step[l.n - 1] == extent * apart) {
            l.extent[l.n - 1] *= extent;
            l.step[l.n - 1] = apart;
        } else {
            l.extent[l.n] = extent;
            l.step[l.n++] = apart;
        }
    }
    return l;
}

static charl_status enqueue_swap(const charl__enqueue *e, int64_t outer, int64_t rows, int64_t cols)
{
    const bool groups = !charl__is_ungrouped(e->dev) && charl_device_get_info(e->dev)->max_group >= 256;
    const int tile = groups ? 32 : 16;
    const int64_t tiles = outer * ((rows + tile - 1) / tile) * ((cols + tile - 1) / tile);
    charl__launch l = {.file = "shape/transpose",
                       .entry = groups ? "charl_swap_local" : "charl_swap",
                       .params = {{"T", .text = charl__word_type(e->in[0]->dtype)}},
                       .label = e->label};
    int a = 0;

    l.args[a++] = charl__in(e->in[0]);
    l.args[a++] = charl__out(e->out[0]);
    if (!groups) {
        l.args[a++] = charl__i64(outer);
    }
    l.args[a++] = charl__i64(rows);
    l.args[a++] = charl__i64(cols);
    if (groups) {
        l.local[0] = 256;
        l.global[0] = (size_t)tiles * 256;
    } else {
        charl__span_launch(e->dev, tiles, 1, &l);
    }
    return charl__launch_enqueue(e->dev, &l);
}

static charl_status enqueue_permute(const charl__enqueue *e, const layout *m)
{
    const int64_t total = charl__tensor_count(e->out[0]), span = charl__span(e->dev, total, 1);
    charl__launch l = {.file = "shape/transpose",
                       .entry = "charl_permute",
                       .params = {{"T", .text = charl__word_type(e->in[0]->dtype)}},
                       .label = e->label};
    const int absent = CHARL_MAX_DIMS - m->n; /* leading extents of 1 */
    charl__permute_args args = {.n = (uint64_t)total, .span = (uint64_t)span};

    l.args[0] = charl__in(e->in[0]);
    l.args[1] = charl__out(e->out[0]);
    l.args[2] = charl__struct(&args, sizeof args);
    for (int i = 0; i < CHARL_MAX_DIMS; i++) {
        args.extent[i] = i < absent ? 1 : (uint64_t)m->extent[i - absent];
        args.step[i] = i < absent ? 0 : (uint64_t)m->step[i - absent];
    }
    charl__span_launch(e->dev, total, span, &l);
    return charl__launch_enqueue(e->dev, &l);
}

static charl_status enqueue(const charl__enqueue *e)
{
    const charl__transpose_attr *attr = e->attr;
    const layout m = merge(&e->in[0]->shape, attr->perm);

    if (charl__tensor_count(e->out[0]) == 0) {
        return CHARL_OK;
    }
    if (e->in[0]->channels_last || e->out[0]->channels_last) {
        return charl__strided_copy_enqueue(
            e, &(charl__strided_copy){
                   .from = e->in[0], .to = e->out[0], .outer = 1, .length = charl__tensor_count(e->out[0])});
    }
    if (m.n == 2 && m.step[0] == 1) {
        return enqueue_swap(e, 1, m.extent[1], m.extent[0]);
    }
    if (m.n == 3 && m.step[1] == 1 && m.step[2] == m.extent[1] && m.step[0] == m.extent[1] * m.extent[2]) {
        return enqueue_swap(e, m.extent[0], m.extent[2], m.extent[1]);
    }
    return enqueue_permute(e, &m);
}

static void backward(const charl__backward *b)
{
    const charl__transpose_attr *attr = b->attr;
    int inverse[CHARL_MAX_DIMS] = {0};

    for (int i = 0; i < attr->n; i++) {
        inverse[attr->perm[i]] = i;
    }
    b->gin[0] = charl_transpose(b->g, b->gout[0], inverse);
}

static void reference(const charl__reference *r)
{
    const charl__transpose_attr *attr = r->attr;
    const charl_shape *in = &r->in_type[0].shape, *out = &r->out_type[0].shape;

    for (int64_t i = 0; i < charl_shape_count(out); i++) {
        int64_t at[CHARL_MAX_DIMS] = {0}, u = i, from = 0;

        for (int d = out->ndim - 1; d >= 0; d--) {
            at[attr->perm[d]] = u % out->dim[d];
            u /= out->dim[d];
        }
        for (int d = 0; d < in->ndim; d++) {
            from = from * in->dim[d] + at[d];
        }
        r->out[0][i] = r->in[0][from];
    }
}

static const charl__transpose_attr none = {0, {0}}, swap = {2, {1, 0}}, last = {3, {0, 2, 1}}, nhwc = {4, {0, 2, 3, 1}},
                                   front = {3, {2, 0, 1}}, mixed = {6, {5, 0, 3, 1, 4, 2}}, heads = {4, {0, 2, 1, 3}};
static const charl__op_sample samples[] = {
    {.in = {CHARL_R(F32, 3, 5)}, .attr = &swap},
    {.in = {CHARL_R(F32, 67, 129)}, .attr = &swap},
    {.in = {CHARL_SCALAR(F32)}, .attr = &none},
    {.in = {CHARL_R(F32, 3, 0)}, .attr = &swap},
    {.in = {CHARL_R(U8, 2, 33, 35)}, .attr = &last, .int_end = 256},
    {.in = {CHARL_R(F32, 5, 6, 7)}, .attr = &front},
    {.in = {CHARL_R(F32, 2, 3, 4, 2, 3, 5)}, .attr = &mixed},
    {.in = {CHARL_R(BF16, 2, 3, 20, 5)}, .attr = &nhwc},
    {.in = {CHARL_B(F32, 8, 5, 3, 7)}, .attr = &heads},
    {.in = {CHARL_B(F32, 16, 5, 7)}, .attr = &last},
};

static void onnx(const charl__onnx_node *n)
{
    const charl__transpose_attr *t = n->attr;
    int64_t perm[CHARL_MAX_DIMS];

    for (int i = 0; i < t->n; i++) {
        perm[i] = t->perm[i];
    }
    if (t->n > 1) {
        charl__onnx_transpose(n, n->in[0], perm, t->n, n->out);
    } else {
        charl__onnx_op(n, "Identity", n->in[0], NULL, n->out);
    }
}

const charl__op charl_op_transpose = {
    .name = "transpose",
    .formula = "out = x with its extents in another order",
    .n_in = 1,
    .attr_size = sizeof(charl__transpose_attr),
    .moves = true,
    .half = CHARL_HALF_ALL,
    .layout = CHARL_LAYOUT_ANY,
    CHARL_RULES(),
    .backward = backward,
    .onnx = onnx,
};

charl_var *charl_transpose(charl_graph *g, charl_var *x, const int *perm)
{
    charl__transpose_attr attr = {0};
    charl_var *y;
    int at;

    if (x) {
        attr.n = charl_var_get_type(x).shape.ndim;
        for (int i = 0; i < attr.n; i++) {
            attr.perm[i] = perm[i];
        }
    }
    y = charl__apply1(g, &charl_op_transpose, &attr, x);
    at = y ? charl__var_positions(x) : 0;
    for (int i = 1; at > 0 && i < attr.n; i++) { /* extent 0 is the batch */
        if (perm[i] == at) {
            charl__var_set_positions(y, i);
        }
    }
    return y;
}
