#ifndef CHARL_BENCH_BASELINE_CLBLAST_H
#define CHARL_BENCH_BASELINE_CLBLAST_H
/** CLBlast, where it is installed: what OpenCL devices have for matrix products elsewhere, as a
 * rival in benchmarks. */
#include "device/device.h"

/** A line about it: that it is here, or not. Opens the library. Static storage. */
const char *charl__clblast_about(void);
bool charl__clblast_is_here(void);

/** out [m, n] = op(a) op(b) of f32, row by row; op transposes where told: a is [k, m] then, b [n,
 * k].
 */
typedef struct charl__clblast_product {
    int64_t m, n, k;
    bool transpose_a, transpose_b;
    charl_buffer *a, *b, *out; /* from their first elements on */
} charl__clblast_product;

/** Enqueue it on the compute queue. Builds its kernels at first use, as it is tuned for the device,
 * if it is. Only where it is here. Async. Errors: ERR_DEVICE with CLBlast's code. */
charl_status charl__clblast_multiply(charl_device *dev,
                                     const charl__clblast_product *p) CHARL_MUST_CHECK;

#endif
