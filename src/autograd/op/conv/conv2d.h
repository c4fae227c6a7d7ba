#ifndef CHARL_AUTOGRAD_OP_CONV_CONV2D_H
#define CHARL_AUTOGRAD_OP_CONV_CONV2D_H
/** conv2d's gradient as a builder, for operators defined by it (op/conv/conv2d.c). */
#include "charl/ops.h"

/** Attribute of conv2d, conv2d_dgrad and conv2d_wgrad. */
typedef struct charl__conv_attr {
    charl_window win;
    int groups;
    int64_t size[2]; /* dgrad: H and W of the result; wgrad: KH and KW are in win */
    bool is_integer; /* by products of integers: op/conv/conv_digits.c */
} charl__conv_attr;

/** charl_conv2d by products of integers, and so are its gradients, where op/conv/conv_digits.c supports them. Such products have the same bits on
 *  every device. The derivatives of these gradients are products of integers too. Local. Errors: as charl_conv2d. */
charl_var *charl__conv2d_integer(charl_graph *g, charl_var *x, charl_var *w, charl_var *bias, const charl_window *win,
                                 int groups);

/** The gradient of x [B, C, size] for conv2d(x, w) with the gradient gout [B, O, OH, OW] of its
 *  output; w [O, C/groups, KH, KW]. Local. Errors: as charl_conv2d. */
charl_var *charl__conv2d_dgrad(charl_graph *g, charl_var *gout, charl_var *w, const charl_window *win, int groups,
                               const int64_t size[2]);

#endif
