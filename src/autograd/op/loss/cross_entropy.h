#ifndef CHARL_AUTOGRAD_OP_LOSS_CROSS_ENTROPY_H
#define CHARL_AUTOGRAD_OP_LOSS_CROSS_ENTROPY_H
/** Shared by the operators of a classifier's loss: cross_entropy, cross_entropy_grad and
 *  cross_entropy_with_grad, whose attribute is a charl_cross_entropy_args.
 */
#include "autograd/launch/rows.h"

enum { CHARL__CROSS_ENTROPY_CHUNK = 1024 }; /* as in kernels/loss/cross_entropy.clh */

static inline int64_t charl__cross_entropy_chunks(int64_t n)
{
    return (n + CHARL__CROSS_ENTROPY_CHUNK - 1) / CHARL__CROSS_ENTROPY_CHUNK;
}

/** charl__rows_launch for a row's sums, with the parameters of kernels/loss/cross_entropy.clh: a
 *  row of more than one chunk is computed by a work-group, unless by a single work-item. Errors:
 *  ERR_SHAPE. */
charl_status charl__cross_entropy_rows(const charl__enqueue *e, const charl_tensor *logits, bool weight,
                                       charl__launch *l, int64_t *per_item) CHARL_MUST_CHECK;

/* For samples. Operands: logits of C classes for rows of these extents, labels, one f32 per row. */
#define LOGITS(KIND, C, ...)                                                                                           \
    CHARL_##KIND(F32, __VA_ARGS__, C), CHARL_##KIND(I32, __VA_ARGS__), CHARL_##KIND(F32, __VA_ARGS__)
#define CLASSES(args, end, n) .attr = &(args), .int_end = (end), .terms = (n)

#endif
