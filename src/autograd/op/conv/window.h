#ifndef CHARL_AUTOGRAD_OP_CONV_WINDOW_H
#define CHARL_AUTOGRAD_OP_CONV_WINDOW_H
/** Windows over the extents of images (H and W) and volumes (D, H and W), dims of them behind [B, C]: what convolutions, their transposes and
 *  pooling have in common. */
#include "charl/ops.h"

/** "D", "H" or "W". */
const char *charl__window_axis(int dims, int d);
/** Errors: ERR_INVALID  a window that makes no sense. */
charl_status charl__window_check(const charl_window *w, int dims) CHARL_MUST_CHECK;
/** Extents of *out, which is preset to x, where the window has a place. Errors: ERR_INVALID; ERR_SHAPE  it fits nowhere. */
charl_status charl__window_output(const charl_window *w, int dims, const charl_shape *x,
                                  charl_shape *out) CHARL_MUST_CHECK;
/** Extents of *out, likewise, of which the transposed convolution makes those of x. Errors: ERR_INVALID. */
charl_status charl__window_transposed(const charl_conv_transpose_args *a, int dims, const charl_shape *x,
                                      charl_shape *out) CHARL_MUST_CHECK;

#endif
