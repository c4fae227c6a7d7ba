/* On a device without groups a work-item has a few thousand elements in vectors of 16; elsewhere
 * one vector of 8. The bits do not depend on it. */
#include "autograd/launch/column_chunks.h"

#include <stdio.h>

#include "autograd/launch/map.h"

enum { DEFINES = 8192 };

charl_status charl__column_chunks_launch(const charl__enqueue *e, charl__launch *l, int n_args, int64_t rows,
                                         int64_t columns, charl_dtype act)
{
    charl_status st = CHARL_OK;
    const bool cpu = charl__is_ungrouped(e->dev);
    const int vec = cpu ? 16 : CHARL_GPU_VEC;
    const int64_t pieces = rows * ((columns + vec - 1) / vec);
    const int64_t span = cpu ? charl__span(e->dev, pieces * vec, vec) / vec : 1;
    const char *given = l->defines;
    char defines[DEFINES];

    CHARL_INVARIANT(snprintf(defines, sizeof defines, "%s%s#define CHARL_VEC %d\n%s", given ? given : "",
                             charl__act_define(act), vec,
                             pieces < INT32_MAX ? "#define CHARL_CHUNK_INDEX uint\n" : "") < DEFINES);
    if (pieces == 0) {
        goto cleanup;
    }
    l->defines = defines;
    l->label = e->label;
    l->args[n_args] = charl__i64(rows);
    l->args[n_args + 1] = charl__i64(columns);
    l->args[n_args + 2] = charl__i64(span);
    charl__span_launch(e->dev, pieces, span, l);
    CHARL_TRY_CLEANUP(charl__launch_enqueue(e->dev, l));
cleanup:
    l->defines = given;
    return st;
}
