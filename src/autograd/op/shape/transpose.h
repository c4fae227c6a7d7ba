#ifndef CHARL_AUTOGRAD_OP_SHAPE_TRANSPOSE_H
#define CHARL_AUTOGRAD_OP_SHAPE_TRANSPOSE_H
/** Attribute of transpose: extent i of the output is extent perm[i] of the operand. */
#include "charl/tensor.h"

typedef struct charl__transpose_attr {
    int n;
    int perm[CHARL_MAX_DIMS];
} charl__transpose_attr;

#endif
