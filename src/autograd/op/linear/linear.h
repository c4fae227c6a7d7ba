#ifndef CHARL_AUTOGRAD_OP_LINEAR_LINEAR_H
#define CHARL_AUTOGRAD_OP_LINEAR_LINEAR_H
/** Shared by linear layers of several kinds and their gradients. */
#include "autograd/op.h"
#include "tensor/gemm/gemm.h"

/** Shape rule of linear; `plain`: of x @ w instead of x @ w^T. Errors: ERR_DTYPE, ERR_SHAPE. */
charl_status charl__infer_linear(charl__infer *inf, bool plain) CHARL_MUST_CHECK;
/** The product of such an operator, without tensors. */
charl__gemm charl__linear_product(const charl_shape *x, const charl_shape *w, bool plain);
/** Enqueue it with the operands and the result of e. Async. Errors: charl__gemm_enqueue. */
charl_status charl__linear_enqueue(const charl__enqueue *e, charl__gemm p) CHARL_MUST_CHECK;

/** p^T @ q, the sum over k rows by one product per slice. */
charl__gemm charl__wgrad_product(const charl_shape *p, const charl_shape *q, int64_t slices);

/** Shape rule of linear_wgrad: p [rows.., m] and q [rows.., n] give [m, n]. Errors: ERR_DTYPE,
 *  ERR_SHAPE. */
charl_status charl__infer_wgrad(charl__infer *inf) CHARL_MUST_CHECK;

#endif
