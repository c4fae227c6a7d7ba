#ifndef CHARL_AUTOGRAD_OP_POOL_POOL_H
#define CHARL_AUTOGRAD_OP_POOL_POOL_H
#include "charl/ops.h"

/** Attribute of max_pool2d, avg_pool2d and their gradients. */
typedef struct charl__pool {
    charl_window win;
    int64_t size[2]; /* H and W of the input: for gradients, whose operands do not determine them */
} charl__pool;

#endif
