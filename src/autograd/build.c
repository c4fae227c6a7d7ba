/* Appending an operator: operands, types, node, outputs.
 *
 * Types are inferred before the node exists, so a graph never holds an invalid node.
 */
#include <string.h>

#include "autograd/graph_private.h"
#include "charl/ops.h"

/* Operands of PARTIAL type are completed first, except for pure data movement of PARTIAL values
 * alone. */
static charl_status gather_operands(charl_graph *g, const charl__op *op, charl__node *n, charl_var *const *in, int n_in)
{
    bool all_partial = op->moves || op == &charl__op_batch_sum;

    for (int i = 0; i < n_in; i++) {
        all_partial = all_partial && in[i]->type.batch == CHARL_PARTIAL;
    }
    for (int i = 0; i < n_in; i++) {
        n->in[i] = in[i]->type.batch == CHARL_PARTIAL && !all_partial ? charl_batch_sum(g, in[i]) : in[i];
        CHARL_TRY(charl_graph_status(g));
    }
    n->n_in = n_in;
    return CHARL_OK;
}

static charl_status check_outputs(const charl__infer *inf)
{
    bool batched = false;

    for (int i = 0; i < inf->n_in; i++) {
        batched = batched || inf->in[i].batch == CHARL_BATCHED;
    }
    for (int k = 0; k < inf->n_out; k++) {
        const charl_type *t = &inf->out[k];

        CHARL_TRY(charl_shape_check(&t->shape));
        CHARL_INVARIANT(!batched || t->batch != CHARL_REPLICATED);
        CHARL_REQUIRE(t->batch != CHARL_BATCHED || (t->shape.ndim > 0 && t->shape.dim[0] % inf->n_slices == 0),
                      CHARL_ERR_SHAPE, "the leading extent must stay the batch, in %d slices", inf->n_slices);
    }
    return CHARL_OK;
}

/* Infer first, so that a node exists only when it is valid. */
static charl_status infer_types(charl_graph *g, const charl__op *op, const void *attr, const charl__node *operands,
                                charl__infer *inf, charl_type *type)
{
    charl_status st = CHARL_OK;

    for (int i = 0; i < operands->n_in; i++) {
        type[i] = operands->in[i]->type;
    }
    *inf = (charl__infer){
        .attr = attr, .n_in = operands->n_in, .in = type, .n_slices = g->slices.count, .dev = g->dev, .n_out = 1};
    CHARL_TRY_CLEANUP(charl__op_infer(op, inf));
    CHARL_TRY_CLEANUP(check_outputs(inf));
cleanup:
    if (st != CHARL_OK) {
        charl__error_prefix("%s%s%s: ", g->scope, g->scope[0] ? "." : "", op->name);
    }
    return st;
}

static charl_status append(charl_graph *g, const charl__op *op, const void *attr, charl_var *const *in, int n_in,
                           charl_var **outs)
{
    charl__node operands = {0};
    charl_type type[CHARL_OP_MAX_IN];
    charl__infer inf;
    charl__node *n = NULL;

    CHARL_TRY(gather_operands(g, op, &operands, in, n_in));
    CHARL_TRY(infer_types(g, op, attr, &operands, &inf, type));
    CHARL_TRY(charl__node_new(g, op, attr, &n));
    memcpy(n->in, operands.in, sizeof n->in);
    n->n_in = n_in;
    n->workspace = inf.workspace;
    for (int k = 0; k < inf.n_out; k++) {
        charl_var *v = NULL;

        CHARL_TRY(charl__var_new(g, inf.out[k], &v));
        v->node = n;
        charl__carry_positions(n, v);
        n->out[n->n_out++] = v;
        outs[k] = v;
    }
    return CHARL_OK;
}

void charl__apply(charl_graph *g, const charl__op *op, const void *attr, charl_var *const *in, int n_in,
                  charl_var **outs)
{
    charl_status st = CHARL_OK;
    const int least = op->n_in < 0 ? n_in : op->n_in - op->n_optional;

    memset(outs, 0, CHARL_OP_MAX_OUT * sizeof *outs);
    if (!g || charl__device_enter(g->dev) != CHARL_OK) { /* another thread's graph is not touched */
        return;
    }
    while (n_in > least && !in[n_in - 1]) {
        n_in--; /* optional operands at the end may be omitted */
    }
    for (int i = 0; i < n_in; i++) {
        if (!in[i]) {
            if (g->status == CHARL_OK) {
                charl__graph_fail(g, CHARL_ERR_INVALID, "%s: operand %d is NULL", op->name, i);
            }
            return;
        }
        if (in[i]->g != g) {
            charl__graph_fail(g, CHARL_ERR_INVALID, "%s: operand %d belongs to another graph", op->name, i);
            return;
        }
    }
    if (g->planned || n_in > CHARL_OP_MAX_IN) {
        charl__graph_fail(g, CHARL_ERR_INVALID,
                          g->planned ? "%s: the graph is already compiled" : "%s: too many operands", op->name);
        return;
    }
    if (g->status == CHARL_OK && (st = append(g, op, attr, in, n_in, outs)) != CHARL_OK) {
        memset(outs, 0, CHARL_OP_MAX_OUT * sizeof *outs);
        charl__graph_keep_error(g, st);
    }
}

charl_var *charl__apply_n(charl_graph *g, const charl__op *op, const void *attr, charl_var *const *in, int n_in)
{
    charl_var *out[CHARL_OP_MAX_OUT];

    charl__apply(g, op, attr, in, n_in, out);
    return out[0];
}

charl_var *charl__apply1(charl_graph *g, const charl__op *op, const void *attr, charl_var *a)
{
    return charl__apply_n(g, op, attr, &a, 1);
}

charl_var *charl__apply2(charl_graph *g, const charl__op *op, const void *attr, charl_var *a, charl_var *b)
{
    return charl__apply_n(g, op, attr, (charl_var *[]){a, b}, 2);
}
