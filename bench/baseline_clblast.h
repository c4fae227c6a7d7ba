#ifndef CHARL_BENCH_BASELINE_CLBLAST_H
#define CHARL_BENCH_BASELINE_CLBLAST_H
/** CLBlast, if it is installed: the baseline of matrix products on OpenCL devices. */
#include <charl/tensor.h>

/** One line: the library's name, or why it is not available. Opens the library. Static storage. */
const char *charl__clblast_about(void);
bool charl__clblast_is_available(void);

/** out [m, n] = op(a) op(b) in f32, row-major. op transposes if the flag is set: a is then [k, m],
 *  b [n, k]. */
typedef struct charl__clblast_product {
    int64_t m, n, k;
    bool transpose_a, transpose_b;
    const charl_tensor *a, *b, *out; /* f32 */
} charl__clblast_product;

/** Enqueue it on the compute queue. CLBlast builds its kernels in the first call, with parameters
 *  for this device if it has any. Requires charl__clblast_is_available. Async. Errors: ERR_DEVICE
 *  with CLBlast's code. */
charl_status charl__clblast_multiply(charl_device *dev, const charl__clblast_product *p) CHARL_MUST_CHECK;

#endif
