#ifndef CHARL_AUTOGRAD_OP_SHAPE_UNFOLD_H
#define CHARL_AUTOGRAD_OP_SHAPE_UNFOLD_H
/** Windows along one extent laid out as channels, so that a convolution over volumes becomes one over images (op/shape/unfold.c). */
#include "charl/graph.h"

/** A window along one extent. */
typedef struct charl__unfold {
    int kernel, stride, padding, dilation;
    int64_t extent; /* fold: of the result */
} charl__unfold;

/** out[b, c K + k, m O + o, i] = x[b, c, m, o stride - padding + k dilation, i], 0 outside
 *
 *    x    [B, C, M, N, I]
 *    out  [B, C K, M O, I]   K = kernel, O = (N + 2 padding - dilation (K - 1) - 1) / stride + 1
 *
 *  Local. Errors: ERR_INVALID  an invalid window. Cost: one read and one write per element of out. */
charl_var *charl__unfold_apply(charl_graph *g, charl_var *x, const charl__unfold *u);

/** The transpose, and so the gradient: out[b, c, m, n, i] = sum of all elements that unfold would read from there.
 *
 *    x    [B, C K, M O, I]
 *    out  [B, C, M, N, I]    N = extent
 *
 *  Local. Errors: as above. Cost: as above. */
charl_var *charl__fold_apply(charl_graph *g, charl_var *x, const charl__unfold *u);

/** O for an extent n; 0 or less if the window does not fit. */
int64_t charl__unfold_places(const charl__unfold *u, int64_t n);

#endif
