/* sum_to: over all axes but one, x [outer, C, inner] -> [C]. The gradient of a broadcast
 * value.
 *
 * First over inner, giving [outer, C], then over outer: per slice if outer includes
 * the batch.
 */
#include "autograd/op/norm/channels.h"
#include "autograd/launch/map.h"
#include "autograd/launch/rows.h"
#include "autograd/onnx/onnx.h"
#include "charl/ops.h"

typedef struct plan {
    bool partial;
    int64_t slices, outer, n, inner; /* x [slices, outer, n, inner] */
    /* floats of the workspace: slice results, sums over inner, and the offset of the rest */
    int64_t first, second, scratch;
} plan;

static plan make_plan(const charl_shape *x, int axis, bool batched, int n_slices)
{
    plan p = {.partial = batched && axis != 0, .slices = 1};

    charl__split_axis(x, axis, &p.outer, &p.n, &p.inner);
    if (p.partial) {
        p.slices = n_slices;
        p.outer /= n_slices;
    }
    p.first = p.partial ? p.slices * p.n : 0;
    p.second = p.inner == 1 || (!p.partial && p.outer == 1) ? 0 : p.slices * p.outer * p.n;
    p.scratch = p.first + p.second;
    return p;
}

static int64_t scratch_floats(const plan *p)
{
    const int64_t a = charl__reduce_scratch(p->slices * p->outer * p->n, p->inner, 1);
    const int64_t b = charl__reduce_scratch(p->slices, p->outer, p->n);

    return a > b ? a : b;
}

static charl_status infer(charl__infer *inf)
{
    const charl_type *x = &inf->in[0];
    const int axis = charl__axis(&x->shape, *(const int *)inf->attr);
    char text[CHARL_SHAPE_TEXT];
    plan p;

    CHARL_TRY(charl__infer_floats(inf, 0, 1));
    CHARL_REQUIRE(axis >= 0, CHARL_ERR_SHAPE, "%s has no axis %d", charl_shape_format(&x->shape, text),
                  *(const int *)inf->attr);
    p = make_plan(&x->shape, axis, x->batch == CHARL_BATCHED, inf->n_slices);
    inf->out[0] = (charl_type){CHARL_F32, {1, {p.n}}, p.partial ? CHARL_PARTIAL : x->batch};
    inf->workspace = inf->channels_last ? charl__channels_workspace(&x->shape, inf->n_slices, 1)
                                        : (p.scratch + scratch_floats(&p)) * 4;
    inf->layout = axis == 1 && x->shape.ndim == 4 ? CHARL_LAYOUT_CHANNELS : CHARL_LAYOUT_ROWS;
    return CHARL_OK;
}

static charl_status enqueue(const charl__enqueue *e)
{
    const charl_shape *x = &e->in[0]->shape;
    const plan p = make_plan(x, charl__axis(x, *(const int *)e->attr), charl__is_partial(e, 0), e->slices->count);
    charl_reduce r = {
        .a = charl__in(e->in[0]), .a_type = e->in[0]->dtype, .n_in = 1, .scratch = p.scratch, .scale = 1.0F};

    if (e->in[0]->channels_last) {
        CHARL_TRY(charl__channels_sums(e, &(charl__channels){.x = e->in[0]}));
        return CHARL_OK;
    }
    if (p.inner != 1) {
        r.outer = p.slices * p.outer * p.n;
        r.n = p.inner;
        r.inner = 1;
        r.out = p.second ? charl__scratch_arg(CHARL_ARG_OUT, e->workspace, p.first) : charl__out(e->out[0]);
        CHARL_TRY(charl__reduce_sum(e, &r));
        r.a = r.out;
        r.a.kind = CHARL_ARG_IN;
        r.a_type = CHARL_F32;
    }
    if (p.inner == 1 || p.second) {
        r.outer = p.slices;
        r.n = p.outer;
        r.inner = p.n;
        r.out = charl__out(e->out[0]);
        CHARL_TRY(p.partial ? charl__reduce_slices(e, &r, 0) : charl__reduce_sum(e, &r));
    }
    return CHARL_OK;
}

/* gout, repeated over every other axis. */
static void backward(const charl__backward *b)
{
    const charl_type x = charl_var_get_type(b->in[0]);
    const int axis = charl__axis(&x.shape, *(const int *)b->attr);
    charl_shape s = {.ndim = x.shape.ndim};

    for (int i = 0; i < s.ndim; i++) {
        s.dim[i] = i == axis ? x.shape.dim[i] : 1;
    }
    b->gin[0] = charl__apply2(b->g, &charl_op_expand_like, NULL, b->in[0], charl_reshape(b->g, b->gout[0], s));
}

static void reference(const charl__reference *r)
{
    int64_t outer, n, inner;

    charl__split_axis(&r->in_type[0].shape, charl__axis(&r->in_type[0].shape, *(const int *)r->attr), &outer, &n,
                      &inner);
    charl__reference_clear(r, 0);
    for (int64_t i = 0; i < outer * n * inner; i++) {
        r->out[0][i / inner % n] += r->in[0][i];
    }
}

/* The repeated operand, summed; the other operand only provides its shape. */
static void backward_like(const charl__backward *b)
{
    const charl_type t = charl_var_get_type(b->in[1]);

    b->gin[1] = b->needed[1] ? charl__sum_like(b->g, b->gout[0], &t) : NULL;
}

static void onnx_like(const charl__onnx_node *n)
{
    charl__onnx_op(n, "Expand", n->in[1], charl__onnx_op(n, "Shape", n->in[0], NULL, NULL), n->out);
}

static charl_status infer_like(charl__infer *inf)
{
    int64_t inner, count;
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT];

    CHARL_TRY(charl__infer_floats(inf, 0, 2));
    CHARL_REQUIRE(charl__broadcast_index(&inf->in[0].shape, &inf->in[1].shape, &inner, &count), CHARL_ERR_SHAPE,
                  "%s does not broadcast to %s", charl_shape_format(&inf->in[1].shape, b),
                  charl_shape_format(&inf->in[0].shape, a));
    inf->out[0] = inf->in[0];
    CHARL_TRY(charl__infer_rows(inf));
    CHARL_TRY(charl__infer_broadcast_rows(inf, 0, 0));
    CHARL_TRY(charl__infer_broadcast_rows(inf, 0, 1));
    return CHARL_OK;
}

static charl_status enqueue_like(const charl__enqueue *e)
{
    return charl__map_run(e, &(charl__map){.expr = "a", .in = &e->in[1], .n_in = 1, .out = e->out[0]});
}

static void reference_like(const charl__reference *r)
{
    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        r->out[0][i] = r->in[1][charl__reference_index(r, 1, i)];
    }
}

static const charl__op_sample samples_like[] = {CHARL_MAP_SAMPLES_BROADCAST()};

const charl__op charl_op_expand_like = {
    .name = "expand_like",
    .formula = "out = b, broadcast to the shape of a and in its type",
    .n_in = 2,
    .half = CHARL_HALF(0) | CHARL_HALF(1),
    .mixed = true,
    CHARL_RULES(_like),
    .backward = backward_like,
    .onnx = onnx_like,
};

static const int axis0 = 0, axis1 = 1, axis_last = -1;
static const charl__op_sample samples[] = {
    {.in = {CHARL_R(F32, 3, 5)}, .attr = &axis1, .terms = 3},
    {.in = {CHARL_R(F32, 3, 5)}, .attr = &axis0, .terms = 5},
    {.in = {CHARL_R(F32, 2, 3, 7, 41)}, .attr = &axis1, .terms = 574},
    {.in = {CHARL_R(F32, 300, 37)}, .attr = &axis_last, .terms = 300},
    {.in = {CHARL_R(F32, 2, 2, 5003)}, .attr = &axis1, .terms = 10006},
    {.in = {CHARL_R(F32, 1)}, .attr = &axis0},
    {.in = {CHARL_R(F32, 0, 4)}, .attr = &axis1},
    {.in = {CHARL_R(F32, 3, 4, 0)}, .attr = &axis1},
    {.in = {CHARL_B(F32, 16, 37)}, .attr = &axis1, .terms = 16},
    {.in = {CHARL_B(F32, 32, 131075)}, .attr = &axis1, .terms = 32},
    {.in = {CHARL_B(F32, 16, 3, 5, 5)}, .attr = &axis1, .terms = 400},
    {.in = {CHARL_B(F32, 8, 3, 4500)}, .attr = &axis1, .terms = 36000},
    {.in = {CHARL_B(F32, 8, 3, 11)}, .attr = &axis_last, .terms = 24},
    {.in = {CHARL_B(F32, 16, 37)}, .attr = &axis0, .terms = 37},
    {.in = {CHARL_B(F32, 16, 1, 300)}, .attr = &axis1, .terms = 4800},
};

const charl__op charl_op_sum_to = {
    .name = "sum_to",
    .formula = "out[c] = sum of x over all axes but one",
    .n_in = 1,
    .attr_size = sizeof(int), /* the axis that is kept */
    .half = CHARL_HALF(0),
    .layout = CHARL_LAYOUT_CHANNELS,
    CHARL_RULES(),
    .backward = backward,
};

CHARL_BUILDER2(expand_like)

charl_var *charl_sum_to(charl_graph *g, charl_var *x, int axis)
{
    return charl__apply1(g, &charl_op_sum_to, &axis, x);
}
