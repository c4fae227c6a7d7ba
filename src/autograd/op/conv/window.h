#ifndef CHARL_AUTOGRAD_OP_CONV_WINDOW_H
#define CHARL_AUTOGRAD_OP_CONV_WINDOW_H
/** Windows over the extents of images (H and W) and volumes (D, H and W), dims of them after [B, C]: shared by convolutions, their transposes and
 *  pooling. */
#include "charl/ops.h"

/** "D", "H" or "W". */
const char *charl__window_axis(int dims, int d);
/** Errors: ERR_INVALID  an invalid window. */
charl_status charl__window_check(const charl_window *w, int dims) CHARL_MUST_CHECK;
/** Extents of *out, preset to x, as the number of positions of the window. Errors: ERR_INVALID; ERR_SHAPE  it does not fit. */
charl_status charl__window_output(const charl_window *w, int dims, const charl_shape *x,
                                  charl_shape *out) CHARL_MUST_CHECK;
/** Extents of *out, likewise, for the transposed convolution: the window has x's number of positions in them. Errors: ERR_INVALID. */
charl_status charl__window_transposed(const charl_conv_transpose_args *a, int dims, const charl_shape *x,
                                      charl_shape *out) CHARL_MUST_CHECK;

#endif
