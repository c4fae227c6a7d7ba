#ifndef CHARL_AUTOGRAD_OP_CONV_CONV_TENSOR_CORE_H
#define CHARL_AUTOGRAD_OP_CONV_CONV_TENSOR_CORE_H
/** conv2d and its gradients on tensor cores (tensor/conv/nvidia/conv_wgmma.h), from and to the operators' own
 *  layouts: images are made channels-last in the workspace, weights [rows, kh, kw, padded channels].
 */
#include "autograd/op.h"
#include "tensor/conv/nvidia/conv_wgmma.h"

/** Whether d x of conv2d of c, on operands of these types, is one product by charl__gemm_enqueue, which may
 *  have an epilogue. */
bool charl__conv_tensor_core_input_is_product(const charl__infer *inf, const charl__conv *c);

/** Bytes of workspace for out[0] = conv2d of c; for its d x; for its d weight over `slices` slices
 *  (0: the sum is one chain). */
int64_t charl__conv_tensor_core_workspace(const charl__conv *c);
int64_t charl__conv_tensor_core_input_workspace(const charl__conv *c);
int64_t charl__conv_tensor_core_weight_workspace(const charl__conv *c, int slices);

/** out[0] [batch, o, oh, ow] of in: x, weight[, bias]. Async. Errors: those of charl__conv_wgmma.
 */
charl_status charl__conv_tensor_core(const charl__enqueue *e, const charl__conv *c) CHARL_MUST_CHECK;
/** out[0] = d x [batch, c, h, w] of in: d out, weight. Async. */
charl_status charl__conv_tensor_core_input(const charl__enqueue *e, const charl__conv *c) CHARL_MUST_CHECK;
/** out[0] = d weight [o, c, kh, kw], f32, of in: d out, x. A slice's sum is cut into 2, 4, 8 ...
 *  parts of equally many samples, as many as the extents say, which are leaves of the tree. Async.
 */
charl_status charl__conv_tensor_core_weight(const charl__enqueue *e, const charl__conv *c) CHARL_MUST_CHECK;

#endif
