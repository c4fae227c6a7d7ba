#ifndef CHARL_AUTOGRAD_OP_LOSS_LOSS_PAIR_H
#define CHARL_AUTOGRAD_OP_LOSS_LOSS_PAIR_H
/** Losses of a prediction x [B, ...] and a target t of the same shape: out[b] = mean of f(x, t)
 * over row b. Their gradients take a third operand, the gradient of each row's loss alongside its
 * row. f may have one f32 parameter, the operator's attribute.
 */
#include "autograd/launch/map.h"
#include "autograd/launch/rows.h"

/** Elements of a row; 0 without rows. */
int64_t charl__pair_rest(const charl_shape *s);
charl_status charl__pair_infer(charl_infer *inf) CHARL_MUST_CHECK;
/** Of the gradient operator: out[0] = type of x. */
charl_status charl__pair_infer_grad(charl_infer *inf) CHARL_MUST_CHECK;
/** `expr` is f of a = x, b = t and p, the parameter. */
charl_status charl__pair_enqueue(const charl_enqueue *e, const char *expr) CHARL_MUST_CHECK;
/** The loss's gradient as the third operand of its gradient operator. */
charl_var *charl__pair_by_row(const charl_backward *b);
/** gin[0] by the operator `grad`, gin[1] its negative: for f of x - t. */
void charl__pair_backward(const charl_backward *b, const charl_op *grad);
/** `expr` is out of a = x, b = t, c = the row's gradient, p = 1 / elements of a row and q, the
 * parameter. */
charl_status charl__pair_enqueue_grad(const charl_enqueue *e, const char *expr) CHARL_MUST_CHECK;

typedef double (*charl__pair_fn)(double x, double t, double parameter);

void charl__pair_reference(const charl_reference *r, charl__pair_fn f);
/** `df` is df/dx. */
void charl__pair_reference_grad(const charl_reference *r, charl__pair_fn df);

/* Samples of the loss, and of its gradient; `parameter` is a const float * or NULL. */
#define CHARL_PAIR_SAMPLES(parameter)                                                              \
    CHARL_PAIR_SAMPLE(CHARL_R, 5, parameter, 3, 5), CHARL_PAIR_SAMPLE(CHARL_R, 2, parameter, 5),   \
        CHARL_PAIR_SAMPLE(CHARL_R, 2100, parameter, 2, 3, 700),                                    \
        CHARL_PAIR_SAMPLE(CHARL_R, 9001, parameter, 2, 9001),                                      \
        CHARL_PAIR_SAMPLE(CHARL_R, 0, parameter, 0, 4),                                            \
        CHARL_PAIR_SAMPLE(CHARL_B, 37, parameter, 16, 37)

#define CHARL_PAIR_SAMPLE(type, length, parameter, ...)                                            \
    {                                                                                              \
        .in = {type(F32, __VA_ARGS__), type(F32, __VA_ARGS__)}, .terms = (length), .lo = -3,       \
        .hi = 3, .attr = (parameter)                                                               \
    }

#define CHARL_PAIR_SAMPLES_GRAD(parameter)                                                         \
    {.in = {CHARL_R(F32, 3, 5), CHARL_R(F32, 3, 5), CHARL_R(F32, 3, 1)},                           \
     .terms = 2,                                                                                   \
     .lo = -3,                                                                                     \
     .hi = 3,                                                                                      \
     .attr = (parameter)},                                                                         \
        {.in = {CHARL_R(F32, 5), CHARL_R(F32, 5), CHARL_R(F32, 5)},                                \
         .terms = 2,                                                                               \
         .lo = -3,                                                                                 \
         .hi = 3,                                                                                  \
         .attr = (parameter)},                                                                     \
        {.in = {CHARL_R(F32, 2, 3, 700), CHARL_R(F32, 2, 3, 700), CHARL_R(F32, 2, 1, 1)},          \
         .terms = 2,                                                                               \
         .lo = -3,                                                                                 \
         .hi = 3,                                                                                  \
         .attr = (parameter)},                                                                     \
    {                                                                                              \
        .in = {CHARL_B(F32, 16, 37), CHARL_B(F32, 16, 37), CHARL_B(F32, 16, 1)}, .terms = 2,       \
        .lo = -3, .hi = 3, .attr = (parameter)                                                     \
    }

#endif
