/* Batch norm reads its input twice to compute its statistics: for the mean, and for the squared
 * deviations from it. For channels-last images the second pass needs only what the first can compute
 * of each block of pixels: the sum, and the squared deviations from the block's mean
 * (op/norm/channels.h). The bits equal those of two passes, which also work by blocks.
 */
#include "autograd/fuse/fuse.h"
#include "autograd/op/norm/channels.h"
#include "base/alloc.h"

/* sum(x): sums per channel, and the moments of blocks. */
static charl_status enqueue_sum(const charl__enqueue *e)
{
    return charl__channels_sums(e, &(charl__channels){.x = e->in[0], .moments = e->out[1]});
}

static const charl__op op_sum_with_moments = {
    .name = "sum_with_moments",
    .formula = "out[0][c] = sum of x[:,c]; out[1] = sum of x[:,c] of every block, and of the "
               "squares around their mean",
    .n_in = 1,
    .attr_size = sizeof(int),
    .enqueue = enqueue_sum,
};

/* squares(moments, mean), by the shape of x */
static charl_status enqueue_squares(const charl__enqueue *e)
{
    return charl__channels_squares(e, e->attr, e->in[0], e->in[1]);
}

static const charl__op op_squares_of_moments = {
    .name = "squares_of_moments",
    .formula = "out[c] = sum of (x[:,c] - mean[c])^2, from the moments of blocks of x",
    .n_in = 2,
    .attr_size = sizeof(charl_shape),
    .enqueue = enqueue_squares,
};

/* The sum of x over all axes except channels; NULL: no node before n computes it. */
static charl__node *sum_of(const charl_graph *g, const charl_var *x, const charl__node *n)
{
    for (int i = 0; i < n->position; i++) {
        charl__node *s = charl__graph_node(g, i);

        if (s->live && s->op == &charl_op_sum_to && s->in[0] == x &&
            charl_shape_count(&s->out[0]->type.shape) == x->type.shape.dim[1] && *(const int *)s->attr == 1) {
            return s;
        }
    }
    return NULL;
}

static charl_status join(charl_graph *g, charl__node *sum, charl__node *squares)
{
    const charl_shape x = squares->in[0]->type.shape;
    const int64_t blocks = charl__channels_blocks(&x, g->slices.count);
    const charl_type type = {CHARL_F32, {3, {blocks, 2, x.dim[1]}}, CHARL_BATCHED};
    CHARL_SCOPED_FREE charl_shape *attr = NULL;

    CHARL_TRY(charl__alloc(sizeof *attr, &attr));
    CHARL_TRY(charl__var_new(g, type, &sum->out[1]));
    *attr = x;
    sum->out[1]->node = sum;
    sum->n_out = 2;
    sum->op = &op_sum_with_moments;
    charl_free(squares->attr);
    squares->attr = attr;
    attr = NULL;
    squares->op = &op_squares_of_moments;
    squares->in[0] = sum->out[1];
    return CHARL_OK;
}

charl_status charl__fuse_moments(charl_graph *g)
{
    for (int i = 0; i < g->nodes.count; i++) {
        charl__node *n = charl__graph_node(g, i), *sum = NULL;

        if (n->live && n->op == &charl_op_batch_norm_squares && n->in[0]->channels_last) {
            sum = sum_of(g, n->in[0], n);
        }
        if (sum) {
            CHARL_TRY(join(g, sum, n));
        }
    }
    return CHARL_OK;
}
