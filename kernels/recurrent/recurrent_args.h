#ifndef CHARL_KERNELS_RECURRENT_RECURRENT_ARGS_H
#define CHARL_KERNELS_RECURRENT_RECURRENT_ARGS_H
#include "shared/numbers.h"

/* Where the operands of recurrent.cl and nvidia/recurrent begin, the number of steps and the one that is computed. */
typedef struct charl__recurrent_args {
    uint64_t pre, gh, h, saved, gsaved, bias, step, carry, inner, out, out_inner, state;
    uint64_t steps, t;
    int32_t batch, unused;
} charl__recurrent_args;

#endif
