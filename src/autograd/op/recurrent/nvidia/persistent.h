#ifndef CHARL_AUTOGRAD_OP_RECURRENT_NVIDIA_PERSISTENT_H
#define CHARL_AUTOGRAD_OP_RECURRENT_NVIDIA_PERSISTENT_H
/** All steps of a recurrent network in one launch, on NVIDIA devices of compute capability 8.0 and
 *  higher. docs/adr/0016-persistent-recurrent-kernels.md says why, and what was measured.
 *
 *  The recurrent weights stay in local memory from the first step to the last. After every step the
 *  work-groups that share rows of the batch wait for one another, so all of them must be running.
 *  OpenCL has no launch that promises this. A plan therefore has at most as many work-groups as the
 *  device has compute units, each with no more local memory than one unit has: where nothing else
 *  runs on the device, all of them start, and kernels of other queues end by themselves. A
 *  work-group that waits for ten seconds all the same ends the launch, which is an error of the device.
 *  Where there is no plan, every step has launches of its own (charl__recurrence_run), with the same
 *  bits.
 */
#include "autograd/op/recurrent/recurrence.h"

/** How a launch is cut; kernels/nvidia/recurrent/persistent_tile.clh describes the parts. */
typedef struct charl__persistent_plan {
    int rows, units; /* of the batch and of the hidden state, of a work-group */
    int chunk;       /* depth of what it copies at a time */
    int64_t local_bytes;
} charl__persistent_plan;

/** The plan of all steps of r, forward or `back`. Returns false where there is none: on other
 *  devices, for one step, for a hidden size that is no multiple of 4, and where the device has too few compute
 *  units or too little local memory. */
bool charl__persistent_plan_of(charl_device *dev, const charl__recurrence *r, bool back, charl__persistent_plan *out);

/** Enqueue it. `l` has the operands and outputs of the operator, and maybe parameters; this adds the
 *  rest. Async. Errors: ERR_KERNEL, ERR_DEVICE. */
charl_status charl__persistent_launch(const charl__enqueue *e, const charl__recurrence *r, bool back,
                                      const charl__persistent_plan *plan, charl__launch *l) CHARL_MUST_CHECK;

#endif
