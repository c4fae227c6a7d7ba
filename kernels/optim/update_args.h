#ifndef CHARL_KERNELS_OPTIM_UPDATE_ARGS_H
#define CHARL_KERNELS_OPTIM_UPDATE_ARGS_H
#include "shared/numbers.h"

/* What grad_norm.cl leaves of a step.
 *
 *     factor        clips to max_norm and divides the loss scale out; 1: none
 *     may_change    1 if this step may change parameters, else 0
 *     bad_steps     steps that were not finite. Unless these are skipped it stays at 1, so that steps already enqueued after a bad one
 *                   do nothing
 *     step, element the first in the last row of bad steps, and its first element that was not finite
 *     spike, limit  norm of the last spike, and what it should not have exceeded. A spike enters the window as the limit, so one does
 *                   not hide the next, and a level that lasts becomes the usual one after a while
 *     skipped       steps that changed nothing, modulo 2^32
 *     bias1, bias2  the scalars of this update
 *
 * Masks are of the last 64 steps, bit k of the step k before. The host reads them now and then and misses no step. */
typedef struct charl__norm_record {
    float norm, factor, may_change;
    uint32_t bad_steps, step_lo, step_hi, element_lo, element_hi;
    uint32_t left_out[2];   /* changed nothing, but for spikes: skipped, or after the last that counts */
    uint32_t overflowed[2]; /* of those, they overflowed under a loss scale that was halved then */
    uint32_t bad_loss[2];   /* this rank's part of the loss was not finite */
    uint32_t spiked[2];     /* the norm was a spike */
    float spike, limit;
    uint32_t skipped;
    float bias1, bias2;
} charl__norm_record;

/* Where the operands of an optimizer's update begin, how many elements it has, and of one parameter its elements and, as matrices, its extents. */
typedef struct charl__update_args {
    uint64_t param, grad, table, norm, record, copy;
    uint64_t extent;
    uint64_t kept; /* where its elements begin in the states, for kernels that do not take that with each */
    int64_t n, rows, cols;
    float eps; /* of the configuration */
    uint32_t unused;
} charl__update_args;

#endif
