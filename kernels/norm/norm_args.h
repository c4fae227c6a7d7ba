#ifndef CHARL_KERNELS_NORM_NORM_ARGS_H
#define CHARL_KERNELS_NORM_NORM_ARGS_H
#include "shared/numbers.h"

/* The numbers of batch_norm.cl and channels.cl, which say what they mean. */
typedef struct charl__norm_args {
    uint64_t rows, channels, n, per_item; /* charl_update: n elements */
    uint64_t blocks, block;
    float scale, momentum;
    int32_t width, lines;
} charl__norm_args;

#endif
