#ifndef CHARL_AUTOGRAD_OP_POOL_POOL_H
#define CHARL_AUTOGRAD_OP_POOL_POOL_H
/** What the pooling operators share: planes [B, C, H, W] and windows over them. */
#include "autograd/op.h"
#include "charl/ops.h"

/** Attribute of all of them. */
typedef struct charl_pool {
    charl_window win;
    int64_t size[2]; /* H and W of the input: for gradients, whose operands do not tell */
} charl_pool;

/** Shape under the window. Errors: ERR_DTYPE, ERR_SHAPE, ERR_INVALID for a window that makes no
 * sense. */
charl_status charl__pool_output(const charl_pool *p, const charl_type *x,
                                charl_shape *out) CHARL_MUST_CHECK;

/** out[0] of a gradient: in[0] is d out; its shape must be that of an output for size. */
charl_status charl__pool_infer_gradient(charl_infer *inf) CHARL_MUST_CHECK;

/** Launch entry over the elements of out[0]; operands are in[0], then in[1] if there is one, then
 * outputs. */
charl_status charl__pool_launch(const charl_enqueue *e, const char *entry,
                                bool gradient) CHARL_MUST_CHECK;

/** Launch max_pool2d: by elements of out[0] or, on CPUs, by its rows in vectors. The same bits.
 * Async. */
charl_status charl__pool_launch_max(const charl_enqueue *e) CHARL_MUST_CHECK;

/** Launch the gradient of max_pool2d: by pixels of the image or, where a work-item can own whole
 * planes, by windows. The same bits. */
charl_status charl__pool_launch_max_gradient(const charl_enqueue *e) CHARL_MUST_CHECK;

/** Extents as the reference needs them, and the visits of all (window, tap inside the plane) pairs
 * in row-major order. */
typedef struct charl_pool_walk {
    int64_t planes, h, w, oh, ow;
} charl_pool_walk;

charl_pool_walk charl__pool_walk(const charl_shape *image, const charl_shape *out);
/** Row of tap k (H: d = 0) or column (W: d = 1) of window i, or -1 outside. */
int64_t charl__pool_tap(const charl_window *win, int d, int64_t i, int64_t k, int64_t extent);

#endif
