/* group_norm: layer_norm over groups of channels, then weight and bias per channel. A group's
 * channels and pixels are contiguous, so that a group is a row. */
#include "autograd/op.h"
#include "charl/ops.h"

/* [C] as [C, 1, ...], to broadcast over x [B, C, ...]. */
static charl_var *per_channel(charl_graph *g, charl_var *v, const charl_shape *x)
{
    charl_shape s = {x->ndim - 1, {x->dim[1]}};

    for (int i = 1; i < s.ndim; i++) {
        s.dim[i] = 1;
    }
    return charl_reshape(g, v, s);
}

charl_var *charl_group_norm(charl_graph *g, charl_var *x, charl_var *weight, charl_var *bias, int groups, float eps)
{
    charl_shape s, rows = {3, {0, groups, 1}};
    char text[CHARL_SHAPE_TEXT];

    if (!x) {
        return NULL;
    }
    s = charl_var_get_type(x).shape;
    if (s.ndim < 2 || groups < 1 || s.dim[1] % groups != 0) {
        return charl__graph_fail(g, CHARL_ERR_SHAPE, "group_norm: %d groups do not divide the channels of x %s", groups,
                                 charl_shape_format(&s, text));
    }
    rows.dim[0] = s.dim[0];
    rows.dim[2] = s.dim[1] / groups;
    for (int i = 2; i < s.ndim; i++) {
        rows.dim[2] *= s.dim[i];
    }
    x = charl_layer_norm(g, charl_reshape(g, x, rows), NULL, NULL, eps);
    x = charl_reshape(g, x, s);
    x = weight ? charl_mul(g, x, per_channel(g, weight, &s)) : x;
    return bias ? charl_add(g, x, per_channel(g, bias, &s)) : x;
}
