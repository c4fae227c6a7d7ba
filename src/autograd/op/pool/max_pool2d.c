/* max_pool2d: the largest element under a window, and where it is; max_pool2d_grad takes gradients
 * there. */
#include <math.h>

#include "autograd/op/pool/pool.h"

#include "autograd/onnx/onnx.h"

static charl_status infer(charl_infer *inf)
{
    inf->n_out = 2;
    inf->out[0].dtype = inf->in[0].dtype;
    CHARL_TRY(charl__pool_output(inf->attr, &inf->in[0], &inf->out[0].shape));
    inf->out[1].dtype = CHARL_I32;
    inf->out[1].shape = inf->out[0].shape;
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

static charl_status enqueue(const charl_enqueue *e)
{
    return charl__pool_launch_max(e);
}

static void backward(const charl_backward *b)
{
    charl_pool p = *(const charl_pool *)b->attr;
    const charl_shape s = charl_var_get_type(b->in[0]).shape;

    if (!b->gout[0]) {
        return;
    }
    p.size[0] = s.dim[2];
    p.size[1] = s.dim[3];
    b->gin[0] = charl__apply2(b->g, &charl_op_max_pool2d_grad, &p, b->gout[0], b->out[1]);
}

static void reference(const charl_reference *r)
{
    const charl_window *win = &((const charl_pool *)r->attr)->win;
    const charl_pool_walk w = charl__pool_walk(&r->in_type[0].shape, &r->out_type[0].shape);

    for (int64_t i = 0; i < w.planes * w.oh * w.ow; i++) {
        const int64_t p = i % (w.oh * w.ow);
        const double *x = r->in[0] + i / (w.oh * w.ow) * w.h * w.w;
        double best = -(double)INFINITY, at = -1;

        for (int64_t t = 0; t < win->kernel[0] * win->kernel[1]; t++) {
            const int64_t y = charl__pool_tap(win, 0, p / w.ow, t / win->kernel[1], w.h);
            const int64_t z = charl__pool_tap(win, 1, p % w.ow, t % win->kernel[1], w.w);

            if (y >= 0 && z >= 0 && (at < 0 || x[y * w.w + z] > best || isnan(x[y * w.w + z]))) {
                best = x[y * w.w + z];
                at = (double)(y * w.w + z);
            }
        }
        r->out[0][i] = best;
        r->out[1][i] = at;
    }
}

static const charl_pool k2 = {{{2, 2}, {2, 2}, {0, 0}, {1, 1}}, {0, 0}};
static const charl_pool k3 = {{{3, 3}, {2, 1}, {1, 1}, {1, 1}}, {0, 0}};
static const charl_pool odd = {{{3, 2}, {1, 3}, {1, 0}, {2, 1}}, {0, 0}};
static const charl_pool k1 = {{{1, 1}, {1, 1}, {0, 0}, {1, 1}}, {0, 0}};

static const charl_op_sample samples[] = {
    {.in = {CHARL_B(F32, 8, 3, 6, 7)}, .attr = &k2, .lo = -1, .hi = 1},
    {.in = {CHARL_B(F32, 8, 2, 5, 4)}, .attr = &k3, .lo = -1, .hi = 1, .terms = 9},
    {.in = {CHARL_R(F32, 2, 3, 9, 8)}, .attr = &odd, .lo = -1, .hi = 1, .terms = 3},
    {.in = {CHARL_R(F32, 1, 1, 1, 1)}, .attr = &k1, .lo = -1, .hi = 1},
    {.in = {CHARL_R(F32, 3, 5, 40, 33)}, .attr = &k2, .lo = -1, .hi = 1},
};

static void onnx(const charl_onnx_node *n)
{
    charl_onnx_window w;
    charl_onnx_call c = {.type = "MaxPool", .in = {n->in[0]}, .out = n->out};

    charl__onnx_window(&((const charl_pool *)n->attr)->win, &w, &c);
    charl__onnx_call(n, &c);
}

const charl_op charl_op_max_pool2d = {
    .name = "max_pool2d",
    .formula = "out = max over the window, argmax = its index in the plane",
    .n_in = 1,
    .attr_size = sizeof(charl_pool),
    .half = CHARL_HALF(0),
    .layout = CHARL_LAYOUT_CHANNELS,
    .infer = infer,
    .enqueue = enqueue,
    .backward = backward,
    .reference = reference,
    .onnx = onnx,
    CHARL_SAMPLES(samples),
};

charl_var *charl_max_pool2d(charl_graph *g, charl_var *x, const charl_window *win)
{
    return charl__apply1(g, &charl_op_max_pool2d, &(charl_pool){.win = *win}, x);
}

static charl_status infer_grad(charl_infer *inf)
{
    const charl_type *arg = &inf->in[1];

    CHARL_REQUIRE(inf->in[0].shape.ndim == 4 && arg->dtype == CHARL_I32 &&
                      charl_shape_equal(&arg->shape, &inf->in[0].shape),
                  CHARL_ERR_SHAPE, "argmax does not go with the gradient");
    CHARL_TRY(charl__pool_infer_gradient(inf));
    return CHARL_OK;
}

static charl_status enqueue_grad(const charl_enqueue *e)
{
    return charl__pool_launch_max_gradient(e);
}

static void reference_grad(const charl_reference *r)
{
    const charl_window *win = &((const charl_pool *)r->attr)->win;
    const charl_pool_walk w = charl__pool_walk(&r->out_type[0].shape, &r->in_type[0].shape);

    for (int64_t i = 0; i < w.planes * w.h * w.w; i++) {
        r->out[0][i] = 0;
    }
    for (int64_t i = 0; i < w.planes * w.oh * w.ow; i++) {
        const int64_t p = i % (w.oh * w.ow);

        for (int64_t t = 0; t < win->kernel[0] * win->kernel[1]; t++) {
            const int64_t y = charl__pool_tap(win, 0, p / w.ow, t / win->kernel[1], w.h);
            const int64_t z = charl__pool_tap(win, 1, p % w.ow, t % win->kernel[1], w.w);

            if (y >= 0 && z >= 0 && (double)(y * w.w + z) == r->in[1][i]) {
                r->out[0][i / (w.oh * w.ow) * w.h * w.w + y * w.w + z] += r->in[0][i];
            }
        }
    }
}

static const charl_pool k2_grad = {{{2, 2}, {2, 2}, {0, 0}, {1, 1}}, {6, 7}};
static const charl_pool k3_grad = {{{3, 3}, {2, 1}, {1, 1}, {1, 1}}, {5, 4}};
static const charl_pool odd_grad = {{{3, 2}, {1, 3}, {1, 0}, {2, 1}}, {9, 8}};

static const charl_op_sample samples_grad[] = {
    {.in = {CHARL_B(F32, 8, 3, 3, 3), CHARL_B(I32, 8, 3, 3, 3)},
     .attr = &k2_grad,
     .lo = -1,
     .hi = 1,
     .int_end = 42},
    {.in = {CHARL_B(F32, 8, 7, 3, 4), CHARL_B(I32, 8, 7, 3, 4)},
     .attr = &k3_grad,
     .lo = -1,
     .hi = 1,
     .int_end = 20,
     .terms = 9},
    {.in = {CHARL_R(F32, 2, 30, 7, 3), CHARL_R(I32, 2, 30, 7, 3)},
     .attr = &odd_grad,
     .lo = -1,
     .hi = 1,
     .int_end = 72,
     .terms = 3},
};

const charl_op charl_op_max_pool2d_grad = {
    .name = "max_pool2d_grad",
    .formula = "out[p] = sum of gout over the windows that cover p and whose argmax is p",
    .n_in = 2,
    .attr_size = sizeof(charl_pool),
    .half = CHARL_HALF(0),
    .layout = CHARL_LAYOUT_CHANNELS,
    .infer = infer_grad,
    .enqueue = enqueue_grad,
    .reference = reference_grad,
    CHARL_SAMPLES(samples_grad),
};
