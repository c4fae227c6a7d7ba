/* Packed parameters in a graph (charl_params_pack).
 *
 * A node that unpacks the parameter is inserted before every operator that takes it. So the memory plan can reuse the same memory for one
 * unpacked matrix after another: the backward pass unpacks them again instead of keeping them since the forward pass.
 */
#include <stdio.h>

#include "autograd/graph_private.h"
#include "autograd/op/elementwise/unpack.h"

static charl_var *leaf(charl_graph *g, const charl_var *v, int packed, charl_type type)
{
    charl_var *out = NULL;
    const charl_status st = charl__var_new(g, type, &out);

    if (st != CHARL_OK) {
        return charl__graph_keep_error(g, st);
    }
    out->leaf = CHARL_LEAF_PARAM;
    out->param = v->param;
    out->packed = packed;
    return out;
}

/* Append the node that unpacks parameter v. */
static charl_var *unpack(charl_graph *g, const charl_var *v)
{
    const charl_param *p = v->param;
    const int64_t n = charl_shape_count(&p->spec.shape);
    const charl__unpack_attr attr = {.format = p->format, .dtype = v->type.dtype, .shape = p->spec.shape};
    charl_var *out;

    snprintf(g->scope, sizeof g->scope, "%s", p->spec.name);
    if (p->format == CHARL__FORMAT_BF16) {
        out = charl__apply1(g, &charl_op_cast, &v->type.dtype,
                            leaf(g, v, 1, (charl_type){CHARL_BF16, p->spec.shape, CHARL_REPLICATED}));
    } else {
        const charl_shape codes = {1, {charl__packed_bytes(p->format, n)}},
                          scales = {1, {charl__packed_scales(p->format, n)}};

        out = charl__apply2(g, &charl_op_unpack, &attr, leaf(g, v, 1, (charl_type){CHARL_U8, codes, CHARL_REPLICATED}),
                            leaf(g, v, 2, (charl_type){CHARL_F32, scales, CHARL_REPLICATED}));
    }
    g->scope[0] = '\0';
    return out;
}

static bool is_packed(const charl_graph *g, const charl_var *v)
{
    return v->leaf == CHARL_LEAF_PARAM && charl__param_is_packed(v->param, g->precision);
}

charl_status charl__graph_unpack_params(charl_graph *g)
{
    const int n = g->nodes.count;

    for (int i = 0; g->params && i < n; i++) {
        charl__node *node = charl__graph_node(g, i);

        for (int k = 0; k < node->n_in && g->status == CHARL_OK; k++) {
            charl_var *whole = is_packed(g, node->in[k]) ? unpack(g, node->in[k]) : NULL;

            if (whole) {
                node->in[k] = whole;
                whole->node->position = i;
            }
        }
    }
    CHARL_TRY(charl_graph_status(g));
    return g->nodes.count > n ? charl__graph_move_nodes(g, n) : CHARL_OK;
}
