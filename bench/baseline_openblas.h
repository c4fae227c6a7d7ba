#ifndef CHARL_BENCH_BASELINE_OPENBLAS_H
#define CHARL_BENCH_BASELINE_OPENBLAS_H
/** OpenBLAS, if it is installed: the baseline of matrix products on CPUs. */
#include <stdbool.h>

/** One line: version, kernels and threads, or why it is not available. Opens the library. Static.
 */
const char *charl__blas_about(void);
bool charl__blas_is_available(void);

/* out [m, n] = op(a) op(b) in f32, row-major. op transposes if the flag is set: a is then [k, m], b
 * [n, k]. */
typedef struct charl__blas_product {
    int m, n, k;
    bool transpose_a, transpose_b;
    const float *a, *b;
    float *out;
} charl__blas_product;

/** Compute it with OpenBLAS's default number of threads. Requires charl__blas_is_available. Blocks.
 */
void charl__blas_multiply(const charl__blas_product *p);

#endif
