#ifndef CHARL_KERNELS_OPTIM_GRAD_NORM_ARGS_H
#define CHARL_KERNELS_OPTIM_GRAD_NORM_ARGS_H
#include "shared/numbers.h"

/* charl_norm of grad_norm.cl: where its operands begin, and its numbers. */
typedef struct charl__grad_norm_args {
    uint64_t last, record, scale, loss; /* the others begin at 0 */
    int64_t n_last, n;                  /* sums that add up to the norm's square; elements of the gradient */
    uint32_t interval, n_loss, window;
    float max_norm, threshold;
    uint32_t unused;
} charl__grad_norm_args;

#endif
