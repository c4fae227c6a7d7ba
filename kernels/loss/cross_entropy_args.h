#ifndef CHARL_KERNELS_LOSS_CROSS_ENTROPY_ARGS_H
#define CHARL_KERNELS_LOSS_CROSS_ENTROPY_ARGS_H
#include "shared/numbers.h"

/* Of the gradient of cross entropy: rows, those of a work-item or group, groups that share a row, and classes; smoothing, and the factor of the square
 * of the logarithm. */
typedef struct charl__cross_entropy_numbers {
    uint64_t rows, per_item, stretches, n;
    float smooth, z;
} charl__cross_entropy_numbers;

#endif
