#ifndef CHARL_IO_TENSORS_NPY_HEADER_H
#define CHARL_IO_TENSORS_NPY_HEADER_H
/** The header of NumPy's .npy format: a magic number, a version, the length of a Python dictionary literal, and the literal, of which the three
 *  keys are read that NumPy itself writes. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "charl/shape.h"

enum { CHARL__NPY_HEAD = 8, CHARL__NPY_LONGEST = 65535 /* bytes of a header */ };

typedef struct charl__npy_header {
    char type;    /* 'f', 'i', 'u', 'b' for booleans; of texts 'S' for bytes and 'U' for UCS-4 */
    int64_t size; /* bytes of an element */
    bool swapped; /* of the other byte order */
    bool fortran; /* columns first */
    charl_shape shape;
} charl__npy_header;

/** Bytes of the length that follows the first CHARL__NPY_HEAD bytes of a file; 0: it is no array, or of a version that is not known. */
static inline int charl__npy_length_bytes(const unsigned char head[CHARL__NPY_HEAD])
{
    return memcmp(head, "\x93NUMPY", 6) != 0 || head[6] < 1 || head[6] > 3 ? 0 : head[6] == 1 ? 2 : 4;
}

/** Read the literal. Errors: `code`  structured or object arrays, other element types, more than CHARL_MAX_DIMS extents, damage. */
charl_status charl__npy_parse(const char *path, charl_status code, const char *literal,
                              charl__npy_header *out) CHARL_MUST_CHECK;

#endif
