/* avg_pool2d: the mean under a window, padding counted as zeros; avg_pool2d_grad is its transpose.
 */
#include "autograd/op/pool/pool.h"

#include "autograd/onnx/onnx.h"

static charl_status infer(charl_infer *inf)
{
    inf->out[0].dtype = inf->in[0].dtype;
    CHARL_TRY(charl__pool_output(inf->attr, &inf->in[0], &inf->out[0].shape));
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

static charl_status enqueue(const charl_enqueue *e)
{
    return charl__pool_launch(e, "charl_mean", false);
}

static void backward(const charl_backward *b)
{
    charl_pool p = *(const charl_pool *)b->attr;
    const charl_shape s = charl_var_get_type(b->in[0]).shape;

    p.size[0] = s.dim[2];
    p.size[1] = s.dim[3];
    b->gin[0] = charl__apply1(b->g, &charl_op_avg_pool2d_grad, &p, b->gout[0]);
}

/* to[a] += from[b] / window, for all pairs of an element of the image and an element of the output
 * whose window covers it */
static void spread(const charl_reference *r, const charl_shape *image, const charl_shape *out,
                   bool gradient)
{
    const charl_window *win = &((const charl_pool *)r->attr)->win;
    const charl_pool_walk w = charl__pool_walk(image, out);
    const double part = 1.0 / ((double)win->kernel[0] * win->kernel[1]);

    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        r->out[0][i] = 0;
    }
    for (int64_t i = 0; i < w.planes * w.oh * w.ow; i++) {
        const int64_t p = i % (w.oh * w.ow);

        for (int64_t t = 0; t < win->kernel[0] * win->kernel[1]; t++) {
            const int64_t y = charl__pool_tap(win, 0, p / w.ow, t / win->kernel[1], w.h);
            const int64_t z = charl__pool_tap(win, 1, p % w.ow, t % win->kernel[1], w.w);
            const int64_t at = i / (w.oh * w.ow) * w.h * w.w + y * w.w + z;

            if (y >= 0 && z >= 0) {
                r->out[0][gradient ? at : i] += r->in[0][gradient ? i : at] * part;
            }
        }
    }
}

static void reference(const charl_reference *r)
{
    spread(r, &r->in_type[0].shape, &r->out_type[0].shape, false);
}

static const charl_pool k2 = {{{2, 2}, {2, 2}, {0, 0}, {1, 1}}, {6, 7}};
static const charl_pool k3 = {{{3, 3}, {2, 1}, {1, 1}, {1, 1}}, {5, 4}};
static const charl_pool odd = {{{3, 2}, {1, 3}, {1, 0}, {2, 1}}, {9, 8}};
static const charl_pool k1 = {{{1, 1}, {1, 1}, {0, 0}, {1, 1}}, {1, 1}};

static const charl_op_sample samples[] = {
    {.in = {CHARL_B(F32, 8, 3, 6, 7)}, .attr = &k2, .lo = -1, .hi = 1, .terms = 4},
    {.in = {CHARL_B(F32, 8, 2, 5, 4)}, .attr = &k3, .lo = -1, .hi = 1, .terms = 9},
    {.in = {CHARL_R(F32, 2, 30, 9, 8)}, .attr = &odd, .lo = -1, .hi = 1, .terms = 6},
    {.in = {CHARL_R(F32, 1, 1, 1, 1)}, .attr = &k1, .lo = -1, .hi = 1},
};

static void onnx(const charl_onnx_node *n)
{
    const charl_window *win = &((const charl_pool *)n->attr)->win;
    charl_onnx_window w;
    charl_onnx_call c = {.type = "AveragePool",
                         .in = {n->in[0]},
                         .out = n->out,
                         .attr = {{"count_include_pad", .i = 1}}};

    if (win->dilation[0] != 1 || win->dilation[1] != 1) {
        charl__onnx_fail(n, "opset 17 has no mean under a dilated window");
        return;
    }
    charl__onnx_window(win, &w, &c);
    charl__onnx_call(n, &c);
}

const charl_op charl_op_avg_pool2d = {
    .name = "avg_pool2d",
    .formula = "out = sum over the window / (KH * KW)",
    .n_in = 1,
    .attr_size = sizeof(charl_pool),
    .half = CHARL_HALF(0),
    .infer = infer,
    .enqueue = enqueue,
    .backward = backward,
    .reference = reference,
    .onnx = onnx,
    CHARL_SAMPLES(samples),
};

charl_var *charl_avg_pool2d(charl_graph *g, charl_var *x, const charl_window *win)
{
    return charl__apply1(g, &charl_op_avg_pool2d, &(charl_pool){.win = *win}, x);
}

static charl_status infer_grad(charl_infer *inf)
{
    CHARL_REQUIRE(inf->in[0].shape.ndim == 4, CHARL_ERR_SHAPE, "the gradient has not four extents");
    CHARL_TRY(charl__pool_infer_gradient(inf));
    return CHARL_OK;
}

static charl_status enqueue_grad(const charl_enqueue *e)
{
    return charl__pool_launch(e, "charl_mean_gradient", true);
}

static void backward_grad(const charl_backward *b)
{
    b->gin[0] = charl__apply1(b->g, &charl_op_avg_pool2d, b->attr, b->gout[0]);
}

static void reference_grad(const charl_reference *r)
{
    spread(r, &r->out_type[0].shape, &r->in_type[0].shape, true);
}

static const charl_op_sample samples_grad[] = {
    {.in = {CHARL_B(F32, 8, 3, 3, 3)}, .attr = &k2, .lo = -1, .hi = 1, .terms = 4},
    {.in = {CHARL_B(F32, 8, 7, 3, 4)}, .attr = &k3, .lo = -1, .hi = 1, .terms = 9},
    {.in = {CHARL_R(F32, 2, 30, 7, 3)}, .attr = &odd, .lo = -1, .hi = 1, .terms = 6},
};

const charl_op charl_op_avg_pool2d_grad = {
    .name = "avg_pool2d_grad",
    .formula = "out[p] = sum of gout over the windows that cover p / (KH * KW)",
    .n_in = 1,
    .attr_size = sizeof(charl_pool),
    .half = CHARL_HALF(0),
    .infer = infer_grad,
    .enqueue = enqueue_grad,
    .backward = backward_grad,
    .reference = reference_grad,
    CHARL_SAMPLES(samples_grad),
};
