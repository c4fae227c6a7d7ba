/* conv_transpose2d: what the gradient of x is to conv2d, as an operator of its own. So its
 * gradients are conv2d, for x, and conv2d's weight gradient with the two images exchanged. */
#include "autograd/op/conv/conv2d.h"
#include "autograd/op.h"

/* Extent of the output along an axis of extent n. */
static int64_t output_extent(const charl_conv_transpose_args *a, int d, int64_t n)
{
    const charl_window *w = &a->win;

    return (n - 1) * w->stride[d] - 2 * (int64_t)w->padding[d] + (int64_t)w->dilation[d] * (w->kernel[d] - 1) +
           a->output_padding[d] + 1;
}

charl_var *charl_conv_transpose2d(charl_graph *g, charl_var *x, charl_var *w, charl_var *bias,
                                  const charl_conv_transpose_args *args)
{
    CHARL_BUILDER_GIVEN(g, "conv_transpose2d", args);
    charl_shape s;
    int64_t size[2];
    char text[CHARL_SHAPE_TEXT];

    if (!x || !w) {
        return NULL;
    }
    s = charl_var_get_type(x).shape;
    if (s.ndim != 4) {
        return charl__graph_fail(g, CHARL_ERR_SHAPE, "conv_transpose2d: x %s is not [B, C, H, W]",
                                 charl_shape_format(&s, text));
    }
    for (int d = 0; d < 2; d++) {
        size[d] = output_extent(args, d, s.dim[2 + d]);
        if (args->output_padding[d] < 0 || args->output_padding[d] >= args->win.stride[d] || size[d] < 1) {
            return charl__graph_fail(g, CHARL_ERR_INVALID,
                                     "conv_transpose2d: x %s gives %lld outputs in %s; output_padding %d must be less "
                                     "than the stride %d",
                                     charl_shape_format(&s, text), (long long)size[d], d == 0 ? "H" : "W",
                                     args->output_padding[d], args->win.stride[d]);
        }
    }
    x = charl__conv2d_dgrad(g, x, w, &args->win, args->groups, size);
    if (x && bias) {
        const charl_shape channels = {3, {charl_var_get_type(x).shape.dim[1], 1, 1}};

        x = charl_add(g, x, charl_reshape(g, bias, channels));
    }
    return x;
}
