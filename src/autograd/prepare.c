/* First part of compile: placement of gradients, dead nodes, layout of parameters, fusion.
 *
 * Parameters are laid out in the order in which the backward pass finishes their gradients, so that ranges of the arena become final one
 * after another while the backward pass continues.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/graph_private.h"
#include "base/alloc.h"
#include "charl/ops.h"

static charl_status infer_lane_copy(charl__infer *inf)
{
    inf->out[0] = inf->in[0];
    return CHARL_OK;
}

static charl_status enqueue_lane_copy(const charl__enqueue *e)
{
    return charl_tensor_copy(e->in[0], e->out[0]);
}

/* Whether a gradient cannot be computed in place, for example because two parameters share it. */
static const charl__op op_lane_copy = {
    .name = "lane_copy",
    .formula = "out = x",
    .n_in = 1,
    .moves = true,
    .infer = infer_lane_copy,
    .enqueue = enqueue_lane_copy,
};

charl_var *charl__var_root(charl_var *v)
{
    while (v->root_link) {
        v = v->root_link;
    }
    return v;
}

int64_t charl__var_bytes(const charl_var *v)
{
    const int lanes = v->type.batch == CHARL_PARTIAL ? v->g->slices.n_lanes : 1;

    return charl_shape_count(&v->type.shape) * (int64_t)charl_dtype_size(v->type.dtype) * lanes;
}

static void link_views(charl_graph *g)
{
    for (int i = 0; i < g->nodes.count; i++) {
        charl__node *n = charl__graph_node(g, i);

        if (n->op->view || (n->op == &charl__op_batch_sum && charl__graph_is_whole(g))) {
            n->out[0]->root_link = n->in[0];
        }
    }
}

/* Whether the memory of a gradient already belongs to another value. */
static bool is_occupied(const charl_var *root)
{
    return root->leaf != CHARL_LEAF_NONE || root->grad_of || root->keep;
}

/* The collective that completes a sum over ranks needs contiguous lanes; in the gradient
 * arena they are not contiguous. */
static bool is_read_by_collective(charl_graph *g, const charl_var *root)
{
    for (int i = 0; i < g->nodes.count; i++) {
        const charl__node *n = charl__graph_node(g, i);

        if (n->op == &charl__op_batch_sum && charl__var_root(n->in[0]) == root) {
            return true;
        }
    }
    return false;
}

static bool rounds(const charl_graph *g)
{
    return g->params && g->params->reduce_dtype == CHARL_BF16;
}

/* Whether gradients are computed complete. Gradients that are rounded take the same path on
 * any number of ranks. */
static bool completes(const charl_graph *g)
{
    return charl__graph_is_whole(g) && !rounds(g);
}

/* The k-th operand from which v was moved lane by lane, or NULL. */
static charl_var *moved_from(charl_var *v, int k)
{
    const charl__node *n = charl__var_root(v)->node;

    return n && n->op->moves && k < n->n_in && n->in[k]->type.batch == CHARL_PARTIAL ? n->in[k] : NULL;
}

/* Whether the sum v is also completed in the middle of a step. If gradients are rounded, such a sum must
 * not be one, nor be the source of one: it stays f32. */
static bool is_completed(charl_graph *g, charl_var *v)
{
    charl_var *from;

    if (is_read_by_collective(g, charl__var_root(v))) {
        return true;
    }
    for (int k = 0; rounds(g) && (from = moved_from(v, k)) != NULL; k++) {
        if (is_completed(g, from)) {
            return true;
        }
    }
    return false;
}

static void round_nodes(charl_var *v)
{
    charl_var *from;

    charl__var_root(v)->rounds = true;
    for (int k = 0; (from = moved_from(v, k)) != NULL; k++) {
        round_nodes(from);
    }
}

/* Compute gradient k of parameter var p in the arena, if possible. Otherwise p counts as
 * late on every number of ranks, as does every parameter with several gradients, because the order
 * of the arena, and with it the bits of the gradient norm, must not depend on that number. */
static void claim(charl_graph *g, charl_var *p, int k)
{
    charl_var *v = charl__var_gradient(p, k), *root = charl__var_root(v);

    if (v->type.batch == CHARL_REPLICATED || is_occupied(root) || is_completed(g, v)) {
        p->late = true;
    } else {
        p->late = p->late || k > 0;
        root->grad_of = p->param;
        root->grad_share = k;
    }
}

/* Make v, gradient k of p, end in the arena, by appending a node if it is not computed there. */
static charl_status place_gradient(charl_graph *g, charl_var *p, int k, charl_var **v)
{
    charl_var *root = charl__var_root(*v);
    const bool is_there = root->grad_of == p->param && root->grad_share == k;

    if (rounds(g) && (*v)->type.batch == CHARL_PARTIAL) {
        if (is_completed(g, *v)) {
            *v = charl_batch_sum(g, *v); /* rounded once, at the end */
        } else {
            round_nodes(*v);
        }
    }
    if (!is_there && (!completes(g) || is_occupied(root))) {
        *v = charl__apply1(g, (*v)->type.batch == CHARL_PARTIAL ? &op_lane_copy : &charl__op_spread, NULL, *v);
    }
    CHARL_TRY(charl_graph_status(g));
    root = charl__var_root(*v);
    root->grad_of = p->param;
    root->grad_share = k;
    return CHARL_OK;
}

/* If the whole batch is here, every gradient of p is complete: add them up to one. */
static void join(charl_graph *g, charl_var *p)
{
    for (int k = 0; k <= p->more.count; k++) {
        charl_var *root = charl__var_root(charl__var_gradient(p, k));

        if (root->grad_of == p->param) {
            root->grad_of = NULL;
        }
    }
    for (int k = 1; k <= p->more.count; k++) {
        p->grad = charl_add(g, p->grad, charl__var_gradient(p, k));
    }
    p->more.count = 0;
}

static charl_status place_param_gradients(charl_graph *g, charl_var *p)
{
    if (p->more.count > 0 && completes(g)) {
        join(g, p);
        CHARL_TRY(charl_graph_status(g));
    }
    CHARL_TRY(place_gradient(g, p, 0, &p->grad));
    for (int k = 1; k <= p->more.count; k++) {
        charl_var *v = charl__var_gradient(p, k);

        CHARL_TRY(place_gradient(g, p, k, &v));
        p->more.item[k - 1] = v;
    }
    return CHARL_OK;
}

charl_status charl__graph_move_nodes(charl_graph *g, int first)
{
    void **order = NULL;
    int n = 0, forward = 0, backward = 0;

    CHARL_TRY(charl__alloc_array(g->nodes.count, sizeof *order, &order));
    for (int i = 0; i < first; i++) {
        for (int k = first; k < g->nodes.count; k++) {
            if (charl__graph_node(g, k)->position == i) {
                order[n++] = g->nodes.item[k];
                forward += i < g->n_forward;
                backward += i < g->first_backward;
            }
        }
        order[n++] = g->nodes.item[i];
    }
    for (int i = 0; i < n; i++) {
        g->nodes.item[i] = order[i];
        charl__graph_node(g, i)->position = i;
    }
    charl_free(order);
    g->n_forward += forward;
    g->first_backward += backward;
    return CHARL_OK;
}

static bool is_trained(const charl_var *v)
{
    return charl__var_is_trained(v) && v->grad;
}

static charl_status place_gradients(charl_graph *g)
{
    const int n_vars = g->vars.count; /* appended nodes are no parameters */

    for (int i = 0; i < n_vars; i++) {
        charl_var *v = charl__var(g, i);

        if (v->wants_gradient && v->grad) {
            v->grad->keep = true;
        }
    }
    for (int i = 0; i < n_vars; i++) {
        charl_var *v = charl__var(g, i);

        charl__var_root(v)->keep = charl__var_root(v)->keep || v->keep;
    }
    for (int i = 0; i < n_vars; i++) {
        for (int k = 0; is_trained(charl__var(g, i)) && k <= charl__var(g, i)->more.count; k++) {
            claim(g, charl__var(g, i), k);
        }
    }
    for (int i = 0; i < n_vars; i++) {
        if (is_trained(charl__var(g, i))) {
            CHARL_TRY(place_param_gradients(g, charl__var(g, i)));
        }
    }
    link_views(g); /* the sums that joining the gradients has completed */
    return CHARL_OK;
}

void charl__graph_mark_live(charl_graph *g)
{
    for (int i = g->nodes.count - 1; i >= 0; i--) {
        charl__node *n = charl__graph_node(g, i);

        n->live = n->live || n->op->effect;
        for (int k = 0; k < n->n_out; k++) {
            n->live = n->live || n->out[k]->keep || charl__var_root(n->out[k])->grad_of;
        }
        for (int j = 0; n->live && j < n->n_in; j++) {
            if (n->in[j]->node) {
                n->in[j]->node->live = true;
            }
        }
    }
}

typedef struct finish {
    int position, index;
} finish;

static int by_position(const void *a, const void *b)
{
    const finish *x = a, *y = b;

    return x->position != y->position ? (x->position < y->position ? -1 : 1) : x->index - y->index;
}

/* Node that finishes the gradient of parameter v; late ones come after all others, parameters without one last. */
static int finish_of(const charl_var *v)
{
    if (!v->grad) {
        return INT_MAX;
    }
    return v->late ? INT_MAX - 1 : charl__var_root(v->grad)->node->position;
}

static charl_status lay_out(charl_graph *g, charl_params *set)
{
    CHARL_SCOPED_FREE finish *done = NULL;
    CHARL_SCOPED_FREE int *order = NULL;
    int n = 0;

    CHARL_TRY(charl__alloc_array(g->vars.count, sizeof *done, &done));
    CHARL_TRY(charl__alloc_array(g->vars.count, sizeof *order, &order));
    for (int i = 0; i < g->vars.count; i++) {
        const charl_var *v = charl__var(g, i);

        if (v->leaf == CHARL_LEAF_PARAM && v->param->spec.trainable && v->param->set == set) {
            done[n].position = finish_of(v);
            done[n++].index = v->param->index;
        }
    }
    qsort(done, (size_t)n, sizeof *done, by_position);
    for (int i = 0; i < n; i++) {
        order[i] = done[i].index;
    }
    CHARL_TRY(charl__params_layout(set, order, n));
    return CHARL_OK;
}

static charl_status share_gradients(charl_graph *g)
{
    for (int i = 0; g->has_gradients && i < g->vars.count && !completes(g); i++) {
        const charl_var *v = charl__var(g, i);

        if (charl__var_is_trained(v)) {
            CHARL_TRY(charl__params_share(v->param, v->more.count));
        }
    }
    return CHARL_OK;
}

static charl_status place_sets(charl_graph *g)
{
    for (int i = 0; charl__graph_set(g, i); i++) {
        if (!charl__params_is_laid_out(charl__graph_set(g, i))) {
            CHARL_TRY(lay_out(g, charl__graph_set(g, i)));
        }
    }
    return CHARL_OK;
}

static charl_status allocate_sets(charl_graph *g)
{
    charl_params *set;

    for (int i = 0; (set = charl__graph_set(g, i)) != NULL; i++) {
        if (!set->dev) {
            CHARL_TRY(charl__params_allocate(set, g->dev, g->precision));
        } else if (g->precision != CHARL_F32) {
            CHARL_TRY(charl__params_use_half(set, g->precision));
        }
    }
    return CHARL_OK;
}

static charl_status prepare(charl_graph *g)
{
    charl_status st = CHARL_OK;
    charl_params *set;

    for (int i = 0; (set = charl__graph_set(g, i)) != NULL; i++) {
        CHARL_REQUIRE_CLEANUP(!set->dev || set->dev == g->dev, CHARL_ERR_INVALID,
                              "the parameters of this graph are on another device");
        if (!charl__params_is_laid_out(set)) {
            charl__params_choose_formats(set, g->precision);
        }
    }
    CHARL_TRY_CLEANUP(charl__graph_unpack_params(g));
    CHARL_TRY_CLEANUP(charl__graph_gather_params(g));
    CHARL_TRY_CLEANUP(charl__graph_choose_layouts(g));
    link_views(g);
    CHARL_TRY_CLEANUP(place_gradients(g));
    charl__graph_mark_live(g);
    CHARL_TRY_CLEANUP(charl__graph_recompute_cheap(g));
    g->planned = true;
    CHARL_TRY_CLEANUP(place_sets(g));
    CHARL_TRY_CLEANUP(share_gradients(g));
    CHARL_TRY_CLEANUP(charl__graph_fuse(g));
    CHARL_TRY_CLEANUP(allocate_sets(g));
cleanup:
    if (st != CHARL_OK) {
        charl__graph_keep_error(g, st); /* a partly prepared graph stays unusable */
    }
    return st;
}

charl_status charl__graph_prepare(charl_graph *g)
{
    CHARL_TRY(charl_graph_status(g));
    CHARL_REQUIRE(g->dev, CHARL_ERR_INVALID, "the graph has no device; HINT pass one to charl_graph_create");
    if (!g->planned) {
        CHARL_TRY(prepare(g));
    }
    return CHARL_OK;
}
