/* All-reduce over several nodes of several ranks: summed within the nodes through shared memory,
 * then between them by messages, which all ranks of a node send.
 *
 * A range is processed in pieces. A piece is divided into one share per node, because the links of nodes
 * are slow, whatever the number of their ranks. The share of node m is divided again among
 * the ranks of m, its owners, and on every other node among the ranks there, its carriers:
 *
 *   1. carriers add their own node's lanes of the share and send them to the owners;
 *   2. owners add the lanes of all nodes, into their node's shared sum, and send the sums back;
 *   3. carriers receive them into the shared sum of their node, where all its ranks read.
 *
 * If nodes have equal sizes, local rank l communicates with local rank l of every other node; otherwise a carrier
 * communicates with every owner whose part overlaps its own. Sender and receiver derive the message from the piece
 * alone. Several pieces are in flight at a time, so that one is added while others are sent; a
 * rank cannot get further ahead, because it needs all ranks' sums to finish a piece.
 *
 * Data to be gathered are already written where their node reads them: they are
 * sent like sums, where the share of a node is what its ranks own.
 *
 * Sums that are scattered end with 2: a piece has the next values of every rank's part of the range, and the owner of these leaves
 * the sums in its own first lane, where no other rank reads them. Within nodes (options.within_nodes), every node has such parts: the
 * local ranks l of all nodes are the owners of a share of part l each, and send each other the sums.
 *
 * Within the node the flags and their reasons are those of allreduce_shm.c: lanes are read when
 * every rank of the node is ready, and the range is complete when every one is done. */
#include "dist/allreduce/allreduce.h"

#include <limits.h>

#include "base/alloc.h"

enum { PIECE = 1 << 18 /* values */, PIECES = 8, TAGS = 2 * PIECES, TAG_SETS = 1024 };
enum { SLACK = 4 * CHARL__PART }; /* how much dividing twice in whole blocks may add to a part */

typedef struct span {
    int64_t from, to; /* relative to the piece */
} span;

typedef enum piece_phase { SCATTER, GATHER, OVER } piece_phase;

typedef struct piece {
    piece_phase phase;
    int64_t ticket, offset, count;
    int owner;    /* of its range */
    int64_t at;   /* of sums that are scattered: within every rank's part of `count` values */
    bool is_last; /* of its range */
    bool gathers;
    int tag;
    void *carried;  /* lanes of this node, summed: for every share and lane, consecutively */
    void *received; /* [lanes of all nodes][part_most]: my part of my node's share */
    charl__messages scatter, gather;
} piece;

typedef struct nodes_state {
    charl__node_map map;
    charl__flags *flags;
    void **lane; /* of this node's ranks, by index in the map of lanes */
    int node;
    int64_t part_most;
    piece piece[PIECES];    /* piece k in [k % PIECES] */
    int64_t started, ended; /* pieces */
    int64_t ticket, at;     /* of the next piece */
    int64_t all_ready;      /* lower bound of the ranges that are ready on every rank of the node */
} nodes_state;

static const char *nodes_unavailable(const charl_comm *c)
{
    (void)c;
    return NULL;
}

static int node_size(const nodes_state *s, int m)
{
    return s->map.rank[m + 1] - s->map.rank[m];
}

/* Values of a part that a piece takes at most, where sums are scattered. */
static int64_t width_of(const charl_allreduce *ar)
{
    const int64_t blocks = PIECE / ar->parts / CHARL__PART;

    return (blocks > 0 ? blocks : 1) * CHARL__PART;
}

static bool scatters(const charl_allreduce *ar, const piece *p)
{
    return ar->options.scatters && !p->gathers;
}

static int node_lanes(const nodes_state *s, int m)
{
    return s->map.first[m + 1] - s->map.first[m];
}

/* A rank's part of a piece. */
static span owned(const charl_allreduce *ar, const piece *p, int rank)
{
    const int part = ar->options.within_nodes ? ar->c->peer[rank].local_rank : rank;
    span own;

    charl__range_own(&(charl__range){.count = p->count, .owner = p->owner}, part, ar->parts, &own.from, &own.to);
    return own;
}

/* Node m's share of a piece. */
static span share_of(const charl_allreduce *ar, const piece *p, int m)
{
    const nodes_state *s = ar->own;
    span share;

    if (p->gathers) {
        return (span){owned(ar, p, s->map.rank[m]).from, owned(ar, p, s->map.rank[m + 1] - 1).to};
    }
    charl__range_part(p->count, m, s->map.n_nodes, &share.from, &share.to);
    return share;
}

/* What a rank adds of the values that a piece has of its part, where sums are scattered: all, or its node's share. */
static span window_of(const charl_allreduce *ar, const piece *p, int rank)
{
    span part = owned(ar, p, rank), share;

    part.from = part.from + p->at < part.to ? part.from + p->at : part.to;
    part.to = part.from + width_of(ar) < part.to ? part.from + width_of(ar) : part.to;
    if (!ar->options.within_nodes) {
        return part;
    }
    charl__range_part(part.to - part.from, ar->c->peer[rank].node, ar->c->n_nodes, &share.from, &share.to);
    return (span){part.from + share.from, part.from + share.to};
}

/* What local rank `local` of node n owns (n is m) or carries of node m's share. */
static span share_part(const charl_allreduce *ar, const piece *p, int m, int n, int local)
{
    const span share = share_of(ar, p, m);
    span part;

    charl__range_part(share.to - share.from, local, node_size(ar->own, n), &part.from, &part.to);
    return (span){share.from + part.from, share.from + part.to};
}

/* The part that local rank `owner` of node m owns and local rank `carrier` of node n carries. */
static span meeting(const charl_allreduce *ar, const piece *p, int m, int owner, int n, int carrier)
{
    const nodes_state *s = ar->own;
    span a, b;

    if (p->gathers && ar->options.within_nodes) {
        return (span){0, 0}; /* every node has all */
    }
    if (scatters(ar, p)) {
        a = window_of(ar, p, s->map.rank[m] + owner);
        if (node_size(s, m) == node_size(s, n)) {
            return carrier == owner ? a : (span){a.from, a.from};
        }
        charl__range_part(a.to - a.from, carrier, node_size(s, n), &b.from, &b.to);
        return (span){a.from + b.from, a.from + b.to};
    }
    a = share_part(ar, p, m, m, owner);
    b = share_part(ar, p, m, n, carrier);
    return (span){a.from > b.from ? a.from : b.from, a.to < b.to ? a.to : b.to};
}

/* What this rank owns of a piece. */
static span own_part(const charl_allreduce *ar, const piece *p)
{
    const nodes_state *s = ar->own;

    return scatters(ar, p) ? window_of(ar, p, ar->c->rank) : share_part(ar, p, s->node, s->node, ar->c->local_rank);
}

/* Where the values that travel from owners to carriers lie. */
static void *result(const charl_allreduce *ar, const piece *p, int64_t at)
{
    return p->gathers ? (void *)(ar->gathered + p->offset + at) : charl__element(ar, ar->sum, p->offset + at);
}

static size_t result_unit(const charl_allreduce *ar, const piece *p)
{
    return p->gathers ? sizeof(float) : ar->element;
}

/* Values `what` of a piece, at `data`, to or from a rank. */
static charl__message message(void *data, size_t unit, span what, int rank, int tag)
{
    return (charl__message){.data = data, .unit = unit, .count = (int)(what.to - what.from), .rank = rank, .tag = tag};
}

/* Staging is bounded by the largest piece; a node lane that belongs to one rank is sent directly. */
static charl_status piece_create(const charl_allreduce *ar, piece *p)
{
    const nodes_state *s = ar->own;
    const int64_t most = ar->n < PIECE ? ar->n : PIECE;
    const int64_t width = most < width_of(ar) ? most : width_of(ar), even = most / ar->c->local_size;
    /* of whole tensors, one owner may have all that a piece has */
    const int64_t carried = (ar->owners && width > even ? width : even) + SLACK * (int64_t)ar->c->size;
    const int mine = node_lanes(s, s->node), away = ar->c->size - ar->c->local_size;
    int incoming = 0;

    for (int m = 0; m < s->map.n_nodes; m++) {
        incoming += m == s->node ? 0 : node_lanes(s, m) * node_size(s, m);
    }
    CHARL_TRY(charl__alloc_array(mine * carried, ar->element, &p->carried));
    CHARL_TRY(charl__alloc_array(s->map.n * s->part_most, ar->element, &p->received));
    CHARL_TRY(charl__alloc_array(incoming + mine * away, sizeof(charl__request), &p->scatter.request));
    CHARL_TRY(charl__alloc_array(2 * away, sizeof(charl__request), &p->gather.request));
    return CHARL_OK;
}

static charl_status state_create(charl_allreduce *ar)
{
    nodes_state *s = NULL;
    const int64_t most = ar->n < PIECE ? ar->n : PIECE;

    CHARL_TRY(charl__alloc(sizeof *s, &s));
    ar->own = s;
    CHARL_TRY(charl__node_map_init(ar->c, &ar->map, &s->map));
    CHARL_TRY(charl__alloc_array(ar->map.n, sizeof(void *), &s->lane));
    s->node = charl__comm_node(ar->c);
    s->part_most = most / s->map.n_nodes / ar->c->local_size + SLACK;
    if (ar->options.scatters && s->part_most < PIECE / ar->c->size + SLACK) {
        s->part_most = PIECE / ar->c->size + SLACK;
    }
    for (int i = 0; i < PIECES; i++) {
        s->piece[i].tag = ar->c->tags % TAG_SETS * TAGS + 2 * i;
        CHARL_TRY(piece_create(ar, &s->piece[i]));
    }
    return CHARL_OK;
}

static charl_status nodes_create(charl_allreduce *ar)
{
    charl_comm *c = ar->c;
    const size_t head = charl__round_up((size_t)c->local_size * sizeof(charl__flags), 4096);
    const size_t lane = charl__lane_bytes(ar);
    nodes_state *s;
    int first, end;
    unsigned char *data;

    CHARL_TRY(charl_comm_agree(c, state_create(ar)));
    c->tags++; /* distinguishes all-reduces that exist at the same time */
    s = ar->own;
    first = ar->map.first[s->map.rank[s->node]];
    end = ar->map.first[s->map.rank[s->node + 1]];
    CHARL_TRY(
        charl__window_create(c, head + (size_t)(end - first + !ar->options.scatters) * lane + charl__gathered_bytes(ar),
                             "the gradients' shared memory", &ar->window));
    s->flags = (charl__flags *)(void *)ar->window.base;
    data = ar->window.base + head;
    for (int k = first; k < end; k++) {
        s->lane[k] = data + (size_t)(k - first) * lane;
    }
    ar->lanes = data + (size_t)(ar->map.first[c->rank] - first) * lane;
    data += (size_t)(end - first) * lane;
    ar->sum = ar->options.scatters ? ar->lanes : data;
    if (ar->options.gathers) {
        ar->gathered = (float *)(void *)(data + (ar->options.scatters ? 0 : lane));
    }
    return CHARL_OK;
}

static void nodes_destroy(charl_allreduce *ar)
{
    nodes_state *s = ar->own;

    for (int i = 0; s && i < PIECES; i++) {
        charl_free(s->piece[i].carried);
        charl_free(s->piece[i].received);
        charl_free(s->piece[i].scatter.request);
        charl_free(s->piece[i].gather.request);
    }
    if (s) {
        charl__node_map_fini(&s->map);
        charl_free(s->lane);
    }
    charl_free(s);
}

static charl_status nodes_begin(charl_allreduce *ar, int64_t ticket)
{
    const nodes_state *s = ar->own;

    charl__flags_begin(ar, s->flags, ticket);
    return CHARL_OK;
}

/* Post receives first, also for the results, so that early messages go directly to their destination. */
static charl_status receives_begin(const charl_allreduce *ar, piece *p)
{
    const nodes_state *s = ar->own;
    const int local = ar->c->local_rank;
    const int64_t mine = own_part(ar, p).from;

    for (int m = 0; m < s->map.n_nodes; m++) {
        for (int l = 0; m != s->node && l < node_size(s, m); l++) {
            const span lane = meeting(ar, p, s->node, local, m, l), back = meeting(ar, p, m, l, s->node, local);
            const int rank = s->map.rank[m] + l;
            const charl__message v = message(result(ar, p, back.from), result_unit(ar, p), back, rank, p->tag + 1);

            for (int k = s->map.first[m]; !p->gathers && k < s->map.first[m + 1]; k++) {
                void *to = charl__element(ar, p->received, k * s->part_most + lane.from - mine);
                const charl__message one = message(to, ar->element, lane, rank, p->tag);

                CHARL_TRY(charl__messages_receive(ar, &p->scatter, &one));
            }
            CHARL_TRY(scatters(ar, p) ? CHARL_OK : charl__messages_receive(ar, &p->gather, &v));
        }
    }
    return CHARL_OK;
}

/* Part of lane k of this node: the rank's own if one rank has all of it, else summed in `to`. */
static void *node_lane(const charl_allreduce *ar, const piece *p, int k, span part, void *to)
{
    const nodes_state *s = ar->own;
    const int from = s->map.leaf[k], n = s->map.leaf[k + 1] - from;
    void *leaf[CHARL_MAX_SLICES];

    for (int i = 0; i < n; i++) {
        leaf[i] = charl__element(ar, s->lane[from + i], p->offset + part.from);
    }
    if (n == 1) {
        return leaf[0];
    }
    charl__allreduce_add(ar, s->map.inner + from, n, leaf, part.to - part.from, to);
    return to;
}

static charl_status lanes_send(const charl_allreduce *ar, piece *p)
{
    const nodes_state *s = ar->own;
    const int local = ar->c->local_rank;
    int64_t used = 0;

    for (int m = 0; m < s->map.n_nodes; m++) {
        for (int l = 0; m != s->node && l < node_size(s, m); l++) {
            const span what = meeting(ar, p, m, l, s->node, local);

            for (int k = s->map.first[s->node]; k < s->map.first[s->node + 1] && what.from < what.to; k++) {
                void *lane = node_lane(ar, p, k, what, charl__element(ar, p->carried, used));
                const charl__message v = message(lane, ar->element, what, s->map.rank[m] + l, p->tag);

                used += what.to - what.from;
                CHARL_TRY(charl__messages_send(ar, &p->scatter, &v));
            }
        }
    }
    return CHARL_OK;
}

static void part_add(const charl_allreduce *ar, const piece *p)
{
    const nodes_state *s = ar->own;
    const span mine = own_part(ar, p);
    void *leaf[CHARL_MAX_SLICES];

    for (int k = 0; k < s->map.n; k++) {
        leaf[k] = charl__element(ar, p->received, k * s->part_most);
        if (k >= s->map.first[s->node] && k < s->map.first[s->node + 1]) {
            leaf[k] = node_lane(ar, p, k, mine, leaf[k]);
        }
    }
    charl__allreduce_add(ar, s->map.adds, s->map.n, leaf, mine.to - mine.from, result(ar, p, mine.from));
}

static charl_status results_send(const charl_allreduce *ar, piece *p)
{
    const nodes_state *s = ar->own;
    const int local = ar->c->local_rank;

    for (int m = 0; m < s->map.n_nodes; m++) {
        for (int l = 0; m != s->node && l < node_size(s, m); l++) {
            const span what = meeting(ar, p, s->node, local, m, l);
            const charl__message v =
                message(result(ar, p, what.from), result_unit(ar, p), what, s->map.rank[m] + l, p->tag + 1);

            if (scatters(ar, p)) { /* the others' sums, to where lanes have been sent from */
                const span back = meeting(ar, p, m, l, s->node, local);
                const charl__message u =
                    message(result(ar, p, back.from), result_unit(ar, p), back, s->map.rank[m] + l, p->tag + 1);

                CHARL_TRY(charl__messages_receive(ar, &p->gather, &u));
            }
            CHARL_TRY(charl__messages_send(ar, &p->gather, &v));
        }
    }
    return CHARL_OK;
}

static charl_status piece_start(charl_allreduce *ar, piece *p)
{
    nodes_state *s = ar->own;
    const charl__range range = ar->range[s->ticket % CHARL__RANGES];
    const int64_t left = range.count - s->at;

    p->phase = SCATTER;
    p->ticket = s->ticket;
    p->gathers = range.gathers;
    p->owner = range.owner;
    if (scatters(ar, p)) {
        p->offset = range.offset;
        p->count = range.count;
        p->at = s->at;
        p->is_last = s->at + width_of(ar) >= charl__range_most(&range, ar->parts);
        s->at += width_of(ar);
    } else {
        p->offset = range.offset + s->at;
        p->count = range.gathers || left < PIECE ? left : PIECE;
        p->is_last = p->count == left;
        s->at += p->count;
    }
    p->scatter.n = p->gather.n = 0;
    s->at = p->is_last ? 0 : s->at;
    s->ticket += p->is_last;
    s->started++;
    CHARL_REQUIRE(!p->gathers || p->count <= INT_MAX, CHARL_ERR_INVALID, "gathering %lld values at once",
                  (long long)p->count);
    charl__comm_enter(ar->c);
    CHARL_TRY(receives_begin(ar, p));
    if (!p->gathers) {
        CHARL_TRY(lanes_send(ar, p));
    }
    return CHARL_OK;
}

static charl_status piece_advance(const charl_allreduce *ar, piece *p)
{
    bool is_done = false;

    if (p->phase == SCATTER) {
        CHARL_TRY(charl__messages_test(ar, &p->scatter, &is_done));
        if (is_done) {
            if (!p->gathers) {
                part_add(ar, p);
            }
            CHARL_TRY(scatters(ar, p) && !ar->options.within_nodes ? CHARL_OK : results_send(ar, p));
            p->phase = GATHER;
        }
    }
    if (p->phase == GATHER) {
        CHARL_TRY(charl__messages_test(ar, &p->gather, &is_done));
        p->phase = is_done ? OVER : GATHER;
    }
    return CHARL_OK;
}

/* Start the next piece if there is one and this node's ranks are ready for it. */
static charl_status next_start(charl_allreduce *ar, bool *moved)
{
    nodes_state *s = ar->own;

    if (s->ticket >= ar->begun || s->started - s->ended >= PIECES) {
        return CHARL_OK;
    }
    if (s->all_ready <= s->ticket) {
        s->all_ready = charl__flags_ready(ar, s->flags);
    }
    if (s->all_ready > s->ticket) {
        if (s->at == 0) {
            CHARL_TRY(charl__flags_compare(ar, s->flags, s->ticket));
        }
        CHARL_TRY(piece_start(ar, &s->piece[s->started % PIECES]));
        *moved = true;
    }
    return CHARL_OK;
}

static charl_status nodes_progress(charl_allreduce *ar)
{
    charl_status st = CHARL_OK;
    nodes_state *s = ar->own;
    int64_t done;

    for (bool moved = true; moved;) {
        moved = false;
        CHARL_TRY_CLEANUP(next_start(ar, &moved));
        for (int64_t k = s->ended; k < s->started; k++) {
            CHARL_TRY_CLEANUP(piece_advance(ar, &s->piece[k % PIECES]));
        }
        while (s->ended < s->started && s->piece[s->ended % PIECES].phase == OVER) {
            const piece *p = &s->piece[s->ended++ % PIECES];

            if (p->is_last) {
                atomic_store_explicit(&s->flags[ar->c->local_rank].done, p->ticket + 1, memory_order_release);
            }
            moved = true;
        }
    }
    done = charl__flags_done(ar, s->flags);
    ar->completed = done < ar->begun ? done : ar->begun;
cleanup:
    ar->c->is_broken = ar->c->is_broken || st != CHARL_OK;
    return st;
}

static bool nodes_late(const void *arg, int rank)
{
    const charl_allreduce *ar = arg;
    const nodes_state *s = ar->own;

    if (ar->c->peer[rank].node == s->node) {
        return charl__flags_late(ar, s->flags, rank);
    }
    for (int64_t k = s->ended; k < s->started; k++) {
        const piece *p = &s->piece[k % PIECES];

        if ((p->phase == SCATTER && charl__messages_await(ar, &p->scatter, rank)) ||
            (p->phase == GATHER && charl__messages_await(ar, &p->gather, rank))) {
            return true;
        }
    }
    return false;
}

const charl__algorithm charl__allreduce_hierarchical = {
    .row.name = "hierarchical",
    .row.help = "any ranks: shared memory within a node, MPI messages of the partial sums between nodes",
    .preference = 4,
    .is_invariant = true,
    .has_bf16 = true,
    .has_gather = true,
    .has_scatter = true,
    .has_nodes = true,
    .unavailable = nodes_unavailable,
    .create = nodes_create,
    .destroy = nodes_destroy,
    .begin = nodes_begin,
    .progress = nodes_progress,
    .late = nodes_late,
};
