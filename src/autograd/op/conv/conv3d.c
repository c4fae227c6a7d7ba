/* conv3d and conv_transpose3d: convolutions over volumes [B, C, D, H, W] as ones over images.
 *
 * The taps along H become channels (op/shape/unfold.h). What is left is a window over D and W, and D and H lie in one extent, where a step
 * along D is OH rows:
 *
 *     x [B, C, D, H, W]  -- unfold H -->  [B, C KH, D OH, W]  -- conv2d, window KD x KW, dilation OH in front -->  [B, O, OD OH, OW]
 *
 * conv2d cannot step over planes along D, so with a stride along D its taps become channels too. A transposed convolution goes the other way,
 * with fold. */
#include "autograd/op.h"
#include "autograd/op/conv/conv2d.h"
#include "autograd/op/shape/unfold.h"
#include "charl/ops.h"

/* How a window over volumes is taken apart. */
typedef struct parts {
    charl__unfold d, h; /* kernel 0: nothing is unfolded along it */
    charl_window image;
} parts;

/* x: extents of the side that the window reads. */
static parts take_apart(const charl_window *w, const int64_t x[3])
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

static bool check(charl_graph *g, const char *name, charl_var *x, charl_var *w, const charl_window *win, int64_t groups,
                  bool transposed)
{
    static const char *const axes[] = {"D", "H", "W"};
    const charl_shape s = charl_var_get_type(x).shape, k = charl_var_get_type(w).shape;
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT];

    if (s.ndim != 5 || k.ndim != 5 || groups < 1 || s.dim[1] % groups != 0 || k.dim[0] % groups != 0 ||
        (transposed ? k.dim[0] != s.dim[1] : k.dim[1] * groups != s.dim[1])) {
        charl__graph_fail(g, CHARL_ERR_SHAPE, "%s: weight %s does not fit x %s with %lld groups", name,
                          charl_shape_format(&k, a), charl_shape_format(&s, b), (long long)groups);
        return false;
    }
    for (int i = 0; i < 3; i++) {
        if (win->kernel[i] < 1 || win->stride[i] < 1 || win->dilation[i] < 1 || win->padding[i] < 0 ||
            win->kernel[i] != k.dim[2 + i]) {
            charl__graph_fail(g, CHARL_ERR_INVALID,
                              "%s: window with kernel %d, stride %d, dilation %d, padding %d in %s, weight %s", name,
                              win->kernel[i], win->stride[i], win->dilation[i], win->padding[i], axes[i],
                              charl_shape_format(&k, a));
            return false;
        }
    }
    return true;
}

charl_var *charl_conv3d(charl_graph *g, charl_var *x, charl_var *w, charl_var *bias, const charl_window *win,
                        int groups)
{
    CHARL_BUILDER_GIVEN(g, "conv3d", win);
    charl_shape s, out = {5, {0}};
    charl__unfold along;
    parts p;
    char text[CHARL_SHAPE_TEXT];

    if (!x || !w || !check(g, "conv3d", x, w, win, groups, false)) {
        return NULL;
    }
    s = charl_var_get_type(x).shape;
    out.dim[0] = s.dim[0];
    out.dim[1] = charl_var_get_type(w).shape.dim[0];
    for (int i = 0; i < 3; i++) {
        along = (charl__unfold){win->kernel[i], win->stride[i], win->padding[i], win->dilation[i], 0};
        out.dim[2 + i] = charl__unfold_places(&along, s.dim[2 + i]);
        if (out.dim[2 + i] < 1) {
            return charl__graph_fail(g, CHARL_ERR_SHAPE,
                                     "conv3d: kernel %d x %d x %d is larger than the padded volume %s", win->kernel[0],
                                     win->kernel[1], win->kernel[2], charl_shape_format(&s, text));
        }
    }
    p = take_apart(win, s.dim + 2);
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
    const charl_window *win = &args->win;
    charl_shape s, k, out = {5, {0}};
    int64_t image[2];
    parts p;
    char text[CHARL_SHAPE_TEXT];

    if (!x || !w || !check(g, "conv_transpose3d", x, w, win, args->groups, true)) {
        return NULL;
    }
    s = charl_var_get_type(x).shape;
    k = charl_var_get_type(w).shape;
    out.dim[0] = s.dim[0];
    out.dim[1] = k.dim[1] * args->groups;
    for (int i = 0; i < 3; i++) {
        const int64_t reach = (int64_t)win->dilation[i] * (win->kernel[i] - 1) + 1 - 2 * (int64_t)win->padding[i];

        out.dim[2 + i] = (s.dim[2 + i] - 1) * win->stride[i] + reach + args->output_padding[i];
        if (args->output_padding[i] < 0 || args->output_padding[i] >= win->stride[i] || out.dim[2 + i] < 1) {
            return charl__graph_fail(
                g, CHARL_ERR_INVALID,
                "conv_transpose3d: x %s gives %lld outputs along extent %d; output_padding %d must be "
                "less than the stride %d",
                charl_shape_format(&s, text), (long long)out.dim[2 + i], 2 + i, args->output_padding[i],
                win->stride[i]);
        }
    }
    p = take_apart(win, out.dim + 2);
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
    x = charl_reshape(g, x, out);
    return bias ? charl_add(g, x, charl_reshape(g, bias, (charl_shape){4, {out.dim[1], 1, 1, 1}})) : x;
}
