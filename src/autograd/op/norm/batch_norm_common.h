#ifndef CHARL_AUTOGRAD_OP_NORM_BATCH_NORM_COMMON_H
#define CHARL_AUTOGRAD_OP_NORM_BATCH_NORM_COMMON_H
/** Shared by the operators of batch normalization. */
#include "autograd/launch/rows.h"

/** Attribute of the operators that divide by a count. */
typedef struct charl__norm {
    double count; /* elements per channel in the global batch */
    float eps;
    bool training; /* the statistics are x's own */
} charl__norm;

typedef struct charl__norm_shape {
    int64_t rows, channels, inner;
} charl__norm_shape;

/** Attribute of batch_norm_update. */
typedef struct charl__norm_update {
    double count;
    float momentum;
} charl__norm_update;

/** Rows, channels and remaining extents of x [B, C, ...]. */
charl__norm_shape charl__norm_shape_get(const charl_shape *x);

/** Check that all operands are floats, that operand x is [B, C, ...] and that operands [first,
 *  last) have one element per channel of it. Errors: ERR_DTYPE, ERR_SHAPE. */
charl_status charl__norm_check(const charl__infer *inf, int x, int first, int last) CHARL_MUST_CHECK;

/** Geometry of a kernel of batch_norm.cl over `units` times the channels, each of s.inner elements;
 *  if s.inner is 1, over vectors of channels. */
charl_status charl__norm_plan(const charl__enqueue *e, int64_t units, charl__norm_shape s, charl__launch *l,
                              int64_t *per_item) CHARL_MUST_CHECK;

#endif
