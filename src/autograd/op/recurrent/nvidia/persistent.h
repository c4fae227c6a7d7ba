#ifndef CHARL_AUTOGRAD_OP_RECURRENT_NVIDIA_PERSISTENT_H
#define CHARL_AUTOGRAD_OP_RECURRENT_NVIDIA_PERSISTENT_H
/** All steps of a recurrent network in one launch, on NVIDIA devices of compute capability 8.0 and
 *  higher. docs/adr/0016-persistent-recurrent-kernels.md gives the reasons and measurements.
 *
 *  The recurrent weights stay in local memory from the first step to the last. After every step the
 *  work-groups that share rows of the batch wait for one another, so all of them must be running.
 *  OpenCL has no launch that guarantees this. A plan therefore has at most as many work-groups as the
 *  device has compute units, each with no more local memory than one unit has: if nothing else
 *  runs on the device, all of them start, and kernels of other queues eventually end. A
 *  work-group that still waits after ten seconds ends the launch with a device error.
 *  Without a plan, every step has its own launches (charl__recurrence_run), with the same
 *  bits.
 */
#include "autograd/op/recurrent/recurrence.h"

/** How a launch is divided; kernels/nvidia/recurrent/persistent_tile.clh describes the parts. */
typedef struct charl__persistent_plan {
    int rows, units; /* of the batch and of the hidden state, of a work-group */
    int chunk;       /* depth of what it copies at a time */
    int64_t local_bytes;
} charl__persistent_plan;

/** The plan of all steps of r, forward or `back`. Returns false if there is none: on other
 *  devices, for one step, for a hidden size that is not a multiple of 4, and if the device has too few compute
 *  units or too little local memory. */
bool charl__persistent_plan_of(charl_device *dev, const charl__recurrence *r, bool back, charl__persistent_plan *out);

/** Enqueue it. `l` has the operands and outputs of the operator, and optionally parameters; this adds the
 *  rest. Async. Errors: ERR_KERNEL, ERR_DEVICE. */
charl_status charl__persistent_launch(const charl__enqueue *e, const charl__recurrence *r, bool back,
                                      const charl__persistent_plan *plan, charl__launch *l) CHARL_MUST_CHECK;

#endif
