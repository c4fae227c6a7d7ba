/* Activation recomputation, or checkpointing (Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost), of whole segments of a model
 * or of cheap values. The bits are the same, because operators, attributes (with the keys of random numbers) and operands are.
 *
 * Segments. When the backward pass reaches a segment, its forward nodes are appended a second time, and the gradient rules use the new values. So
 * the original values die during the forward pass, and only the inputs of a segment are kept. Not recomputed: sums over the batch and values
 * computed from them, which are small and would have to be completed over ranks twice; operators with an effect; the last segment, whose
 * backward pass follows immediately.
 *
 * Cheap values. The complete graph shows which values the backward pass reads. Results of elementwise operators and norms are recomputed
 * just before their first use there, if their operands are kept anyway:
 *
 *      forward     fc = linear(x)    h = gelu(fc)     y = linear(h)
 *      backward    h' = gelu(fc)     dw = wgrad(dy, h')      dfc = gelu_grad(fc, dh)
 *
 * A recomputed value may be computed from values that are not kept, but not from values that are recomputed for a later product: in
 * a chain of residual blocks every second sum is kept, or all would be alive at the first use of the last.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "autograd/fuse/uses.h"
#include "autograd/graph_segments.h"
#include "autograd/graph_private.h"
#include "base/alloc.h"

void charl__graph_set_recompute(charl_graph *g, bool parts, bool cheap)
{
    g->recompute = parts;
    g->recompute_cheap = cheap;
}

void charl__graph_segment_begin(charl_graph *g)
{
    if (!g) {
        return;
    }
    g->model_segment = ++g->model_segments;
}

void charl__graph_segment_end(charl_graph *g)
{
    if (!g) {
        return;
    }
    g->model_segment = 0;
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

/* op on the recomputed values of `in`. */
static void reapply(charl_graph *g, const charl__node *n, const charl__op *op, charl_var *const *in, int n_in,
                    charl_var **out)
{
    charl_var *operands[CHARL_OP_MAX_IN];

    for (int i = 0; i < n_in; i++) {
        operands[i] = in[i]->recomputed ? in[i]->recomputed : in[i];
    }
    snprintf(g->scope, sizeof g->scope, "%s", n->name);
    charl__apply(g, op, n->attr, operands, n_in, out);
}

static void repeat(charl_graph *g, const charl__node *n)
{
    charl_var *out[CHARL_OP_MAX_OUT];

    reapply(g, n, n->op, n->in, n->n_in, out);
    for (int k = 0; k < n->n_out; k++) {
        n->out[k]->recomputed = out[k];
    }
}

void charl__graph_recompute_part(charl_graph *g, const charl__node *n)
{
    const int segment = n->model_segment, end = n->position;

    if (!g->recompute || segment == 0 || segment == g->model_segments || segment >= g->first_recomputed_segment) {
        return;
    }
    g->first_recomputed_segment = segment;
    for (int i = 0; i <= end && g->status == CHARL_OK; i++) {
        if (charl__graph_node(g, i)->model_segment == segment && is_repeatable(charl__graph_node(g, i))) {
            repeat(g, charl__graph_node(g, i));
        }
    }
}

enum { SMALL = 16 }; /* a value this much smaller than a value computed from it may be kept for that purpose */
enum { KEPT = -1 };

typedef struct cheap {
    charl_graph *g;
    charl__uses uses;
    int *products; /* by node: products before it */
    /* by root id */
    int *until; /* KEPT; or can be recomputed once so many products are done; INT_MAX: neither */
    int *at;    /* node before which it is recomputed; INT_MAX: none */
} cheap;

/* Last node of the forward pass that reads or computes the root v; *read: first node of the backward pass that does. */
static int last_forward_use(const cheap *c, const charl_var *v, int *read)
{
    int last = v->node->position;

    *read = INT_MAX;
    for (int u = c->uses.first[v->id]; u < c->uses.first[v->id + 1] && *read == INT_MAX; u++) {
        if (c->uses.at[u] < c->g->first_backward) {
            last = c->uses.at[u];
        } else {
            *read = c->uses.at[u];
        }
    }
    return last;
}

/* Whether n computes output k at the cost of a few passes over memory. */
static bool is_cheap(const charl__node *n, int k)
{
    const bool second = n->op->recompute_op && k == 1 && n->out[0]->type.dtype == CHARL_F32;
    charl__expr x;

    return is_repeatable(n) && (second || (n->n_out == 1 && (n->op->cheap || charl__is_fusible(n, &x))));
}

/* The operands from which output k of n is recomputed; returns their number. */
static int sources(const charl__node *n, charl_var **in)
{
    if (!n->op->recompute_op) {
        memcpy(in, n->in, sizeof n->in);
        return n->n_in;
    }
    in[0] = n->out[0];
    memcpy(in + 1, n->in + 2, (size_t)(n->n_in - 2) * sizeof *in);
    return n->n_in - 1;
}

/* The latest `until` of the operands of n, except parameters and small ones. */
static int operands_until(const cheap *c, const charl__node *n, int64_t bytes)
{
    charl_var *in[CHARL_OP_MAX_IN];
    const int n_in = sources(n, in);
    int until = KEPT;

    for (int i = 0; i < n_in; i++) {
        charl_var *root = charl__var_root(in[i]);
        const bool is_small = charl__var_bytes(root) <= bytes / SMALL;

        if (root->leaf != CHARL_LEAF_NONE ? charl__is_changed(c->g, root)
                                          : c->until[root->id] == INT_MAX && !is_small) {
            return INT_MAX;
        }
        if (root->leaf == CHARL_LEAF_NONE && c->until[root->id] != INT_MAX && c->until[root->id] > until) {
            until = c->until[root->id];
        }
    }
    return until;
}

/* Decide about the root v, output k of n; its operands have been decided. */
static void decide(cheap *c, const charl__node *n, int k, charl_var *v)
{
    const int until = is_cheap(n, k) ? operands_until(c, n, charl__var_bytes(v)) : INT_MAX;
    int read;
    const int last = last_forward_use(c, v, &read);
    const bool pays = read < INT_MAX && c->products[read] > c->products[last + 1];

    if (v->keep || (read < INT_MAX && !(pays && until <= c->products[read]))) {
        c->until[v->id] = KEPT;
    } else if (read < INT_MAX) {
        c->until[v->id] = c->products[read];
        c->at[v->id] = read;
    } else {
        c->until[v->id] = until > 0 ? until : 0; /* only intermediate values */
    }
}

static void choose(cheap *c)
{
    charl_graph *g = c->g;
    charl_var *in[CHARL_OP_MAX_IN];

    for (int i = 0; i < g->nodes.count; i++) {
        c->products[i + 1] = c->products[i] + (charl__graph_node(g, i)->live && charl__graph_node(g, i)->op->flop);
    }
    for (int i = 0; i < g->vars.count; i++) {
        c->until[i] = c->at[i] = INT_MAX;
    }
    for (int i = 0; i < g->first_backward; i++) {
        const charl__node *n = charl__graph_node(g, i);

        for (int k = 0; n->live && !charl__is_alias(n) && k < n->n_out; k++) {
            decide(c, n, k, n->out[k]);
        }
    }
    for (int i = g->first_backward - 1; i >= 0; i--) { /* intermediate values are computed no later than their users */
        const charl__node *n = charl__graph_node(g, i);
        const int at = n->live && !charl__is_alias(n) ? c->at[n->out[n->n_out - 1]->id] : INT_MAX;
        const int n_in = at < INT_MAX ? sources(n, in) : 0;

        for (int j = 0; j < n_in; j++) {
            const charl_var *root = charl__var_root(in[j]);
            const int until = root->leaf == CHARL_LEAF_NONE ? c->until[root->id] : KEPT;

            if (until != KEPT && until != INT_MAX && at < c->at[root->id]) {
                c->at[root->id] = at;
            }
        }
    }
}

/* Append a copy of n, which may be a view, to be moved before node `at`. */
static charl_status append_copy(charl_graph *g, const charl__node *n, int at)
{
    const charl__op *op = n->op->recompute_op ? n->op->recompute_op : n->op;
    charl_var *in[CHARL_OP_MAX_IN], *out[CHARL_OP_MAX_OUT], *v = n->out[n->n_out - 1];
    const int n_in = sources(n, in);

    reapply(g, n, op, in, n_in, out);
    CHARL_TRY(charl_graph_status(g));
    v->recomputed = out[0];
    out[0]->channels_last = v->channels_last;
    out[0]->root_link = charl__is_alias(n) ? out[0]->node->in[0] : NULL;
    out[0]->node->position = at;
    return CHARL_OK;
}

static charl_status recompute_value(const cheap *c)
{
    charl_graph *g = c->g;
    const int n_nodes = g->nodes.count;
    char scope[sizeof g->scope];
    charl_status st = CHARL_OK;

    memcpy(scope, g->scope, sizeof scope);
    for (int i = 0; i < g->first_backward && st == CHARL_OK; i++) {
        const charl__node *n = charl__graph_node(g, i);
        const int at = n->live && n->n_out > 0 ? c->at[charl__var_root(n->out[n->n_out - 1])->id] : INT_MAX;

        st = at < INT_MAX ? append_copy(g, n, at) : CHARL_OK;
    }
    memcpy(g->scope, scope, sizeof scope);
    CHARL_TRY(st);
    for (int i = g->first_backward; i < n_nodes; i++) {
        charl__node *n = charl__graph_node(g, i);

        for (int k = 0; k < n->n_in; k++) {
            n->in[k] = n->in[k]->recomputed ? n->in[k]->recomputed : n->in[k];
        }
    }
    CHARL_TRY(charl__graph_move_nodes(g, n_nodes));
    charl__graph_mark_live(g);
    return CHARL_OK;
}

charl_status charl__graph_recompute_cheap(charl_graph *g)
{
    charl_status st = CHARL_OK;
    cheap c = {.g = g};

    if (!g->recompute_cheap || g->recompute || !g->has_gradients) {
        return CHARL_OK;
    }
    CHARL_TRY_CLEANUP(charl__uses_find(g, &c.uses));
    CHARL_TRY_CLEANUP(charl__alloc_array(g->nodes.count + 1, sizeof *c.products, &c.products));
    CHARL_TRY_CLEANUP(charl__alloc_array(g->vars.count, sizeof *c.until, &c.until));
    CHARL_TRY_CLEANUP(charl__alloc_array(g->vars.count, sizeof *c.at, &c.at));
    choose(&c);
    CHARL_TRY_CLEANUP(recompute_value(&c));
cleanup:
    charl__uses_fini(&c.uses);
    charl_free(c.products);
    charl_free(c.until);
    charl_free(c.at);
    return st;
}
