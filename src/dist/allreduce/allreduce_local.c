/* The all-reduce of a single rank. */
#include "dist/allreduce/allreduce.h"

static const char *local_unavailable(const charl_comm *c)
{
    return c->size > 1 ? "there is more than one rank" : NULL;
}

/* One rank owns the whole tree, which is one lane: that is the sum. */
static charl_status local_create(charl_allreduce *ar)
{
    CHARL_TRY(charl__window_create(ar->c, charl__lane_bytes(ar) + charl__gathered_bytes(ar), "gradients", &ar->window));
    ar->lanes = ar->sum = ar->window.base;
    if (ar->options.gathers) {
        ar->gathered = (float *)(void *)(ar->window.base + charl__lane_bytes(ar));
    }
    return CHARL_OK;
}

static void local_destroy(charl_allreduce *ar)
{
    (void)ar;
}

static charl_status local_progress(charl_allreduce *ar)
{
    ar->completed = ar->begun;
    return CHARL_OK;
}

const charl__algorithm charl__allreduce_local = {
    .row.name = "local",
    .row.help = "one rank: nothing to send, lanes and sum share memory",
    .preference = 1,
    .is_invariant = true,
    .has_bf16 = true,
    .has_gather = true,
    .has_scatter = true,
    .unavailable = local_unavailable,
    .create = local_create,
    .destroy = local_destroy,
    .progress = local_progress,
};
