#ifndef CHARL_TUNE_H
#define CHARL_TUNE_H
/** Tuning: the fastest of several kernels that give the same bits, measured on this device and kept between runs.
 *
 *  By default a heuristic chooses the kernel of a matrix product from its extents. What is measured here is kept in a
 *  file for the device, its driver and this version of charl, and used by every program on the machine from then on. A
 *  server can tune the products of its model when it is installed:
 *
 *      charl_tune(dev, &(charl_tune_product){.m = 512, .n = 3072, .k = 768, .transpose_b = true}, &result);
 *      printf("%.2f times as fast\n", result.candidate[0].seconds / result.candidate[result.best].seconds);
 *
 *  To tune all products that a graph or a training contains, open its device with charl_device_request.tune =
 *  CHARL_TUNE_FIRST.
 */
#include "charl/device.h"
#include "charl/shape.h"

CHARL_BEGIN_DECLS

/** out [m, n] = a [m, k] b [k, n]: a linear layer's output has transpose_b, the gradient of its weight transpose_a and
 *  an f32 result. */
typedef struct charl_tune_product {
    int64_t m, n, k;
    charl_dtype dtype;     /* of a and b: f32, bf16 or f16 */
    charl_dtype out_dtype; /* f32, or dtype */
    bool transpose_a;      /* a is stored as [k, m] */
    bool transpose_b;      /* b is stored as [n, k] */
} charl_tune_product;

enum { CHARL_TUNE_CANDIDATES = 24, CHARL_TUNE_TEXT = 192 };

typedef struct charl_tune_candidate {
    char name[CHARL_TUNE_TEXT]; /* the kernel and its tile, such as "local 128x64 8x8 16 2" */
    double seconds;             /* of one product; INFINITY: it did not run, or gave other bits */
} charl_tune_candidate;

typedef struct charl_tune_result {
    charl_tune_candidate candidate[CHARL_TUNE_CANDIDATES]; /* [0]: the heuristic choice */
    int count, best;
} charl_tune_result;

/** Time all kernels of a product on operands of its own, compare their results bit for bit, and keep the fastest; the
 *  heuristic choice stays unless another is faster by more than a few percent. Blocks. Local.
 *  Errors: ERR_DISK    results cannot be kept: nothing was measured
 *          ERR_NOMEM   the operands do not fit in free device memory
 *          ERR_SHAPE   an extent is not positive
 *          ERR_KERNEL, ERR_DEVICE  the heuristic choice does not run
 *  Cost: per candidate, compilation and about 30 ms. */
charl_status charl_tune(charl_device *dev, const charl_tune_product *product, charl_tune_result *out) CHARL_MUST_CHECK;

/** Result i = 0, 1, ... that is kept for the device: what was tuned and its fastest kernel. False after the last.
 *  Borrowed until the next one is measured or all are cleared. Local. */
bool charl_tune_get(const charl_device *dev, int i, const char **product, const char **kernel);

/** The file of the results; NULL if there is no cache directory. Borrowed. Local. */
const char *charl_tune_path(const charl_device *dev);

/** Delete all results of the device, also the file. Blocks. Local. Errors: ERR_DISK. */
charl_status charl_tune_clear(charl_device *dev) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
