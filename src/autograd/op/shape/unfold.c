/* unfold and fold: windows along one extent as channels, and the transpose. Each is the other's gradient. */
#include "autograd/op/shape/unfold.h"

#include "autograd/launch/map.h"
#include "autograd/onnx/onnx.h"
#include "base/alloc.h"

int64_t charl__unfold_places(const charl__unfold *u, int64_t n)
{
    const int64_t room = n + 2 * (int64_t)u->padding - (int64_t)u->dilation * (u->kernel - 1) - 1;

    return room < 0 ? 0 : room / u->stride + 1;
}

static charl_status check(charl__infer *inf, int ndim)
{
    const charl__unfold *u = inf->attr;
    char text[CHARL_SHAPE_TEXT];

    CHARL_TRY(charl__infer_floats(inf, 0, 1));
    CHARL_REQUIRE(inf->in[0].shape.ndim == ndim, CHARL_ERR_SHAPE, "x %s does not have %d extents",
                  charl_shape_format(&inf->in[0].shape, text), ndim);
    CHARL_REQUIRE(u->kernel >= 1 && u->stride >= 1 && u->dilation >= 1 && u->padding >= 0, CHARL_ERR_INVALID,
                  "window with kernel %d, stride %d, dilation %d, padding %d", u->kernel, u->stride, u->dilation,
                  u->padding);
    inf->out[0] = inf->in[0];
    return CHARL_OK;
}

static charl_status infer_unfold(charl__infer *inf)
{
    const charl__unfold *u = inf->attr;
    const charl_shape *x = &inf->in[0].shape;
    int64_t places;
    char text[CHARL_SHAPE_TEXT];

    CHARL_TRY(check(inf, 5));
    places = charl__unfold_places(u, x->dim[3]);
    CHARL_REQUIRE(places > 0, CHARL_ERR_SHAPE, "kernel %d is larger than the padded extent 3 of %s", u->kernel,
                  charl_shape_format(x, text));
    inf->out[0].shape = (charl_shape){4, {x->dim[0], x->dim[1] * u->kernel, x->dim[2] * places, x->dim[4]}};
    return charl__infer_rows(inf);
}

static charl_status infer_fold(charl__infer *inf)
{
    const charl__unfold *u = inf->attr;
    const charl_shape *x = &inf->in[0].shape;
    int64_t places;
    char text[CHARL_SHAPE_TEXT];

    CHARL_TRY(check(inf, 4));
    places = charl__unfold_places(u, u->extent);
    CHARL_REQUIRE(places > 0 && x->dim[1] % u->kernel == 0 && x->dim[2] % places == 0, CHARL_ERR_SHAPE,
                  "%s does not hold %d taps at %lld places", charl_shape_format(x, text), u->kernel, (long long)places);
    inf->out[0].shape = (charl_shape){5, {x->dim[0], x->dim[1] / u->kernel, x->dim[2] / places, u->extent, x->dim[3]}};
    return charl__infer_rows(inf);
}

/* The volume is the operand of unfold, and fold's result. */
static charl_status enqueue(const charl__enqueue *e)
{
    const bool folds = e->op == &charl_op_fold;
    const charl_shape *volume = folds ? &e->out[0]->shape : &e->in[0]->shape;
    const charl__unfold *u = e->attr;
    const int64_t total = charl__tensor_count(e->out[0]), span = charl__span(e->dev, total, 1);
    charl__launch l = {.file = "shape/unfold",
                       .entry = folds ? "charl_fold" : "charl_unfold",
                       .params = {{"K", u->kernel},
                                  {"S", u->stride},
                                  {"PAD", u->padding},
                                  {"D", u->dilation},
                                  {"ACT", .text = charl__kernel_type(e->out[0]->dtype)}},
                       .label = e->label};

    l.args[0] = charl__in(e->in[0]);
    l.args[1] = charl__out(e->out[0]);
    l.args[2] = charl__i64(total);
    l.args[3] = charl__i64(span);
    l.args[4] = charl__i64(volume->dim[2]);
    l.args[5] = charl__i64(volume->dim[3]);
    l.args[6] = charl__i64(charl__unfold_places(u, volume->dim[3]));
    l.args[7] = charl__i64(volume->dim[4]);
    charl__span_launch(e->dev, total, span, &l);
    return total > 0 ? charl__launch_enqueue(e->dev, &l) : CHARL_OK;
}

static void backward_unfold(const charl__backward *b)
{
    charl__unfold u = *(const charl__unfold *)b->attr;

    u.extent = charl_var_get_type(b->in[0]).shape.dim[3];
    b->gin[0] = charl__fold_apply(b->g, b->gout[0], &u);
}

static void backward_fold(const charl__backward *b)
{
    b->gin[0] = charl__unfold_apply(b->g, b->gout[0], b->attr);
}

/* For all elements of the unfolded side and the elements that they read: out[wide] = in[volume], or out[volume] += in[wide]. */
static void reference(const charl__reference *r)
{
    const bool fold = r->op == &charl_op_fold;
    const charl_shape *volume = fold ? &r->out_type[0].shape : &r->in_type[0].shape;
    const charl_shape *wide = fold ? &r->in_type[0].shape : &r->out_type[0].shape;
    const charl__unfold *u = r->attr;
    const int64_t places = charl__unfold_places(u, volume->dim[3]), m = volume->dim[2], inner = volume->dim[4];

    charl__reference_clear(r, 0);
    for (int64_t i = 0; i < charl_shape_count(wide); i++) {
        const int64_t row = i / inner, channel = row / (m * places);
        const int64_t at = row % places * u->stride - u->padding + channel % u->kernel * u->dilation;
        const int64_t from = ((channel / u->kernel * m + row / places % m) * volume->dim[3] + at) * inner + i % inner;

        if (at >= 0 && at < volume->dim[3]) {
            r->out[0][fold ? from : i] += r->in[0][fold ? i : from];
        }
    }
}

/* [B, C, M, K O, I] <-> [B, C K, M O, I], by a transposition of M and K. */
static charl_type between(const charl_type *volume, int64_t a, int64_t b, int64_t places)
{
    const int64_t *d = volume->shape.dim;

    return (charl_type){volume->dtype, {6, {d[0], d[1], a, b, places, d[4]}}, volume->batch};
}

/* The window selects rows of the padded extent. */
static void onnx_unfold(const charl__onnx_node *n)
{
    static const int64_t swap[] = {0, 1, 3, 2, 4, 5};
    const charl__unfold *u = n->attr;
    const charl_type *x = &n->in_type[0];
    const int64_t places = charl__unfold_places(u, x->shape.dim[3]), m = x->shape.dim[2];
    const charl_type seen = between(x, m, u->kernel, places);
    const int64_t pads[10] = {0, 0, 0, u->padding, 0, 0, 0, 0, u->padding, 0};
    const char *v = n->in[0];
    int64_t *rows = NULL;

    if (charl__alloc_array(u->kernel * places, sizeof *rows, &rows) != CHARL_OK) {
        charl__onnx_fail(n, "no memory");
        return;
    }
    for (int64_t i = 0; i < u->kernel * places; i++) {
        rows[i] = i % places * u->stride + i / places * u->dilation;
    }
    if (u->padding > 0) {
        v = charl__onnx_op(n, "Pad", v, charl__onnx_ints(n, pads, 10), NULL);
    }
    v = charl__onnx_write_call(n, &(charl__onnx_call){.type = "Gather",
                                                      .in = {v, charl__onnx_ints(n, rows, (int)(u->kernel * places))},
                                                      .attr = {{"axis", .i = 3}}});
    v = charl__onnx_transpose(n, charl__onnx_reshape(n, v, &seen, NULL), swap, 6, NULL);
    charl__onnx_reshape(n, v, n->out_type, n->out);
    charl_free(rows);
}

/* A product with the matrix [N, K O] that says which elements are added. */
static void onnx_fold(const charl__onnx_node *n)
{
    static const int64_t swap[] = {0, 1, 3, 2, 4, 5};
    const charl__unfold *u = n->attr;
    const charl_type *y = n->out_type;
    const int64_t places = charl__unfold_places(u, u->extent), m = y->shape.dim[2], wide = u->kernel * places;
    const charl_type taps = between(y, u->kernel, m, places);
    const charl_shape sums = {2, {u->extent, wide}};
    charl_type rows = *y;
    const char *v;
    float *matrix = NULL;

    if (charl__alloc_array(u->extent * wide, sizeof *matrix, &matrix) != CHARL_OK) {
        charl__onnx_fail(n, "no memory");
        return;
    }
    for (int64_t i = 0; i < wide; i++) {
        const int64_t at = i % places * u->stride - u->padding + i / places * u->dilation;

        if (at >= 0 && at < u->extent) {
            matrix[at * wide + i] = 1.0F;
        }
    }
    rows.shape.dim[3] = wide;
    v = charl__onnx_transpose(n, charl__onnx_reshape(n, n->in[0], &taps, NULL), swap, 6, NULL);
    v = charl__onnx_reshape(n, v, &rows, NULL);
    charl__onnx_op(n, "MatMul", charl__onnx_floats(n, &sums, matrix), v, n->out);
    charl_free(matrix);
}

/* clang-format off */
static const charl__unfold same = {3, 1, 1, 1, 5}, strided = {2, 3, 1, 2, 9}, apart = {2, 2, 0, 1, 7}, one = {1, 1, 0, 1, 1};
static const charl__op_sample samples_unfold[] = {
    {.in = {CHARL_B(F32, 8, 2, 3, 5, 4)}, .attr = &same},
    {.in = {CHARL_R(F32, 2, 3, 1, 9, 35)}, .attr = &strided},
    {.in = {CHARL_R(F32, 2, 3, 2, 7, 1)}, .attr = &apart},
    {.in = {CHARL_R(F32, 1, 1, 1, 1, 1)}, .attr = &one},
};
static const charl__op_sample samples_fold[] = {
    {.in = {CHARL_B(F32, 8, 6, 15, 4)}, .attr = &same, .terms = 3},
    {.in = {CHARL_R(F32, 2, 6, 3, 35)}, .attr = &strided, .terms = 2},
    {.in = {CHARL_R(F32, 2, 6, 6, 1)}, .attr = &apart, .terms = 2},
    {.in = {CHARL_R(F32, 1, 1, 1, 1)}, .attr = &one},
};
/* clang-format on */

const charl__op charl_op_unfold = {
    .name = "unfold",
    .formula = "out[b, c K + k, m O + o, i] = x[b, c, m, o * stride - padding + k * dilation, i], 0 outside",
    .n_in = 1,
    .attr_size = sizeof(charl__unfold),
    .cheap = true,
    .half = CHARL_HALF(0),
    .infer = infer_unfold,
    .enqueue = enqueue,
    .backward = backward_unfold,
    .reference = reference,
    CHARL_SAMPLES(samples_unfold),
    .onnx = onnx_unfold,
};

const charl__op charl_op_fold = {
    .name = "fold",
    .formula = "out[b, c, m, n, i] = sum over k, o with o * stride - padding + k * dilation = n of x[b, c K + k, m O + "
               "o, i]",
    .n_in = 1,
    .attr_size = sizeof(charl__unfold),
    .half = CHARL_HALF(0),
    .infer = infer_fold,
    .enqueue = enqueue,
    .backward = backward_fold,
    .reference = reference,
    CHARL_SAMPLES(samples_fold),
    .onnx = onnx_fold,
};

charl_var *charl__unfold_apply(charl_graph *g, charl_var *x, const charl__unfold *u)
{
    return charl__apply1(g, &charl_op_unfold, u, x);
}

charl_var *charl__fold_apply(charl_graph *g, charl_var *x, const charl__unfold *u)
{
    return charl__apply1(g, &charl_op_fold, u, x);
}
