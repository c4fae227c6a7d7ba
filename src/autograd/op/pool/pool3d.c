/* max_pool3d, avg_pool3d and upsample3d: the image operators over H and W, then the same over D. Of equal elements a maximum
 * selects the first: first in its plane, then the first plane. */
#include "autograd/op.h"
#include "charl/ops.h"

/* x [B, C, D, H, W] as images [B, C D, H, W]; *s is its shape. */
static charl_var *planes(charl_graph *g, const char *name, charl_var *x, charl_shape *s)
{
    char text[CHARL_SHAPE_TEXT];

    *s = x ? charl_var_get_type(x).shape : (charl_shape){0};
    if (x && s->ndim != 5) {
        return charl__graph_fail(g, CHARL_ERR_SHAPE, "%s: x %s is not [B, C, D, H, W]", name,
                                 charl_shape_format(s, text));
    }
    return charl_reshape(g, x, (charl_shape){4, {s->dim[0], s->dim[1] * s->dim[2], s->dim[3], s->dim[4]}});
}

/* Planes [B, C D, h, w], processed along H and W, as images [B, C, D, h w]. *s gets h and w. */
static charl_var *columns(charl_graph *g, charl_var *x, charl_shape *s)
{
    if (x) {
        s->dim[3] = charl_var_get_type(x).shape.dim[2];
        s->dim[4] = charl_var_get_type(x).shape.dim[3];
    }
    return charl_reshape(g, x, (charl_shape){4, {s->dim[0], s->dim[1], s->dim[2], s->dim[3] * s->dim[4]}});
}

static charl_var *volume(charl_graph *g, charl_var *x, charl_shape s)
{
    s.dim[2] = x ? charl_var_get_type(x).shape.dim[2] : 0;
    return charl_reshape(g, x, s);
}

static charl_var *pool(charl_graph *g, const char *name, charl_var *x, const charl_window *w,
                       charl_var *(*apply)(charl_graph *, charl_var *, const charl_window *))
{
    const charl_window plane = {{w->kernel[1], w->kernel[2]},
                                {w->stride[1], w->stride[2]},
                                {w->padding[1], w->padding[2]},
                                {w->dilation[1], w->dilation[2]}};
    const charl_window depth = {{w->kernel[0], 1}, {w->stride[0], 1}, {w->padding[0], 0}, {w->dilation[0], 1}};
    charl_shape s;

    x = planes(g, name, x, &s);
    x = columns(g, apply(g, x, &plane), &s);
    return volume(g, apply(g, x, &depth), s);
}

charl_var *charl_max_pool3d(charl_graph *g, charl_var *x, const charl_window *win)
{
    CHARL_BUILDER_GIVEN(g, "max_pool3d", win);
    return pool(g, "max_pool3d", x, win, charl_max_pool2d);
}

charl_var *charl_avg_pool3d(charl_graph *g, charl_var *x, const charl_window *win)
{
    CHARL_BUILDER_GIVEN(g, "avg_pool3d", win);
    return pool(g, "avg_pool3d", x, win, charl_avg_pool2d);
}

charl_var *charl_upsample3d(charl_graph *g, charl_var *x, const charl_upsample_args *args)
{
    CHARL_BUILDER_GIVEN(g, "upsample3d", args);
    const charl_upsample_args plane = {{args->factor[1], args->factor[2]}, args->linear};
    const charl_upsample_args depth = {{args->factor[0], 1}, args->linear};
    charl_shape s;

    x = planes(g, "upsample3d", x, &s);
    x = columns(g, charl_upsample2d(g, x, &plane), &s);
    return volume(g, charl_upsample2d(g, x, &depth), s);
}
