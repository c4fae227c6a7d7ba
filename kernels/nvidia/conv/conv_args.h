#ifndef CHARL_KERNELS_NVIDIA_CONV_CONV_ARGS_H
#define CHARL_KERNELS_NVIDIA_CONV_CONV_ARGS_H
#include "shared/numbers.h"

/* The numbers of a convolution on tensor cores, as conv_wgmma.cl says; pairs are of rows and columns. */
typedef struct charl__conv_args {
    uint64_t a, b, bias, out; /* where the operands begin */
    charl__pair image, taps, grid, step, shift, tap, w_step, out_extent, out_step, out_place;
    int32_t chunks, ld, w_first;
    int32_t m, n, k, tiles, unused;
} charl__conv_args;

#endif
