#ifndef CHARL_ROOFLINE_H
#define CHARL_ROOFLINE_H
/** Measurement of the two limits of the roofline model: peak arithmetic and peak memory bandwidth of a
 *  device.
 *
 *  Each is the rate of a kernel that does nothing else: it copies memory, or multiplies and adds in
 *  registers or, on NVIDIA's tensor cores, from local memory.
 *
 *      charl_roofline_multiply(dev, CHARL_BF16, &peak);
 *      charl_roofline_measure(peak, &per_s);
 *      mfu = flops_of_a_step / step_s / per_s;            model FLOP utilization
 *
 *  The kernels on tensor cores and AMX use the same instructions as charl's matrix products, whose rate the peak
 *  therefore limits. */
#include "charl/device.h"
#include "charl/shape.h"

CHARL_BEGIN_DECLS

typedef struct charl_roofline charl_roofline;

/** Create a copy of `bytes` bytes, rounded up, between two buffers of that size. Owned: charl_roofline_destroy. Blocks.
 *  Local. Errors: ERR_NOMEM, ERR_DEVICE. */
charl_status charl_roofline_copy(charl_device *dev, int64_t bytes, charl_roofline **out) CHARL_MUST_CHECK;

/** Create multiplications of operands of type `dtype` with sums in f32, by the fastest instructions that charl uses:
 *  tensor cores or AMX if charl_device_has_tensor_cores says so; otherwise fma on vectors of f32. Owned:
 *  charl_roofline_destroy. Blocks. Local. Errors: ERR_NOMEM, ERR_DEVICE. */
charl_status charl_roofline_multiply(charl_device *dev, charl_dtype dtype, charl_roofline **out) CHARL_MUST_CHECK;
/** Free either. NULL is a no-op. Local. */
void charl_roofline_destroy(charl_roofline *c);

/** Work of one run: bytes read and written, or floating-point operations; 0 for NULL. Local. */
double charl_roofline_get_amount(const charl_roofline *c);

/** Enqueue one run, about a millisecond of arithmetic or the whole copy. Async. Local. Errors:
 *  ERR_KERNEL, ERR_DEVICE. */
charl_status charl_roofline_run(charl_roofline *c) CHARL_MUST_CHECK;

/** Amount per second: the fastest of three runs, after one that compiles. Blocks, until all earlier work of the device
 *  is done as well. Local. Errors: ERR_KERNEL, ERR_DEVICE. */
charl_status charl_roofline_measure(charl_roofline *c, double *per_s) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
