#ifndef CHARL_KERNELS_OPTIM_UPDATE_ARGS_H
#define CHARL_KERNELS_OPTIM_UPDATE_ARGS_H
#include "shared/numbers.h"

/* Where the operands of an optimizer's update begin, how many elements it has, and of one parameter its elements and, as matrices, its extents. */
typedef struct charl__update_args {
    uint64_t param, grad, table, norm, record, copy;
    uint64_t extent;
    int64_t n, rows, cols;
    float eps; /* of the configuration */
    uint32_t unused;
} charl__update_args;

#endif
