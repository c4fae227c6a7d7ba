#ifndef CHARL_AUTOGRAD_OP_LOSS_NVIDIA_CROSS_ENTROPY_LOCAL_H
#define CHARL_AUTOGRAD_OP_LOSS_NVIDIA_CROSS_ENTROPY_LOCAL_H
/** The loss and its gradient with rows of logits in the local memory of NVIDIA devices of compute capability 9.0: a row is read from memory once,
 *  however long its sums take. */
#include "autograd/launch/rows.h"

/** Whether rows of n logits, operand 1, fit. If so, l is set to launch kernels/nvidia/loss/cross_entropy_local.cl. */
bool charl__cross_entropy_local(const charl__enqueue *e, int64_t n, charl__launch *l);

/** Number of work-groups for so many rows; rows of each. */
int64_t charl__cross_entropy_local_groups(const charl__enqueue *e, int64_t rows, charl__launch *l);

#endif
