/* Second part of compile: tensors for every value, one enqueue per live node while recording, and the actions that a run performs between
 * ranges of launches.
 */
#include <limits.h>
#include <string.h>

#include "autograd/graph_private.h"
#include "base/alloc.h"

static charl_status bind_param(const charl_graph *g, charl_var *v)
{
    const charl_param *p = v->param;
    charl_tensor *t = v->type.dtype != CHARL_F32 ? p->half : p->vector ? p->vector : p->value;

    if (charl__param_is_divided(p)) { /* it is gathered */
        CHARL_REQUIRE(p->set == g->params, CHARL_ERR_INVALID,
                      "parameter %s is sharded over ranks, and the graph trains another set; HINT "
                      "charl_data_parallel_options.shard = CHARL_SHARD_GRADIENTS keeps it whole",
                      p->spec.name);
        return CHARL_OK;
    }
    if (v->packed) {
        t = v->packed == 1 ? p->codes : p->scales;
    } else if (charl__param_is_packed(p, g->precision)) {
        return CHARL_OK; /* operators take it converted */
    }
    CHARL_REQUIRE(t, CHARL_ERR_INVALID,
                  "parameter %s has a working copy of another precision; HINT all graphs of a set need one precision",
                  p->spec.name);
    v->tensor = charl_tensor_retain(t);
    return CHARL_OK;
}

static charl_status bind_leaf(charl_graph *g, charl_var *v)
{
    switch (v->leaf) {
    case CHARL_LEAF_INPUT:
        if (v->tensor) {
            break; /* bound by the caller */
        }
        CHARL_TRY(charl_tensor_create(g->dev, v->type.dtype, &v->type.shape, &v->tensor));
        break;
    case CHARL_LEAF_CONSTANT:
        CHARL_TRY(charl_tensor_create(g->dev, v->type.dtype, &v->type.shape, &v->tensor));
        CHARL_TRY(charl_tensor_write(v->tensor, &v->constant, sizeof v->constant));
        break;
    case CHARL_LEAF_PARAM:
        CHARL_TRY(bind_param(g, v));
        break;
    case CHARL_LEAF_NONE:
        break;
    }
    return CHARL_OK;
}

/* Memory of lane j of v, under v's own type. */
charl_status charl__var_lane(charl_var *v, int j, charl_tensor **out)
{
    charl_var *root = charl__var_root(v);
    const int64_t n = charl_shape_count(&v->type.shape);
    const int64_t size = (int64_t)charl_dtype_size(v->type.dtype);

    if (root->leaf != CHARL_LEAF_NONE) {
        CHARL_TRY(charl__tensor_view(root->tensor->buffer, v->type.dtype, &v->type.shape, root->tensor->offset, out));
    } else if (root->grad_of) {
        const charl_params *set = root->grad_of->set;

        CHARL_TRY(charl__tensor_view(
            v->g->gradients ? v->g->gradients : set->grad, v->type.dtype, &v->type.shape,
            charl__param_gradient_at(root->grad_of, root->grad_share) + j * set->gradient_elements, out));
    } else {
        CHARL_TRY(charl__tensor_view(v->g->segment[root->segment], v->type.dtype, &v->type.shape,
                                     root->offset / size + j * n, out));
    }
    (*out)->channels_last = v->channels_last;
    return CHARL_OK;
}

static int64_t lane_stride(charl_var *v)
{
    const charl_var *root = charl__var_root(v);

    return root->grad_of ? root->grad_of->set->gradient_elements : charl_shape_count(&v->type.shape);
}

/* The tensor that users see: all lanes of a PARTIAL, where they are contiguous. */
static charl_status bind_kept(charl_graph *g, charl_var *v)
{
    const charl_var *root = charl__var_root(v);
    charl_shape shape = v->type.shape;
    const bool lanes = v->type.batch == CHARL_PARTIAL && g->slices.n_lanes > 1 && !root->grad_of;

    if (lanes) {
        CHARL_REQUIRE(shape.ndim < CHARL_MAX_DIMS, CHARL_ERR_SHAPE, "%s has too many extents to be kept in lanes",
                      charl_var_get_name(v));
        memmove(shape.dim + 1, v->type.shape.dim, (size_t)shape.ndim * sizeof shape.dim[0]);
        shape.dim[0] = g->slices.n_lanes;
        shape.ndim++;
        CHARL_TRY(charl__tensor_view(g->segment[root->segment], v->type.dtype, &shape,
                                     root->offset / (int64_t)charl_dtype_size(v->type.dtype), &v->tensor));
    } else {
        CHARL_TRY(charl__var_lane(v, 0, &v->tensor));
    }
    v->tensor->read_only = root->grad_of != NULL;
    return CHARL_OK;
}

static charl_status bind(charl_graph *g)
{
    const char *purpose = charl__device_set_purpose(g->dev, "inputs and constants of graphs");
    charl_status st = CHARL_OK;

    for (int i = 0; i < g->vars.count && st == CHARL_OK; i++) {
        st = bind_leaf(g, charl__var(g, i));
    }
    charl__device_set_purpose(g->dev, purpose);
    CHARL_TRY(st);
    for (int i = 0; i < g->vars.count; i++) {
        charl_var *v = charl__var(g, i);
        charl_var *root = charl__var_root(v);

        if (!v->tensor && v->node && v->node->live && (v->keep || root->grad_of)) {
            CHARL_TRY(bind_kept(g, v));
        }
    }
    return CHARL_OK;
}

static void release_all(charl_tensor **t, int n)
{
    for (int i = 0; i < n; i++) {
        charl_tensor_release(t[i]);
    }
}

/* Whether output k of n has no reader: then it lives only during its own node. */
static bool is_unread(const charl__node *n, int k)
{
    const charl_var *root = charl__var_root(n->out[k]);

    return !root->grad_of && root->last == n->position;
}

/* Which outputs are rounded. A launch that computes several sums rounds all or none, so one without reader follows the others. */
static void set_rounds(const charl__node *n, charl__enqueue *e)
{
    bool any = false;

    for (int k = 0; k < n->n_out; k++) {
        e->rounds[k] = charl__var_root(n->out[k])->rounds;
        any = any || e->rounds[k];
    }
    for (int k = 0; k < n->n_out; k++) {
        e->rounds[k] = e->rounds[k] || (any && is_unread(n, k));
    }
}

/* Let node n enqueue its launches on lane `lane` of its PARTIAL operands. */
static charl_status enqueue_lane(charl_graph *g, charl__node *n, int lane)
{
    charl_status st = CHARL_OK;
    charl_tensor *in[CHARL_OP_MAX_IN] = {0}, *out[CHARL_OP_MAX_OUT] = {0}, *workspace = NULL;
    const bool continues = g->cache && !g->begins;
    charl__enqueue e = {.dev = g->dev,
                        .label = n->name,
                        .attr = n->attr,
                        .n_in = n->n_in,
                        .n_out = n->n_out,
                        .in = in,
                        .out = out,
                        .slices = &g->slices,
                        .step = charl__steps_tensor(g->steps)};

    for (int i = 0; i < n->n_in; i++) {
        CHARL_TRY_CLEANUP(charl__var_lane(n->in[i], n->in[i]->type.batch == CHARL_PARTIAL ? lane : 0, &in[i]));
        e.constant |= (unsigned)(continues && charl__var_root(n->in[i])->leaf == CHARL_LEAF_PARAM) << i;
    }
    for (int k = 0; k < n->n_out; k++) {
        CHARL_TRY_CLEANUP(charl__var_lane(n->out[k], lane, &out[k]));
        e.lane_stride[k] = n->out[k]->type.batch == CHARL_PARTIAL ? lane_stride(n->out[k]) : 0;
    }
    set_rounds(n, &e);
    if (n->scratch) {
        const charl_shape words = {1, {n->scratch->bytes / 4}};

        CHARL_TRY_CLEANUP(
            charl__tensor_view(g->segment[n->scratch->segment], CHARL_F32, &words, n->scratch->offset / 4, &workspace));
        e.workspace = workspace;
    }
    CHARL_TRY_CLEANUP(charl__op_enqueue(n->op, &e));
cleanup:
    release_all(in, n->n_in);
    release_all(out, n->n_out);
    charl_tensor_release(workspace);
    return st;
}

static charl_status enqueue_node(charl_graph *g, charl__node *n)
{
    charl_status st = CHARL_OK;
    const bool per_lane = n->op->moves && n->in[0]->type.batch == CHARL_PARTIAL;
    const int times = per_lane ? g->slices.n_lanes : 1;

    n->launch_first = charl__recording_count(g->recording);
    for (int j = 0; j < times; j++) {
        CHARL_TRY_CLEANUP(enqueue_lane(g, n, j));
    }
    n->launch_last = charl__recording_count(g->recording);
    if (n->launch_last > 0) { /* its last launch may be combined with one of another node */
        charl__recording_add_flop(g->recording, n->launch_last - 1, charl__node_flop(g, n));
    }
cleanup:
    if (st != CHARL_OK) {
        charl__error_prefix("%s: ", n->name);
    }
    return st;
}

static charl_status add_action(charl_graph *g, charl__action a)
{
    CHARL_TRY(charl__grow(g->n_actions, sizeof *g->action, &g->action));
    g->action[g->n_actions++] = a;
    return CHARL_OK;
}

/* Turn the launches recorded since the last action into one range. */
static charl_status close_stretch(charl_graph *g, int *from)
{
    const int to = charl__recording_count(g->recording);

    charl__recording_mark(g->recording);
    if (to > *from) {
        CHARL_TRY(add_action(g, (charl__action){.kind = CHARL_DO_REPLAY, .first = *from, .last = to}));
    }
    *from = to;
    return CHARL_OK;
}

typedef struct bucket {
    int64_t begin, end;
    int closing; /* node that finishes the bucket */
} bucket;

/* Node that finishes the range [begin, end) of a lane; -1: none, it is reported last. */
static int finish_of(const charl_graph *g, int64_t begin, int64_t end)
{
    int last = -1;

    for (int i = 0; i < g->vars.count; i++) {
        const charl_var *v = charl__var(g, i);

        for (int k = 0; charl__var_is_trained(v) && v->grad && k <= v->more.count; k++) {
            const int64_t at = charl__param_gradient_at(v->param, k);
            const int position = charl__var_root(charl__var_gradient(v, k))->node->position;

            last = at >= begin && at < end && position > last ? position : last;
        }
    }
    return last;
}

/* In the order of the arena. */
static charl_status find_buckets(const charl_graph *g, bucket **out, int *n)
{
    int64_t begin = 0, end;

    *n = 0;
    if (!g->ready || !g->params || !g->has_gradients) {
        return CHARL_OK;
    }
    for (; (end = charl__params_range(g->params, &begin, g->bucket_elements)) > begin; begin = end) {
        CHARL_TRY(charl__realloc((size_t)(*n + 1) * sizeof **out, out));
        (*out)[*n] = (bucket){begin, end, finish_of(g, begin, end)};
        (*n)++;
    }
    return CHARL_OK;
}

/* Report what node number `position` finishes. The first gradients of a backward pass may come last:
 * for example a share of a table that the output layer uses too. */
static charl_status close_buckets(charl_graph *g, const bucket *b, int n, int position, int *from)
{
    for (int i = 0; i < n; i++) {
        if (b[i].closing == position) {
            CHARL_TRY(close_stretch(g, from));
            CHARL_TRY(add_action(
                g, (charl__action){.kind = CHARL_DO_READY, .begin = b[i].begin, .count = b[i].end - b[i].begin}));
        }
    }
    return CHARL_OK;
}

/* Set the fraction that follows each report, of the launches from number `backward` on. */
static void tell_what_is_left(charl_graph *g, int backward)
{
    const int all = charl__recording_count(g->recording);
    int last = 0;

    for (int i = 0; i < g->n_actions; i++) {
        charl__action *a = &g->action[i];

        last = a->kind == CHARL_DO_REPLAY ? a->last : last;
        if (a->kind == CHARL_DO_READY && all > backward) {
            a->left = (double)(all - last) / (all - backward);
        }
    }
}

static charl_status record_nodes(charl_graph *g)
{
    CHARL_SCOPED_FREE bucket *buckets = NULL;
    int n_buckets = 0, from = 0, backward = 0;

    CHARL_TRY(find_buckets(g, &buckets, &n_buckets));
    for (int i = 0; i < g->nodes.count; i++) {
        charl__node *n = charl__graph_node(g, i);

        if (g->has_gradients && i == g->first_backward) {
            charl__recording_mark(g->recording); /* the halves can be replayed separately */
            backward = charl__recording_count(g->recording);
        }
        if (g->checkable) {
            charl__recording_mark(g->recording);
        }
        if (n->live && n->op == &charl__op_batch_sum && !charl__graph_is_whole(g)) {
            CHARL_REQUIRE(g->collective, CHARL_ERR_INVALID,
                          "%s: this graph has a part of the batch, and nothing sums it over ranks; HINT "
                          "charl_data_parallel_compile compiles such a graph",
                          n->name);
            CHARL_TRY(close_stretch(g, &from));
            CHARL_TRY(add_action(g, (charl__action){.kind = CHARL_DO_COLLECTIVE, .node = n}));
        } else if (n->live && n->op == &charl__op_gather) {
            CHARL_TRY(close_stretch(g, &from));
            if (g->n_actions == 0 || g->action[g->n_actions - 1].kind != CHARL_DO_GATHER) {
                CHARL_TRY(add_action(
                    g, (charl__action){.kind = CHARL_DO_GATHER, .first = g->n_gathered, .last = g->n_gathered}));
            }
            CHARL_TRY(charl__graph_add_gathered(g, n));
            g->action[g->n_actions - 1].last++;
        } else if (n->live && charl__op_launches(n->op)) {
            CHARL_TRY(enqueue_node(g, n));
        }
        CHARL_TRY(close_buckets(g, buckets, n_buckets, i, &from));
    }
    CHARL_TRY(close_buckets(g, buckets, n_buckets, -1, &from));
    CHARL_TRY(close_stretch(g, &from));
    tell_what_is_left(g, backward);
    return CHARL_OK;
}

static charl_status bind_collectives(charl_graph *g)
{
    for (int i = 0; i < g->nodes.count && !charl__graph_is_whole(g); i++) {
        charl__node *n = charl__graph_node(g, i);

        if (n->live && n->op == &charl__op_batch_sum) {
            if (!n->in[0]->tensor) {
                CHARL_TRY(bind_kept(g, n->in[0]));
            }
            if (!n->out[0]->tensor) {
                CHARL_TRY(bind_kept(g, n->out[0]));
            }
        }
    }
    return CHARL_OK;
}

charl_status charl__graph_record(charl_graph *g)
{
    charl_status st = CHARL_OK;

    CHARL_TRY(bind(g));
    CHARL_TRY(bind_collectives(g));
    CHARL_TRY(charl__record_begin(g->dev, &g->recording));
    st = record_nodes(g);
    CHARL_TRY(charl__record_end(g->dev, st));
    return CHARL_OK;
}

int charl__graph_bucket_count(const charl_graph *g)
{
    int n = 0;

    for (int i = 0; i < g->n_actions; i++) {
        n += g->action[i].kind == CHARL_DO_READY;
    }
    return n;
}

/* NULL if there are fewer. */
static const charl__action *bucket_of(const charl_graph *g, int i)
{
    for (int a = 0; a < g->n_actions; a++) {
        if (g->action[a].kind == CHARL_DO_READY && i-- == 0) {
            return &g->action[a];
        }
    }
    return NULL;
}

void charl__graph_bucket(const charl_graph *g, int i, int64_t *begin, int64_t *count)
{
    const charl__action *a = bucket_of(g, i);

    *begin = a ? a->begin : 0;
    *count = a ? a->count : 0;
}

int64_t charl__graph_last_bucket(const charl_graph *g)
{
    int64_t begin, count;

    charl__graph_bucket(g, charl__graph_bucket_count(g) - 1, &begin, &count);
    return count;
}

double charl__graph_bucket_left(const charl_graph *g, int i)
{
    const charl__action *a = bucket_of(g, i);

    return a ? a->left : 0;
}
