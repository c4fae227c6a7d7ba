#ifndef CHARL_TENSOR_GEMM_GEMM_TUNE_H
#define CHARL_TENSOR_GEMM_GEMM_TUNE_H
/** Finding the quickest of several ways to do a product, which give the same bits.
 *
 *  A product has one plan on a device that is guessed from its extents. `charl tune`, or the first
 * use where CHARL_TUNE says so, times them all, on operands of its own, compares their results bit
 * for bit, and keeps the quickest under a key that says what the product was.
 */
#include "tensor/gemm/gemm.h"

/** How the work of a product is divided: one of charl__gemm_plans. Its bits do not depend on it. */
typedef struct charl__gemm_plan {
    charl_gemm_form form; /* the kernel */
    /* LOCAL: extents of a tile, of a work-item's part of it, and what gemm_local.cl says of depth
     * and buffers. VECTOR: micro-tiles of a work-item, down and across; else 0. */
    int rows, columns, part_rows, part_columns, depth, buffers;
} charl__gemm_plan;

enum { CHARL__GEMM_PLANS = 24, CHARL__GEMM_TEXT = 192 };

/** "local 128x64 8x8 16 2" into text[CHARL__GEMM_TEXT]; returns text. */
const char *charl__gemm_plan_text(const charl__gemm_plan *x, char *text);

/** What was found of a product. */
typedef struct charl__gemm_tuned {
    charl__gemm_plan plan[CHARL__GEMM_PLANS]; /* [0] is the guess */
    double seconds[CHARL__GEMM_PLANS]; /* of one product; INFINITY: it did not run, or was wrong */
    int count, best;
} charl__gemm_tuned;

/** Time all plans of a product shaped like p, whose operands are not touched, and make the quickest
 * the choice; the guess stays where nothing is quicker by more than a few percent. Works while
 * recording, too. Blocks. Local. Errors: ERR_NOMEM where operands like p's do not fit beside what
 * there is; ERR_KERNEL, ERR_DEVICE where the guess does not run. Cost: of each plan its compiler
 * and some 30 ms. */
charl_status charl__gemm_tune(charl_device *dev, const charl_gemm *p,
                              charl__gemm_tuned *out) CHARL_MUST_CHECK;

#endif
