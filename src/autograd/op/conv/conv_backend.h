#ifndef CHARL_AUTOGRAD_OP_CONV_CONV_BACKEND_H
#define CHARL_AUTOGRAD_OP_CONV_CONV_BACKEND_H
/** Back ends of conv2d and its two gradients.
 *
 *  A row of the table in conv_backend.c computes all three, for the devices, types, groups, channels and windows that it supports. The
 *  choice must not depend on the batch, which differs between ranks, nor on the extents of images: a pixel's bits must not depend on them.
 */
#include "autograd/op.h"
#include "tensor/conv/conv.h"

typedef struct charl__conv_backend {
    const char *name;
    /** NULL: any. dev: NULL for no device. */
    bool (*supports)(const charl_device *dev, charl_dtype type, const charl__conv *c);
    charl__op_layout layout; /* of images */
    /** Bytes of workspace for out[0] = conv2d of c; for its d x; for its d weight, of operands of that type, over `slices` slices (0: the sum
     *  is one chain). */
    int64_t (*workspace)(const charl__conv *c);
    int64_t (*input_workspace)(const charl__conv *c);
    int64_t (*weight_workspace)(const charl__conv *c, charl_dtype type, int slices);
    /** Whether d x of c, on operands of these types, is one product by charl__gemm_enqueue, which may have an epilogue. NULL: never. */
    bool (*input_is_product)(const charl__infer *inf, const charl__conv *c);
    /** out[0] [batch, o, oh, ow] of in: x, weight[, bias]. Async. */
    charl_status (*enqueue)(const charl__enqueue *e, const charl__conv *c);
    /** out[0] = d x [batch, c, h, w] of in: d out, weight. Async. */
    charl_status (*enqueue_input)(const charl__enqueue *e, const charl__conv *c);
    /** out[0] = d weight [o, c / groups, kh, kw], f32, of in: d out, x. Async. */
    charl_status (*enqueue_weight)(const charl__enqueue *e, const charl__conv *c);
} charl__conv_backend;

extern const charl__conv_backend charl__conv_tensor_cores; /* NVIDIA's: nvidia/conv_tensor_core.c */
extern const charl__conv_backend charl__conv_depthwise;
extern const charl__conv_backend charl__conv_digits;   /* integers, any device */
extern const charl__conv_backend charl__conv_products; /* of the image in place: supports all */

/** conv2d and its gradients. */
typedef enum charl__conv_part { CHARL__CONV_OUT, CHARL__CONV_INPUT, CHARL__CONV_WEIGHT } charl__conv_part;
/** Whether that part of c, of f32, is computed from integers, a gradient of a weight as one sum over the batch. */
bool charl__conv_is_integer(const charl__conv *c, charl__conv_part part);

/* Workspaces for rows of the table: none, and for weight gradients whose slices charl__gemm_slices divides. */
int64_t charl__conv_no_workspace(const charl__conv *c);
int64_t charl__conv_slices_workspace(const charl__conv *c, charl_dtype type, int slices);

/** Set the parameters KH, KW, SH, SW, PH, PW, DH and DW of a kernel: kernel, stride, padding and dilation. */
void charl__conv_set_window(const charl__conv *c, charl__launch *l);

/** The first row that supports them; there is one for all. */
const charl__conv_backend *charl__conv_backend_for(const charl_device *dev, charl_dtype type, const charl__conv *c);

#endif
