#ifndef CHARL_AUTOGRAD_ROW_NORM_H
#define CHARL_AUTOGRAD_ROW_NORM_H
/** layer_norm and rms_norm over the last axis: shape rules, launches, gradients and references of
 * both (kernels/row_norm.cl). The operators differ in their attribute and in whether they have a
 * bias.
 *
 *      norm    (x[, weight[, bias]])                -> h
 *      add     (a, b, weight[, bias])               -> a + b, h of that sum
 *      grad    (gout, x[, weight[, extra]])         -> gradient of x, plus extra
 *      wgrad   (gout, x)                            -> gradients of weight and, layer_norm, bias:
 * [2 or 1, C]
 *
 * The gradients compute a row's mean and deviation again: that costs a read of x, and saves two
 * outputs that would live until the backward pass.
 */
#include "autograd/op.h"

/** Attribute of all of them. */
typedef struct charl_row_norm {
    float eps;
    bool centred; /* layer_norm */
} charl_row_norm;

charl_status charl__row_norm_infer(charl_infer *inf) CHARL_MUST_CHECK;
charl_status charl__row_norm_enqueue(const charl_enqueue *e) CHARL_MUST_CHECK;
void charl__row_norm_backward(const charl_backward *b);
void charl__row_norm_reference(const charl_reference *r);

charl_status charl__row_norm_add_infer(charl_infer *inf) CHARL_MUST_CHECK;
charl_status charl__row_norm_add_enqueue(const charl_enqueue *e) CHARL_MUST_CHECK;
void charl__row_norm_add_backward(const charl_backward *b);
void charl__row_norm_add_reference(const charl_reference *r);

charl_status charl__row_norm_grad_infer(charl_infer *inf) CHARL_MUST_CHECK;
charl_status charl__row_norm_grad_enqueue(const charl_enqueue *e) CHARL_MUST_CHECK;
void charl__row_norm_grad_reference(const charl_reference *r);

charl_status charl__row_norm_wgrad_infer(charl_infer *inf) CHARL_MUST_CHECK;
charl_status charl__row_norm_wgrad_enqueue(const charl_enqueue *e) CHARL_MUST_CHECK;
void charl__row_norm_wgrad_reference(const charl_reference *r);

struct charl_onnx_node;
void charl__row_norm_onnx(const struct charl_onnx_node *n);
void charl__row_norm_add_onnx(const struct charl_onnx_node *n);

#endif
