/* cross_entropy_with_grad: the loss of rows of logits and its gradient in one pass. Training
 * replaces cross_entropy and cross_entropy_grad by it (fuse_loss.c), with the same bits.
 *
 *  operands  gout, logits, label and, optionally, weights
 *  outputs   the gradient of the logits, which may overwrite them; the loss; lse
 *
 * A row is read from memory once if a cache holds it until its sums are known.
 */
#include "loss/cross_entropy_args.h"
#include "autograd/op/loss/cross_entropy.h"

#include <stdio.h>

#include "autograd/launch/map.h"
#include "autograd/op/loss/nvidia/cross_entropy_local.h"

#include "charl/ops.h"

enum { VECTORS = 2 }; /* that a work-item processes at a time, if several share a row */

/* Operands of cross_entropy: all but gout. */
static charl_status infer(charl__infer *inf)
{
    charl__infer loss = {.in = inf->in + 1, .n_in = inf->n_in - 1, .attr = inf->attr, .n_slices = inf->n_slices};
    const charl_type *gout = &inf->in[0];

    CHARL_TRY(charl_op_cross_entropy.infer(&loss));
    CHARL_REQUIRE(gout->dtype == CHARL_F32 && charl_shape_equal(&gout->shape, &inf->in[2].shape), CHARL_ERR_SHAPE,
                  "operand 0, gout, is not one f32 per row");
    CHARL_TRY(charl__infer_same_rows(inf, 0, 1));
    inf->out[0] = inf->in[1];
    inf->out[1] = loss.out[0];
    inf->out[2] = loss.out[1];
    inf->n_out = 3;
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

static charl_status enqueue(const charl__enqueue *e)
{
    const charl_cross_entropy_args *args = e->attr;
    const charl_tensor *logits = e->in[1];
    charl__launch l = {.file = "loss/cross_entropy_with_grad", .entry = "charl_both", .label = e->label};
    charl__cross_entropy_numbers both;
    int64_t rows, n, inner, per_item;
    bool is_local;
    int a = 0;

    charl__split_axis(&logits->shape, logits->shape.ndim - 1, &rows, &n, &inner);
    if (rows == 0) {
        return CHARL_OK;
    }
    is_local = charl__cross_entropy_local(e, n, &l);
    if (!is_local) {
        charl__launch_set(&l, "VECTORS", n > VECTORS * 256 ? VECTORS : 1);
    }
    CHARL_TRY(charl__cross_entropy_rows(e, logits, e->n_in > 3, &l, &per_item));
    if (is_local) {
        per_item = charl__cross_entropy_local_groups(e, rows, &l);
    }
    for (int i = 0; i < e->n_in; i++) {
        l.args[a++] = charl__in(e->in[i]);
    }
    for (int k = 0; k < e->n_out; k++) {
        l.args[a++] = charl__out(e->out[k]);
    }
    both = (charl__cross_entropy_numbers){.rows = (uint64_t)rows,
                                          .per_item = (uint64_t)per_item,
                                          .n = (uint64_t)n,
                                          .smooth = args->label_smoothing,
                                          .z = args->z_loss};
    l.args[a] = charl__struct(&both, sizeof both);
    CHARL_TRY(charl__launch_enqueue(e->dev, &l));
    return CHARL_OK;
}

/* The references of the two operators in turn. */
static void reference(const charl__reference *r)
{
    const double *grad_in[CHARL_OP_MAX_IN] = {r->in[0], r->in[1], r->in[2], r->out[2], r->n_in > 3 ? r->in[3] : NULL};
    charl__reference loss = *r, grad = *r;

    loss.n_in = r->n_in - 1;
    loss.in = r->in + 1;
    loss.in_type = r->in_type + 1;
    loss.out = r->out + 1;
    loss.out_type = r->out_type + 1;
    charl_op_cross_entropy.reference(&loss);
    grad.n_in = r->n_in + 1;
    grad.in = grad_in;
    charl_op_cross_entropy_grad.reference(&grad);
}

static const charl_cross_entropy_args plain = {0}, smooth = {.label_smoothing = 0.1F},
                                      both = {.label_smoothing = 0.1F, .z_loss = 0.5F};
static const charl__op_sample samples[] = {
    {.in = {CHARL_B(F32, 8, 5), LOGITS(B, 37, 8, 5)}, CLASSES(smooth, 38, 37)}, /* 37 is out of range */
    /* several chunks */
    {.in = {CHARL_B(F32, 8), LOGITS(B, 24203, 8)}, .n_in = 3, CLASSES(plain, 24203, 24203), .lo = -30, .hi = 30},
    {.in = {CHARL_B(F32, 8), LOGITS(B, 24577, 8)}, CLASSES(both, 24577, 24577)}, /* one more than full chunks */
    {.in = {CHARL_R(F32, 0), LOGITS(R, 4, 0)}, .n_in = 3, CLASSES(plain, 4, 0)},
};

const charl__op charl_op_cross_entropy_with_grad = {
    .name = "cross_entropy_with_grad",
    .formula = "out0 = gout * w * ((1 + 2 z out2) exp(x - out2) - q), out1 and out2 of cross_entropy",
    .n_in = 4,
    .n_optional = 1,
    .attr_size = sizeof(charl_cross_entropy_args),
    .in_place = 1,
    .half = CHARL_HALF(1),
    CHARL_RULES(),
};
