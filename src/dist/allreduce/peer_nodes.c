/* The all-reduce "peer" between nodes of equal size: ranks with the same local rank exchange their part of each range.
 *
 *     scatter    A kernel computes the sums of the node's lanes for this rank's part (peer_scatter.cl), which are then copied to the host.
 *     exchange   Messages, in pieces. A piece has one share per node. Each rank sends its lanes of a share to the share's node, adds all lanes
 *                of its own node's share, and sends the sum back to all nodes.
 *     gather     The piece is copied to the device. After the last piece of a range, a kernel sends the part to the other ranks of the node
 *                (peer_gather.cl).
 *
 * A range that gathers has values instead of sums: each rank sends its part to all nodes, and one kernel per node follows.
 *
 * The host enqueues scatter and copy when a range begins, far ahead of the device. Calls of progress, and join, exchange what has been copied.
 * So exchanges overlap with the backward pass.
 *
 * Order    Kernels that wait for each other must be enqueued in the same order on all ranks of a node. Scatter and gather have a queue each, in
 *          the order of ranges, and run concurrently. On a CPU device, one kernel may occupy all threads: there, both share a queue, and
 *          gather is enqueued only when the rank waits for all ranges begun, or has begun BACKLOG more.
 * Staging  host memory for the parts of all ranges in flight, one after another; it starts over whenever nothing is in flight.
 */
#include "dist/allreduce/peer_private.h"

#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/parallel.h"

enum { PIECE = 1 << 20 /* values */, PIECES = 8, TAGS = 2 * PIECES, TAG_SETS = 1024, BACKLOG = 64 };
enum { ADD_BLOCK = 1 << 16 /* values */, ADD_THREADS = 4 };

typedef struct span {
    int64_t from, to;
} span;

typedef enum piece_phase { SCATTER, GATHER, OVER } piece_phase;

typedef struct piece {
    piece_phase phase;
    int64_t ticket;
    span at; /* of my part; of a range that gathers, of every part */
    bool is_last;
    int tag;
    unsigned char *received; /* [lanes of all nodes][share_most]: my share */
    charl__messages scatter, gather;
} piece;

/* A range in flight. */
typedef struct part {
    span mine;              /* relative to the range */
    int64_t width;          /* of a part in staging */
    size_t unit;            /* bytes of a value */
    unsigned char *staging; /* [my node's lanes, at least one][width]; of a range that gathers [nodes][width] */
    charl__event *copied;   /* staging has what scatter left, or my values; NULL: it has been seen */
    bool shares;
} part;

struct charl__peer_nodes {
    int node, n_nodes;
    int lanes;          /* of this node */
    int64_t share_most; /* of a piece */
    unsigned char *staging;
    charl_pinned *pinned; /* staging, for transfers at full speed; or NULL */
    size_t room, used;    /* bytes */
    part part[CHARL__RANGES];
    piece piece[PIECES];    /* piece k in [k % PIECES] */
    int64_t started, ended; /* pieces */
    int64_t ticket, at;     /* of the next piece */
    int64_t exchanged;      /* ranges whose pieces are all over */
    int64_t gathered;       /* ranges whose last kernels have been enqueued */
};

static charl__peer_nodes *nodes_of(const charl_allreduce *ar)
{
    return ((const charl__peer_state *)ar->own)->nodes;
}

static charl__range range_at(const charl_allreduce *ar, int64_t ticket)
{
    return ar->range[ticket % CHARL__RANGES];
}

static part *part_at(charl__peer_nodes *n, int64_t ticket)
{
    return &n->part[ticket % CHARL__RANGES];
}

/* The rank of node m that has the same local rank as this one. */
static int counterpart(const charl_allreduce *ar, int m)
{
    return ar->c->node_first[m] + ar->c->local_rank;
}

/* What the counterpart in node m has of a range: of sums, all have the same. */
static span part_of(const charl_allreduce *ar, charl__range range, int m)
{
    span s;

    if (range.gathers) {
        charl__range_part(range.count, counterpart(ar, m), ar->c->size, &s.from, &s.to);
    } else {
        charl__range_part(range.count, ar->c->local_rank, ar->c->local_size, &s.from, &s.to);
    }
    return s;
}

static int64_t length(span s)
{
    return s.to - s.from;
}

/* Node m's share of a piece, relative to my part. */
static span share_of(const charl__peer_nodes *n, const piece *p, int m)
{
    span s;

    charl__range_part(length(p->at), m, n->n_nodes, &s.from, &s.to);
    return (span){p->at.from + s.from, p->at.from + s.to};
}

/* What a piece has of the values of node m, relative to their part. */
static span values_of(const charl_allreduce *ar, const piece *p, int m)
{
    const int64_t count = length(part_of(ar, range_at(ar, p->ticket), m));

    return (span){p->at.from < count ? p->at.from : count, p->at.to < count ? p->at.to : count};
}

static charl_status piece_create(const charl_allreduce *ar, charl__peer_nodes *n, piece *p)
{
    const charl__peer_state *s = ar->own;
    const int64_t others = n->n_nodes - 1, lanes = s->node_map.n;

    CHARL_TRY(charl__alloc_array(lanes * n->share_most, ar->element, &p->received));
    CHARL_TRY(charl__alloc_array(others * n->lanes + lanes, sizeof(charl__request), &p->scatter.request));
    CHARL_TRY(charl__alloc_array(2 * others, sizeof(charl__request), &p->gather.request));
    return CHARL_OK;
}

/* Every range adds at most a block of each part to a rank's share; a range that does not fit waits. */
static charl_status staging_create(charl_allreduce *ar, charl__peer_nodes *n)
{
    const charl__peer_state *s = ar->own;
    const int64_t parts = n->lanes > 1 ? n->lanes : 1, blocks = ar->stride / ar->c->local_size / CHARL__PART;
    const size_t unit = ar->options.gathers ? sizeof(float) : ar->element;

    n->room = charl__round_up((size_t)((blocks + 2 * BACKLOG + n->n_nodes) * CHARL__PART * parts) * unit, CHARL__PAGE);
    CHARL_TRY(charl__alloc_aligned(CHARL__PAGE, n->room, &n->staging));
    /* Not allocated by the driver: other processes can read this process's pages in a single copy. */
    if (!s->in_place && charl__pinned_wrap(s->dev, n->staging, n->room, &n->pinned) != CHARL_OK) {
        charl__log(CHARL_LOG_WARN, "gradients are copied at lower speed: %s", charl_error_message());
        charl_error_clear();
    }
    return CHARL_OK;
}

charl_status charl__peer_nodes_create(charl_allreduce *ar)
{
    charl__peer_state *s = ar->own;
    charl__peer_nodes *n = NULL;

    CHARL_TRY(charl__alloc(sizeof *n, &n));
    s->nodes = n;
    n->node = charl__comm_node(ar->c);
    n->n_nodes = ar->c->n_nodes;
    n->lanes = s->node_map.first[n->node + 1] - s->node_map.first[n->node];
    n->share_most = PIECE / n->n_nodes + CHARL__PART;
    for (int i = 0; i < PIECES; i++) {
        n->piece[i].tag = ar->c->tags % TAG_SETS * TAGS + 2 * i;
        CHARL_TRY(piece_create(ar, n, &n->piece[i]));
    }
    ar->c->tags++; /* distinguishes all-reduces that exist at the same time */
    CHARL_TRY(staging_create(ar, n));
    return CHARL_OK;
}

void charl__peer_nodes_destroy(charl__peer_nodes *n)
{
    if (!n) {
        return;
    }
    for (int i = 0; i < PIECES; i++) {
        charl_free(n->piece[i].received);
        charl_free(n->piece[i].scatter.request);
        charl_free(n->piece[i].gather.request);
    }
    for (int i = 0; i < CHARL__RANGES; i++) {
        charl__event_release(n->part[i].copied);
    }
    charl_pinned_destroy(n->pinned);
    charl_free(n->staging);
    charl_free(n);
}

/* Bytes of a value: gathered values are f32. */
static size_t unit_of(const charl_allreduce *ar, charl__range range)
{
    return range.gathers ? sizeof(float) : ar->element;
}

/* Values `from` on of the array that a range completes, its lane j. */
static size_t device_offset(const charl_allreduce *ar, charl__range range, int j, int64_t from)
{
    return (size_t)(j * ar->stride + range.offset + from) * unit_of(ar, range);
}

static charl__buffer *device_array(const charl_allreduce *ar, charl__range range)
{
    return range.gathers ? ar->device_values : ar->device_sum;
}

/* Value i of a lane of sums, or of the gathered values of a node. */
static unsigned char *staging_at(const part *t, int row, int64_t i)
{
    return t->staging + (size_t)(row * t->width + i) * t->unit;
}

/* Copy the output of scatter, or this rank's values, to staging, then the state. */
static charl_status part_copy(charl_allreduce *ar, charl__range range, part *t)
{
    const charl__peer_state *s = ar->own;
    const int lanes = range.gathers ? 1 : s->nodes->lanes;
    const size_t bytes = (size_t)length(t->mine) * t->unit;

    for (int j = 0; j < lanes && bytes > 0; j++) {
        CHARL_TRY(charl__buffer_read(CHARL_QUEUE_DOWNLOAD, device_array(ar, range),
                                     device_offset(ar, range, j, t->mine.from),
                                     staging_at(t, range.gathers ? s->nodes->node : j, 0), bytes, false));
    }
    if (s->in_place) {
        return charl__event_record(s->dev, CHARL_QUEUE_DOWNLOAD, &t->copied);
    }
    return charl__buffer_fetch(CHARL_QUEUE_DOWNLOAD, s->state, 0, s->seen, 2 * sizeof *s->seen, &t->copied);
}

/* Sums on a CPU device are not copied: a copy is a command too, and waiting kernels occupy its threads. */
static bool is_left(const charl__peer_state *s, charl__range range)
{
    return s->in_place && !range.gathers;
}

static charl_status scatter(charl_allreduce *ar, charl__range range, const charl__event *written)
{
    const charl__peer_state *s = ar->own;

    if (s->lanes == 0) {
        return CHARL_OK;
    }
    return charl__peer_enqueue(
        ar, &(charl__peer_launch){
                .way = CHARL__PEER_SCATTER, .range = range, .shares = ar->shares, .parts = s->ranks, .after = written});
}

static charl_status part_begin(charl_allreduce *ar, charl__range range, part *t, const charl__event *written)
{
    const charl__peer_state *s = ar->own;
    CHARL_SCOPED(charl__event_left) charl__event *scattered = NULL;

    if (!range.gathers) {
        CHARL_TRY(scatter(ar, range, written));
        CHARL_TRY(charl__event_record(s->dev, CHARL_QUEUE_COMM, &scattered));
    }
    if (is_left(s, range)) {
        t->copied = scattered;
        scattered = NULL;
        return CHARL_OK;
    }
    CHARL_TRY(charl__queue_wait(s->dev, CHARL_QUEUE_DOWNLOAD, range.gathers ? written : scattered));
    CHARL_TRY(part_copy(ar, range, t));
    return CHARL_OK;
}

/* Nothing is in flight: staging starts over, once the device has read it. */
static charl_status staging_reset(charl_allreduce *ar)
{
    const charl__peer_state *s = ar->own;
    charl__event *read = NULL;
    charl_status st;

    s->nodes->used = 0;
    CHARL_TRY(charl__event_record(s->dev, charl__peer_gather_queue(s), &read));
    st = charl__queue_wait(s->dev, CHARL_QUEUE_DOWNLOAD, read);
    charl__event_release(read);
    return st;
}

/* Reserve room in staging for range number `ticket`; *taken is false if other ranges use it. */
static charl_status staging_reserve(charl_allreduce *ar, int64_t ticket, bool *taken)
{
    charl__peer_nodes *n = nodes_of(ar);
    const charl__range range = range_at(ar, ticket);
    const int64_t parts = range.gathers ? n->n_nodes : n->lanes > 1 ? n->lanes : 1;
    const size_t unit = unit_of(ar, range);
    int64_t width = 0;
    size_t bytes;

    for (int m = 0; m < n->n_nodes; m++) {
        const int64_t one = length(part_of(ar, range, m));

        width = one > width ? one : width;
    }
    if (n->gathered == ticket && n->used > 0) {
        CHARL_TRY(staging_reset(ar));
    }
    bytes = charl__round_up((size_t)(parts * width) * unit, CHARL__LINE);
    *taken = n->used + bytes <= n->room;
    if (*taken) {
        *part_at(n, ticket) = (part){.mine = part_of(ar, range, n->node),
                                     .width = width,
                                     .unit = unit,
                                     .staging = n->staging + n->used,
                                     .shares = ar->shares};
        n->used += bytes;
    }
    return CHARL_OK;
}

/* Values `what` of a part, at data, to or from node m. */
static charl__message message(const charl_allreduce *ar, const part *t, void *data, span what, int m, int tag)
{
    return (charl__message){
        .data = data, .unit = t->unit, .count = (int)length(what), .rank = counterpart(ar, m), .tag = tag};
}

/* My share of a piece from a lane of another node. */
static unsigned char *received_at(const charl_allreduce *ar, const charl__peer_nodes *n, const piece *p, int lane)
{
    return p->received + (size_t)(lane * n->share_most) * ar->element;
}

/* Lanes of shares: receive those of this node's share, send those of the others'. */
static charl_status lanes_exchange(charl_allreduce *ar, piece *p)
{
    const charl__peer_state *s = ar->own;
    charl__peer_nodes *n = s->nodes;
    const part *t = part_at(n, p->ticket);
    const int *first = s->node_map.first;

    for (int m = 0; m < n->n_nodes; m++) {
        for (int k = first[m]; m != n->node && k < first[m + 1]; k++) {
            const charl__message v = message(ar, t, received_at(ar, n, p, k), share_of(n, p, n->node), m, p->tag);

            CHARL_TRY(charl__messages_receive(ar, &p->scatter, &v));
        }
    }
    for (int m = 0; m < n->n_nodes; m++) {
        const span share = share_of(n, p, m);

        for (int j = 0; m != n->node && j < n->lanes; j++) {
            const charl__message v = message(ar, t, staging_at(t, j, share.from), share, m, p->tag);

            CHARL_TRY(charl__messages_send(ar, &p->scatter, &v));
        }
    }
    return CHARL_OK;
}

typedef struct addition {
    const charl_allreduce *ar;
    unsigned char *leaf[CHARL_MAX_SLICES];
    unsigned char *out;
    int64_t count;
} addition;

static void block_add(void *ctx, int64_t i)
{
    const addition *a = ctx;
    const charl__node_map *map = &((const charl__peer_state *)a->ar->own)->node_map;
    const size_t at = (size_t)(i * ADD_BLOCK) * a->ar->element;
    const int64_t left = a->count - i * ADD_BLOCK;
    void *leaf[CHARL_MAX_SLICES];

    for (int k = 0; k < map->n; k++) {
        leaf[k] = a->leaf[k] + at;
    }
    charl__allreduce_add(a->ar, map->adds, map->n, leaf, left < ADD_BLOCK ? left : ADD_BLOCK, a->out + at);
}

/* Sum this rank's share of a piece, over the lanes of all nodes, into staging's first lane, one of them. */
static void share_add(const charl_allreduce *ar, const piece *p)
{
    const charl__peer_state *s = ar->own;
    charl__peer_nodes *n = s->nodes;
    const part *t = part_at(n, p->ticket);
    const span mine = share_of(n, p, n->node);
    const int first = s->node_map.first[n->node];
    addition a = {.ar = ar, .out = staging_at(t, 0, mine.from), .count = length(mine)};

    for (int k = 0; k < s->node_map.n; k++) {
        const bool is_own = k >= first && k < first + n->lanes;

        a.leaf[k] = is_own ? staging_at(t, k - first, mine.from) : received_at(ar, n, p, k);
    }
    charl__parallel_by(ADD_THREADS, (a.count + ADD_BLOCK - 1) / ADD_BLOCK, block_add, &a);
}

/* Sums of shares, or values: send this rank's to all other nodes, receive theirs. */
static charl_status results_exchange(charl_allreduce *ar, piece *p)
{
    charl__peer_nodes *n = nodes_of(ar);
    const part *t = part_at(n, p->ticket);
    const bool gathers = range_at(ar, p->ticket).gathers;

    for (int m = 0; m < n->n_nodes; m++) {
        const span theirs = gathers ? values_of(ar, p, m) : share_of(n, p, m);
        const charl__message v = message(ar, t, staging_at(t, gathers ? m : 0, theirs.from), theirs, m, p->tag + 1);

        if (m != n->node) {
            CHARL_TRY(charl__messages_receive(ar, &p->gather, &v));
        }
    }
    for (int m = 0; m < n->n_nodes; m++) {
        const span mine = gathers ? values_of(ar, p, n->node) : share_of(n, p, n->node);
        const charl__message v = message(ar, t, staging_at(t, gathers ? n->node : 0, mine.from), mine, m, p->tag + 1);

        if (m != n->node) {
            CHARL_TRY(charl__messages_send(ar, &p->gather, &v));
        }
    }
    return CHARL_OK;
}

/* Values of a part that begins at `begin` of the range, from a row of staging to the device. */
static charl_status upload(charl_allreduce *ar, charl__range range, const part *t, int row, int64_t begin, span what)
{
    const size_t bytes = (size_t)length(what) * t->unit;

    if (bytes == 0) {
        return CHARL_OK;
    }
    return charl__buffer_write(charl__peer_gather_queue(ar->own), device_array(ar, range),
                               device_offset(ar, range, 0, begin + what.from), staging_at(t, row, what.from), bytes,
                               false);
}

/* Copy received data to the device. */
static charl_status piece_upload(charl_allreduce *ar, const piece *p)
{
    const charl__peer_state *s = ar->own;
    charl__peer_nodes *n = s->nodes;
    const charl__range range = range_at(ar, p->ticket);
    const part *t = part_at(n, p->ticket);

    for (int m = 0; range.gathers && m < n->n_nodes; m++) {
        if (m != n->node) {
            CHARL_TRY(upload(ar, range, t, m, part_of(ar, range, m).from, values_of(ar, p, m)));
        }
    }
    if (is_left(s, range)) {
        memcpy(charl__element(ar, ar->sum, range.offset + t->mine.from + p->at.from), staging_at(t, 0, p->at.from),
               (size_t)length(p->at) * t->unit);
    } else if (!range.gathers) {
        CHARL_TRY(upload(ar, range, t, 0, t->mine.from, p->at));
    }
    return CHARL_OK;
}

/* Whether my part is in staging. */
static charl_status part_is_here(charl_allreduce *ar, int64_t ticket, bool *out)
{
    const charl__peer_state *s = ar->own;
    const charl__range range = range_at(ar, ticket);
    part *t = part_at(s->nodes, ticket);

    *out = !t->copied;
    if (*out) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__event_is_done(t->copied, out));
    if (!*out) {
        return CHARL_OK;
    }
    charl__event_release(t->copied);
    t->copied = NULL;
    if (s->is_trusted) {                  /* otherwise the messages of a failed trial would not end */
        CHARL_TRY(charl__peer_check(ar)); /* the result of a kernel that has lost a rank must not be sent */
    }
    for (int j = 0; is_left(s, range) && j < s->nodes->lanes; j++) {
        memcpy(staging_at(t, j, 0), charl__element(ar, ar->sum, j * ar->stride + range.offset + t->mine.from),
               (size_t)length(t->mine) * t->unit);
    }
    return CHARL_OK;
}

static charl_status piece_start(charl_allreduce *ar, piece *p)
{
    charl__peer_nodes *n = nodes_of(ar);
    const int64_t left = part_at(n, n->ticket)->width - n->at, count = left < PIECE ? left : PIECE;

    p->phase = SCATTER;
    p->ticket = n->ticket;
    p->at = (span){n->at, n->at + count};
    p->is_last = count == left;
    p->scatter.n = p->gather.n = 0;
    n->at = p->is_last ? 0 : n->at + count;
    n->ticket += p->is_last;
    n->started++;
    charl__comm_enter(ar->c);
    if (!range_at(ar, p->ticket).gathers) {
        CHARL_TRY(lanes_exchange(ar, p));
    }
    return CHARL_OK;
}

static charl_status piece_advance(charl_allreduce *ar, piece *p)
{
    bool is_done = false;

    if (p->phase == SCATTER) {
        CHARL_TRY(charl__messages_test(ar, &p->scatter, &is_done));
        if (is_done) {
            if (!range_at(ar, p->ticket).gathers) {
                share_add(ar, p);
            }
            CHARL_TRY(results_exchange(ar, p));
            p->phase = GATHER;
        }
    }
    if (p->phase == GATHER) {
        CHARL_TRY(charl__messages_test(ar, &p->gather, &is_done));
        p->phase = is_done ? OVER : GATHER;
    }
    return CHARL_OK;
}

/* The kernels that end a range. */
static charl_status gather(charl_allreduce *ar, int64_t ticket)
{
    const charl__peer_state *s = ar->own;
    charl__peer_nodes *n = s->nodes;
    charl__peer_launch l = {.way = CHARL__PEER_GATHER,
                            .range = range_at(ar, ticket),
                            .shares = part_at(n, ticket)->shares,
                            .parts = s->ranks};

    if (l.range.count > 0 && !l.range.gathers) {
        CHARL_TRY(charl__peer_enqueue(ar, &l));
    }
    for (int m = 0; l.range.count > 0 && l.range.gathers && m < n->n_nodes; m++) {
        l.way = CHARL__PEER_GATHER_VALUES;
        l.first = ar->c->node_first[m];
        l.parts = ar->c->size;
        CHARL_TRY(charl__peer_enqueue(ar, &l));
    }
    n->gathered = ticket + 1;
    atomic_store(&charl__peer_page_of(s, ar->c->rank)->gathered, n->gathered);
    return CHARL_OK;
}

/* Start the next piece if there is one and room for it. */
static charl_status next_start(charl_allreduce *ar, int64_t end, bool *moved)
{
    charl__peer_nodes *n = nodes_of(ar);
    bool is_here = false;

    if (n->ticket >= end || n->started - n->ended >= PIECES) {
        return CHARL_OK;
    }
    CHARL_TRY(part_is_here(ar, n->ticket, &is_here));
    if (is_here) {
        CHARL_TRY(piece_start(ar, &n->piece[n->started % PIECES]));
        *moved = true;
    }
    return CHARL_OK;
}

static charl_status pieces_advance(charl_allreduce *ar, bool *moved)
{
    charl__peer_nodes *n = nodes_of(ar);

    for (int64_t k = n->ended; k < n->started; k++) {
        CHARL_TRY(piece_advance(ar, &n->piece[k % PIECES]));
    }
    while (n->ended < n->started && n->piece[n->ended % PIECES].phase == OVER) {
        const piece *p = &n->piece[n->ended % PIECES];

        CHARL_TRY(piece_upload(ar, p));
        n->exchanged += p->is_last;
        n->ended++;
        *moved = true;
    }
    return CHARL_OK;
}

/* Make progress on the ranges before `end` without waiting. is_final: this rank begins no other range before these are complete, and
 * neither do the other ranks of its node. */
static charl_status advance(charl_allreduce *ar, int64_t end, bool is_final)
{
    charl_status st = CHARL_OK;
    const charl__peer_state *s = ar->own;
    charl__peer_nodes *n = s->nodes;

    for (bool moved = true; moved;) {
        moved = false;
        CHARL_TRY_CLEANUP(next_start(ar, end, &moved));
        CHARL_TRY_CLEANUP(pieces_advance(ar, &moved));
    }
    while (n->gathered < n->exchanged && (!s->in_place || (is_final && n->exchanged == end))) {
        CHARL_TRY_CLEANUP(gather(ar, n->gathered));
    }
cleanup:
    ar->c->is_broken = ar->c->is_broken || st != CHARL_OK;
    return st;
}

/* Wait for the exchanges of all ranges before `ticket`, and enqueue what follows them. */
static charl_status flush_before(charl_allreduce *ar, int64_t ticket)
{
    charl__peer_nodes *n = nodes_of(ar);
    charl__waiter w;

    charl__wait_start(ar->c, &w, "all-reduce", ar->algorithm->late, ar);
    w.has_messages = true;
    for (;;) {
        CHARL_TRY(advance(ar, ticket, true));
        if (n->gathered == ticket) {
            return CHARL_OK;
        }
        CHARL_TRY(charl__wait_pause(ar->c, &w));
    }
}

charl_status charl__peer_nodes_begin(charl_allreduce *ar, int64_t ticket, const charl__event *written)
{
    charl__peer_nodes *n = nodes_of(ar);
    const charl__range range = range_at(ar, ticket);
    bool taken = false;

    if (range.count == 0) {
        *part_at(n, ticket) = (part){.staging = n->staging};
        return CHARL_OK;
    }
    if (ticket - n->gathered < BACKLOG) {
        CHARL_TRY(staging_reserve(ar, ticket, &taken));
    }
    if (!taken) {
        CHARL_TRY(flush_before(ar, ticket));
        CHARL_TRY(staging_reserve(ar, ticket, &taken));
        CHARL_INVARIANT(taken);
    }
    CHARL_TRY(part_begin(ar, range, part_at(n, ticket), written));
    return CHARL_OK;
}

charl_status charl__peer_nodes_progress(charl_allreduce *ar)
{
    return advance(ar, ar->begun, ar->waits);
}

charl_status charl__peer_nodes_flush(charl_allreduce *ar)
{
    return flush_before(ar, ar->begun);
}

int64_t charl__peer_nodes_gathered(const charl__peer_nodes *n)
{
    return n->gathered;
}

bool charl__peer_nodes_exchange(const charl__peer_nodes *n)
{
    return n->ended < n->started;
}

bool charl__peer_nodes_late(const charl_allreduce *ar, int rank)
{
    charl__peer_nodes *n = nodes_of(ar);

    for (int64_t k = n->ended; k < n->started; k++) {
        piece *p = &n->piece[k % PIECES];

        if ((p->phase == SCATTER && charl__messages_await(ar, &p->scatter, rank)) ||
            (p->phase == GATHER && charl__messages_await(ar, &p->gather, rank))) {
            return true;
        }
    }
    return false;
}
