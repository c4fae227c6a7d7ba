#ifndef CHARL_TENSOR_RANDOM_H
#define CHARL_TENSOR_RANDOM_H
/** Random operands for measurements. */
#include "tensor/tensor.h"

/** New tensor of random values in [-1, 1), which repeat after some millions. Blocks. Local. Errors:
 *  ERR_NOMEM, ERR_DEVICE. */
charl_status charl__tensor_random(charl_device *dev, charl_dtype dtype, charl_shape shape,
                                  charl_tensor **out) CHARL_MUST_CHECK;

#endif
