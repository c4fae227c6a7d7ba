#ifndef CHARL_KERNELS_DATA_GATHER_ARGS_H
#define CHARL_KERNELS_DATA_GATHER_ARGS_H
#include "shared/numbers.h"

/* Where the operands of gather_rows.cl begin, elements of a row, rows of the source; channels, and elements after their extent. */
typedef struct charl__gather_args {
    uint64_t source, row, shift, scale, out;
    int64_t n, source_rows, inner, channels;
} charl__gather_args;

#endif
