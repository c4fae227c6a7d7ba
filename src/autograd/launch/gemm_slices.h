#ifndef CHARL_AUTOGRAD_LAUNCH_GEMM_SLICES_H
#define CHARL_AUTOGRAD_LAUNCH_GEMM_SLICES_H
/** Weight gradients: a product per slice of the batch, folded in the fixed tree.
 *
 *  Where a slice's product is small but its sum long, the sum is cut into 2, 4, 8 ... equal parts,
 *  which are leaves of the tree like slices. How many depends on the product's extents and on
 *  whether its operands are of half types only.
 */
#include "autograd/op.h"
#include "autograd/launch/rows.h"
#include "tensor/gemm/gemm.h"

/** Slices whose leaves are `parts` equal parts of those of s each; parts: a power of two. */
charl_slices charl__cut_slices(const charl_slices *s, int parts);

/** Parts of the sum of the product p of one slice of operands of that type. */
int charl__gemm_slices_parts(const charl__gemm *p, charl_dtype type);

/** Bytes of workspace that charl__gemm_slices needs for the product p of one slice of operands of
 *  that type, with `n_slices` of them. */
int64_t charl__gemm_slices_workspace(const charl__gemm *p, charl_dtype type, int n_slices);

/** Output k of e (p->out.outer elements) = the sum over this rank's slices, each lane by itself, of
 *  p's products: outer = slice. p->out is set here. */
charl_status charl__gemm_slices(const charl__enqueue *e, const charl__gemm *p, int k) CHARL_MUST_CHECK;

/** Outputs 0 and 1 of e in the same way: p's products, and the sums of their A over k (p->m
 *  elements), in the same launch. charl__gemm_sums_a or charl__gemm_slices_can_sum
 *  must be true of p. */
charl_status charl__gemm_slices_sums(const charl__enqueue *e, const charl__gemm *p) CHARL_MUST_CHECK;

/** Whether that is possible where charl__gemm_sums_a is false: sums of short slices, folded inside
 *  the product. */
bool charl__gemm_slices_can_sum(const charl__enqueue *e, const charl__gemm *p);

/** Bytes of workspace that it needs besides. */
int64_t charl__gemm_slices_sums_workspace(const charl__gemm *p, charl_dtype type, int n_slices);

#endif
