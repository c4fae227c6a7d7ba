/* All-reduce by point-to-point messages.
 *
 * p2p: each rank owns a part of a range, which is processed in pieces; all lanes of a piece of a part are sent to its owner (alltoall),
 * which adds them in tree order, and the sums are sent back (allgather), unless they are scattered. mpi: this rank's lanes are added
 * in any order, then MPI_Allreduce. Data that ranks have written are gathered like sums. One
 * collective is in flight at a time, so all ranks post them in the same order. */
#include "dist/allreduce/allreduce.h"

#include <limits.h>
#include <string.h>

#include "base/alloc.h"

enum { PIECE = 1 << 20 }; /* values of all parts: bounds the staging memory and MPI's int counts */

typedef enum message_phase { IDLE, SCATTER, GATHER } message_phase;

typedef struct message_state {
    message_phase phase;
    int64_t at; /* within range ar->completed, or each of its parts */
    charl__request request;
    unsigned char *send, *receive;
    int *send_count, *send_at, *receive_count, *receive_at; /* [size]; of the first all */
} message_state;

static const char *always_available(const charl_comm *c)
{
    (void)c;
    return NULL;
}

static const char *mpi_unavailable(const charl_comm *c)
{
    return c->has_mpi ? NULL : c->is_team ? "simulated ranks have no MPI" : "this rank is alone, without MPI";
}

static const charl__range *range_of(const charl_allreduce *ar)
{
    return &ar->range[ar->completed % CHARL__RANGES];
}

/* Maximum number of values of a part in a piece. */
static int64_t width_of(const charl_allreduce *ar)
{
    const int64_t blocks = PIECE / ar->c->size / CHARL__PART;

    return (blocks > 0 ? blocks : 1) * CHARL__PART;
}

/* The range of rank r's part in the piece, relative to the range: all of it for gathered data, which need no staging. */
static void piece_part(const charl_allreduce *ar, int r, int64_t *from, int64_t *to)
{
    const message_state *s = ar->own;
    const charl__range *range = range_of(ar);
    const int64_t width = width_of(ar);

    charl__range_own(range, r, ar->c->size, from, to);
    if (!range->gathers) {
        *from = *from + s->at < *to ? *from + s->at : *to;
        *to = *from + width < *to ? *from + width : *to;
    }
}

static charl_status memory_create(charl_allreduce *ar, bool has_staging)
{
    const int64_t part = ar->n < width_of(ar) ? ar->n : width_of(ar);
    const int64_t piece = ar->n < part * ar->c->size ? ar->n : part * ar->c->size;
    message_state *s = NULL;

    CHARL_TRY(charl__alloc(sizeof *s, &s));
    ar->own = s;
    CHARL_TRY(charl__alloc_array(4 * ar->c->size, sizeof(int), &s->send_count));
    s->send_at = s->send_count + ar->c->size;
    s->receive_count = s->send_at + ar->c->size;
    s->receive_at = s->receive_count + ar->c->size;
    CHARL_TRY(charl__alloc_aligned(
        4096, (size_t)(ar->my_lanes + !ar->options.scatters) * charl__lane_bytes(ar) + charl__gathered_bytes(ar),
        &ar->window.owned));
    ar->window.base = ar->window.owned;
    ar->sum = ar->window.owned;
    ar->lanes = charl__element(ar, ar->sum, ar->options.scatters ? 0 : ar->stride);
    if (ar->options.gathers) {
        ar->gathered = charl__element(ar, ar->lanes, ar->my_lanes * ar->stride);
    }
    if (has_staging) {
        CHARL_TRY(charl__alloc_array(ar->my_lanes * piece, ar->element, &s->send));
        CHARL_TRY(charl__alloc_array(ar->map.n * part, ar->element, &s->receive));
    }
    return CHARL_OK;
}

static charl_status tree_create(charl_allreduce *ar)
{
    return charl_comm_agree(ar->c, memory_create(ar, true));
}

static charl_status mpi_create(charl_allreduce *ar)
{
    return charl_comm_agree(ar->c, memory_create(ar, false));
}

static void message_destroy(charl_allreduce *ar)
{
    message_state *s = ar->own;

    if (s) {
        charl_free(s->send);
        charl_free(s->receive);
        charl_free(s->send_count);
        charl_free(s);
    }
}

/* Begin a piece: send every rank its part of each of this rank's lanes. */
static charl_status tree_scatter(charl_allreduce *ar)
{
    message_state *s = ar->own;
    const charl_comm *c = ar->c;
    const int64_t offset = range_of(ar)->offset;
    int64_t from, to, my_from, my_to;
    int used = 0;

    piece_part(ar, c->rank, &my_from, &my_to);
    for (int r = 0; r < c->size; r++) {
        piece_part(ar, r, &from, &to);
        s->send_at[r] = used;
        s->send_count[r] = (int)(to - from) * ar->my_lanes;
        for (int j = 0; j < ar->my_lanes; j++) {
            if (to > from) {
                memcpy(charl__element(ar, s->send, used), charl__element(ar, ar->lanes, j * ar->stride + offset + from),
                       (size_t)(to - from) * ar->element);
            }
            used += (int)(to - from);
        }
        s->receive_at[r] = (int)(my_to - my_from) * ar->map.first[r];
        s->receive_count[r] = (int)(my_to - my_from) * (ar->map.first[r + 1] - ar->map.first[r]);
    }
    charl__comm_enter(ar->c);
    CHARL_TRY(c->world->transport->alltoall(c->world, &(charl__parts){s->send, ar->element, s->send_count, s->send_at},
                                            &(charl__parts){s->receive, ar->element, s->receive_count, s->receive_at},
                                            &s->request));
    s->phase = SCATTER;
    return CHARL_OK;
}

/* What the piece has of every rank's part, values of `element` bytes in a range that lies at `data`, to all. */
static charl_status parts_gather(charl_allreduce *ar, void *data, size_t element)
{
    message_state *s = ar->own;
    int64_t from, to;

    CHARL_REQUIRE(range_of(ar)->count <= INT_MAX, CHARL_ERR_INVALID, "gathering %lld values at once",
                  (long long)range_of(ar)->count);
    for (int r = 0; r < ar->c->size; r++) {
        piece_part(ar, r, &from, &to);
        s->receive_at[r] = (int)from;
        s->receive_count[r] = (int)(to - from);
    }
    charl__comm_enter(ar->c);
    CHARL_TRY(ar->c->world->transport->allgather(
        ar->c->world, &(charl__parts){data, element, s->receive_count, s->receive_at}, &s->request));
    s->phase = GATHER;
    return CHARL_OK;
}

/* Pieces of mpi are of the whole range. */
static int64_t mpi_count(const charl_allreduce *ar)
{
    const message_state *s = ar->own;
    const int64_t left = range_of(ar)->count - s->at;

    return left < PIECE ? left : PIECE;
}

static void piece_end(charl_allreduce *ar)
{
    message_state *s = ar->own;
    const charl__range *range = range_of(ar);
    const int64_t part = charl__range_most(range, ar->c->size);

    s->at += range->gathers ? range->count : s->send ? width_of(ar) : mpi_count(ar);
    s->phase = IDLE;
    if (s->at >= (s->send ? part : range->count)) {
        s->at = 0;
        ar->completed++;
    }
}

/* All lanes of this rank's part have arrived, in slice order: add them and send the sums to all ranks, unless they are scattered. */
static charl_status tree_gather(charl_allreduce *ar)
{
    message_state *s = ar->own;
    const charl_comm *c = ar->c;
    const int64_t offset = range_of(ar)->offset;
    void *leaf[CHARL_MAX_SLICES];
    int64_t from, to;

    piece_part(ar, c->rank, &from, &to);
    for (int k = 0; k < ar->map.n; k++) {
        leaf[k] = charl__element(ar, s->receive, k * (to - from));
    }
    charl__allreduce_add(ar, ar->map.adds, ar->map.n, leaf, to - from, charl__element(ar, ar->sum, offset + from));
    if (ar->options.scatters) {
        piece_end(ar);
        return CHARL_OK;
    }
    return parts_gather(ar, charl__element(ar, ar->sum, offset), ar->element);
}

static charl_status mpi_start(charl_allreduce *ar)
{
    message_state *s = ar->own;
    const int64_t count = mpi_count(ar), offset = range_of(ar)->offset + s->at;
    float *sum = charl__element(ar, ar->sum, offset);

    memset(sum, 0, (size_t)count * sizeof *sum);
    for (int j = 0; j < ar->my_lanes; j++) {
        const float *lane = charl__element(ar, ar->lanes, j * ar->stride + offset);

        for (int64_t i = 0; i < count; i++) {
            sum[i] = j ? sum[i] + lane[i] : lane[i];
        }
    }
    charl__comm_enter(ar->c);
    s->request = (charl__request){.is_over = false};
    CHARL_MPI(charl__mpi.Iallreduce(MPI_IN_PLACE, sum, (int)count, MPI_FLOAT, MPI_SUM, charl__mpi_comm(ar->c->world),
                                    &s->request.mpi));
    s->phase = GATHER;
    return CHARL_OK;
}

static charl_status message_progress(charl_allreduce *ar, charl_status (*start)(charl_allreduce *))
{
    charl_status st = CHARL_OK;
    message_state *s = ar->own;
    bool is_done = false;

    while (ar->completed < ar->begun) {
        if (s->phase == IDLE) {
            if (range_of(ar)->count == 0) {
                piece_end(ar);
                continue;
            }
            CHARL_TRY_CLEANUP(range_of(ar)->gathers
                                  ? parts_gather(ar, ar->gathered + range_of(ar)->offset, sizeof(float))
                                  : start(ar));
        }
        CHARL_TRY_CLEANUP(ar->c->world->transport->test(ar->c->world, &s->request, &is_done));
        if (!is_done) {
            break;
        }
        if (s->phase == SCATTER) {
            CHARL_TRY_CLEANUP(tree_gather(ar));
        } else {
            piece_end(ar);
        }
    }
cleanup:
    ar->c->is_broken = ar->c->is_broken || st != CHARL_OK;
    return st;
}

static charl_status tree_progress(charl_allreduce *ar)
{
    return message_progress(ar, tree_scatter);
}

static charl_status mpi_progress(charl_allreduce *ar)
{
    return message_progress(ar, mpi_start);
}

const charl__algorithm charl__allreduce_p2p = {
    .row.name = "p2p",
    .row.help = "any ranks: MPI messages of every rank's lanes",
    .preference = 5,
    .is_invariant = true,
    .has_bf16 = true,
    .has_gather = true,
    .has_scatter = true,
    .unavailable = always_available,
    .create = tree_create,
    .destroy = message_destroy,
    .progress = tree_progress,
};

const charl__algorithm charl__allreduce_mpi = {
    .row.name = "mpi",
    .row.help = "any ranks: MPI_Allreduce, a reference whose bits depend on the number of ranks; f32 only",
    .preference = 6,
    .has_gather = true,
    .unavailable = mpi_unavailable,
    .create = mpi_create,
    .destroy = message_destroy,
    .progress = mpi_progress,
};
