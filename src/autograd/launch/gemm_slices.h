#ifndef CHARL_AUTOGRAD_LAUNCH_GEMM_SLICES_H
#define CHARL_AUTOGRAD_LAUNCH_GEMM_SLICES_H
/** Weight gradients: a product per slice of the batch, folded in the fixed tree.
 *
 *  If a slice's product is small but its sum is long, the sum is divided into 2, 4, 8 ... equal parts,
 *  which are leaves of the tree like slices. The number depends only on the product's extents and on
 *  whether all its operands are half types.
 */
#include "autograd/op.h"
#include "autograd/launch/rows.h"
#include "tensor/gemm/gemm.h"

/** Slices whose leaves are `parts` equal parts of the slices of s; parts: a power of two. */
charl_slices charl__cut_slices(const charl_slices *s, int parts);

/** Number of parts of the sum of p, the product of one slice, with operands of that type. */
int charl__gemm_slices_parts(const charl__gemm *p, charl_dtype type);

/** Bytes of workspace that charl__gemm_slices needs for the product p of one slice of operands of
 *  that type, with `n_slices` of them. */
int64_t charl__gemm_slices_workspace(const charl__gemm *p, charl_dtype type, int n_slices);

/** Output k of e (p->out.outer elements) = the sum over this rank's slices, separately for each lane, of
 *  p's products: outer = slice. Sets p->out. */
charl_status charl__gemm_slices(const charl__enqueue *e, const charl__gemm *p, int k) CHARL_MUST_CHECK;

/** Outputs 0 and 1 of e in the same way: p's products, and the sums of their A over k (p->m
 *  elements), in the same launch. Requires charl__gemm_sums_a or charl__gemm_slices_can_sum
 *  of p. */
charl_status charl__gemm_slices_sums(const charl__enqueue *e, const charl__gemm *p) CHARL_MUST_CHECK;

/** Whether that is possible if charl__gemm_sums_a is false: for sums of short slices, folded inside
 *  the product. */
bool charl__gemm_slices_can_sum(const charl__enqueue *e, const charl__gemm *p);

/** Additional bytes of workspace for it. */
int64_t charl__gemm_slices_sums_workspace(const charl__gemm *p, charl_dtype type, int n_slices);

#endif
