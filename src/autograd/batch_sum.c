/* Completing sums over ranks, and its counterpart.
 *
 * batch_sum is not in the operator table: no kernel computes it. If this process has every slice,
 * it is a view; otherwise the callback that the trainer installed completes it.
 *
 * spread writes a complete value into the lanes of the gradient arena such that the tree over all
 * lanes returns exactly that value: the lane that starts at slice 0 holds it, all others hold -0.0,
 * because x + -0.0 is x for every x, including zeros of either sign.
 */

#include "autograd/graph_private.h"
#include "charl/ops.h"

static charl_status infer_batch_sum(charl__infer *inf)
{
    CHARL_REQUIRE(inf->in[0].dtype == CHARL_F32, CHARL_ERR_DTYPE, "sums over the batch are f32, not %s",
                  charl_dtype_name(inf->in[0].dtype));
    inf->out[0] = inf->in[0];
    inf->out[0].batch = CHARL_REPLICATED;
    return CHARL_OK;
}

/* The sum is linear, and every rank's share has coefficient 1. */
static void backward_batch_sum(const charl__backward *b)
{
    b->gin[0] = b->gout[0];
}

const charl__op charl__op_batch_sum = {
    .name = "batch_sum",
    .formula = "out = sum of x over the ranks, in tree order",
    .n_in = 1,
    .infer = infer_batch_sum,
    .backward = backward_batch_sum,
};

charl_var *charl_batch_sum(charl_graph *g, charl_var *x)
{
    if (!x || x->type.batch == CHARL_REPLICATED) {
        return x;
    }
    if (x->type.batch == CHARL_BATCHED) {
        return charl__graph_fail(g, CHARL_ERR_SHAPE, "batch_sum: %s still has a batch extent; sum over it first",
                                 charl_var_get_name(x));
    }
    if (!x->completed) {
        x->completed = charl__apply1(g, &charl__op_batch_sum, NULL, x);
    }
    return x->completed;
}

charl_var *charl_batch_mean(charl_graph *g, charl_var *x)
{
    double rows;

    if (!x) {
        return NULL;
    }
    if (x->type.batch != CHARL_BATCHED || charl_shape_count(&x->type.shape) != x->type.shape.dim[0]) {
        char shape[CHARL_SHAPE_TEXT];

        return charl__graph_fail(g, CHARL_ERR_SHAPE, "batch_mean: %s %s is not one value per row of the batch",
                                 charl_var_get_name(x), charl_shape_format(&x->type.shape, shape));
    }
    rows = (double)x->type.shape.dim[0] / g->slices.count * g->slices.total;
    x = charl_reshape(g, x, (charl_shape){1, {-1}});
    return charl_scale(g, charl_batch_sum(g, charl_sum(g, x, 0, false)), (float)(1.0 / rows), 0.0F);
}

static charl_status infer_spread(charl__infer *inf)
{
    inf->out[0] = inf->in[0];
    inf->out[0].batch = CHARL_PARTIAL;
    return CHARL_OK;
}

static charl_status enqueue_spread(const charl__enqueue *e)
{
    CHARL_SCOPED(charl__tensor_left) charl_tensor *lane = NULL;

    for (int j = 0; j < e->slices->n_lanes; j++) {
        CHARL_TRY(charl__tensor_view(e->out[0]->buffer, CHARL_F32, &e->out[0]->shape,
                                     e->out[0]->offset + j * e->lane_stride[0], &lane));
        if (e->slices->lane_lo[j] == 0) {
            CHARL_TRY(charl_tensor_copy(e->in[0], lane));
        } else {
            CHARL_TRY(charl_tensor_fill(lane, -0.0));
        }
        charl_tensor_release(lane);
        lane = NULL;
    }
    return CHARL_OK;
}

const charl__op charl__op_spread = {
    .name = "spread",
    .formula = "lanes whose sum over all ranks is x",
    .n_in = 1,
    .infer = infer_spread,
    .enqueue = enqueue_spread,
};
