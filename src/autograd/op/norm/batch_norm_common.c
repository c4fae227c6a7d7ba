/* Shapes and launches of batch normalisation. */
#include "autograd/op/norm/batch_norm_common.h"

#include <stdio.h>

#include "autograd/launch/map.h"

charl__norm_shape charl__norm_shape_get(const charl_shape *x)
{
    charl__norm_shape s = {x->dim[0], x->dim[1], 1};

    for (int i = 2; i < x->ndim; i++) {
        s.inner *= x->dim[i];
    }
    return s;
}

charl_status charl__norm_check(const charl__infer *inf, int x, int first, int last)
{
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT];

    CHARL_TRY(charl__infer_floats(inf, 0, inf->n_in));
    CHARL_REQUIRE(inf->in[x].shape.ndim >= 2, CHARL_ERR_SHAPE, "x %s is not [B, C, ...]",
                  charl_shape_format(&inf->in[x].shape, a));
    for (int i = first; i < last; i++) {
        CHARL_REQUIRE(charl_shape_count(&inf->in[i].shape) == inf->in[x].shape.dim[1] &&
                          inf->in[i].batch != CHARL_BATCHED,
                      CHARL_ERR_SHAPE, "operand %d %s is not one number per channel of x %s", i,
                      charl_shape_format(&inf->in[i].shape, a), charl_shape_format(&inf->in[x].shape, b));
    }
    return CHARL_OK;
}

charl_status charl__norm_plan(const charl__enqueue *e, int64_t units, charl__norm_shape s, charl__launch *l,
                              int64_t *per_item)
{
    const int vec = charl__is_ungrouped(e->dev) ? 16 : 1;

    if (s.inner != 1) {
        CHARL_TRY(charl__rows_launch(e->dev, units * s.channels, s.inner, l, per_item));
        charl__rows_spread(e->dev, l);
    } else {
        charl__span_launch(e->dev, units * ((s.channels + vec - 1) / vec), 1, l);
        *per_item = 1;
        charl__launch_set(l, "COLUMNS", 1);
        charl__launch_set(l, "CHARL_VEC", vec);
    }
    return CHARL_OK;
}
