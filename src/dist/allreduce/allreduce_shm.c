/* All-reduce through the shared memory of a node: every rank sums its part of a range over all
 * lanes, in tree order, and writes the result where all ranks read it.
 *
 * Two counters per rank (charl__flags): `ready`, ranges begun, and `done`, ranges of which the rank
 * has summed its part. Part of range q may be summed when every ready > q; range q is complete when
 * every done > q. Nothing is overwritten too early: a rank rewrites its lanes only after its
 * wait, when every done > q says that no rank reads them; and sums are written only when every ready
 * > q, which says that every rank has finished reading the previous sums. A gathering range
 * works in the same way without sums: its parts are written where all ranks read them. Scattered sums replace
 * the lane that only this rank reads there. */
#include "dist/allreduce/allreduce.h"

#include <string.h>

#include "base/alloc.h"

typedef struct window_state {
    charl__flags *flags; /* [local_size] */
    void **lane;         /* [lanes of all ranks] */
    int64_t added;       /* ranges of which this rank has added its part */
    int64_t all_ready;   /* lower bound of the ranges that are ready on every rank */
} window_state;

static const char *window_unavailable(const charl_comm *c)
{
    return c->n_nodes > 1 ? "the ranks are on several nodes, which share no memory (use auto or hierarchical)" : NULL;
}

static charl_status window_create(charl_allreduce *ar)
{
    charl_status st = CHARL_OK;
    charl_comm *c = ar->c;
    window_state *s = NULL;
    const size_t head = charl__round_up((size_t)c->size * sizeof(charl__flags), 4096);
    unsigned char *data;

    st = charl__alloc(sizeof *s, &s);
    ar->own = s; /* even if another rank got none */
    st = st == CHARL_OK ? charl__alloc_array(ar->map.n, sizeof(void *), &s->lane) : st;
    CHARL_TRY(charl_comm_agree(c, st));
    CHARL_TRY(charl__window_create(
        c, head + (size_t)(ar->map.n + !ar->options.scatters) * charl__lane_bytes(ar) + charl__gathered_bytes(ar),
        "the gradients' shared memory", &ar->window));
    s->flags = (charl__flags *)(void *)ar->window.base;
    data = ar->window.base + head;
    for (int k = 0; k < ar->map.n; k++) {
        s->lane[k] = data + (size_t)k * charl__lane_bytes(ar);
    }
    ar->lanes = data + (size_t)ar->map.first[c->rank] * charl__lane_bytes(ar);
    data += (size_t)ar->map.n * charl__lane_bytes(ar);
    ar->sum = ar->options.scatters ? ar->lanes : data;
    if (ar->options.gathers) {
        ar->gathered = (float *)(void *)(data + (ar->options.scatters ? 0 : charl__lane_bytes(ar)));
    }
    return st;
}

static void window_destroy(charl_allreduce *ar)
{
    window_state *s = ar->own;

    if (s) {
        charl_free(s->lane);
        charl_free(s);
    }
}

static charl_status window_begin(charl_allreduce *ar, int64_t ticket)
{
    const window_state *s = ar->own;

    charl__flags_begin(ar, s->flags, ticket);
    return CHARL_OK;
}

static charl_status part_add(charl_allreduce *ar, int64_t ticket)
{
    const window_state *s = ar->own;
    const charl__range range = ar->range[ticket % CHARL__RANGES];
    void *leaf[CHARL_MAX_SLICES];
    int64_t from, to;

    CHARL_TRY(charl__flags_compare(ar, s->flags, ticket));
    if (range.gathers) {
        return CHARL_OK; /* the part is written */
    }
    charl__range_own(&range, ar->c->rank, ar->c->size, &from, &to);
    for (int k = 0; k < ar->map.n; k++) {
        leaf[k] = charl__element(ar, s->lane[k], range.offset + from);
    }
    charl__allreduce_add(ar, ar->map.adds, ar->map.n, leaf, to - from,
                         charl__element(ar, ar->sum, range.offset + from));
    return CHARL_OK;
}

static charl_status window_progress(charl_allreduce *ar)
{
    window_state *s = ar->own;

    while (s->added < ar->begun) {
        if (s->all_ready <= s->added) {
            s->all_ready = charl__flags_ready(ar, s->flags);
        }
        if (s->all_ready <= s->added) {
            break;
        }
        CHARL_TRY(part_add(ar, s->added));
        s->added++;
        atomic_store_explicit(&s->flags[ar->c->rank].done, s->added, memory_order_release);
    }
    if (ar->completed < s->added) {
        const int64_t done = charl__flags_done(ar, s->flags);

        ar->completed = done < s->added ? done : s->added;
    }
    return CHARL_OK;
}

static bool window_late(const void *arg, int rank)
{
    const charl_allreduce *ar = arg;
    const window_state *s = ar->own;

    return charl__flags_late(ar, s->flags, rank);
}

const charl__algorithm charl__allreduce_shm = {
    .row.name = "shm",
    .row.help = "ranks of one node: each rank adds a part of a range in shared memory",
    .preference = 3,
    .is_invariant = true,
    .has_bf16 = true,
    .has_gather = true,
    .has_scatter = true,
    .unavailable = window_unavailable,
    .create = window_create,
    .destroy = window_destroy,
    .begin = window_begin,
    .progress = window_progress,
    .late = window_late,
};
