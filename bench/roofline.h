#ifndef CHARL_BENCH_ROOFLINE_H
#define CHARL_BENCH_ROOFLINE_H
/** The two limits of the roofline model, measured: peak arithmetic and peak memory bandwidth of a
 * device.
 *
 *  Each is the rate of a kernel that does nothing else: it copies memory, or multiplies and adds in
 * registers or, on NVIDIA's tensor cores, from local memory.
 *
 *      charl__roofline_multiply(dev, CHARL_BF16, &peak);
 *      charl__roofline_run(peak);                           // timed by the caller, who waits for
 * the device flops = charl__roofline_amount(peak) / seconds;
 */
#include "tensor/tensor.h"

typedef struct charl__roofline charl__roofline;

/** Copies of `bytes` bytes, rounded up. Owned: charl__roofline_destroy. Blocks. Local. Errors:
 * ERR_NOMEM, ERR_DEVICE. */
charl_status charl__roofline_copy(charl_device *dev, int64_t bytes, charl__roofline **out) CHARL_MUST_CHECK;

/** The fastest multiplications of operands of type `dtype` that charl uses, sums in f32: tensor
 * cores where facts.wgmma or mma and dtype is bf16 or f16, or facts.tf32 and dtype is f32; else fma
 * on vectors of f32. Owned. Blocks. Local. Errors: ERR_NOMEM, ERR_DEVICE. */
charl_status charl__roofline_multiply(charl_device *dev, charl_dtype dtype, charl__roofline **out) CHARL_MUST_CHECK;
void charl__roofline_destroy(charl__roofline *c); /* NULL is a no-op */

/** Work of one run: bytes read and written, or floating-point operations. */
double charl__roofline_amount(const charl__roofline *c);

/** Enqueue one run, about a millisecond of arithmetic or the whole copy. Async. Local. Errors:
 * ERR_KERNEL, ERR_DEVICE. */
charl_status charl__roofline_run(charl__roofline *c) CHARL_MUST_CHECK;

#endif
