/* A graph as text: one line per node, or Graphviz dot. */
#include <inttypes.h>

#include "autograd/graph_private.h"
#include "base/alloc.h"
#include "base/text/text.h"

static charl_status print_node(const charl_graph *g, const charl__node *n, charl__text *t)
{
    char shape[CHARL_SHAPE_TEXT];

    CHARL_TRY(charl__text_printf(t, "%4d %-16s %-40s", n->position, n->op->name, n->name));
    for (int k = 0; k < n->n_out; k++) {
        const charl_type *type = &n->out[k]->type;

        CHARL_TRY(charl__text_printf(t, "%s %s%s %s %" PRId64 " B", k ? "," : "", charl_dtype_name(type->dtype),
                                     charl_shape_format(&type->shape, shape), charl__batch_name(type->batch),
                                     charl__var_bytes(n->out[k])));
    }
    CHARL_TRY(charl__text_printf(t, " <-"));
    for (int i = 0; i < n->n_in; i++) {
        CHARL_TRY(charl__text_printf(t, " %s", charl_var_get_name(n->in[i])));
    }
    CHARL_TRY(charl__text_printf(t, "%s\n", g->planned && !n->live ? "  (dead)" : ""));
    return CHARL_OK;
}

static charl_status print_dot_node(const charl__node *n, charl__text *t)
{
    char shape[CHARL_SHAPE_TEXT];

    CHARL_TRY(charl__text_printf(t, "  n%d [label=\"%s\\n%s\"];\n", n->position, n->name,
                                 n->n_out ? charl_shape_format(&n->out[0]->type.shape, shape) : ""));
    for (int i = 0; i < n->n_in; i++) {
        const charl_var *v = n->in[i];

        if (v->node) {
            CHARL_TRY(charl__text_printf(t, "  n%d -> n%d;\n", v->node->position, n->position));
        } else {
            CHARL_TRY(charl__text_printf(t, "  v%d [shape=box,label=\"%s\"];\n  v%d -> n%d;\n", v->id,
                                         charl_var_get_name(v), v->id, n->position));
        }
    }
    return CHARL_OK;
}

charl_status charl_graph_print(const charl_graph *g, bool dot, char **out)
{
    CHARL_GIVEN(g, out);
    CHARL_SCOPED(charl__text_fini) charl__text t = {0};

    *out = NULL;
    CHARL_TRY(charl__text_printf(&t, "%s", dot ? "digraph charl {\n" : ""));
    for (int i = 0; i < g->nodes.count; i++) {
        if (!dot) {
            CHARL_TRY(print_node(g, charl__graph_node(g, i), &t));
        } else if (!g->planned || charl__graph_node(g, i)->live) {
            CHARL_TRY(print_dot_node(charl__graph_node(g, i), &t));
        }
    }
    CHARL_TRY(charl__text_printf(&t, "%s", dot ? "}\n" : ""));
    *out = charl__text_steal(&t);
    return CHARL_OK;
}
