#ifndef CHARL_OPTIM_TENSOR_SUMS_H
#define CHARL_OPTIM_TENSOR_SUMS_H
/** Sums of squares per tensor of a parameter arena, in an order that depends on the tensor's size
 *  only. */
#include "tensor/params.h"

typedef struct charl__tensor_sums {
    charl_params *set; /* borrowed */
    int64_t n_chunks;
    charl__buffer *chunk;   /* u32 [n_chunks, 2]: first block of 64 elements, blocks */
    charl__buffer *tensor;  /* u32 [count, 2]: first chunk, chunks; by index of declaration */
    charl__buffer *owner;   /* u32 per block of the arena: index of its parameter */
    charl__buffer *partial; /* f32 [n_chunks] */
    charl__buffer *square;  /* f32 [2, count]: results */
} charl__tensor_sums;

/** Owned. Errors: ERR_NOMEM, ERR_DEVICE. */
charl_status charl__tensor_sums_create(charl_params *set, charl__tensor_sums **out) CHARL_MUST_CHECK;
void charl__tensor_sums_destroy(charl__tensor_sums *s); /* NULL is a no-op */

/** square[row][t] = sum of x^2 over parameter t, for an arena `x` whose padding is zero. Enqueued
 *  or recorded. */
charl_status charl__tensor_sums_squares(const charl__tensor_sums *s, charl__buffer *x, int row) CHARL_MUST_CHECK;

#endif
