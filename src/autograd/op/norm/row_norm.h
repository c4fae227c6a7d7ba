#ifndef CHARL_AUTOGRAD_OP_NORM_ROW_NORM_H
#define CHARL_AUTOGRAD_OP_NORM_ROW_NORM_H
/** layer_norm and rms_norm over the last axis (kernels/norm/row_norm.cl), each with these operators:
 *
 *      norm    (x[, weight[, bias]])         -> h
 *      add     (a, b, weight[, bias])        -> a + b, h of that sum
 *      grad    (gout, x[, weight[, extra]])  -> gradient of x, plus extra
 *      wgrad   (gout, x)                     -> gradients of weight [C] and of bias [C]
 *      grads   (gout, x, weight[, extra])    -> results of grad and wgrad with the same bits; in one pass over the rows if the device
 *                                               has work-groups and the length of a row suits them
 *
 *  rms_norm does not subtract the mean and has no bias. The gradients recompute a row's mean and deviation: this costs a read of x and saves
 *  two outputs that would live until the backward pass.
 */
#include "autograd/launch/rows.h"

/** The differences of layer_norm's operators and rms_norm's. The attribute of all is eps, a float. */
typedef struct charl__row_norm {
    bool centred; /* layer_norm: subtracts the mean and has a bias */
    const charl__op *grad, *wgrad, *grads;
} charl__row_norm;

extern const charl__row_norm charl__row_norm_layer, charl__row_norm_rms;

static inline const charl__row_norm *charl__row_norm_of(const charl__op *op)
{
    return op->row;
}

/* Of row_norm_grad.c. */
void charl__row_norm_backward(const charl__backward *b);
void charl__row_norm_add_backward(const charl__backward *b);

/* Of row_norm.c, for row_norm_grad.c. */
int64_t charl__row_norm_length(const charl_shape *s);
int64_t charl__row_norm_count(const charl_shape *s);
/** Check that operand x has rows, operands first .. last - 1 are [C], and the others are shaped like x. Errors: ERR_SHAPE,
 *  ERR_DTYPE. */
charl_status charl__row_norm_check(const charl__infer *inf, int x, int first, int last) CHARL_MUST_CHECK;
/** Accumulators of a row of n elements: charl__rows_width, or half as many if half
 *  types have their own order (docs/adr/0011) and a warp then processes two rows. */
int charl__row_norm_width(const charl_device *dev, int64_t n, charl_dtype dtype);
/** On devices with groups, the work-items of a row of n elements keep it in registers; returns the number of
 *  blocks of its width. 0: the row is longer and is read again. */
int charl__row_norm_register_blocks(const charl_device *dev, int64_t n, charl_dtype dtype);
/** charl__rows_launch for the rows of x, with the parameters of all these kernels. */
charl_status charl__row_norm_rows(const charl__enqueue *e, const charl_tensor *x, charl__launch *l,
                                  int64_t *per_item) CHARL_MUST_CHECK;
/** Launch `entry` over the rows of x; l has its operands and parameters; adds geometry and eps. */
charl_status charl__row_norm_launch(const charl__enqueue *e, const char *entry, const charl_tensor *x,
                                    charl__launch *l) CHARL_MUST_CHECK;
/** Mean, 0 for rms_norm, and 1 / deviation of a row x of n elements. */
void charl__row_norm_statistics(const charl__reference *r, const double *x, int64_t n, double *mean, double *invstd);

struct charl__onnx_node;
void charl__row_norm_onnx(const struct charl__onnx_node *n);
void charl__row_norm_add_onnx(const struct charl__onnx_node *n);

#endif
