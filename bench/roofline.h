#ifndef CHARL_BENCH_ROOFLINE_H
#define CHARL_BENCH_ROOFLINE_H
/** What a device can do at most, measured: the yardstick that benchmarks hold kernels against.
 *
 *  Not a number from a data sheet but a kernel that does one thing only: copies memory, or
 * multiplies and adds in registers or, on NVIDIA's tensor cores, from local memory.
 */
#include "tensor/tensor.h"

typedef struct charl__ceiling charl__ceiling;

/** Copies of `bytes` bytes, rounded up. Owned: charl__ceiling_destroy. Blocks. Local. Errors:
 * ERR_NOMEM, ERR_DEVICE. */
charl_status charl__ceiling_copy(charl_device *dev, int64_t bytes,
                                 charl__ceiling **out) CHARL_MUST_CHECK;

/** The fastest multiplications of operands of type `dtype` that charl uses, sums in f32: tensor
 * cores where facts.wgmma or mma and dtype is bf16 or f16, or facts.tf32 and dtype is f32, else fma
 * in vectors of f32. Owned. Blocks.
 * Local. Errors: ERR_NOMEM, ERR_DEVICE. */
charl_status charl__ceiling_multiply(charl_device *dev, charl_dtype dtype,
                                     charl__ceiling **out) CHARL_MUST_CHECK;
void charl__ceiling_destroy(charl__ceiling *c); /* NULL is a no-op */

/** "copy loop", "fma loop", "wgmma loop", "mma loop". Static. */
const char *charl__ceiling_name(const charl__ceiling *c);
/** What one run does: bytes read and written, or floating-point operations. */
double charl__ceiling_amount(const charl__ceiling *c);
/** Enqueue one run, of about a millisecond or the copy. Async. Local. Errors: ERR_KERNEL,
 * ERR_DEVICE. */
charl_status charl__ceiling_run(charl__ceiling *c) CHARL_MUST_CHECK;

#endif
