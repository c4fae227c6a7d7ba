/* global_avg_pool: the mean over H and W, of volumes over D too, by the operator mean. */
#include "autograd/op.h"
#include "charl/ops.h"

charl_var *charl_global_avg_pool(charl_graph *g, charl_var *x)
{
    charl_dtype dtype;
    charl_shape s;

    if (!x) {
        return NULL;
    }
    s = charl_var_get_type(x).shape;
    dtype = charl_var_get_type(x).dtype;
    if (s.ndim != 4 && s.ndim != 5) {
        return charl__graph_fail(g, CHARL_ERR_SHAPE,
                                 "global_avg_pool: x has %d extents, not [B, C, H, W] or [B, C, D, H, W]", s.ndim);
    }
    x = charl_reshape(g, x, (charl_shape){3, {s.dim[0], s.dim[1], -1}});
    return charl__as_dtype(g, charl_mean(g, x, 2, false), dtype); /* a sum is f32 */
}
