#ifndef CHARL_KERNELS_ELEMENTWISE_MAP_ARGS_H
#define CHARL_KERNELS_ELEMENTWISE_MAP_ARGS_H
#include "shared/numbers.h"

enum { CHARL__MAP_OPERANDS = 6 };

/* The numbers of map.cl: where its operands and out begin, how operands broadcast, elements in all and of a work-item, and those of the expression. */
typedef struct charl__map_args {
    uint64_t at[CHARL__MAP_OPERANDS], inner[CHARL__MAP_OPERANDS], count[CHARL__MAP_OPERANDS];
    uint64_t out, n, span;
    float p, q;
} charl__map_args;

#endif
