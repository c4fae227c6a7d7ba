#ifndef CHARL_TENSOR_ROOFLINE_NVIDIA_ROOFLINE_TENSOR_CORE_H
#define CHARL_TENSOR_ROOFLINE_NVIDIA_ROOFLINE_TENSOR_CORE_H
#include "tensor/tensor.h"

/** The multiplications of charl_roofline_multiply on tensor cores, for a type that has them: the launch, the buffer that it writes, owned by the
 *  caller, and its floating-point operations. Errors: ERR_NOMEM, ERR_DEVICE. */
charl_status charl__roofline_tensor_core(charl_device *dev, charl_dtype dtype, charl__launch *launch,
                                         charl__buffer **to, double *flop) CHARL_MUST_CHECK;

#endif
