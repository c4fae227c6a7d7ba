/* max_pool2d and avg_pool2d over images [B, C, H, W], and their gradients.
 *
 *      max_pool2d   the largest element in a window, and its position; its gradient adds gradients there
 *      avg_pool2d   the mean of a window, padding counted as zeros; its gradient is the transpose
 */
#include <limits.h>
#include <math.h>
#include <stdio.h>

#include "autograd/launch/map.h"
#include "autograd/onnx/onnx.h"
#include "autograd/op/conv/window.h"
#include "autograd/op/pool/pool.h"
#include "charl/ops.h"

static bool is_max(const charl__op *op)
{
    return op == &charl_op_max_pool2d;
}

static bool is_gradient(const charl__op *op)
{
    return op == &charl_op_max_pool2d_grad || op == &charl_op_avg_pool2d_grad;
}

enum { LANES = 8 }; /* channels of a work-item in kernels/pool/pool_last.cl */

/* Shape of the output. */
static charl_status output_of(const charl__pool *p, const charl_shape *x, charl_shape *out)
{
    const charl_window *w = &p->win;
    char text[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(x->ndim == 4 && x->dim[2] <= INT_MAX / 4 && x->dim[3] <= INT_MAX / 4 &&
                      x->dim[2] * x->dim[3] <= INT_MAX,
                  CHARL_ERR_SHAPE, "x %s is not [B, C, H, W]", charl_shape_format(x, text));
    CHARL_TRY(charl__window_check(w, 2));
    for (int d = 0; d < 2; d++) {
        const int64_t reach = (int64_t)w->dilation[d] * (w->kernel[d] - 1) + 1;

        CHARL_REQUIRE(w->padding[d] <= reach / 2, CHARL_ERR_INVALID,
                      "padding %d is more than half of the window's reach of %lld in %s", w->padding[d],
                      (long long)reach, charl__window_axis(2, d));
    }
    *out = *x;
    return charl__window_output(w, 2, x, out);
}

static charl_status infer(charl__infer *inf)
{
    CHARL_TRY(charl__infer_floats(inf, 0, 1));
    inf->out[0].dtype = inf->in[0].dtype;
    CHARL_TRY(output_of(inf->attr, &inf->in[0].shape, &inf->out[0].shape));
    if (is_max(inf->op)) {
        inf->n_out = 2;
        inf->out[1].dtype = CHARL_I32;
        inf->out[1].shape = inf->out[0].shape;
    }
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

/* in[0], the gradient, has the shape of an output for images of p->size; in[1], argmax, the same.
 */
static charl_status infer_grad(charl__infer *inf)
{
    const charl__pool *p = inf->attr;
    charl_shape want = {0};
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT];

    CHARL_TRY(charl__infer_floats(inf, 0, 1));
    CHARL_REQUIRE(inf->in[0].shape.ndim == 4, CHARL_ERR_SHAPE, "the gradient %s is not [B, C, H, W]",
                  charl_shape_format(&inf->in[0].shape, a));
    CHARL_REQUIRE(inf->n_in < 2 ||
                      (inf->in[1].dtype == CHARL_I32 && charl_shape_equal(&inf->in[1].shape, &inf->in[0].shape)),
                  CHARL_ERR_SHAPE, "argmax does not go with the gradient");
    inf->out[0] = inf->in[0];
    inf->out[0].shape.dim[2] = p->size[0];
    inf->out[0].shape.dim[3] = p->size[1];
    CHARL_TRY(output_of(p, &inf->out[0].shape, &want));
    CHARL_REQUIRE(charl_shape_equal(&want, &inf->in[0].shape), CHARL_ERR_SHAPE, "the gradient is %s, the output %s",
                  charl_shape_format(&inf->in[0].shape, a), charl_shape_format(&want, b));
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

typedef struct pool_run {
    const char *file, *entry;
    bool rows;           /* vectors of 16 along a row */
    int64_t count, span; /* what work-items step through, and how many each */
    int64_t groups;      /* > 0: channels-last, in eights */
} pool_run;

static charl_status launch(const charl__enqueue *e, const pool_run *r)
{
    const charl_window *w = &((const charl__pool *)e->attr)->win;
    const charl_shape *in = &e->in[0]->shape, *out = &e->out[0]->shape;
    const charl_shape *image = is_gradient(e->op) ? out : in, *small = is_gradient(e->op) ? in : out;
    int a = 0;
    charl__launch l = {.file = r->file,
                       .entry = r->entry,
                       .params = {{"KH", w->kernel[0]},
                                  {"KW", w->kernel[1]},
                                  {"SH", w->stride[0]},
                                  {"SW", w->stride[1]},
                                  {"PH", w->padding[0]},
                                  {"PW", w->padding[1]},
                                  {"DH", w->dilation[0]},
                                  {"DW", w->dilation[1]},
                                  {"ACT", .text = charl__kernel_type(e->out[0]->dtype)},
                                  {r->rows ? "CHARL_VEC" : NULL, 16}},
                       .label = e->label};

    if (r->count == 0) {
        return CHARL_OK;
    }
    for (int i = 0; i < e->n_in; i++) {
        l.args[a++] = charl__in(e->in[i]);
    }
    for (int k = 0; k < e->n_out; k++) {
        l.args[a++] = charl__out(e->out[k]);
    }
    l.args[a++] = charl__i64(r->count);
    l.args[a++] = charl__i64(r->groups > 0 ? r->groups : r->span);
    l.args[a++] = charl__i32((int32_t)image->dim[2]);
    l.args[a++] = charl__i32((int32_t)image->dim[3]);
    l.args[a++] = charl__i32((int32_t)small->dim[2]);
    l.args[a++] = charl__i32((int32_t)small->dim[3]);
    charl__span_launch(e->dev, r->count, r->span, &l);
    return charl__launch_enqueue(e->dev, &l);
}

/* out[0] is channels-last, and so are its companions. */
static charl_status launch_last(const charl__enqueue *e, const char *entry)
{
    return launch(e, &(pool_run){.file = "pool/pool_last",
                                 .entry = entry,
                                 .count = charl__tensor_count(e->out[0]) / LANES,
                                 .span = 1,
                                 .groups = e->out[0]->shape.dim[1] / LANES});
}

/* Over the elements of out[0]; operands are in[0], then in[1] if it exists, then outputs. */
static charl_status launch_elements(const charl__enqueue *e, const char *entry)
{
    const int64_t count = charl__tensor_count(e->out[0]);

    return launch(
        e, &(pool_run){.file = "pool/pool", .entry = entry, .count = count, .span = charl__span(e->dev, count, 1)});
}

/* On CPUs: over rows of out[0]. */
static charl_status launch_rows(const charl__enqueue *e, const char *entry)
{
    const int64_t count = charl__tensor_count(e->out[0]), extent = e->out[0]->shape.dim[3];
    const int64_t width = extent > 0 ? extent : 1;

    return launch(e, &(pool_run){.file = "pool/pool_rows",
                                 .entry = entry,
                                 .rows = true,
                                 .count = count / width,
                                 .span = (charl__span(e->dev, count, 1) + width - 1) / width});
}

/* By elements of out[0] or, on CPUs, by its rows in vectors: the same bits. */
static charl_status enqueue_max(const charl__enqueue *e)
{
    if (e->out[0]->channels_last) {
        return launch_last(e, "charl_max_last");
    }
    return charl__is_ungrouped(e->dev) ? launch_rows(e, "charl_max_rows") : launch_elements(e, "charl_max");
}

/* Windows n x 2 that cover the image once, except for the remainder. */
static bool is_tiling(const charl_window *w)
{
    for (int d = 0; d < 2; d++) {
        if (w->kernel[d] != w->stride[d] || w->padding[d] != 0 || w->dilation[d] != 1) {
            return false;
        }
    }
    return w->kernel[1] == 2;
}

/* By pixels of the image or, if a work-item can process whole planes, by windows: the same bits. */
static charl_status enqueue_max_grad(const charl__enqueue *e)
{
    const charl_window *w = &((const charl__pool *)e->attr)->win;
    const charl_shape *image = &e->out[0]->shape;
    const int64_t size = image->dim[2] * image->dim[3];
    const bool overlap =
        w->stride[0] <= w->dilation[0] * (w->kernel[0] - 1) || w->stride[1] <= w->dilation[1] * (w->kernel[1] - 1);

    if (e->out[0]->channels_last) {
        return launch_last(e, "charl_max_gradient_last");
    }
    if (!charl__is_ungrouped(e->dev) || (overlap && e->out[0]->dtype != CHARL_F32) || size == 0) {
        return launch_elements(e, "charl_max_gradient");
    }
    if (is_tiling(w)) {
        return launch_rows(e, "charl_max_rows_gradient");
    }
    return launch(e, &(pool_run){.file = "pool/pool",
                                 .entry = "charl_max_scatter",
                                 .count = image->dim[0] * image->dim[1],
                                 .span = (charl__span(e->dev, charl__tensor_count(e->out[0]), 1) + size - 1) / size});
}

static charl_status enqueue_avg(const charl__enqueue *e)
{
    return launch_elements(e, is_gradient(e->op) ? "charl_mean_gradient" : "charl_mean");
}

static void backward(const charl__backward *b)
{
    charl__pool p = *(const charl__pool *)b->attr;
    const charl_shape s = charl_var_get_type(b->in[0]).shape;

    if (!b->gout[0]) {
        return;
    }
    p.size[0] = s.dim[2];
    p.size[1] = s.dim[3];
    b->gin[0] = is_max(b->op) ? charl__apply2(b->g, &charl_op_max_pool2d_grad, &p, b->gout[0], b->out[1])
                              : charl__apply1(b->g, &charl_op_avg_pool2d_grad, &p, b->gout[0]);
}

static void backward_avg_grad(const charl__backward *b)
{
    b->gin[0] = charl__apply1(b->g, &charl_op_avg_pool2d, b->attr, b->gout[0]);
}

/* For references: the window, and extents of images and outputs. */
typedef struct pool_walk {
    const charl_window *win;
    int64_t h, w, oh, ow, count, taps; /* elements of the output; taps of each */
} pool_walk;

static pool_walk walk_of(const charl__reference *r)
{
    const charl_window *win = &((const charl__pool *)r->attr)->win;
    const charl_shape *x = &r->in_type[0].shape, *y = &r->out_type[0].shape;
    const charl_shape *image = is_gradient(r->op) ? y : x, *out = is_gradient(r->op) ? x : y;

    return (pool_walk){win,
                       image->dim[2],
                       image->dim[3],
                       out->dim[2],
                       out->dim[3],
                       charl_shape_count(out),
                       (int64_t)win->kernel[0] * win->kernel[1]};
}

/* Position in its plane of the image of tap t of element i of the output, or -1 if it is outside. */
static int64_t tap_of(const pool_walk *w, int64_t i, int64_t t)
{
    const charl_window *win = w->win;
    const int64_t y = i / w->ow % w->oh * win->stride[0] - win->padding[0] + t / win->kernel[1] * win->dilation[0];
    const int64_t x = i % w->ow * win->stride[1] - win->padding[1] + t % win->kernel[1] * win->dilation[1];

    return y >= 0 && y < w->h && x >= 0 && x < w->w ? y * w->w + x : -1;
}

/* Offset of the image plane of element i of the output. */
static int64_t plane_of(const pool_walk *w, int64_t i)
{
    return i / (w->oh * w->ow) * w->h * w->w;
}

static void reference_max(const charl__reference *r)
{
    const pool_walk w = walk_of(r);

    for (int64_t i = 0; i < w.count; i++) {
        const double *x = r->in[0] + plane_of(&w, i);
        double best = -(double)INFINITY, at = -1;

        for (int64_t t = 0; t < w.taps; t++) {
            const int64_t tap = tap_of(&w, i, t);

            if (tap >= 0 && (at < 0 || x[tap] > best || isnan(x[tap]))) {
                best = x[tap];
                at = (double)tap;
            }
        }
        r->out[0][i] = best;
        r->out[1][i] = at;
    }
}

static void reference_max_grad(const charl__reference *r)
{
    const pool_walk w = walk_of(r);

    charl__reference_clear(r, 0);
    for (int64_t i = 0; i < w.count; i++) {
        for (int64_t t = 0; t < w.taps; t++) {
            const int64_t tap = tap_of(&w, i, t);

            if (tap >= 0 && (double)tap == r->in[1][i]) {
                r->out[0][plane_of(&w, i) + tap] += r->in[0][i];
            }
        }
    }
}

/* to[a] += from[b] / window, for all pairs of an element of the image and an element of the output
 * whose window covers it */
static void reference_avg(const charl__reference *r)
{
    const pool_walk w = walk_of(r);
    const double part = 1.0 / (double)w.taps;

    charl__reference_clear(r, 0);
    for (int64_t i = 0; i < w.count; i++) {
        for (int64_t t = 0; t < w.taps; t++) {
            const int64_t tap = tap_of(&w, i, t), at = plane_of(&w, i) + tap;

            if (tap >= 0) {
                r->out[0][is_gradient(r->op) ? at : i] += r->in[0][is_gradient(r->op) ? i : at] * part;
            }
        }
    }
}

static void onnx_max(const charl__onnx_node *n)
{
    charl__onnx_window w;
    charl__onnx_call c = {.type = "MaxPool", .in = {n->in[0]}, .out = n->out};

    charl__onnx_write_window(&((const charl__pool *)n->attr)->win, &w, &c);
    charl__onnx_write_call(n, &c);
}

static void onnx_avg(const charl__onnx_node *n)
{
    const charl_window *win = &((const charl__pool *)n->attr)->win;
    charl__onnx_window w;
    charl__onnx_call c = {
        .type = "AveragePool", .in = {n->in[0]}, .out = n->out, .attr = {{"count_include_pad", .i = 1}}};

    if (win->dilation[0] != 1 || win->dilation[1] != 1) {
        charl__onnx_fail(n, "opset 17 has no mean under a dilated window");
        return;
    }
    charl__onnx_write_window(win, &w, &c);
    charl__onnx_write_call(n, &c);
}

static const charl__pool k2 = {{{2, 2}, {2, 2}, {0, 0}, {1, 1}}, {6, 7}};
static const charl__pool k3 = {{{3, 3}, {2, 1}, {1, 1}, {1, 1}}, {5, 4}};
static const charl__pool odd = {{{3, 2}, {1, 3}, {1, 0}, {2, 1}}, {9, 8}};
static const charl__pool k1 = {{{1, 1}, {1, 1}, {0, 0}, {1, 1}}, {1, 1}};

static const charl__op_sample samples_max[] = {
    {.in = {CHARL_B(F32, 8, 3, 6, 7)}, .attr = &k2, .lo = -1, .hi = 1},
    {.in = {CHARL_B(F32, 8, 2, 5, 4)}, .attr = &k3, CHARL_WITHIN(1, 9)},
    {.in = {CHARL_R(F32, 2, 3, 9, 8)}, .attr = &odd, CHARL_WITHIN(1, 3)},
    {.in = {CHARL_R(F32, 1, 1, 1, 1)}, .attr = &k1, .lo = -1, .hi = 1},
    {.in = {CHARL_R(F32, 3, 5, 40, 33)}, .attr = &k2, .lo = -1, .hi = 1},
};

const charl__op charl_op_max_pool2d = {
    .name = "max_pool2d",
    .formula = "out = max over the window, argmax = its index in the plane",
    .n_in = 1,
    .attr_size = sizeof(charl__pool),
    .half = CHARL_HALF(0),
    .layout = CHARL_LAYOUT_CHANNELS,
    .infer = infer,
    .enqueue = enqueue_max,
    .backward = backward,
    .reference = reference_max,
    .onnx = onnx_max,
    CHARL_SAMPLES(samples_max),
};

static const charl__op_sample samples_avg[] = {
    {.in = {CHARL_B(F32, 8, 3, 6, 7)}, .attr = &k2, CHARL_WITHIN(1, 4)},
    {.in = {CHARL_B(F32, 8, 2, 5, 4)}, .attr = &k3, CHARL_WITHIN(1, 9)},
    {.in = {CHARL_R(F32, 2, 30, 9, 8)}, .attr = &odd, CHARL_WITHIN(1, 6)},
    {.in = {CHARL_R(F32, 1, 1, 1, 1)}, .attr = &k1, .lo = -1, .hi = 1},
};

const charl__op charl_op_avg_pool2d = {
    .name = "avg_pool2d",
    .formula = "out = sum over the window / (KH * KW)",
    .n_in = 1,
    .attr_size = sizeof(charl__pool),
    .half = CHARL_HALF(0),
    .infer = infer,
    .enqueue = enqueue_avg,
    .backward = backward,
    .reference = reference_avg,
    .onnx = onnx_avg,
    CHARL_SAMPLES(samples_avg),
};

static const charl__op_sample samples_max_grad[] = {
    {.in = {CHARL_B(F32, 8, 3, 3, 3), CHARL_B(I32, 8, 3, 3, 3)}, .attr = &k2, .lo = -1, .hi = 1, .int_end = 42},
    {.in = {CHARL_B(F32, 8, 7, 3, 4), CHARL_B(I32, 8, 7, 3, 4)}, .attr = &k3, .int_end = 20, CHARL_WITHIN(1, 9)},
    {.in = {CHARL_R(F32, 2, 30, 7, 3), CHARL_R(I32, 2, 30, 7, 3)}, .attr = &odd, .int_end = 72, CHARL_WITHIN(1, 3)},
};

const charl__op charl_op_max_pool2d_grad = {
    .name = "max_pool2d_grad",
    .formula = "out[p] = sum of gout over the windows that cover p and whose argmax is p",
    .n_in = 2,
    .attr_size = sizeof(charl__pool),
    .half = CHARL_HALF(0),
    .layout = CHARL_LAYOUT_CHANNELS,
    .infer = infer_grad,
    .enqueue = enqueue_max_grad,
    .reference = reference_max_grad,
    CHARL_SAMPLES(samples_max_grad),
};

static const charl__op_sample samples_avg_grad[] = {
    {.in = {CHARL_B(F32, 8, 3, 3, 3)}, .attr = &k2, CHARL_WITHIN(1, 4)},
    {.in = {CHARL_B(F32, 8, 7, 3, 4)}, .attr = &k3, CHARL_WITHIN(1, 9)},
    {.in = {CHARL_R(F32, 2, 30, 7, 3)}, .attr = &odd, CHARL_WITHIN(1, 6)},
};

const charl__op charl_op_avg_pool2d_grad = {
    .name = "avg_pool2d_grad",
    .formula = "out[p] = sum of gout over the windows that cover p / (KH * KW)",
    .n_in = 1,
    .attr_size = sizeof(charl__pool),
    .half = CHARL_HALF(0),
    .infer = infer_grad,
    .enqueue = enqueue_avg,
    .backward = backward_avg_grad,
    .reference = reference_avg,
    CHARL_SAMPLES(samples_avg_grad),
};

charl_var *charl_max_pool2d(charl_graph *g, charl_var *x, const charl_window *win)
{
    CHARL_BUILDER_GIVEN(g, "max_pool2d", win);
    return charl__apply1(g, &charl_op_max_pool2d, &(charl__pool){.win = *win}, x);
}

charl_var *charl_avg_pool2d(charl_graph *g, charl_var *x, const charl_window *win)
{
    CHARL_BUILDER_GIVEN(g, "avg_pool2d", win);
    return charl__apply1(g, &charl_op_avg_pool2d, &(charl__pool){.win = *win}, x);
}
