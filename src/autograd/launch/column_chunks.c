/* On devices without work-groups a work-item processes a few thousand elements in vectors of 16, elsewhere
 * one vector of 8. The bits do not depend on it. */
#include "autograd/launch/column_chunks.h"

#include "autograd/launch/map.h"

charl_status charl__column_chunks_launch(const charl__enqueue *e, const charl__launch *l, int n_args, int64_t rows,
                                         int64_t columns, charl_dtype act)
{
    const bool cpu = charl__is_ungrouped(e->dev);
    const int vec = cpu ? 16 : CHARL_GPU_VEC;
    const int64_t pieces = rows * ((columns + vec - 1) / vec);
    const int64_t span = cpu ? charl__span(e->dev, pieces * vec, vec) / vec : 1;
    charl__launch own = *l;

    if (pieces == 0) {
        return CHARL_OK;
    }
    charl__launch_set_text(&own, "ACT", charl__kernel_type(act));
    charl__launch_set(&own, "CHARL_VEC", vec);
    charl__launch_set_text(&own, "CHARL_CHUNK_INDEX", pieces < INT32_MAX ? "uint" : "ulong");
    own.label = e->label;
    own.args[n_args] = charl__i64(rows);
    own.args[n_args + 1] = charl__i64(columns);
    own.args[n_args + 2] = charl__i64(span);
    charl__span_launch(e->dev, pieces, span, &own);
    CHARL_TRY(charl__launch_enqueue(e->dev, &own));
    return CHARL_OK;
}
