#ifndef CHARL_TENSOR_GEMM_GEMM_TUNE_H
#define CHARL_TENSOR_GEMM_GEMM_TUNE_H
/** Tuning of matrix products: the fastest of several plans that give the same bits.
 *
 *  By default a heuristic chooses the plan from the extents. `charl tune`, or CHARL_TUNE=first on first use, times all plans on separate
 *  operands, compares their results bit for bit, and saves the fastest under a key that describes the product.
 */
#include "tensor/gemm/gemm.h"

typedef struct charl__gemm_backend charl__gemm_backend;

/** How the work of a product is divided: one of charl__gemm_plans. It does not affect the bits. */
typedef struct charl__gemm_plan {
    const charl__gemm_backend *backend;
    charl__gemm_form form; /* a variant of it */
    /* LOCAL: extents of a tile, of a work-item's part of it, and its depth in k. VECTOR: micro-tiles of a work-item, down and across;
     * else 0. */
    int rows, columns, part_rows, part_columns, depth;
} charl__gemm_plan;

enum { CHARL__GEMM_PLANS = 24, CHARL__GEMM_TEXT = 192 };

/** "local 128x64 8x8 16" into text[CHARL__GEMM_TEXT]; returns text. */
const char *charl__gemm_plan_text(const charl__gemm_plan *x, char *text);

/** Measurements of a product. */
typedef struct charl__gemm_tuned {
    charl__gemm_plan plan[CHARL__GEMM_PLANS]; /* [0]: the heuristic choice */
    double seconds[CHARL__GEMM_PLANS];        /* of one product; INFINITY: it did not run, or was wrong */
    int count, best;
} charl__gemm_tuned;

/** Time all plans of a product shaped like p, on separate operands, and set the fastest in the tuning database; the heuristic choice
 *  stays unless another plan is faster by more than a few percent. Also works while recording. Blocks. Local. Errors: ERR_NOMEM if the
 *  operands do not fit in free device memory; ERR_KERNEL, ERR_DEVICE if the heuristic choice does not run. Cost: per plan, compilation
 *  and about 30 ms. */
charl_status charl__gemm_tune(charl_device *dev, const charl__gemm *p, charl__gemm_tuned *out) CHARL_MUST_CHECK;

#endif
