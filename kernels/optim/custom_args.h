#ifndef CHARL_KERNELS_OPTIM_CUSTOM_ARGS_H
#define CHARL_KERNELS_OPTIM_CUSTOM_ARGS_H
#include "shared/numbers.h"

enum { CHARL_CUSTOM_STATES = 6 };

/* Of an update by custom.cl: where states and direction begin, the parameter by its number among `count`, and of a fold the elements of line l:
 * n of them, `stride` apart, from l / inner * outer + l % inner on. */
typedef struct charl__custom_args {
    uint64_t state[CHARL_CUSTOM_STATES];
    uint64_t direction, square, tensor, count;
    uint64_t inner, outer, stride, n;
    uint32_t shape[CHARL_CUSTOM_STATES]; /* charl_state_shape */
    int32_t dims;                        /* extents of the parameter */
    uint32_t unused;
} charl__custom_args;

#endif
