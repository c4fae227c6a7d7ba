#ifndef CHARL_PARALLEL_GRAD_COMPRESS_H
#define CHARL_PARALLEL_GRAD_COMPRESS_H
/** Gradients transferred in bf16: lanes converted from, and sums converted to, the f32 arenas of a
 *  set.
 *
 *  Graphs have rounded every node of the tree over the slices of a lane
 *  (charl_params.reduce_dtype); this code rounds lanes of one slice, and gradients that were
 *  completed in f32.
 */
#include "charl/comm.h"
#include "tensor/params.h"

typedef struct charl__grad_compress {
    charl_params *set;          /* borrowed */
    charl__buffer *lanes, *sum; /* bf16; the all-reduce's own buffers if the device can use them */
    int64_t stride;             /* elements between lanes */
    int n_lanes;
} charl__grad_compress;

/** For a set whose gradients are allocated and an all-reduce in bf16; runs each launch once. Owned.
 *  Blocks. Errors: ERR_NOMEM, ERR_KERNEL, ERR_DEVICE. */
charl_status charl__grad_compress_create(charl_params *set, int n_lanes, const charl_allreduce *ar,
                                         charl__grad_compress **out) CHARL_MUST_CHECK;
void charl__grad_compress_destroy(charl__grad_compress *n); /* NULL is a no-op */
/** A range of every lane, from set->grad. Async. */
charl_status charl__grad_compress_lanes(const charl__grad_compress *n, int64_t begin, int64_t count) CHARL_MUST_CHECK;
/** A range of the sum, to set->sum. Async. */
charl_status charl__grad_compress_sum(const charl__grad_compress *n, int64_t begin, int64_t count) CHARL_MUST_CHECK;

#endif
