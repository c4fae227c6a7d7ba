/* Packed parameters in a graph (charl_params_pack).
 *
 * A node that unpacks the parameter is inserted before every operator that takes it. So the memory plan can reuse the same memory for one
 * unpacked matrix after another: the backward pass unpacks them again instead of keeping them since the forward pass.
 */
#include <stdio.h>

#include "autograd/graph_private.h"
#include "autograd/op/elementwise/unpack.h"
#include "base/alloc.h"

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

static int count_packed(const charl_graph *g, const charl__node *n)
{
    int packed = 0;

    for (int k = 0; k < n->n_in; k++) {
        packed += is_packed(g, n->in[k]);
    }
    return packed;
}

charl_status charl__graph_unpack_params(charl_graph *g)
{
    const int n = g->nodes.count;
    int forward = 0, backward = 0, all = 0, at = 0;
    charl__node **ordered = NULL;

    for (int i = 0; g->params && i < n; i++) {
        const int packed = count_packed(g, charl__graph_node(g, i));

        all += packed;
        forward += i < g->n_forward ? packed : 0;
        backward += i < g->first_backward ? packed : 0;
    }
    if (all == 0) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__alloc_array(n + all, sizeof *ordered, &ordered));
    for (int i = 0; i < n && g->status == CHARL_OK; i++) {
        charl__node *node = charl__graph_node(g, i);

        for (int k = 0; k < node->n_in && g->status == CHARL_OK; k++) {
            if (is_packed(g, node->in[k])) {
                charl_var *whole = unpack(g, node->in[k]);

                if (whole) {
                    node->in[k] = whole;
                    ordered[at++] = whole->node;
                }
            }
        }
        ordered[at++] = node;
    }
    for (int i = 0; i < at && g->status == CHARL_OK; i++) {
        g->nodes.item[i] = ordered[i];
        ordered[i]->position = i;
    }
    charl_free(ordered);
    g->n_forward += forward;
    g->first_backward += backward;
    return charl_graph_status(g);
}
