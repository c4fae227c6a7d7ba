/* Shapes and launches of pooling. */
#include "autograd/op/pool/pool.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "autograd/launch/map.h"

enum { LANES = 8 }; /* channels of a work-item in kernels/pool/pool_last.cl */

static charl_status check_axis(const charl_window *w, int d)
{
    const int64_t reach = (int64_t)w->dilation[d] * (w->kernel[d] - 1) + 1;

    CHARL_REQUIRE(
        w->kernel[d] >= 1 && w->stride[d] >= 1 && w->dilation[d] >= 1 && w->padding[d] >= 0,
        CHARL_ERR_INVALID, "window with kernel %d, stride %d, dilation %d, padding %d in %s",
        w->kernel[d], w->stride[d], w->dilation[d], w->padding[d], d == 0 ? "H" : "W");
    CHARL_REQUIRE(w->padding[d] <= reach / 2, CHARL_ERR_INVALID,
                  "padding %d is more than half of the window's reach of %lld in %s", w->padding[d],
                  (long long)reach, d == 0 ? "H" : "W");
    return CHARL_OK;
}

charl_status charl__pool_output(const charl_pool *p, const charl_type *x, charl_shape *out)
{
    char text[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(charl__is_float(x->dtype), CHARL_ERR_DTYPE, "the operand is %s, not a float",
                  charl_dtype_name(x->dtype));
    CHARL_REQUIRE(x->shape.ndim == 4 && x->shape.dim[2] <= INT_MAX / 4 &&
                      x->shape.dim[3] <= INT_MAX / 4 &&
                      x->shape.dim[2] * x->shape.dim[3] <= INT_MAX,
                  CHARL_ERR_SHAPE, "x %s is not [B, C, H, W]", charl_shape_format(&x->shape, text));
    *out = x->shape;
    for (int d = 0; d < 2; d++) {
        const charl_window *w = &p->win;
        int64_t room;

        CHARL_TRY(check_axis(w, d));
        room = x->shape.dim[2 + d] + 2 * (int64_t)w->padding[d] -
               (int64_t)w->dilation[d] * (w->kernel[d] - 1) - 1;
        CHARL_REQUIRE(room >= 0, CHARL_ERR_SHAPE,
                      "kernel %d x %d is larger than the padded image %s", w->kernel[0],
                      w->kernel[1], charl_shape_format(&x->shape, text));
        out->dim[2 + d] = room / w->stride[d] + 1;
    }
    return CHARL_OK;
}

charl_status charl__pool_infer_gradient(charl_infer *inf)
{
    const charl_pool *p = inf->attr;
    charl_shape want = {0};
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT];

    inf->out[0] = inf->in[0];
    inf->out[0].shape.dim[2] = p->size[0];
    inf->out[0].shape.dim[3] = p->size[1];
    CHARL_TRY(charl__pool_output(p, &inf->out[0], &want));
    CHARL_REQUIRE(charl_shape_equal(&want, &inf->in[0].shape), CHARL_ERR_SHAPE,
                  "the gradient is %s, the output %s", charl_shape_format(&inf->in[0].shape, a),
                  charl_shape_format(&want, b));
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

typedef struct pool_run {
    const char *file, *entry;
    bool gradient;
    int64_t count, span; /* of what work-items go through, and how many each */
    int64_t groups;      /* > 0: channels-last, in eights */
} pool_run;

static charl_status launch(const charl_enqueue *e, const pool_run *r)
{
    const charl_window *w = &((const charl_pool *)e->attr)->win;
    const charl_shape *in = &e->in[0]->shape, *out = &e->out[0]->shape;
    const charl_shape *image = r->gradient ? out : in, *small = r->gradient ? in : out;
    char defines[256];
    int a = 0;
    charl_launch l = {.file = r->file, .entry = r->entry, .defines = defines, .label = e->label};

    if (r->count == 0) {
        return CHARL_OK;
    }
    snprintf(
        defines, sizeof defines,
        "#define KH %d\n#define KW %d\n#define SH %d\n#define SW %d\n#define PH %d\n#define PW %d\n"
        "#define DH %d\n#define DW %d\n%s%s",
        w->kernel[0], w->kernel[1], w->stride[0], w->stride[1], w->padding[0], w->padding[1],
        w->dilation[0], w->dilation[1], charl__act_define(e->out[0]->dtype),
        strcmp(r->file, "pool/pool_rows") == 0 ? "#define CHARL_VEC 16\n" : "");
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
    return charl__launch(e->dev, &l);
}

/* out[0] lies channels-last, and so does what goes with it. */
static charl_status launch_last(const charl_enqueue *e, const char *entry, bool gradient)
{
    return launch(e, &(pool_run){.file = "pool/pool_last",
                                 .entry = entry,
                                 .gradient = gradient,
                                 .count = charl__tensor_count(e->out[0]) / LANES,
                                 .span = 1,
                                 .groups = e->out[0]->shape.dim[1] / LANES});
}

charl_status charl__pool_launch(const charl_enqueue *e, const char *entry, bool gradient)
{
    const int64_t count = charl__tensor_count(e->out[0]);

    return launch(e, &(pool_run){.file = "pool/pool",
                                 .entry = entry,
                                 .gradient = gradient,
                                 .count = count,
                                 .span = charl__span(e->dev, count, 1)});
}

/* On CPUs: over rows of out[0]. */
static charl_status launch_rows(const charl_enqueue *e, const char *entry, bool gradient)
{
    const int64_t count = charl__tensor_count(e->out[0]), extent = e->out[0]->shape.dim[3];
    const int64_t width = extent > 0 ? extent : 1;

    return launch(e, &(pool_run){.file = "pool/pool_rows",
                                 .entry = entry,
                                 .gradient = gradient,
                                 .count = count / width,
                                 .span = (charl__span(e->dev, count, 1) + width - 1) / width});
}

charl_status charl__pool_launch_max(const charl_enqueue *e)
{
    if (e->out[0]->channels_last) {
        return launch_last(e, "charl_max_last", false);
    }
    return charl__is_ungrouped(e->dev) ? launch_rows(e, "charl_max_rows", false)
                                       : charl__pool_launch(e, "charl_max", false);
}

/* Windows n x 2 that cover the image once, but for what is left over. */
static bool is_tiling(const charl_window *w)
{
    for (int d = 0; d < 2; d++) {
        if (w->kernel[d] != w->stride[d] || w->padding[d] != 0 || w->dilation[d] != 1) {
            return false;
        }
    }
    return w->kernel[1] == 2;
}

charl_status charl__pool_launch_max_gradient(const charl_enqueue *e)
{
    const charl_window *w = &((const charl_pool *)e->attr)->win;
    const charl_shape *image = &e->out[0]->shape;
    const int64_t size = image->dim[2] * image->dim[3];
    const bool overlap = w->stride[0] <= w->dilation[0] * (w->kernel[0] - 1) ||
                         w->stride[1] <= w->dilation[1] * (w->kernel[1] - 1);

    if (e->out[0]->channels_last) {
        return launch_last(e, "charl_max_gradient_last", true);
    }
    if (!charl__is_ungrouped(e->dev) || (overlap && e->out[0]->dtype != CHARL_F32) || size == 0) {
        return charl__pool_launch(e, "charl_max_gradient", true);
    }
    if (is_tiling(w)) {
        return launch_rows(e, "charl_max_rows_gradient", true);
    }
    return launch(
        e, &(pool_run){.file = "pool/pool",
                       .entry = "charl_max_scatter",
                       .gradient = true,
                       .count = image->dim[0] * image->dim[1],
                       .span = (charl__span(e->dev, charl__tensor_count(e->out[0]), 1) + size - 1) /
                               size});
}

charl_pool_walk charl__pool_walk(const charl_shape *image, const charl_shape *out)
{
    return (charl_pool_walk){image->dim[0] * image->dim[1], image->dim[2], image->dim[3],
                             out->dim[2], out->dim[3]};
}

int64_t charl__pool_tap(const charl_window *win, int d, int64_t i, int64_t k, int64_t extent)
{
    const int64_t at = i * win->stride[d] - win->padding[d] + k * win->dilation[d];

    return at >= 0 && at < extent ? at : -1;
}
