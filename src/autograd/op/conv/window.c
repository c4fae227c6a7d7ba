/* Shape rules of windows. */
#include "autograd/op/conv/window.h"

#include <stdio.h>

#include "autograd/op/shape/unfold.h"
#include "base/error.h"

const char *charl__window_axis(int dims, int d)
{
    static const char *const axes[] = {"D", "H", "W"};

    return axes[3 - dims + d];
}

charl_status charl__window_check(const charl_window *w, int dims)
{
    for (int d = 0; d < dims; d++) {
        CHARL_REQUIRE(w->kernel[d] >= 1 && w->stride[d] >= 1 && w->dilation[d] >= 1 && w->padding[d] >= 0,
                      CHARL_ERR_INVALID, "window with kernel %d, stride %d, dilation %d, padding %d in %s",
                      w->kernel[d], w->stride[d], w->dilation[d], w->padding[d], charl__window_axis(dims, d));
    }
    return CHARL_OK;
}

charl_status charl__window_output(const charl_window *w, int dims, const charl_shape *x, charl_shape *out)
{
    char depth[16] = "", text[CHARL_SHAPE_TEXT];

    CHARL_TRY(charl__window_check(w, dims));
    if (dims == 3) {
        snprintf(depth, sizeof depth, "%d x ", w->kernel[0]);
    }
    for (int d = 0; d < dims; d++) {
        const charl__unfold along = {w->kernel[d], w->stride[d], w->padding[d], w->dilation[d], 0};

        out->dim[2 + d] = charl__unfold_places(&along, x->dim[2 + d]);
        CHARL_REQUIRE(out->dim[2 + d] > 0, CHARL_ERR_SHAPE, "kernel %s%d x %d is larger than the padded %s %s", depth,
                      w->kernel[dims - 2], w->kernel[dims - 1], dims == 2 ? "image" : "volume",
                      charl_shape_format(x, text));
    }
    return CHARL_OK;
}

charl_status charl__window_transposed(const charl_conv_transpose_args *a, int dims, const charl_shape *x,
                                      charl_shape *out)
{
    const charl_window *w = &a->win;
    char text[CHARL_SHAPE_TEXT];

    for (int d = 0; d < dims; d++) {
        const int64_t reach = (int64_t)w->dilation[d] * (w->kernel[d] - 1) + 1 - 2 * (int64_t)w->padding[d];

        out->dim[2 + d] = (x->dim[2 + d] - 1) * w->stride[d] + reach + a->output_padding[d];
        CHARL_REQUIRE(a->output_padding[d] >= 0 && a->output_padding[d] < w->stride[d] && out->dim[2 + d] >= 1,
                      CHARL_ERR_INVALID,
                      "x %s gives %lld outputs in %s; output_padding %d must be less than the stride %d",
                      charl_shape_format(x, text), (long long)out->dim[2 + d], charl__window_axis(dims, d),
                      a->output_padding[d], w->stride[d]);
    }
    return CHARL_OK;
}
