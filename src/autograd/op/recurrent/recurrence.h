#ifndef CHARL_AUTOGRAD_OP_RECURRENT_RECURRENCE_H
#define CHARL_AUTOGRAD_OP_RECURRENT_RECURRENCE_H
/** The loop over time of lstm, gru and their gradients: a matrix product and a cell for each step.
 *
 *  The steps of one row of the batch are contiguous in memory, [B, T, ...], but a product needs
 *  the rows of one step together. So three parts of the workspace belong to the current step:
 *
 *      forward   inner [B, G*H] = state @ w^T     the cell reads inner, writes state [B, H] = h
 *      backward  state [B, H]   = inner @ w       the cell reads state and carry [B, H], writes inner (the gradient of the
 *                                                 product) and carry (the direct gradient of the previous step)
 *
 *  In half types the series and w_hh are half-precision; h is not rounded between steps.
 */
#include "recurrent/recurrent_args.h"
#include "autograd/op.h"

typedef struct charl__recurrence {
    int64_t batch, steps, hidden;
    int gates;       /* G: 4 for lstm, 3 for gru */
    charl_dtype act; /* of the series; inside the loop everything is f32 */
    charl_tensor state, inner, carry, w;
    charl_tensor exchange; /* [2 * batch, G * H], instead of these, for nvidia/persistent.h */
} charl__recurrence;

/** Shape rule: operand `series` is [B, T, parts * H] and operand `w`, w_hh, is [G * H, H], floats,
 *  the same for all rows. Errors: ERR_SHAPE, ERR_DTYPE. */
charl_status charl__recurrence_check(const charl__infer *inf, int series, int parts, int w, int gates) CHARL_MUST_CHECK;

/** [B, T, parts * H] for series [B, T, ...] and w_hh. */
charl_type charl__recurrence_series(const charl_type *series, const charl_type *w, int parts);

/** Bytes of workspace for `batch` rows, with w_hh in f32 where it is half-size, or for nvidia/persistent.h. */
int64_t charl__recurrence_workspace(int64_t batch, const charl_type *w);

/** Extents and workspace parts of an operator whose operands have been checked. */
charl__recurrence charl__recurrence_of(const charl__enqueue *e, const charl_shape *series, const charl_tensor *w);

/** All steps. `cell` has file, entry, parameters and n_args arguments, and gets *args with the steps, and the arguments of
 *  charl__column_chunks_launch over [B, H]. From the last step to the first if `back`. Async. Errors: ERR_KERNEL, ERR_DEVICE, ERR_SHAPE. */
charl_status charl__recurrence_run(const charl__enqueue *e, const charl__recurrence *r, bool back,
                                   const charl_tensor *w, charl__recurrent_args *args, charl__launch *cell,
                                   int n_args) CHARL_MUST_CHECK;

/** The logistic function, for references. */
double charl__recurrence_sigmoid(double x);
/** The reference of a gradient: `row` for every row of `batch`, with `hidden` zeros to carry through
 *  time. */
void charl__recurrence_reference(const charl__reference *r, int64_t batch, int64_t hidden,
                                 void (*row)(const charl__reference *r, int64_t b, double *carry));

/** Gradient of w_hh: the sum over rows and steps t >= 1 of g[b, t]^T h[b, t - 1]. */
charl_var *charl__recurrence_wgrad(charl_graph *g, charl_var *grad, charl_var *h);

/** Write the node as ONNX's `type`, whose gate i is the operator's gate order[i]. */
void charl__recurrence_onnx(const struct charl__onnx_node *n, const char *type, const int *order, int gates);

#endif
