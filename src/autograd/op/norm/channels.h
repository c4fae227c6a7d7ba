#ifndef CHARL_AUTOGRAD_OP_NORM_CHANNELS_H
#define CHARL_AUTOGRAD_OP_NORM_CHANNELS_H
/** Sums per channel over channels-last images (kernels/norm/channels.cl), and their use in batch
 *  normalization.
 *
 *  A slice is divided into blocks of rows, a row being a pixel; the number depends on the pixels of a
 *  slice and the channels only. Blocks are added by charl__reduce_sum, slices in the fixed tree.
 */
#include "autograd/op.h"

/** Bytes for charl__channels_sums over x [N, C, H, W] in so many slices. */
int64_t charl__channels_workspace(const charl_shape *x, int n_slices, int quantities);

typedef struct charl__channels {
    const charl_tensor *x;
    const charl_tensor *g;      /* gradient of the output; NULL: none, or computed during the read */
    const charl_tensor *mean;   /* f32 [C], or NULL */
    const charl_tensor *invstd; /* f32 [C], or NULL */
    /* with x alone: receives the input of charl__channels_squares, f32 [charl__channels_blocks, 2, C]; or NULL */
    const charl_tensor *moments;
} charl__channels;

/** Blocks of x [N, C, H, W] in so many slices. */
int64_t charl__channels_blocks(const charl_shape *x, int n_slices);

/** out[0] = with invstd: sum of g, then of g * (x - mean) * invstd, [2, C]; with mean: sum of (x -
 *  mean)^2, [C]; else sum of x, [C]. Over slices if out[0] is PARTIAL. Async. */
charl_status charl__channels_sums(const charl__enqueue *e, const charl__channels *c) CHARL_MUST_CHECK;

/** out[0] = sum of (x - mean)^2, [C], of x of this shape with these moments: the same bits as
 *  charl__channels_sums of x and mean. */
charl_status charl__channels_squares(const charl__enqueue *e, const charl_shape *x, const charl_tensor *moments,
                                     const charl_tensor *mean) CHARL_MUST_CHECK;

/** batch_norm_grad of e's operands, over `count` elements of a channel. Async. */
charl_status charl__channels_gradient(const charl__enqueue *e, double count) CHARL_MUST_CHECK;

#endif
