/* The memory plan: lifetimes, then offsets in one arena.
 *
 * Values are placed from the largest to the smallest at the lowest offset that no value alive at
 * the same time covers. The arena is a list of segments, because a device limits the size of one
 * buffer; no value crosses a segment. Workspaces are values that live for one node.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/graph_private.h"
#include "base/alloc.h"

enum { ALIGN = 256 }; /* bytes: the widest vector access and a convenient burst */

static void touch(charl_var *v, int position)
{
    charl_var *root = charl__var_root(v);

    root->first = position < root->first ? position : root->first;
    root->last = position > root->last ? position : root->last;
}

static bool is_taken(const charl__node *n, int k, const charl_var *root)
{
    for (int j = 0; j < k; j++) {
        if (n->out[j]->root_link == root) {
            return true;
        }
    }
    return false;
}

/* Memory of an input that dies at n and has the shape of n's output k and elements of the same size. Others, such as an operand
 * that broadcasts or the boxes of paste2d, may still be read after an element of the output has been written. */
static charl_var *reusable(const charl__node *n, int k)
{
    const charl_type *want = &n->out[k]->type;

    for (int i = 0; i < n->n_in; i++) {
        charl_var *root = charl__var_root(n->in[i]);
        const charl_type *type = &n->in[i]->type;

        if (root->leaf == CHARL_LEAF_NONE && !root->keep && !root->grad_of && root->last == n->position &&
            root->bytes == n->out[k]->bytes && type->batch == want->batch &&
            charl_dtype_size(type->dtype) == charl_dtype_size(want->dtype) &&
            charl_shape_equal(&type->shape, &want->shape) && !is_taken(n, k, root)) {
            return root;
        }
    }
    return NULL;
}

static charl_status find_lifetimes(charl_graph *g)
{
    for (int i = 0; i < g->vars.count; i++) {
        charl_var *v = charl__var(g, i);

        v->first = INT_MAX;
        v->last = -1;
        v->bytes = (charl__var_bytes(v) + ALIGN - 1) / ALIGN * ALIGN;
        v->bytes = v->bytes ? v->bytes : ALIGN;
    }
    for (int i = 0; i < g->nodes.count; i++) {
        charl__node *n = charl__graph_node(g, i);

        for (int k = 0; n->live && k < n->n_in; k++) {
            touch(n->in[k], i);
        }
        for (int k = 0; n->live && k < n->n_out; k++) {
            touch(n->out[k], i);
        }
        if (n->live && n->workspace > 0) {
            const charl_type type = {CHARL_U8, {1, {n->workspace}}, CHARL_REPLICATED};

            CHARL_TRY(charl__var_new(g, type, &n->scratch));
            n->scratch->first = n->scratch->last = i;
            n->scratch->bytes = (n->workspace + ALIGN - 1) / ALIGN * ALIGN;
        }
    }
    for (int i = 0; i < g->vars.count; i++) {
        if (charl__var(g, i)->keep) {
            charl__var_root(charl__var(g, i))->last = INT_MAX;
        }
    }
    return CHARL_OK;
}

static void reuse_in_place(charl_graph *g)
{
    for (int i = 0; i < g->nodes.count; i++) {
        charl__node *n = charl__graph_node(g, i);

        for (int k = 0; n->live && k < n->n_out && k < n->op->in_place; k++) {
            charl_var *root = reusable(n, k);

            if (root && !n->out[k]->grad_of && n->out[k]->last != INT_MAX) {
                n->out[k]->root_link = root;
                root->last = n->out[k]->last;
            }
        }
    }
}

static bool in_arena(const charl_var *v)
{
    return !v->root_link && v->leaf == CHARL_LEAF_NONE && !v->grad_of && v->last >= 0;
}

static int by_size(const void *a, const void *b)
{
    const charl_var *x = *(charl_var *const *)a, *y = *(charl_var *const *)b;

    return x->bytes != y->bytes ? (x->bytes > y->bytes ? -1 : 1) : x->id - y->id;
}

static int by_offset(const void *a, const void *b)
{
    const charl_var *x = *(charl_var *const *)a, *y = *(charl_var *const *)b;

    return x->offset != y->offset ? (x->offset < y->offset ? -1 : 1) : x->id - y->id;
}

/* Lowest free offset for v in `segment`; near[] is scratch for the overlapping values. */
static int64_t lowest_offset(charl_var *const *placed, int n_placed, const charl_var *v, int segment, charl_var **near)
{
    int64_t offset = 0;
    int n = 0;

    for (int i = 0; i < n_placed; i++) {
        if (placed[i]->segment == segment && placed[i]->first <= v->last && v->first <= placed[i]->last) {
            near[n++] = placed[i];
        }
    }
    qsort(near, (size_t)n, sizeof *near, by_offset);
    for (int i = 0; i < n; i++) {
        if (near[i]->offset - offset >= v->bytes) {
            break;
        }
        if (near[i]->offset + near[i]->bytes > offset) {
            offset = near[i]->offset + near[i]->bytes;
        }
    }
    return offset;
}

static charl_status place(charl_graph *g, charl_var *const *placed, int n_placed, charl_var *v, charl_var **near)
{
    const int64_t limit = charl_device_get_info(g->dev)->max_alloc_bytes;

    CHARL_REQUIRE(v->bytes <= limit, CHARL_ERR_NOMEM,
                  "%s needs %.1f MiB in one buffer, the device allows %.1f MiB; HINT lower the batch size, or use more "
                  "ranks",
                  charl_var_get_name(v), (double)v->bytes / 1048576.0, (double)limit / 1048576.0);
    for (int s = 0;; s++) {
        const int64_t offset = lowest_offset(placed, n_placed, v, s, near);

        if (offset + v->bytes <= limit) {
            v->segment = s;
            v->offset = offset;
            break;
        }
    }
    if (v->segment >= g->n_segments) {
        CHARL_TRY(charl__realloc((size_t)(v->segment + 1) * sizeof(int64_t), &g->segment_bytes));
        memset(g->segment_bytes + g->n_segments, 0, (size_t)(v->segment + 1 - g->n_segments) * sizeof(int64_t));
        g->n_segments = v->segment + 1;
    }
    if (v->offset + v->bytes > g->segment_bytes[v->segment]) {
        g->segment_bytes[v->segment] = v->offset + v->bytes;
    }
    return CHARL_OK;
}

/* Assign lifetimes and offsets; allocates nothing. */
static charl_status place_all(charl_graph *g)
{
    CHARL_SCOPED_FREE charl_var **todo = NULL, **near = NULL;
    int n = 0;

    CHARL_TRY(find_lifetimes(g));
    for (int i = 0; i < g->vars.count; i++) {
        g->unplanned_bytes += in_arena(charl__var(g, i)) ? charl__var(g, i)->bytes : 0;
    }
    reuse_in_place(g);
    CHARL_TRY(charl__alloc_array(g->vars.count, sizeof *todo, &todo));
    CHARL_TRY(charl__alloc_array(g->vars.count, sizeof *near, &near));
    for (int i = 0; i < g->vars.count; i++) {
        if (in_arena(charl__var(g, i))) {
            todo[n++] = charl__var(g, i);
        }
    }
    qsort(todo, (size_t)n, sizeof *todo, by_size);
    for (int i = 0; i < n; i++) {
        CHARL_TRY(place(g, todo, i, todo[i], near));
    }
    g->placed = true;
    return CHARL_OK;
}

charl_status charl__graph_measure(charl_graph *g, int64_t *bytes)
{
    charl_status st = CHARL_OK;

    *bytes = 0;
    CHARL_TRY_CLEANUP(charl__graph_prepare(g));
    if (!g->placed) {
        CHARL_TRY_CLEANUP(place_all(g));
    }
    for (int s = 0; s < g->n_segments; s++) {
        *bytes += g->segment_bytes[s];
    }
cleanup:
    if (st != CHARL_OK) {
        charl__graph_keep_error(g, st);
    }
    return st;
}

charl_status charl__graph_plan_memory(charl_graph *g)
{
    if (!g->placed) {
        CHARL_TRY(place_all(g));
    }
    CHARL_TRY(charl__alloc_array(g->n_segments, sizeof *g->segment, &g->segment));
    for (int s = 0; s < g->n_segments; s++) {
        const charl_graph *other = g->arena_of;

        if (other && s < other->n_segments && other->segment_bytes[s] >= g->segment_bytes[s]) {
            g->segment[s] = charl__buffer_retain(other->segment[s]);
        } else {
            CHARL_TRY(charl__buffer_create(g->dev, (size_t)g->segment_bytes[s], "activations", &g->segment[s]));
        }
    }
    return CHARL_OK;
}

charl_status charl__graph_peak(const charl_graph *g, charl__alive_fn visit, void *ctx, charl__peak *out)
{
    CHARL_SCOPED_FREE int64_t *bytes = NULL;
    int at = 0;

    *out = (charl__peak){.name = ""};
    CHARL_TRY(charl__alloc_array(g->nodes.count + 1, sizeof *bytes, &bytes));
    for (int i = 0; i < g->vars.count; i++) {
        const charl_var *v = charl__var(g, i);
        const int last = v->last < g->nodes.count ? v->last : g->nodes.count - 1;

        for (int k = v->first; in_arena(v) && k <= last; k++) {
            bytes[k] += v->bytes;
        }
    }
    for (int k = 0; k < g->nodes.count; k++) {
        at = bytes[k] > bytes[at] ? k : at;
    }
    if (g->nodes.count > 0) {
        out->name = charl__graph_node(g, at)->name;
        out->bytes = bytes[at];
        out->is_backward = g->has_gradients && at >= g->first_backward;
    }
    for (int i = 0; i < g->vars.count; i++) {
        const charl_var *v = charl__var(g, i);

        if (in_arena(v) && v->first <= at && at <= v->last) {
            CHARL_TRY(visit(ctx, v->node ? charl_var_get_name(v) : charl__graph_node(g, v->first)->name,
                            v->node ? &v->type : NULL, v->bytes));
        }
    }
    return CHARL_OK;
}
