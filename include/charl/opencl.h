#ifndef CHARL_OPENCL_H
#define CHARL_OPENCL_H
/** The OpenCL objects of a device and its tensors, for other libraries such as CLBlast, and for kernels that a program
 *  enqueues itself. This header includes none of OpenCL's: cast the pointers that it returns. The device must have the
 *  driver opencl: open it with charl_device_request.driver = CHARL_DRIVER_OPENCL.
 *
 *      cl_command_queue queue = charl_device_cl_queue(dev);
 *      cl_mem a = charl_tensor_get_cl_mem(t, &offset);
 *      clSetKernelArg(kernel, 0, sizeof a, &a);
 *      clEnqueueNDRangeKernel(queue, kernel, ...);        after what charl has enqueued, and before what it enqueues
 *                                                         next
 *
 *  Context and cl_device_id are those of the queue (clGetCommandQueueInfo).
 */
#include "charl/tensor.h"

CHARL_BEGIN_DECLS

/** The queue on which charl computes: a cl_command_queue, in order. Borrowed from the device. NULL if its driver is
 *  not opencl. Local. */
void *charl_device_cl_queue(charl_device *dev);

/** The memory of a tensor: a cl_mem. *offset gets the byte at which the tensor begins. Borrowed from the tensor, and
 *  valid as long as the tensor. NULL if the device's driver is not opencl. Local. */
void *charl_tensor_get_cl_mem(const charl_tensor *t, size_t *offset);

CHARL_END_DECLS

#endif
