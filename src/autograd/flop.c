/* Floating-point operations of matrix products. */
#include <math.h>

#include "autograd/graph_private.h"

double charl__flop_product(const charl__infer *inf)
{
    const charl_shape *out = &inf->out[0].shape, *b = &inf->in[1].shape;
    double all =
        (double)charl_shape_count(&inf->in[0].shape) * (double)charl_shape_count(b) * (double)charl_shape_count(out);

    for (int i = 0; b->ndim > 2 && i + 2 < out->ndim; i++) { /* one product for each element */
        all /= (double)(out->dim[i] > 0 ? out->dim[i] : 1);
    }
    return 2.0 * sqrt(all);
}

double charl__flop_weights(const charl_shape *values, const charl_shape *w, int extent)
{
    const double each = (double)(w->dim[extent] > 0 ? w->dim[extent] : 1);

    return 2.0 * (double)charl_shape_count(values) * (double)charl_shape_count(w) / each;
}

charl__infer charl__node_infer(const charl_graph *g, const charl__node *n, charl_type *in)
{
    charl__infer inf = {.op = n->op,
                        .attr = n->attr,
                        .n_in = n->n_in,
                        .in = in,
                        .n_slices = g->slices.count,
                        .dev = g->dev,
                        .n_out = 1};

    for (int k = 0; k < n->n_in; k++) {
        in[k] = n->in[k]->type;
    }
    return inf;
}

static double node_flop(const charl_graph *g, const charl__node *n)
{
    charl_type in[CHARL_OP_MAX_IN];
    charl__infer inf = charl__node_infer(g, n, in);

    inf.n_out = n->n_out;
    for (int k = 0; k < n->n_out; k++) {
        inf.out[k] = n->out[k]->type;
    }
    return n->op->flop ? n->op->flop(&inf) : 0;
}

double charl__node_flop(const charl_graph *g, const charl__node *n)
{
    return n->live ? node_flop(g, n) : 0;
}

double charl__graph_flop(const charl_graph *g)
{
    double sum = 0;

    for (int i = 0; i < g->nodes.count; i++) {
        sum += charl__node_flop(g, charl__graph_node(g, i));
    }
    return sum;
}

int charl__graph_count(const charl_graph *g)
{
    return g->nodes.count;
}

void charl__graph_cost(const charl_graph *g, int first, int end, double *flop, int64_t *bytes)
{
    *flop = 0;
    *bytes = 0;
    for (int i = first; i < end; i++) {
        const charl__node *n = charl__graph_node(g, i);

        *flop += node_flop(g, n);
        for (int k = n->op->view ? 1 : 0; k < n->n_out; k++) {
            *bytes += charl_shape_count(&n->out[k]->type.shape) * (int64_t)charl_dtype_size(n->out[k]->type.dtype);
        }
    }
}
