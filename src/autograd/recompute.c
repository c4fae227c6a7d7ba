/* Activation recomputation, or checkpointing (Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost).
 *
 * A model is built in parts. When the backward pass reaches a part, its forward nodes are appended a second time, and the gradient rules
 * use the new values. So the original values die during the forward pass, and only the inputs of a part are kept. The bits are the same,
 * because operators, attributes (with the keys of random numbers) and operands are.
 *
 * Not recomputed: sums over the batch and what follows from them, which are small and would have to be completed over ranks twice;
 * operators with an effect; the last part, whose backward pass follows immediately.
 */
#include <stdio.h>

#include "autograd/graph_private.h"

void charl_graph_set_recompute(charl_graph *g, bool recompute)
{
    g->recompute = recompute;
}

void charl_graph_part_begin(charl_graph *g)
{
    g->part = ++g->parts;
}

void charl_graph_part_end(charl_graph *g)
{
    g->part = 0;
}

static bool is_repeatable(const charl__node *n)
{
    for (int k = 0; k < n->n_out; k++) {
        if (n->out[k]->type.batch != CHARL_BATCHED || n->out[k]->keep) {
            return false;
        }
    }
    return !n->op->effect;
}

static void repeat(charl_graph *g, const charl__node *n)
{
    charl_var *in[CHARL_OP_MAX_IN], *out[CHARL_OP_MAX_OUT];

    for (int i = 0; i < n->n_in; i++) {
        in[i] = n->in[i]->recomputed ? n->in[i]->recomputed : n->in[i];
    }
    snprintf(g->scope, sizeof g->scope, "%s", n->name);
    charl__apply(g, n->op, n->attr, in, n->n_in, out);
    for (int k = 0; k < n->n_out; k++) {
        n->out[k]->recomputed = out[k];
    }
}

void charl__graph_recompute_part(charl_graph *g, const charl__node *n)
{
    const int part = n->part, end = n->position;

    if (!g->recompute || part == 0 || part == g->parts || part >= g->first_part_recomputed) {
        return;
    }
    g->first_part_recomputed = part;
    for (int i = 0; i <= end && g->status == CHARL_OK; i++) {
        if (charl__graph_node(g, i)->part == part && is_repeatable(charl__graph_node(g, i))) {
            repeat(g, charl__graph_node(g, i));
        }
    }
}
