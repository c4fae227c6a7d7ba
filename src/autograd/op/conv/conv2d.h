#ifndef CHARL_AUTOGRAD_OP_CONV_CONV2D_H
#define CHARL_AUTOGRAD_OP_CONV_CONV2D_H
/** conv2d's gradient as a builder, for operators defined by it (op/conv/conv2d.c). */
#include "charl/ops.h"

/** Attribute of conv2d, conv2d_dgrad and conv2d_wgrad. */
typedef struct charl__conv_attr {
    charl_window win;
    int groups;
    int64_t size[2]; /* dgrad: H and W of the result; wgrad: KH and KW are in win */
} charl__conv_attr;

/** The gradient of x [B, C, size] for conv2d(x, w) with the gradient gout [B, O, OH, OW] of its
 *  output; w [O, C/groups, KH, KW]. Local. Errors: as charl_conv2d. */
charl_var *charl__conv2d_dgrad(charl_graph *g, charl_var *gout, charl_var *w, const charl_window *win, int groups,
                               const int64_t size[2]);

#endif
