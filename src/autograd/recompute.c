/* Computing activations again instead of keeping them (Chen et al. 2016, Training Deep Nets with
 * Sublinear Memory Cost).
 *
 * A model is built in parts. When the backward pass reaches a part, its forward nodes are appended
 * once more and the gradient rules are given the new values, so that the first ones die in the
 * forward pass and only what enters a part is kept. The bits are the same: operators, attributes
 * (with them the keys of random numbers) and operands are. What is not per sample (sums over the
 * batch and what follows from them) is kept: it is small, and completing it over ranks twice would
 * cost more. What has an effect happens once. The last part is kept: its backward pass follows at
 * once.
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

static bool is_repeatable(const charl_node *n)
{
    for (int k = 0; k < n->n_out; k++) {
        if (n->out[k]->type.batch != CHARL_BATCHED || n->out[k]->keep) {
            return false;
        }
    }
    return !n->op->effect;
}

static void repeat(charl_graph *g, const charl_node *n)
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

void charl__graph_recompute_part(charl_graph *g, const charl_node *n)
{
    const int part = n->part, end = n->position;

    if (!g->recompute || part == 0 || part == g->parts || part >= g->first_part_recomputed) {
        return;
    }
    g->first_part_recomputed = part;
    for (int i = 0; i <= end && g->status == CHARL_OK; i++) {
        if (charl__node(g, i)->part == part && is_repeatable(charl__node(g, i))) {
            repeat(g, charl__node(g, i));
        }
    }
}
