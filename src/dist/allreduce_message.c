/* All-reduce by MPI messages, between nodes.
 *
 * tree: each rank owns a part of a piece; all lanes of the part travel to it (alltoall), it adds
 * them in tree order, and the sums travel back (allgather). mpi: this rank's lanes are added as
 * they come, then MPI_Allreduce. One collective is on its way at a time, so all ranks post them in
 * one order. */
#include "dist/allreduce.h"

#include <string.h>

#include "base/alloc.h"

enum { PIECE = 1 << 20 }; /* floats: bounds the staging memory and MPI's int counts */

typedef enum message_phase { IDLE, SCATTER, GATHER } message_phase;

typedef struct message_state {
    message_phase phase;
    int64_t at; /* within range ar->completed */
    MPI_Request request;
    float *send, *receive;
    int send_count[CHARL_MAX_SLICES], send_at[CHARL_MAX_SLICES];
    int receive_count[CHARL_MAX_SLICES], receive_at[CHARL_MAX_SLICES];
} message_state;

static const char *always_available(const charl_comm *c)
{
    (void)c;
    return NULL;
}

static int64_t piece_count(const charl_allreduce *ar)
{
    const message_state *s = ar->own;
    const int64_t left = ar->range[ar->completed % CHARL__RANGES].count - s->at;

    return left < PIECE ? left : PIECE;
}

static int64_t piece_offset(const charl_allreduce *ar)
{
    const message_state *s = ar->own;

    return ar->range[ar->completed % CHARL__RANGES].offset + s->at;
}

static charl_status memory_create(charl_allreduce *ar, bool has_staging)
{
    charl_status st = CHARL_OK;
    const int64_t piece = ar->n < PIECE ? ar->n : PIECE;
    const int64_t part = piece / ar->c->size + 32;
    message_state *s = NULL;

    CHARL_TRY(charl_alloc(sizeof *s, &s));
    ar->own = s;
    CHARL_TRY(charl_alloc_aligned(
        4096, (size_t)(ar->my_lanes + 1) * (size_t)ar->stride * sizeof(float), &ar->window.owned));
    ar->window.base = ar->window.owned;
    ar->sum = (float *)ar->window.owned;
    ar->lanes = ar->sum + ar->stride;
    if (has_staging) {
        CHARL_TRY(charl_alloc_array(ar->my_lanes * piece, sizeof(float), &s->send));
        CHARL_TRY(charl_alloc_array(ar->map.n * part, sizeof(float), &s->receive));
    }
cleanup:
    return st;
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
        charl_free(s);
    }
}

/* Begin a piece: for every rank its part of each of my lanes. */
static charl_status tree_scatter(charl_allreduce *ar)
{
    charl_status st = CHARL_OK;
    message_state *s = ar->own;
    const charl_comm *c = ar->c;
    const int64_t count = piece_count(ar), offset = piece_offset(ar);
    int64_t from, to, my_from, my_to;
    int used = 0;

    charl__range_part(count, c->rank, c->size, &my_from, &my_to);
    for (int r = 0; r < c->size; r++) {
        charl__range_part(count, r, c->size, &from, &to);
        s->send_at[r] = used;
        s->send_count[r] = (int)(to - from) * ar->my_lanes;
        for (int j = 0; j < ar->my_lanes; j++) {
            if (to > from) {
                memcpy(s->send + used, ar->lanes + j * ar->stride + offset + from,
                       (size_t)(to - from) * sizeof(float));
            }
            used += (int)(to - from);
        }
        s->receive_at[r] = (int)(my_to - my_from) * ar->map.first[r];
        s->receive_count[r] = (int)(my_to - my_from) * (ar->map.first[r + 1] - ar->map.first[r]);
    }
    charl__comm_enter(ar->c);
    CHARL_MPI(MPI_Ialltoallv(s->send, s->send_count, s->send_at, MPI_FLOAT, s->receive,
                             s->receive_count, s->receive_at, MPI_FLOAT, c->world, &s->request));
    s->phase = SCATTER;
cleanup:
    return st;
}

/* All lanes of my part are here, in slice order: add them and give everyone the sums. */
static charl_status tree_gather(charl_allreduce *ar)
{
    charl_status st = CHARL_OK;
    message_state *s = ar->own;
    const charl_comm *c = ar->c;
    const int64_t count = piece_count(ar), offset = piece_offset(ar);
    const float *leaf[CHARL_MAX_SLICES];
    int64_t from, to, my_from, my_to;

    charl__range_part(count, c->rank, c->size, &my_from, &my_to);
    for (int k = 0; k < ar->map.n; k++) {
        leaf[k] = s->receive + k * (my_to - my_from);
    }
    charl__tree_apply(ar->map.adds, ar->map.n, leaf, my_to - my_from, ar->scratch,
                      ar->sum + offset + my_from);
    for (int r = 0; r < c->size; r++) {
        charl__range_part(count, r, c->size, &from, &to);
        s->receive_at[r] = (int)from;
        s->receive_count[r] = (int)(to - from);
    }
    charl__comm_enter(ar->c);
    CHARL_MPI(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_FLOAT, ar->sum + offset, s->receive_count,
                              s->receive_at, MPI_FLOAT, c->world, &s->request));
    s->phase = GATHER;
cleanup:
    return st;
}

static charl_status mpi_start(charl_allreduce *ar)
{
    charl_status st = CHARL_OK;
    message_state *s = ar->own;
    const int64_t count = piece_count(ar), offset = piece_offset(ar);
    float *sum = ar->sum + offset;

    memset(sum, 0, (size_t)count * sizeof *sum);
    for (int j = 0; j < ar->my_lanes; j++) {
        const float *lane = ar->lanes + j * ar->stride + offset;

        for (int64_t i = 0; i < count; i++) {
            sum[i] = j ? sum[i] + lane[i] : lane[i];
        }
    }
    charl__comm_enter(ar->c);
    CHARL_MPI(MPI_Iallreduce(MPI_IN_PLACE, sum, (int)count, MPI_FLOAT, MPI_SUM, ar->c->world,
                             &s->request));
    s->phase = GATHER;
cleanup:
    return st;
}

static void piece_end(charl_allreduce *ar)
{
    message_state *s = ar->own;

    s->at += piece_count(ar);
    s->phase = IDLE;
    if (s->at >= ar->range[ar->completed % CHARL__RANGES].count) {
        s->at = 0;
        ar->completed++;
    }
}

static charl_status message_progress(charl_allreduce *ar, charl_status (*start)(charl_allreduce *))
{
    charl_status st = CHARL_OK;
    message_state *s = ar->own;
    int is_done = 0;

    while (ar->completed < ar->begun) {
        if (s->phase == IDLE) {
            if (piece_count(ar) == 0) {
                piece_end(ar);
                continue;
            }
            CHARL_TRY(start(ar));
        }
        CHARL_MPI(MPI_Test(&s->request, &is_done, MPI_STATUS_IGNORE));
        if (!is_done) {
            break;
        }
        if (s->phase == SCATTER) {
            CHARL_TRY(tree_gather(ar));
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

const charl__algorithm charl__allreduce_tree = {
    .name = "tree",
    .is_invariant = true,
    .unavailable = always_available,
    .create = tree_create,
    .destroy = message_destroy,
    .progress = tree_progress,
};

const charl__algorithm charl__allreduce_mpi = {
    .name = "mpi",
    .is_invariant = false,
    .unavailable = always_available,
    .create = mpi_create,
    .destroy = message_destroy,
    .progress = mpi_progress,
};
