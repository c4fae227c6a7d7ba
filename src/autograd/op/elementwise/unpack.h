#ifndef CHARL_AUTOGRAD_OP_ELEMENTWISE_UNPACK_H
#define CHARL_AUTOGRAD_OP_ELEMENTWISE_UNPACK_H
/** unpack: numbers from codes and scales (tensor/packed.h). */
#include "autograd/op.h"
#include "tensor/packed.h"

typedef struct charl__unpack_attr {
    charl__format format; /* int8 or nf4 */
    charl_dtype dtype;    /* of the output */
    charl_shape shape;
} charl__unpack_attr;

#endif
