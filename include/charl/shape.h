#ifndef CHARL_SHAPE_H
#define CHARL_SHAPE_H
/** Element types and shapes: plain values, no device, no memory.
 *
 *  A tensor is contiguous and row-major: the last extent varies fastest. Extents are counts of
 *  elements.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "charl/status.h"

CHARL_BEGIN_DECLS

/* id, name, bytes per element */
#define CHARL_DTYPE_LIST(X)                                                                                            \
    X(F32, "f32", 4)                                                                                                   \
    X(F16, "f16", 2)                                                                                                   \
    X(BF16, "bf16", 2)                                                                                                 \
    X(U8, "u8", 1)                                                                                                     \
    X(U16, "u16", 2)                                                                                                   \
    X(U32, "u32", 4)                                                                                                   \
    X(I32, "i32", 4)                                                                                                   \
    X(I64, "i64", 8)

typedef enum charl_dtype {
#define X(id, name, bytes) CHARL_##id,
    CHARL_DTYPE_LIST(X)
#undef X
        CHARL_DTYPE_COUNT
} charl_dtype;

enum { CHARL_MAX_DIMS = 6 };

/** ndim extents; a scalar has ndim 0 and one element. */
typedef struct charl_shape {
    int ndim;
    int64_t dim[CHARL_MAX_DIMS];
} charl_shape;

/** "f32" ...; "?" for a value outside the enum. Local. */
const char *charl_dtype_name(charl_dtype dtype);

/** Bytes of one element. Local. */
size_t charl_dtype_size(charl_dtype dtype);

/** n numbers in host memory from and to elements of a type, such as the bf16 that charl_tensor_write takes and
 *  charl_tensor_read gives. Floats are rounded to nearest even and overflow to infinity; integers that the type or a
 *  double does not hold are not checked. Local. Thread-safe. */
void charl_dtype_encode(charl_dtype dtype, const double *src, int64_t n, void *dst);
void charl_dtype_decode(charl_dtype dtype, const void *src, int64_t n, double *dst);

/** Number of elements: the product of the extents, 1 for a scalar. Local. */
int64_t charl_shape_count(const charl_shape *s);

/** Same number of extents and equal extents. Local. */
bool charl_shape_equal(const charl_shape *a, const charl_shape *b);

/** Check that 0 <= ndim <= CHARL_MAX_DIMS, no extent is negative and the count fits in int64_t.
 *  Local. Errors: ERR_SHAPE. */
charl_status charl_shape_check(const charl_shape *s) CHARL_MUST_CHECK;

enum { CHARL_SHAPE_TEXT = 128 };

/** "[2, 3]" into text[CHARL_SHAPE_TEXT]; returns text. Local. */
const char *charl_shape_format(const charl_shape *s, char *text);

CHARL_END_DECLS

#endif
