#ifndef CHARL_AUTOGRAD_OP_LOSS_CROSS_ENTROPY_H
#define CHARL_AUTOGRAD_OP_LOSS_CROSS_ENTROPY_H
/** What the operators of a classifier's loss share: cross_entropy, cross_entropy_grad and
 *  cross_entropy_with_grad, whose attribute is the label smoothing, a float.
 */
#include "autograd/launch/rows.h"

enum { CHARL__CROSS_ENTROPY_CHUNK = 1024 }; /* as in kernels/loss/cross_entropy.clh */

/** How a row's sums are launched, kernels/loss/cross_entropy.clh, with `extra` among the defines: a
 *  row of more than a chunk has a work-group, where it does not have a single work-item. Errors:
 *  ERR_SHAPE as charl__rows_plan. */
charl_status charl__cross_entropy_plan(const charl__enqueue *e, const charl_tensor *logits, bool weight,
                                       const char *extra, charl__row_plan *plan) CHARL_MUST_CHECK;

#endif
