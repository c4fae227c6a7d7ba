#ifndef CHARL_TENSOR_GEMM_GEMM_PRIVATE_H
#define CHARL_TENSOR_GEMM_GEMM_PRIVATE_H
/** What the two engines of matrix products share. */
#include "tensor/gemm/gemm.h"
#include "tensor/gemm/gemm_tune.h"

enum { CHARL__GEMM_DEFINES = 2048, CHARL__GEMM_SECOND = 192 };

static inline int64_t charl__at_least_one(int64_t x)
{
    return x > 1 ? x : 1;
}

static inline int64_t charl__ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/** The operand's elements from `at` on; NULL gives a null pointer. */
static inline charl_arg charl__gemm_operand(charl_arg_kind kind, const charl_tensor *t, int64_t at)
{
    charl_arg a = charl__tensor_arg(kind, t);

    if (at != 0) {
        a.v.offset += at;
        a.count = 0; /* lanes and slices lie beyond the extents of the tensor that names them */
    }
    return a;
}

/** An operand: `rows` contiguous rows of `length` elements, `pitch` apart, in each product. */
typedef struct charl__matrix {
    charl_arg first;
    int64_t rows, length, pitch, outer, inner;
} charl__matrix;

/** Whether every row of every product begins at a multiple of `elements`. */
bool charl__matrix_is_aligned(const charl__matrix *x, int elements);

/** Copy those of p's operands, of half types, whose rows do not begin at multiples of 16 bytes to
 * where they do, where that saves time and there is memory. Async. Errors: ERR_KERNEL,
 * ERR_DEVICE. */
charl_status charl__gemm_pad(charl_device *dev, const charl_gemm *p, charl__matrix *a,
                             charl__matrix *b) CHARL_MUST_CHECK;

/* Leaves of a tree that a kernel in local memory folds. */
enum { CHARL__GEMM_LOCAL_LEAVES = 16 };

/** Whether p goes to the kernels with tiles in local memory. */
bool charl__gemm_is_local(charl_device *dev, const charl_gemm *p);
/** Whether gemm_small.cl can do it. */
bool charl__gemm_fits_small(const charl_gemm *p);
/** Whether gemm_vector.cl can have so many micro-tiles to a work-item. */
bool charl__gemm_block_fits(charl_device *dev, const charl_gemm *p, int mi, int nj);
/** The device's number of compute units, at least 1. */
int charl__gemm_units(charl_device *dev);

/** The plan of p->form; for AUTO the heuristic choice. */
charl__gemm_plan charl__gemm_guess(charl_device *dev, const charl_gemm *p);
/** All plans of p on this device, the heuristic choice first. Returns their number. */
int charl__gemm_plans(charl_device *dev, const charl_gemm *p, charl__gemm_plan out[CHARL__GEMM_PLANS]);
/** The plan from the tuning database, or the heuristic choice; with CHARL_TUNE=first, plans without a result are measured now. Errors:
 * those of charl__gemm_tune. */
charl_status charl__gemm_plan_of(charl_device *dev, const charl_gemm *p, charl__gemm_plan *out) CHARL_MUST_CHECK;
/** Key of p in the tuning database, all that its time depends on except the epilogue, into text[CHARL__GEMM_TEXT]; returns text. */
const char *charl__gemm_key(charl_device *dev, const charl_gemm *p, char *text);
/** Enqueue p by a plan. Errors: as charl__gemm. */
charl_status charl__gemm_launch(charl_device *dev, const charl_gemm *p, const charl__gemm_plan *plan) CHARL_MUST_CHECK;
/** Fill in the launch and defines (CHARL__GEMM_DEFINES bytes) of plans LOCAL and LOCAL_SMALL. */
void charl__gemm_shape_local(const charl_gemm *p, const charl__gemm_plan *plan, charl_launch *l, char *text);
/** Defines of operands' layouts and types; of the tree over leaves. Return the characters written.
 */
int charl__gemm_define_common(const charl_gemm *p, char *text, size_t bytes);
int charl__gemm_define_fold(const charl_gemm *p, char *text, size_t bytes);
int charl__gemm_define_rounding(const charl_gemm *p, char *text, size_t bytes);
/** Let the launch of a LOCAL_SMALL plan pair with others; `second`: CHARL__GEMM_SECOND bytes. */
void charl__gemm_offer_pair(const charl_gemm *p, charl_launch *l, char *second);

/** Defines of p's epilogue, after `text`; returns the characters written, 0 without one. `vec`:
 * elements that the kernel takes at a time. */
int charl__gemm_define_epilogue(const charl_gemm *p, int vec, char *text, size_t bytes);

/** Append the epilogue's operands, if there is one, to a launch that has all others. */
void charl__gemm_add_epilogue(const charl_gemm *p, charl_launch *l);

/** Errors: ERR_DTYPE where a type of the epilogue is not one it takes. */
charl_status charl__gemm_check_epilogue(const charl_gemm *p) CHARL_MUST_CHECK;

/** Whether p runs on tensor cores. Depends on the device, types, layouts and form only, not on alignment or extents, because it decides
 * the bits. */
bool charl__gemm_uses_tensor_cores(charl_device *dev, const charl_gemm *p);

/** Enqueue a product on tensor cores. Async. Errors: ERR_KERNEL, ERR_DEVICE. */
charl_status charl__gemm_tensor_core(charl_device *dev, const charl_gemm *p) CHARL_MUST_CHECK;

#endif
