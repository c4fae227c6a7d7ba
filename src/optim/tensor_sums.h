#ifndef CHARL_OPTIM_TENSOR_SUMS_H
#define CHARL_OPTIM_TENSOR_SUMS_H
/** Sums of squares per tensor of a parameter arena, in an order that depends on the tensor's size
 *  only. */
#include "tensor/params.h"

typedef struct charl__tensor_sums {
    charl_params *set; /* borrowed */
    int64_t n_chunks;
    charl__buffer
        *chunk[2]; /* u32 [n_chunks, 2]: first block of 64 elements, blocks; in the arena, and among the own elements */
    charl__buffer *tensor;  /* u32 [count, 2]: first chunk, chunks; by index of declaration */
    charl__buffer *owner;   /* u32 per block of the own elements: index of its parameter */
    charl__buffer *partial; /* f32 [n_chunks] */
    charl__buffer *square;  /* f32 [2, count]: results */
} charl__tensor_sums;

/** Sums of the parameters of `set` with own_at[i] >= 0, where they begin among `elements` own ones. Owned. Errors: ERR_NOMEM, ERR_DEVICE. */
charl_status charl__tensor_sums_create(charl_params *set, const int64_t *own_at, int64_t elements,
                                       charl__tensor_sums **out) CHARL_MUST_CHECK;
void charl__tensor_sums_destroy(charl__tensor_sums *s); /* NULL is a no-op */

/** square[row][t] = sum of x^2 over parameter t, 0 where it is not summed. `x`: the values of the set, or memory laid out like the own elements, whose
 *  padding is zero. Enqueued or recorded. */
charl_status charl__tensor_sums_squares(const charl__tensor_sums *s, charl__buffer *x, int row) CHARL_MUST_CHECK;

#endif
