#ifndef CHARL_BENCH_BASELINE_OPENBLAS_H
#define CHARL_BENCH_BASELINE_OPENBLAS_H
/** OpenBLAS, where it is installed, as a rival of charl's matrix products on CPUs. */
#include <stdbool.h>
#include <stdint.h>

/** A line about it: its version, kernels and threads, or that it is not here. Opens the library.
 * Static. */
const char *charl__blas_about(void);
bool charl__blas_is_here(void);

/* out [m, n] = op(a) op(b), row by row in f32; op transposes where told: a is [k, m] then, b [n,
 * k].
 */
typedef struct charl__blas_product {
    int m, n, k;
    bool transpose_a, transpose_b;
    const float *a, *b;
    float *out;
} charl__blas_product;

/** Compute it with as many threads as OpenBLAS takes by itself. Only where it is here. Blocks. */
void charl__blas_multiply(const charl__blas_product *p);

#endif
