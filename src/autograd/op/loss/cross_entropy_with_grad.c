/* cross_entropy_with_grad: the loss of rows of logits and its gradient in one pass, which training
 * puts in the place of cross_entropy and cross_entropy_grad (fuse_loss.c) with the same bits.
 *
 *  operands  gout, logits, label and, if there are weights, those
 *  outputs   the gradient of the logits, which may take their place in memory; the loss; lse
 *
 * A row is read from memory once where a cache holds it until its sums are known.
 */
#include "autograd/op/loss/cross_entropy.h"

#include <stdio.h>

#include "autograd/launch/map.h"

#include "charl/ops.h"

enum { VECTORS = 2 }; /* of a work-item at a time, where several share a row */
/* For kernels/nvidia/loss/cross_entropy_local.cl. */
enum {
    LOCAL_GROUP = 448,
    LOCAL_GROUPS = 2,    /* on a compute unit */
    LOCAL_ROWS = 2,      /* of a group, at most */
    LOCAL_LEAST = 49152, /* what the kernel declares */
    LOCAL_MOST = 115000  /* two rows fit into the local memory of a compute unit */
};

/* Operands of cross_entropy: all but gout. */
static charl_status infer(charl__infer *inf)
{
    charl__infer loss = {.in = inf->in + 1, .n_in = inf->n_in - 1, .attr = inf->attr, .n_slices = inf->n_slices};
    const charl_type *gout = &inf->in[0];

    CHARL_TRY(charl_op_cross_entropy.infer(&loss));
    CHARL_REQUIRE(gout->dtype == CHARL_F32 && charl_shape_equal(&gout->shape, &inf->in[2].shape), CHARL_ERR_SHAPE,
                  "operand 0, gout, is not one f32 per row");
    inf->out[0] = inf->in[1];
    inf->out[1] = loss.out[0];
    inf->out[2] = loss.out[1];
    inf->n_out = 3;
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

static int64_t chunks_of(int64_t n)
{
    return (n + CHARL__CROSS_ENTROPY_CHUNK - 1) / CHARL__CROSS_ENTROPY_CHUNK;
}

/* Bytes of local memory for a row and its sums where a kernel keeps it there; 0: none does. */
static int64_t local_bytes(const charl__enqueue *e, int64_t n)
{
    const charl__device_facts *facts = charl__device_facts_get(e->dev);
    const charl_tensor *x = e->in[1], *out = e->out[0];
    const int64_t bytes = chunks_of(n) * (CHARL__CROSS_ENTROPY_CHUNK * 2 + 16 + 12);

    return facts->nvidia.wgmma && facts->nvidia.ptx && charl_dtype_size(x->dtype) == 2 &&
                   (x->offset - out->offset) % CHARL_GPU_VEC == 0 && bytes >= LOCAL_LEAST && bytes <= LOCAL_MOST
               ? bytes
               : 0;
}

/* With a kernel that keeps rows in local memory: a work-group processes several rows in turn, which
 * overlap, but few, so that all are done at about the same time. */
static void shape_local(const charl__enqueue *e, int64_t rows, charl__launch *l, int64_t *per_item)
{
    const int64_t places = LOCAL_GROUPS * charl_device_get_info(e->dev)->compute_units;
    const int64_t turns = (rows + places * LOCAL_ROWS - 1) / (places * LOCAL_ROWS);

    *per_item = (rows + places * turns - 1) / (places * turns);
    l->local[0] = LOCAL_GROUP;
    l->global[0] = (size_t)((rows + *per_item - 1) / *per_item) * l->local[0];
}

static charl_status enqueue(const charl__enqueue *e)
{
    const charl_cross_entropy_args *args = e->attr;
    const charl_tensor *logits = e->in[1];
    charl__launch l = {.file = "loss/cross_entropy_with_grad", .entry = "charl_both", .label = e->label};
    int64_t rows, n, inner, per_item;
    int a = 0;

    charl__split_axis(&logits->shape, logits->shape.ndim - 1, &rows, &n, &inner);
    if (rows == 0) {
        return CHARL_OK;
    }
    l.sm90a.shared_bytes = local_bytes(e, n);
    if (l.sm90a.shared_bytes > 0) {
        l.file = "nvidia/loss/cross_entropy_local";
        l.sm90a.min_blocks = LOCAL_GROUPS;
        charl__launch_set(&l, "CHARL_ROW_GROUP", LOCAL_GROUP);
        charl__launch_set(&l, "ROW_CHUNKS", chunks_of(n));
    } else {
        charl__launch_set(&l, "VECTORS", n > VECTORS * 256 ? VECTORS : 1);
    }
    CHARL_TRY(charl__cross_entropy_rows(e, logits, e->n_in > 3, &l, &per_item));
    if (l.sm90a.shared_bytes > 0) {
        shape_local(e, rows, &l, &per_item);
    }
    for (int i = 0; i < e->n_in; i++) {
        l.args[a++] = charl__in(e->in[i]);
    }
    for (int k = 0; k < e->n_out; k++) {
        l.args[a++] = charl__out(e->out[k]);
    }
    l.args[a++] = charl__i64(rows);
    l.args[a++] = charl__i64(per_item);
    l.args[a++] = charl__i64(n);
    l.args[a++] = charl__f32(args->label_smoothing);
    l.args[a++] = charl__f32(args->z_loss);
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
    {.in = {CHARL_B(F32, 8, 5), CHARL_B(F32, 8, 5, 37), CHARL_B(I32, 8, 5), CHARL_B(F32, 8, 5)},
     .attr = &smooth,
     .int_end = 38, /* 37 is outside */
     .terms = 37,
     .lo = -3,
     .hi = 3},
    {.in = {CHARL_B(F32, 8), CHARL_B(F32, 8, 24203), CHARL_B(I32, 8)}, /* several chunks */
     .n_in = 3,
     .attr = &plain,
     .int_end = 24203,
     .terms = 24203,
     .lo = -30,
     .hi = 30},
    {.in = {CHARL_B(F32, 8), CHARL_B(F32, 8, 24577), CHARL_B(I32, 8), CHARL_B(F32, 8)},
     .attr = &both,
     .int_end = 24577, /* one more than full chunks */
     .terms = 24577,
     .lo = -3,
     .hi = 3},
    {.in = {CHARL_R(F32, 0), CHARL_R(F32, 0, 4), CHARL_R(I32, 0)},
     .n_in = 3,
     .attr = &plain,
     .int_end = 4,
     .lo = -3,
     .hi = 3},
};

const charl__op charl_op_cross_entropy_with_grad = {
    .name = "cross_entropy_with_grad",
    .formula = "out0 = gout * w * ((1 + 2 z out2) exp(x - out2) - q), out1 and out2 of cross_entropy",
    .n_in = 4,
    .n_optional = 1,
    .attr_size = sizeof(charl_cross_entropy_args),
    .in_place = 1,
    .half = CHARL_HALF(1),
    .infer = infer,
    .enqueue = enqueue,
    .reference = reference,
    CHARL_SAMPLES(samples),
};
