/* The OpenCL objects of devices and tensors (charl/opencl.h). */
#include "charl/opencl.h"

#include "tensor/tensor.h"

void *charl_device_cl_queue(charl_device *dev)
{
    return dev ? charl__device_cl_queue(dev) : NULL;
}

void *charl_tensor_get_cl_mem(const charl_tensor *t, size_t *offset)
{
    if (!t || !offset) {
        return NULL;
    }
    *offset = (size_t)t->offset * charl_dtype_size(t->dtype);
    return charl__buffer_cl_mem(t->buffer);
}
