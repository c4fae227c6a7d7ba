/* conv3d and conv_transpose3d: convolutions over volumes [B, C, D, H, W], reduced to images; and conv_transpose2d.
 *
 * The taps along H become channels (op/shape/unfold.h). The remaining window covers D and W; D and H share one extent, in which a step
 * along D is OH rows:
 *
 *     x [B, C, D, H, W]  -- unfold H -->  [B, C KH, D OH, W]  -- conv2d, window KD x KW, dilation OH in front -->  [B, O, OD OH, OW]
 *
 * conv2d cannot step over planes along D, so with a stride along D its taps become channels too. A transposed convolution does the reverse,
 * with fold. */
#include "autograd/op.h"
#include "autograd/op/conv/conv2d.h"
#include "autograd/op/conv/window.h"
#include "autograd/op/shape/unfold.h"
#include "charl/error.h"
#include "charl/ops.h"

/* How a window over volumes is decomposed. */
typedef struct parts {
    charl__unfold d, h; /* kernel 0: nothing is unfolded along it */
    charl_window image;
} parts;

/* x: extents of the side that the window reads. */
static parts decompose(const charl_window *w, const int64_t x[3])
{
    const charl__unfold d = {w->kernel[0], w->stride[0], w->padding[0], w->dilation[0], x[0]};
    const charl__unfold h = {w->kernel[1], w->stride[1], w->padding[1], w->dilation[1], x[1]};
    const int rows = (int)charl__unfold_places(&h, x[1]);
    parts p = {.image = {{1, w->kernel[2]}, {1, w->stride[2]}, {0, w->padding[2]}, {1, w->dilation[2]}}};

    if (w->stride[0] > 1) {
        p.d = d;
    } else {
        p.image.kernel[0] = w->kernel[0];
        p.image.padding[0] = w->padding[0] * rows;
        p.image.dilation[0] = w->dilation[0] * rows;
    }
    if (w->kernel[1] > 1 || w->stride[1] > 1 || w->padding[1] > 0) {
        p.h = h;
    }
    return p;
}

/* The weight [.., .., KD, KH, KW] as conv2d reads it. */
static charl_var *image_weight(charl_graph *g, charl_var *w, const parts *p)
{
    static const int taps_of_h_first[] = {0, 1, 3, 2, 4};
    const charl_shape s = charl_var_get_type(w).shape;
    const int64_t channels = s.dim[1] * s.dim[3] * (p->d.kernel > 0 ? s.dim[2] : 1);

    if (p->d.kernel == 0 && s.dim[3] > 1 && s.dim[2] > 1) {
        w = charl_transpose(g, w, taps_of_h_first);
    }
    return charl_reshape(g, w, (charl_shape){4, {s.dim[0], channels, p->image.kernel[0], s.dim[4]}});
}

/* Record an error of the graph unless a rule holds. */
static bool is_ok(charl_graph *g, const char *name, charl_status st)
{
    if (st != CHARL_OK) {
        charl__graph_fail(g, st, "%s: %s", name, charl_error_message());
    }
    return st == CHARL_OK;
}

static bool check(charl_graph *g, const char *name, charl_var *x, charl_var *w, const charl_window *win, int64_t groups,
                  bool transposed)
{
    const charl_shape s = charl_var_get_type(x).shape, k = charl_var_get_type(w).shape;
    bool fits = s.ndim == 5 && k.ndim == 5 && groups >= 1 && s.dim[1] % groups == 0 && k.dim[0] % groups == 0 &&
                (transposed ? k.dim[0] == s.dim[1] : k.dim[1] * groups == s.dim[1]);
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT];

    for (int i = 0; i < 3 && fits; i++) {
        fits = k.dim[2 + i] == win->kernel[i];
    }
    if (!fits) {
        charl__graph_fail(g, CHARL_ERR_SHAPE,
                          "%s: weight %s does not fit x %s with kernel %d x %d x %d and %lld groups", name,
                          charl_shape_format(&k, a), charl_shape_format(&s, b), win->kernel[0], win->kernel[1],
                          win->kernel[2], (long long)groups);
    }
    return fits && is_ok(g, name, charl__window_check(win, 3));
}

static charl_var *add_bias(charl_graph *g, charl_var *x, charl_var *bias, int dims)
{
    const int64_t channels = x ? charl_var_get_type(x).shape.dim[1] : 0;

    return x && bias ? charl_add(g, x, charl_reshape(g, bias, (charl_shape){dims + 1, {channels, 1, 1, 1}})) : x;
}

charl_var *charl_conv3d(charl_graph *g, charl_var *x, charl_var *w, charl_var *bias, const charl_window *win,
                        int groups)
{
    CHARL_BUILDER_GIVEN(g, "conv3d", win);
    charl_shape s, out;
    parts p;

    if (!x || !w || !check(g, "conv3d", x, w, win, groups, false)) {
        return NULL;
    }
    s = out = charl_var_get_type(x).shape;
    out.dim[1] = charl_var_get_type(w).shape.dim[0];
    if (!is_ok(g, "conv3d", charl__window_output(win, 3, &s, &out))) {
        return NULL;
    }
    p = decompose(win, s.dim + 2);
    w = image_weight(g, w, &p);
    if (p.d.kernel > 0) {
        x = charl_reshape(g, x, (charl_shape){5, {s.dim[0], s.dim[1], 1, s.dim[2], s.dim[3] * s.dim[4]}});
        x = charl__unfold_apply(g, x, &p.d);
        s.dim[1] *= p.d.kernel;
        s.dim[2] = out.dim[2];
        x = charl_reshape(g, x, s);
    }
    x = p.h.kernel > 0 ? charl__unfold_apply(g, x, &p.h)
                       : charl_reshape(g, x, (charl_shape){4, {s.dim[0], s.dim[1], s.dim[2] * s.dim[3], s.dim[4]}});
    return charl_reshape(g, charl_conv2d(g, x, w, bias, &p.image, groups), out);
}

charl_var *charl_conv_transpose3d(charl_graph *g, charl_var *x, charl_var *w, charl_var *bias,
                                  const charl_conv_transpose_args *args)
{
    CHARL_BUILDER_GIVEN(g, "conv_transpose3d", args);
    charl_shape s, out;
    int64_t image[2];
    parts p;

    if (!x || !w || !check(g, "conv_transpose3d", x, w, &args->win, args->groups, true)) {
        return NULL;
    }
    s = out = charl_var_get_type(x).shape;
    out.dim[1] = charl_var_get_type(w).shape.dim[1] * args->groups;
    if (!is_ok(g, "conv_transpose3d", charl__window_transposed(args, 3, &s, &out))) {
        return NULL;
    }
    p = decompose(&args->win, out.dim + 2);
    image[0] = (p.d.kernel > 0 ? s.dim[2] : out.dim[2]) * s.dim[3];
    image[1] = out.dim[4];
    x = charl_reshape(g, x, (charl_shape){4, {s.dim[0], s.dim[1], s.dim[2] * s.dim[3], s.dim[4]}});
    x = charl__conv2d_dgrad(g, x, image_weight(g, w, &p), &p.image, args->groups, image);
    x = p.h.kernel > 0 ? charl__fold_apply(g, x, &p.h) : x;
    if (p.d.kernel > 0) {
        const int64_t plane = out.dim[3] * out.dim[4];

        x = charl_reshape(g, x, (charl_shape){4, {s.dim[0], out.dim[1] * p.d.kernel, s.dim[2], plane}});
        x = charl__fold_apply(g, x, &p.d);
    }
    return add_bias(g, charl_reshape(g, x, out), bias, 3);
}

/* The gradient of x for conv2d, as an operator. So its gradients are conv2d, for x, and conv2d's weight gradient with the
 * two images exchanged. */
charl_var *charl_conv_transpose2d(charl_graph *g, charl_var *x, charl_var *w, charl_var *bias,
                                  const charl_conv_transpose_args *args)
{
    CHARL_BUILDER_GIVEN(g, "conv_transpose2d", args);
    charl_shape s, out;
    char text[CHARL_SHAPE_TEXT];

    if (!x || !w) {
        return NULL;
    }
    s = out = charl_var_get_type(x).shape;
    if (s.ndim != 4) {
        return charl__graph_fail(g, CHARL_ERR_SHAPE, "conv_transpose2d: x %s is not [B, C, H, W]",
                                 charl_shape_format(&s, text));
    }
    if (!is_ok(g, "conv_transpose2d", charl__window_transposed(args, 2, &s, &out))) {
        return NULL;
    }
    return add_bias(g, charl__conv2d_dgrad(g, x, w, &args->win, args->groups, out.dim + 2), bias, 2);
}
