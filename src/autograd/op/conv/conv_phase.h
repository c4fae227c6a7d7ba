#ifndef CHARL_AUTOGRAD_OP_CONV_CONV_PHASE_H
#define CHARL_AUTOGRAD_OP_CONV_CONV_PHASE_H
/** The gradient of a convolution's image if the stride is not 1.
 *
 *  A tap contributes to an image pixel only if their coordinates differ by a
 *  multiple of the stride. So pixels fall into phases, coordinate modulo stride, and each phase is a
 *  convolution with its own taps and stride 1. The other taps cost nothing.
 */
#include "autograd/op.h"
#include "tensor/conv/conv.h"

/** Bytes of workspace; 0 when the stride is 1. */
int64_t charl__conv_phases_workspace(const charl__conv *c);
/** out[0] = the gradient of x [c->batch, c->c, c->h, c->w]; in[0] is the gradient of the output, in[1] the
 *  weight. */
charl_status charl__conv_phases(const charl__enqueue *e, const charl__conv *c) CHARL_MUST_CHECK;

#endif
