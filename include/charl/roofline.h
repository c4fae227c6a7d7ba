#ifndef CHARL_ROOFLINE_H
#define CHARL_ROOFLINE_H
/** The two limits of the roofline model, measured: peak arithmetic and peak memory bandwidth of a
 *  device.
 *
 *  Each is the rate of a kernel that does nothing else: it copies memory, or multiplies and adds in
 *  registers or, on NVIDIA's tensor cores, from local memory.
 *
 *      charl_roofline_multiply(dev, CHARL_BF16, &peak);
 *      charl_roofline_run(peak);                          timed by the caller, who waits for the device
 *      share = flops_of_a_step / step_s / (charl_roofline_get_amount(peak) / seconds);       model flop utilisation
 *
 *  The kernels on tensor cores and AMX are made of the same instructions as charl's products, so this is what they
 *  could reach at best. */
#include "charl/device.h"
#include "charl/shape.h"

CHARL_BEGIN_DECLS

typedef struct charl_roofline charl_roofline;

/** Copies of `bytes` bytes, rounded up. Owned: charl_roofline_destroy. Blocks. Local. Errors:
 *  ERR_NOMEM, ERR_DEVICE. */
charl_status charl_roofline_copy(charl_device *dev, int64_t bytes, charl_roofline **out) CHARL_MUST_CHECK;

/** The fastest multiplications of operands of type `dtype` that charl uses, sums in f32: tensor
 *  cores or AMX where charl_device_has_tensor_cores says so; else fma on vectors of f32. Owned. Blocks. Local. Errors:
 *  ERR_NOMEM, ERR_DEVICE. */
charl_status charl_roofline_multiply(charl_device *dev, charl_dtype dtype, charl_roofline **out) CHARL_MUST_CHECK;
void charl_roofline_destroy(charl_roofline *c); /* NULL is a no-op */

/** Work of one run: bytes read and written, or floating-point operations. Local. */
double charl_roofline_get_amount(const charl_roofline *c);

/** Enqueue one run, about a millisecond of arithmetic or the whole copy. Async. Local. Errors:
 *  ERR_KERNEL, ERR_DEVICE. */
charl_status charl_roofline_run(charl_roofline *c) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
