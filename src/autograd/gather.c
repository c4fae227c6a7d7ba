/* Divided parameters in a graph (tensor/params.h): each process has ranges of them, and a graph gathers those that it needs.
 *
 * The nodes of a graph are cut into blocks, as long as the parameters that they read are together not larger than the largest one. Before a block, a
 * node for each of its parameters gathers it; all nodes of a block become one action of a run. What they gather is in the memory plan like any other
 * value, so it is dropped after its last use in the block. The backward pass gathers again:
 *
 *      gather w1, b1     y = linear(x, w1, b1)      gather w2     z = linear(y, w2)     ...     gather w2    dy = linear(dz, w2')
 */
#include <stdio.h>

#include "autograd/graph_private.h"
#include "base/alloc.h"
#include "base/numeric/hash.h"

static charl_status infer_gather(charl__infer *inf)
{
    inf->out[0] = inf->in[0];
    return CHARL_OK;
}

/* Not in the operator table: no kernel computes it. */
const charl__op charl__op_gather = {
    .name = "gather",
    .formula = "out = x, whose parts other ranks have",
    .n_in = 1,
    .half = CHARL_HALF_ALL,
    .infer = infer_gather,
};

static bool is_divided(const charl_var *v)
{
    return v->leaf == CHARL_LEAF_PARAM && v->param->set == v->g->params && charl__param_is_divided(v->param);
}

typedef struct block {
    int first;        /* its first node */
    int64_t elements; /* gathered */
    int64_t most;
    charl_var **whole; /* [vars]: gathered in the block that begins ... */
    int *since;        /* [vars]: ... with this node; -1: in none */
} block;

/* Gather the parameters that n reads, in this block or, if it becomes too long, in one that begins with n. */
static void gather_operands(charl_graph *g, charl__node *n, int i, block *b)
{
    int64_t more = 0;

    for (int k = 0; k < n->n_in; k++) {
        const charl_var *v = n->in[k];

        more += is_divided(v) && b->since[v->id] != b->first ? charl_shape_count(&v->type.shape) : 0;
    }
    if (more > 0 && b->elements + more > b->most) {
        b->first = i;
        b->elements = 0;
    }
    for (int k = 0; k < n->n_in && g->status == CHARL_OK; k++) {
        charl_var *v = n->in[k];

        if (is_divided(v)) {
            if (b->since[v->id] != b->first) {
                snprintf(g->scope, sizeof g->scope, "%s", v->param->spec.name);
                b->whole[v->id] = charl__apply1(g, &charl__op_gather, NULL, v);
                g->scope[0] = '\0';
                if (!b->whole[v->id]) {
                    return;
                }
                b->whole[v->id]->node->position = b->first;
                b->since[v->id] = b->first;
                b->elements += charl_shape_count(&v->type.shape);
            }
            n->in[k] = b->whole[v->id];
        }
    }
}

charl_status charl__graph_gather_params(charl_graph *g)
{
    charl_status st = CHARL_OK;
    const int n = g->nodes.count, vars = g->vars.count;
    block b = {0};

    if (!g->params || !g->params->is_divided) {
        return CHARL_OK;
    }
    b.most = charl__params_largest(g->params);
    CHARL_TRY_CLEANUP(charl__alloc_array(vars, sizeof(charl_var *), &b.whole));
    CHARL_TRY_CLEANUP(charl__alloc_array(vars, sizeof *b.since, &b.since));
    for (int i = 0; i < vars; i++) {
        b.since[i] = -1;
    }
    for (int i = 0; i < n && g->status == CHARL_OK; i++) {
        gather_operands(g, charl__graph_node(g, i), i, &b);
    }
    CHARL_TRY_CLEANUP(charl_graph_status(g));
    CHARL_TRY_CLEANUP(charl__graph_move_nodes(g, n));
cleanup:
    charl_free(b.whole);
    charl_free(b.since);
    return st;
}

charl_status charl__graph_add_gathered(charl_graph *g, charl__node *n)
{
    charl__gathered *last;

    CHARL_REQUIRE(g->gather, CHARL_ERR_INVALID,
                  "%s: the parameters of this graph are sharded over ranks; HINT charl_data_parallel_compile and "
                  "charl_data_parallel_compile_evaluation compile such a graph",
                  n->name);
    CHARL_REQUIRE(charl_dtype_size(n->out[0]->type.dtype) == charl__param_unit(n->in[0]->param), CHARL_ERR_INVALID,
                  "the parameters are sharded over ranks in %s, and the graph takes %s in f32; HINT compile all their "
                  "graphs in one precision",
                  charl_dtype_name(g->params->half_type), n->in[0]->param->spec.name);
    CHARL_TRY(charl__grow(g->n_gathered, sizeof *g->gathered, &g->gathered));
    last = &g->gathered[g->n_gathered];
    *last = (charl__gathered){.param = n->in[0]->param};
    CHARL_TRY(charl__var_lane(n->out[0], 0, &last->to));
    g->n_gathered++;
    return CHARL_OK;
}

charl_status charl__graph_run_gather(charl_graph *g, const charl__action *a)
{
    const charl__action *next = a + 1;

    while (next < g->action + g->n_actions && next->kind != CHARL_DO_GATHER) {
        next++;
    }
    return g->gather(g->gather_ctx, g->gathered + a->first, a->last - a->first, g->gathered + a->last,
                     next < g->action + g->n_actions ? next->last - next->first : 0);
}

charl_status charl__graph_run_gathers(charl_graph *g)
{
    for (int i = 0; i < g->n_actions; i++) {
        CHARL_TRY(g->action[i].kind == CHARL_DO_GATHER ? charl__graph_run_gather(g, &g->action[i]) : CHARL_OK);
    }
    return CHARL_OK;
}

uint64_t charl__graph_gather_digest(const charl_graph *g)
{
    uint64_t digest = 0;

    for (int i = 0; i < g->n_actions; i++) {
        for (int k = g->action[i].first; g->action[i].kind == CHARL_DO_GATHER && k < g->action[i].last; k++) {
            const uint64_t of[] = {digest, (uint64_t)g->action[i].last, (uint64_t)g->gathered[k].param->index};

            digest = charl__fnv1a64(of, sizeof of);
        }
    }
    return digest;
}
