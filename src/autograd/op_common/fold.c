/* Folding the slices of every lane in tree order. */
#include <stdio.h>

#include "autograd/op.h"

bool charl__fold_is_direct(const charl_enqueue *e)
{
    return e->slices->count == 1;
}

charl_tensor *charl__fold_target(const charl_enqueue *e, int k)
{
    return charl__fold_is_direct(e) ? e->out[k] : e->workspace;
}

void charl__fold_defines(const charl_enqueue *e, int k, int leaves, char *text, size_t bytes)
{
    int n = snprintf(text, bytes, "#define M %d\n", leaves), level = 0;

    while (1 << level < e->parts) {
        level++;
    }
    if (e->rounds[k]) {
        snprintf(text + n, bytes - (size_t)n, "#define ROUND %d\n", level);
    }
}

static charl_status fold_lane(const charl_enqueue *e, charl_arg in, int64_t n, int k, int j)
{
    const charl_slices *s = e->slices;
    const size_t group = 64;
    const int64_t leaf = s->lane_lo[j] - s->first; /* first leaf among this rank's */
    char defines[64];
    charl_arg out = charl__raw(CHARL_ARG_OUT, e->out[k]->buffer);

    charl__fold_defines(e, k, s->lane_hi[j] - s->lane_lo[j], defines, sizeof defines);
    in.v.offset += leaf * n;
    out.v.offset = e->out[k]->offset + j * e->lane_stride[k];
    return charl__launch(e->dev, &(charl_launch){
                                     .file = "fold",
                                     .entry = "charl_fold",
                                     .defines = defines,
                                     .global = {((size_t)n + group - 1) / group * group},
                                     .local = {group},
                                     .args = {in, out, charl__i64(n)},
                                     .label = e->label,
                                 });
}

charl_status charl__fold_from(const charl_enqueue *e, charl_arg part, int64_t n, int k)
{
    charl_status st = CHARL_OK;

    if (charl__fold_is_direct(e)) {
        CHARL_INVARIANT(part.buffer == e->out[k]->buffer && part.v.offset == e->out[k]->offset);
        goto cleanup;
    }
    for (int j = 0; j < e->slices->n_lanes && n > 0; j++) {
        CHARL_TRY(fold_lane(e, part, n, k, j));
    }
cleanup:
    return st;
}

charl_status charl__fold(const charl_enqueue *e, charl_tensor *part, int64_t n, int k)
{
    charl_arg in = charl__raw(CHARL_ARG_IN, part->buffer);

    in.v.offset = part->offset;
    return charl__fold_from(e, in, n, k);
}
