#ifndef CHARL_IO_H5_ELEMENT_H
#define CHARL_IO_H5_ELEMENT_H
/** Elements of an HDF5 array, as stored and as delivered.
 *
 *  HDF5 provides the stored bytes; this converts them. So elements of any type and byte order can be converted by several threads,
 *  and a number that does not fit is an error, where HDF5 would round or clamp it.
 */
#include <stdbool.h>

#include "charl/shape.h"
#include "io/h5.h"

typedef enum charl__element_kind {
    CHARL__ELEMENT_UNSIGNED,
    CHARL__ELEMENT_SIGNED,
    CHARL__ELEMENT_BOOL, /* an enumeration of FALSE and TRUE, as h5py writes it */
    CHARL__ELEMENT_FLOAT,
    CHARL__ELEMENT_BF16,
} charl__element_kind;

typedef struct charl__element {
    charl__element_kind kind;
    int bytes;    /* 1, 2, 4 or 8 */
    bool swapped; /* the byte order is not the machine's */
} charl__element;

enum { CHARL__ELEMENT_TEXT = 96 };

/** The elements of `type`. False if charl does not read such elements: `text` then describes them, to follow "holds". */
bool charl__element_of(hid_t type, charl__element *out, char text[CHARL__ELEMENT_TEXT]);

/** "i16", "bool", "big-endian f64": for display. */
const char *charl__element_name(const charl__element *e, char text[CHARL__ELEMENT_TEXT]);

/** The type in which they are delivered:
 *
 *               u8 bool  u16  u32  i32  other integers  floats
 *      samples  u8       u16  u32  f32  f32             f32
 *      targets  u8       i64  i64  i32  i64             f32
 */
charl_dtype charl__element_dtype(const charl__element *e, bool targets);

/** Whether the stored bytes can be delivered unchanged. */
static inline bool charl__element_is_native(const charl__element *e, charl_dtype dtype)
{
    const size_t bytes = (size_t)e->bytes;

    switch (e->kind) {
    case CHARL__ELEMENT_BOOL:
        return true;
    case CHARL__ELEMENT_FLOAT:
        return !e->swapped && bytes == 4;
    case CHARL__ELEMENT_UNSIGNED:
        return !e->swapped && bytes == charl_dtype_size(dtype) &&
               (dtype == CHARL_U8 || dtype == CHARL_U16 || dtype == CHARL_U32);
    case CHARL__ELEMENT_SIGNED:
        return !e->swapped && bytes == charl_dtype_size(dtype) && (dtype == CHARL_I32 || dtype == CHARL_I64);
    default:
        return false;
    }
}

/** Convert n elements of src into dst. Returns the number of the first that `dtype` cannot represent, or n if there is none: an integer that f32 would
 *  round (beyond 2^24 and not a multiple of a sufficient power of two), or one beyond i64. f64 is rounded to f32, to
 *  an infinity if it is too large. Thread-safe. */
int64_t charl__element_convert(const charl__element *e, charl_dtype dtype, const void *src, int64_t n, void *dst);

/** Element i of src as a number; integers beyond 2^53 are rounded. */
double charl__element_number(const charl__element *e, const void *src, int64_t i);

/** Element i of src as text: for messages. */
const char *charl__element_text(const charl__element *e, const void *src, int64_t i, char text[CHARL__ELEMENT_TEXT]);

/** Element i of `out`, of type u8, u16, u32, i32 or f32, = v. False if the type cannot represent v. */
bool charl__put_number(charl_dtype dtype, double v, void *out, int64_t i);

#endif
