#ifndef CHARL_TENSOR_ROOFLINE_X86_ROOFLINE_AMX_H
#define CHARL_TENSOR_ROOFLINE_X86_ROOFLINE_AMX_H
#include "tensor/tensor.h"

/** The multiplications of charl_roofline_multiply in bf16 on the matrix unit of x86, where facts.x86.amx: as charl__roofline_tensor_core. */
charl_status charl__roofline_amx(charl_device *dev, charl__launch *launch, charl__buffer **to,
                                 double *flop) CHARL_MUST_CHECK;

#endif
