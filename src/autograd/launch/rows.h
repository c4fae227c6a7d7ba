#ifndef CHARL_AUTOGRAD_LAUNCH_ROWS_H
#define CHARL_AUTOGRAD_LAUNCH_ROWS_H
/** Row kernels (kernels/prelude/rows.clh), sums, and copies of ranges.
 *
 *  The order of a sum depends on its length only; the distribution of rows over work-items depends on the
 *  device.
 */
#include "autograd/op.h"

/** Accumulators of a row of n elements (kernels/prelude/rows.clh). */
int charl__rows_width(int64_t n);
/** One work-item computes a row; otherwise up to 32 do. */
bool charl__rows_have_one_item(const charl_device *dev);
/** Let l run over `rows` rows of n elements: sets its work-items and the parameters of rows.clh. *per_item, an argument of such kernels: rows
 *  per work-item, if each row has one work-item. Errors: ERR_SHAPE when n does not fit an int. */
charl_status charl__rows_launch(const charl_device *dev, int64_t rows, int64_t n, charl__launch *l,
                                int64_t *per_item) CHARL_MUST_CHECK;
/** After charl__rows_launch: smaller work-groups if there are fewer than compute units. For kernels in which a group is nothing but the rows of its
 *  work-items. Sets CHARL_ROW_GROUP. */
void charl__rows_spread(const charl_device *dev, charl__launch *l);

/** out [outer, inner] f32 = scale * sum over j < n of EXPR(a, b) at [outer, j, inner]. */
typedef struct charl_reduce {
    const char *expr; /* of a, b (charl_real) and p, q; NULL = "a" */
    charl__arg a, b;  /* charl__in(...), or a part of the workspace; b only if n_in is 2 */
    charl_dtype a_type, b_type;
    int n_in;
    int64_t outer, n, inner;
    int outputs; /* charl__reduce_slices: 0 or 1 as usual; more: see there */
    charl__arg out;
    int64_t scratch; /* first float of the workspace that may be used, charl__reduce_scratch of them */
    float p, q, scale;
} charl_reduce;

int64_t charl__reduce_scratch(int64_t outer, int64_t n, int64_t inner);
/** One launch for each factor of 4096 (inner = 1) or 256 in n. Async. Errors: ERR_KERNEL,
 *  ERR_DEVICE. */
charl_status charl__reduce_sum(const charl__enqueue *e, const charl_reduce *r) CHARL_MUST_CHECK;
/** Sum r [slices, n, inner] per slice, and fold the slices of every lane into output k as
 *  charl__fold does. If a slice is a single chunk (n up to 256, or up to 4096 with inner = 1), this takes
 *  one launch per lane; r.out is ignored. Partial sums of more chunks are kept at the start of the
 *  workspace, slices * inner floats. With several outputs, 2, slices are single chunks, and the sums
 *  of half of the columns are output k, the others output k + 1; outputs that are not PARTIAL
 *  have one slice, r.outer = 1. Async. Errors: ERR_KERNEL, ERR_DEVICE. */
charl_status charl__reduce_slices(const charl__enqueue *e, const charl_reduce *r, int k) CHARL_MUST_CHECK;

/** Argument for a part of the workspace. */
charl__arg charl__scratch_arg(charl__arg_kind kind, const charl_tensor *workspace, int64_t offset);
/** Output k is PARTIAL: one result per slice, then charl__fold. False if operands are the same on all ranks: a sum is then one chain. */
bool charl__is_partial(const charl__enqueue *e, int k);

/** to[to_at + o * to_row + j] = from[from_at + o * from_row + j] for o < outer, j < length:
 *  elements of the output's type. */
typedef struct charl__strided_copy {
    const charl_tensor *from, *to;
    int64_t from_at, to_at;
    int64_t outer, length;
    int64_t from_row, to_row;
} charl__strided_copy;

/** One launch (op/shape/slice.c). Async. */
charl_status charl__strided_copy_enqueue(const charl__enqueue *e, const charl__strided_copy *s) CHARL_MUST_CHECK;

/** Extents before, at and after `axis`. */
void charl__split_axis(const charl_shape *s, int axis, int64_t *outer, int64_t *n, int64_t *inner);
/** The same in memory order: a channels-last image has its channels at the end. */
void charl__split_axis_of(const charl_tensor *t, int axis, int64_t *outer, int64_t *n, int64_t *inner);
/** Whether `rows` is the shape of values per row of x: x without its last
 *  extent, at least one. */
bool charl__is_rows_of(const charl_shape *rows, const charl_shape *x);
/** An axis counted from the front, or -1 if the shape does not have it. */
int charl__axis(const charl_shape *s, int axis);
/** s without an axis, or with 1 in its place; and with an additional axis of n elements. */
charl_shape charl__shape_reduced(const charl_shape *s, int axis, bool keep);
charl_shape charl__shape_expanded(const charl_shape *s, int axis, int64_t n);

#endif
