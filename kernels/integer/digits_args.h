#ifndef CHARL_KERNELS_INTEGER_DIGITS_ARGS_H
#define CHARL_KERNELS_INTEGER_DIGITS_ARGS_H
#include "shared/numbers.h"

/* The numbers of split_rows.cl and split_columns.cl. */
typedef struct charl__digits_args {
    uint64_t x, to, largest; /* where the matrices, their digits and the largest magnitudes begin */
    int64_t outer;           /* elements from one matrix to the next */
    int64_t head;            /* bytes from `to` to the first digit */
    int32_t matrices, rows, k, pitch;
    int32_t chunk, chunks; /* of k, whose largest magnitudes split_columns.cl finds apart */
} charl__digits_args;

#endif
