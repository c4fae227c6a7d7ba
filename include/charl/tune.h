#ifndef CHARL_TUNE_H
#define CHARL_TUNE_H
/** Tuning: measures which of several kernels with the same result is the fastest on this device, and caches the answer.
 *
 *  By default a heuristic chooses the kernel of a matrix product by its shape. Measured results are stored in a file
 *  per device, driver and version of charl, and are then used by every program on the machine. A server can tune the
 *  products of its model when it is installed:
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

/** out [m, n] = a [m, k] b [k, n]. The forward product of a linear layer has transpose_b; the product for the gradient
 *  of its weight has transpose_a and an f32 result. */
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
    double seconds;             /* of one product; INFINITY: it failed, or its bits were different */
} charl_tune_candidate;

typedef struct charl_tune_result {
    charl_tune_candidate candidate[CHARL_TUNE_CANDIDATES]; /* [0]: the heuristic choice */
    int count, best;
} charl_tune_result;

/** Time all kernels of a product on random operands, compare their results bit for bit, and store the fastest. The
 *  heuristic choice is kept unless another is faster by more than a few percent. Blocks. Local.
 *  Errors: ERR_DISK    results cannot be stored; nothing was measured
 *          ERR_NOMEM   the operands do not fit in free device memory
 *          ERR_SHAPE   an extent is not positive
 *          ERR_KERNEL, ERR_DEVICE  the heuristic choice does not run
 *  Cost: per candidate, compilation and about 30 ms. */
charl_status charl_tune(charl_device *dev, const charl_tune_product *product, charl_tune_result *out) CHARL_MUST_CHECK;

/** Stored result i = 0, 1, ... of the device: the product and its fastest kernel. Returns false after the last.
 *  Borrowed until the next measurement or charl_tune_clear. Local. */
bool charl_tune_get(const charl_device *dev, int i, const char **product, const char **kernel);

/** The file of the results; NULL if there is no cache directory. Borrowed. Local. */
const char *charl_tune_path(const charl_device *dev);

/** Delete all results of the device and their file. Blocks. Local. Errors: ERR_DISK. */
charl_status charl_tune_clear(charl_device *dev) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
