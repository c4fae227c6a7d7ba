/* Sums of few values at low latency. On one node: every rank writes its lanes into its
 * slot, sets its flag, waits for the others' and adds everything itself; one round.
 *
 * A rank has two slots, used alternately. Before it rewrites one it has seen every flag of the sum
 * in between, and a rank sets that only after it has finished reading: so two slots are enough.
 */
#include "dist/comm_private.h"

#include <string.h>

#include "base/alloc.h"
#include "dist/consensus.h"

enum { SLOT_FLOATS = 16384 };

typedef struct reducer_flag {
    _Alignas(CHARL__LINE) atomic_int_least64_t sums; /* slots written, ever */
    int64_t count[2], step[2];                       /* identifies the sum in the slot: must be equal on all ranks */
} reducer_flag;

struct charl_reducer {
    charl_comm *c;
    charl__lane_map map;
    charl__window window;
    reducer_flag *flags; /* [size]; NULL if the lanes are sent as messages */
    float *slots;        /* [size][2][SLOT_FLOATS] */
    float *gathered;     /* messages: [lanes of all ranks][piece] */
    int64_t sums, piece;
};

charl_status charl_reducer_create(charl_comm *c, const charl_slices *mine, charl_reducer **out)
{
    CHARL_GIVEN(c, mine, out);
    charl_status st = CHARL_OK;
    charl_reducer *r = NULL;
    const size_t head = charl__round_up((size_t)c->size * sizeof(reducer_flag), 4096);

    *out = NULL;
    CHARL_TRY_CLEANUP(charl_comm_agree(c, charl__alloc(sizeof *r, &r)));
    r->c = c;
    CHARL_TRY_CLEANUP(charl__lane_map_init(c, mine, &r->map));
    r->piece = SLOT_FLOATS / r->map.max_of_rank;
    if (c->n_nodes > 1) {
        CHARL_TRY_CLEANUP(charl_comm_agree(c, charl__alloc_array(r->map.n * r->piece, sizeof(float), &r->gathered)));
    }
    if (c->size > 1 && c->n_nodes == 1) {
        CHARL_TRY_CLEANUP(charl__window_create(c, head + (size_t)c->size * 2 * SLOT_FLOATS * sizeof(float),
                                               "the shared memory of small sums", &r->window));
        r->flags = (reducer_flag *)(void *)r->window.base;
        r->slots = (float *)(void *)(r->window.base + head);
    }
    *out = r;
    r = NULL;
cleanup:
    charl_reducer_destroy(r);
    return st;
}

void charl_reducer_destroy(charl_reducer *r)
{
    if (r) {
        charl__window_destroy(r->c, &r->window);
        charl_free(r->gathered);
        charl__lane_map_fini(&r->map);
        charl_free(r);
    }
}

/* Copy the lanes of this rank, `count` values each at distance `stride`, consecutively to `to`. */
static void lanes_pack(const charl_reducer *r, const float *lanes, int64_t stride, int64_t count, float *to)
{
    const int n = r->map.first[r->c->rank + 1] - r->map.first[r->c->rank];

    for (int j = 0; j < n; j++) {
        memcpy(to + j * count, lanes + j * stride, (size_t)count * sizeof *to);
    }
}

static bool flag_late(const void *arg, int rank)
{
    const charl_reducer *r = arg;

    return atomic_load(&r->flags[rank].sums) < r->sums;
}

/* A sum of different things is meaningless, and if a rank skipped one, every later one is. */
static charl_status check_alike(const charl_reducer *r, int64_t half)
{
    charl_status st = CHARL_OK;
    const int me = r->c->rank;
    char mine[CHARL__COMM_PLACE], theirs[CHARL__COMM_PLACE];

    for (int p = 0; p < r->c->size; p++) {
        const reducer_flag *a = &r->flags[me], *b = &r->flags[p];

        CHARL_REQUIRE_CLEANUP(a->count[half] == b->count[half] && a->step[half] == b->step[half], CHARL_ERR_COMM,
                              "the ranks are not at the same sum over the batch: %s has %lld values for step %lld, "
                              "%s has %lld for step %lld",
                              charl__comm_place(r->c, me, mine, sizeof mine), (long long)a->count[half],
                              (long long)a->step[half], charl__comm_place(r->c, p, theirs, sizeof theirs),
                              (long long)b->count[half], (long long)b->step[half]);
    }
cleanup:
    r->c->is_broken = r->c->is_broken || st != CHARL_OK;
    return st;
}

static charl_status sum_shared(charl_reducer *r, const float *lanes, int64_t stride, int64_t count, float *out)
{
    const charl_comm *c = r->c;
    const int64_t half = r->sums % 2;
    const float *leaf[CHARL_MAX_SLICES];
    charl__waiter w;

    lanes_pack(r, lanes, stride, count, r->slots + (2 * c->rank + half) * SLOT_FLOATS);
    r->flags[c->rank].count[half] = count;
    r->flags[c->rank].step[half] = atomic_load(&c->me->step);
    r->sums++;
    atomic_store_explicit(&r->flags[c->rank].sums, r->sums, memory_order_release);
    charl__wait_start(r->c, &w, "sum over the batch", flag_late, r);
    for (int p = 0; p < c->size; p++) {
        while (atomic_load_explicit(&r->flags[p].sums, memory_order_acquire) < r->sums) {
            CHARL_TRY(charl__wait_pause(r->c, &w));
        }
    }
    CHARL_TRY(check_alike(r, half));
    for (int k = 0; k < r->map.n; k++) {
        leaf[k] = r->slots + (2 * r->map.rank[k] + half) * SLOT_FLOATS + r->map.index[k] * count;
    }
    charl__tree_apply(r->map.adds, r->map.n, leaf, count, out);
    return CHARL_OK;
}

static charl_status sum_messages(charl_reducer *r, const float *lanes, int64_t stride, int64_t count, float *out)
{
    charl_comm *c = r->c;
    const float *leaf[CHARL_MAX_SLICES];
    charl__request request;

    for (int p = 0; p < c->size; p++) {
        c->counts[p] = (int)count * (r->map.first[p + 1] - r->map.first[p]);
        c->places[p] = (int)count * r->map.first[p];
    }
    lanes_pack(r, lanes, stride, count, r->gathered + c->places[c->rank]);
    charl__comm_enter(c);
    CHARL_TRY(c->world->transport->allgather(
        c->world, &(charl__parts){r->gathered, sizeof(float), c->counts, c->places}, &request));
    CHARL_TRY(charl__comm_finish(c, c->world, &request, "sum over the batch"));
    for (int k = 0; k < r->map.n; k++) {
        leaf[k] = r->gathered + k * count;
    }
    charl__tree_apply(r->map.adds, r->map.n, leaf, count, out);
    return CHARL_OK;
}

charl_status charl_reducer_sum(charl_reducer *r, const float *lanes, int64_t count, float *out)
{
    CHARL_GIVEN(r, lanes || count == 0, out || count == 0);
    CHARL_REQUIRE(count >= 0, CHARL_ERR_INVALID, "count is %lld; it is 0 or more", (long long)count);
    CHARL_TRY(charl__comm_check(r->c));
    for (int64_t at = 0; at < count; at += r->piece) {
        const int64_t left = count - at < r->piece ? count - at : r->piece;

        if (r->c->size == 1) {
            memmove(out + at, lanes + at, (size_t)left * sizeof *out); /* one rank has one lane */
        } else if (r->flags) {
            CHARL_TRY(sum_shared(r, lanes + at, count, left, out + at));
        } else {
            CHARL_TRY(sum_messages(r, lanes + at, count, left, out + at));
        }
    }
    return CHARL_OK;
}
