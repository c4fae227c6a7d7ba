#ifndef CHARL_TENSOR_PACKED_H
#define CHARL_TENSOR_PACKED_H
/** Numbers in 16, 8 or 4 bits: frozen weights (tensor/params.h) and the state of an optimizer (optim/optimizer_state.c).
 *
 *  The formats of 8 and 4 bits divide the numbers into blocks of CHARL_PACK_BLOCK. A block has one scale, its largest magnitude, and each
 *  number a code for a value in [-1, 1]:
 *
 *      number = scale * value of the code
 *
 *      int8     weights: the value is code / 127, code in [-127, 127]
 *      nf4      weights: 16 values that are about equally frequent in normally distributed numbers (Dettmers et al. 2023, QLoRA); two
 *               codes in a byte, the first in the low bits
 *      float8   states: sign, 4 bits of exponent, 3 of fraction. Unlike weights, states span orders of magnitude inside a
 *               block; the relative error is at most 1/16
 *      ufloat8  states that are not negative, such as second moments: 5 bits of exponent, 3 of fraction. Only 0 becomes
 *               0, because updates divide by its root
 *
 *  The largest magnitude of a block is exact, so packing unpacked numbers gives the same codes and scales. A block with a NaN or an infinity
 *  becomes NaN. kernels/tensor/packed.clh has the same formulas.
 */
#include "tensor/tensor.h"

enum { CHARL_PACK_BLOCK = 64 };
_Static_assert(CHARL_PACK_BLOCK % 2 == 0, "two codes in a byte");

typedef enum charl__format {
    CHARL__FORMAT_F32,
    CHARL__FORMAT_BF16,
    CHARL__FORMAT_F16,
    CHARL__FORMAT_INT8,
    CHARL__FORMAT_NF4,
    CHARL__FORMAT_FLOAT8,
    CHARL__FORMAT_UFLOAT8
} charl__format;

/** Bytes of the codes of n numbers, and number of their scales. */
int64_t charl__packed_bytes(charl__format f, int64_t n);
int64_t charl__packed_scales(charl__format f, int64_t n);
/** Pack n numbers, rounding to the nearest; scales may be NULL if there are none. On all processors. */
void charl__pack(charl__format f, const float *src, int64_t n, void *codes, float *scales);
/** dst[i] = number i. On all processors. */
void charl__unpack(charl__format f, const void *codes, const float *scales, int64_t n, float *dst);
/** Enqueue or record: out = the n numbers at packed[0], codes, and packed[1], scales. out is of `dtype`. Async. */
charl_status charl__unpack_enqueue(charl_device *dev, charl__format f, charl_dtype dtype, const charl__arg packed[2],
                                   charl__arg out, int64_t n, const char *label) CHARL_MUST_CHECK;
/** Value of a code, for the formats with scales. */
float charl__packed_value(charl__format f, unsigned code);

#endif
