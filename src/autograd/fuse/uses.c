/* Uses of values, and which nodes can be fused. */
#include "autograd/fuse/uses.h"

#include "base/alloc.h"

/* Counted first; then every list is filled from its end, so positions ascend. */
charl_status charl__uses_find(const charl_graph *g, charl__uses *u)
{
    int total = 0;

    *u = (charl__uses){0};
    CHARL_TRY(charl__alloc_array(g->vars.count + 1, sizeof *u->first, &u->first));
    for (int pass = 0; pass < 2; pass++) {
        for (int i = g->nodes.count - 1; i >= 0; i--) {
            const charl__node *n = charl__graph_node(g, i);

            for (int k = 0; n->live && !charl__is_alias(n) && k < n->n_in; k++) {
                int *at = &u->first[charl__var_root(n->in[k])->id];

                if (pass == 0) {
                    ++*at;
                } else {
                    u->at[--*at] = i;
                }
            }
        }
        for (int v = 0; pass == 0 && v <= g->vars.count; v++) {
            total += u->first[v];
            u->first[v] = total;
        }
        if (pass == 0) {
            CHARL_TRY(charl__alloc_array(total, sizeof *u->at, &u->at));
        }
    }
    return CHARL_OK;
}

void charl__uses_fini(charl__uses *u)
{
    charl_free(u->first);
    charl_free(u->at);
}

bool charl__is_fusible(const charl__node *n, charl__expr *x)
{
    if (!n->live || n->n_out != 1 || n->op->effect || charl__is_alias(n) ||
        !charl__op_express(n->op, n->attr, n->n_in, n->out[0]->type.dtype, x) ||
        !charl__is_float(n->out[0]->type.dtype) || n->out[0]->type.batch == CHARL_PARTIAL ||
        charl_shape_count(&n->out[0]->type.shape) == 0) {
        return false;
    }
    for (int i = 0; i < n->n_in; i++) {
        if (!charl__is_float(n->in[i]->type.dtype) || n->in[i]->type.batch == CHARL_PARTIAL) {
            return false;
        }
    }
    return true;
}

bool charl__is_changed(const charl_graph *g, charl_var *v)
{
    const charl_var *root = charl__var_root(v);

    for (int i = 0; root->leaf != CHARL_LEAF_NONE && i < g->nodes.count; i++) {
        const charl__node *n = charl__graph_node(g, i);

        for (int k = 0; n->live && n->op->effect && k < n->n_in; k++) {
            if (charl__var_root(n->in[k]) == root) {
                return true;
            }
        }
    }
    return false;
}

bool charl__has_effect_between(const charl_graph *g, int first, int last)
{
    for (int i = first + 1; i < last; i++) {
        if (charl__graph_node(g, i)->live && charl__graph_node(g, i)->op->effect) {
            return true;
        }
    }
    return false;
}
