#ifndef CHARL_KERNELS_SHAPE_PERMUTE_ARGS_H
#define CHARL_KERNELS_SHAPE_PERMUTE_ARGS_H
#include "shared/numbers.h"

/* charl_permute of transpose.cl: n elements of out, whose extents are `extent`, `step` apart in x; a work-item has `span` of them. */
typedef struct charl__permute_args {
    uint64_t n, span, extent[6], step[6];
} charl__permute_args;

#endif
