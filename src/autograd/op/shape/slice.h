#ifndef CHARL_AUTOGRAD_OP_SHAPE_SLICE_H
#define CHARL_AUTOGRAD_OP_SHAPE_SLICE_H
/** Attribute of slice and slice_grad. */
#include <stdint.h>

typedef struct charl__slice_attr {
    int axis; /* may count from the end */
    int64_t start, length;
    int64_t extent; /* of the whole axis; for slice_grad only */
} charl__slice_attr;

#endif
