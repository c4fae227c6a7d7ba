/* Reverse mode as a graph transformation: gradients are nodes like any other.
 *
 * Nodes are visited from the loss back; when one is reached, every consumer of its outputs has
 * already added its share to their gradients. Shares are added in that fixed order.
 *
 * The shares of a parameter are kept apart until compile: they are sums over the batch, which cannot be
 * added before they are complete, and completing each one separately would stall the step
 * (tensor/params.h).
 */
#include <stdio.h>
#include <string.h>

#include "autograd/graph_private.h"
#include "charl/ops.h"

static void accumulate(charl_graph *g, charl_var *v, charl_var *share)
{
    if (!v->grad) {
        v->grad = share;
    } else if (charl__var_is_trained(v)) {
        const charl_status st = charl__list_add(&v->more, share);

        if (st != CHARL_OK) {
            charl__graph_keep_error(g, st);
        }
    } else {
        v->grad = charl_add(g, v->grad, share);
    }
}

static bool has_gradient(const charl__node *n)
{
    for (int k = 0; k < n->n_out; k++) {
        if (n->out[k]->grad) {
            return true;
        }
    }
    return false;
}

static bool check_share(charl_graph *g, const charl__node *n, int i, const charl_var *share)
{
    const charl_type *want = &n->in[i]->type;
    const charl_batch batch = want->batch == CHARL_BATCHED ? CHARL_BATCHED : share->type.batch;

    if (share->type.dtype != charl__gradient_dtype(want) || !charl_shape_equal(&share->type.shape, &want->shape) ||
        share->type.batch != batch || (want->batch != CHARL_BATCHED && batch == CHARL_BATCHED)) {
        char got[CHARL_SHAPE_TEXT], expected[CHARL_SHAPE_TEXT];

        charl__graph_fail(g, CHARL_ERR_INVALID, "the gradient rule of %s gives %s %s for operand %d of %s %s",
                          n->op->name, charl_dtype_name(share->type.dtype), charl_shape_format(&share->type.shape, got),
                          i, charl_dtype_name(charl__gradient_dtype(want)), charl_shape_format(&want->shape, expected));
        return false;
    }
    return true;
}

/* Gradients of half-precision values without rows are f32 (charl__gradient_dtype), and most operators
 * take operands of one type. The rule then works in f32, on the values as they are. */
static void widen(charl_graph *g, const charl__node *n, charl_var **in, charl_var **out)
{
    for (int i = 0; i < n->n_in; i++) {
        if (n->op->moves || n->in[i]->type.batch == CHARL_BATCHED) {
            return;
        }
    }
    for (int i = 0; i < n->n_in; i++) {
        in[i] = charl__is_float(in[i]->type.dtype) ? charl__as_dtype(g, in[i], CHARL_F32) : in[i];
    }
    for (int k = 0; k < n->n_out; k++) {
        out[k] = charl__is_float(out[k]->type.dtype) ? charl__as_dtype(g, out[k], CHARL_F32) : out[k];
    }
}

static void visit(charl_graph *g, charl__node *n)
{
    charl_var *gout[CHARL_OP_MAX_OUT] = {0}, *gin[CHARL_OP_MAX_IN] = {0};
    charl_var *in[CHARL_OP_MAX_IN], *out[CHARL_OP_MAX_OUT];
    charl_var *before[CHARL_OP_MAX_IN] = {0};
    bool needed[CHARL_OP_MAX_IN] = {false}, added[CHARL_OP_MAX_IN] = {false};
    charl__backward b = {.op = n->op,
                         .g = g,
                         .attr = n->attr,
                         .n_in = n->n_in,
                         .n_out = n->n_out,
                         .in = in,
                         .out = out,
                         .gout = gout,
                         .gin = gin,
                         .needed = needed,
                         .before = before,
                         .added = added};
    bool any = false;

    for (int k = 0; k < n->n_out; k++) {
        gout[k] = n->out[k]->grad;
    }
    for (int i = 0; i < n->n_in; i++) {
        needed[i] = n->in[i]->differentiable;
        before[i] = charl__var_is_trained(n->in[i]) ? NULL : n->in[i]->grad;
        any = any || needed[i];
    }
    if (!any) {
        return;
    }
    charl__graph_recompute_part(g, n);
    for (int i = 0; i < n->n_in; i++) {
        in[i] = n->in[i]->recomputed ? n->in[i]->recomputed : n->in[i];
    }
    for (int k = 0; k < n->n_out; k++) {
        out[k] = n->out[k]->recomputed ? n->out[k]->recomputed : n->out[k];
    }
    snprintf(g->scope, sizeof g->scope, "%s", n->name);
    widen(g, n, in, out);
    if (g->status != CHARL_OK) {
        return;
    }
    if (!n->op->backward) {
        charl__graph_fail(g, CHARL_ERR_INVALID, "%s is not differentiable", n->op->name);
        return;
    }
    n->op->backward(&b);
    for (int i = 0; i < n->n_in && g->status == CHARL_OK; i++) {
        if (!needed[i] || !gin[i] || !check_share(g, n, i, gin[i])) {
            continue;
        }
        if (added[i]) {
            n->in[i]->grad = gin[i];
        } else {
            accumulate(g, n->in[i], gin[i]);
        }
    }
}

/* From the node that computes y, whose gradient is known, back to the first. */
static void walk_back(charl_graph *g, const charl_var *y)
{
    char scope[sizeof g->scope];

    memcpy(scope, g->scope, sizeof scope);
    for (int i = y->node ? y->node->position : -1; i >= 0 && g->status == CHARL_OK; i--) {
        if (has_gradient(charl__graph_node(g, i))) {
            visit(g, charl__graph_node(g, i));
        }
    }
    memcpy(g->scope, scope, sizeof scope);
}

/* Mark the values that depend on a trainable parameter, or on an input whose gradient is requested. */
static void mark_differentiable(charl_graph *g)
{
    for (int i = 0; i < g->vars.count; i++) {
        charl_var *v = charl__var(g, i);

        v->differentiable = v->wants_gradient || charl__var_is_trained(v);
    }
    for (int i = 0; i < g->nodes.count; i++) {
        const charl__node *n = charl__graph_node(g, i);
        bool any = false;

        for (int k = 0; k < n->n_in; k++) {
            any = any || n->in[k]->differentiable;
        }
        for (int k = 0; k < n->n_out; k++) {
            n->out[k]->differentiable = any && charl__is_float(n->out[k]->type.dtype);
        }
    }
}

/* False after an error. */
static bool begin_backward(charl_graph *g)
{
    if (g->has_gradients) {
        charl__graph_fail(g, CHARL_ERR_INVALID, "this graph has its gradients already");
        return false;
    }
    if (g->constants.count > 0 && !g->is_chosen) {
        charl__graph_fail(g, CHARL_ERR_INVALID,
                          "the graph has parameters of %d sets; HINT charl_graph_set_trained says which one it trains",
                          g->constants.count + 1);
        return false;
    }
    g->has_gradients = true;
    mark_differentiable(g);
    g->n_forward = g->nodes.count;
    g->first_backward = g->nodes.count;
    return true;
}

void charl_graph_backward(charl_graph *g, charl_var *y, charl_var *gradient)
{
    if (!g) {
        return;
    }
    bool is_scalar, fits;

    if (!y || g->status != CHARL_OK) {
        return;
    }
    is_scalar = y->type.dtype == CHARL_F32 && charl_shape_count(&y->type.shape) == 1 && y->type.batch != CHARL_BATCHED;
    fits = gradient && gradient->type.dtype == charl__gradient_dtype(&y->type) &&
           gradient->type.batch == y->type.batch && charl_shape_equal(&gradient->type.shape, &y->type.shape);
    if (y->g != g || (gradient && gradient->g != g)) {
        charl__graph_fail(g, CHARL_ERR_INVALID, "backward: %s belongs to another graph",
                          charl_var_get_name(y->g != g ? y : gradient));
    } else if (!is_scalar && !gradient) {
        charl__graph_fail(
            g, CHARL_ERR_SHAPE,
            "the loss %s is not one f32 number; HINT charl_batch_mean gives the mean of one number per row",
            charl_var_get_name(y));
    } else if (!is_scalar && !fits) {
        charl__graph_fail(g, CHARL_ERR_SHAPE, "%s is no gradient of %s", charl_var_get_name(gradient),
                          charl_var_get_name(y));
    } else if (begin_backward(g)) {
        gradient = gradient ? gradient : charl_constant(g, 1.0F);
        y->grad = is_scalar ? charl_reshape(g, gradient, y->type.shape) : gradient;
        walk_back(g, y);
    }
}
