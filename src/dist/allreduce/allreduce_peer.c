/* The all-reduce "peer": the devices of a node add the gradients themselves, in memory that they map into each other.
 *
 *     one node         one kernel per range (kernels/peer/peer.cl, of few values kernels/peer/peer_words.cl)
 *     several nodes    peer_scatter.cl leaves the sum of this node's lanes of part r on its rank r; the ranks r of all nodes add them by messages
 *                      (peer_nodes.c); peer_gather.cl sends the sums to the others of the node
 *     gathering        peer_gather.cl, over the parameters in place
 *
 * The lanes and the sum are in this device's own memory. Each rank shares a staging buffer: flags, and
 * slots through which tiles pass, some tens of megabytes for any size of model. Begin enqueues
 * the kernel after the launches that write the lanes and does not wait; launches that read the sum are
 * ordered after it on the device (join); the host checks the result when it waits (verify).
 */
#include "dist/allreduce/peer_private.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/numeric/divide.h"
#include "base/numeric/bf16.h"

enum { FLAG_BYTES = 128, SETS = 4 }; /* of a work-group: FLAGS and SETS of peer_box.clh */
enum { PACK_BYTES = 16 };            /* peer_tiles.clh */
enum { MAX_BOX_BYTES = 256 << 20 };  /* what the driver imports safely */
static const double grace_s = 5;     /* the host reports an error before the kernel gives up */
static const double try_s = 20;      /* if stores to other devices are lost, waiting is in vain */

typedef charl__peer_state peer_state;

static bool is_one_node(const charl_allreduce *ar)
{
    return ar->c->n_nodes == 1;
}

/* Whether there is a kernel that sends parts of an array to the other ranks. */
static bool has_gather(const charl_allreduce *ar)
{
    return !is_one_node(ar) || ar->options.gathers;
}

/* File and entry of each kernel; and how many of its arguments are not the same for every range: all but the block. */
static const struct kernel {
    const char *file, *entry;
    int n_changing;
} kernels[CHARL__PEER_WAYS] = {
    [CHARL__PEER_WORDS] = {"peer/peer_words", "charl_peer_words", 5},
    [CHARL__PEER_TILES] = {"peer/peer", "charl_peer_sum", 6},
    [CHARL__PEER_SCATTER] = {"peer/peer_scatter", "charl_peer_scatter", 6},
    [CHARL__PEER_GATHER] = {"peer/peer_gather", "charl_peer_gather", 8},
    [CHARL__PEER_GATHER_VALUES] = {"peer/peer_gather", "charl_peer_gather", 8},
};

static const char *peer_unavailable(const charl_comm *c)
{
    return c->size == 1 ? "there is one rank" : NULL;
}

static size_t box_bytes(const charl_allreduce *ar, const peer_state *s)
{
    const size_t local = (size_t)s->local, both = (size_t)(s->lanes + s->ranks),
                 tile = local * (size_t)s->packs * PACK_BYTES;
    const size_t slots = SETS * both * tile, words = 2 * both * local * 32;
    const size_t gather = has_gather(ar) ? FLAG_BYTES + SETS * (size_t)s->ranks * tile : 0;

    return charl__round_up((size_t)s->tuning.groups * (FLAG_BYTES + slots + words + gather), CHARL__PAGE);
}

/* The more lanes are added at once, the fewer packs of each fit into registers. On a GPU the
 * number of bytes in flight matters. Work-groups do not wait for others of their
 * own device, but they should all run at once: two on each of an H200's 132 compute units, so that one
 * sends while the other waits. Beside products, fewer work-groups occupy fewer units for longer: 64 of 128
 * work-items cost a step of GPT-2 on four H200 the same as 32, 64 or 128 of 256. */
static void shape_choose(charl_allreduce *ar, peer_state *s)
{
    const bool gpu = charl_device_get_info(s->dev)->kind == CHARL_DEVICE_GPU;
    const bool is_pair = s->ranks == 2;
    const int lanes = s->lanes;

    s->local = is_pair ? 256 : 128;
    s->packs = (lanes <= 4 ? 4 : lanes <= 8 ? 2 : 1) * (is_pair || lanes > 16 ? 1 : 2);
    s->tuning = (charl__peer_tuning){
        .groups = gpu ? 256 : 2, .groups_beside = gpu ? 64 : 1, .words_bytes = 1 << 20, .words_left = UINT32_MAX};
    for (int r = s->first_rank; r < s->first_rank + s->ranks; r++) {
        if (ar->map.first[r] == ar->map.first[r + 1] || ar->options.scatters) { /* see peer_words.cl */
            s->tuning.words_left = 0;
        }
    }
    while (s->tuning.groups > 1 && box_bytes(ar, s) > MAX_BOX_BYTES) {
        s->tuning.groups /= 2;
    }
    if (s->tuning.groups_beside > s->tuning.groups) {
        s->tuning.groups_beside = s->tuning.groups;
    }
}

/* The adds of a range: of one node to the sum, else to the node's lanes, each of which begins at one of the ranks' lanes. */
static charl_status adds_write(const charl_allreduce *ar, peer_state *s)
{
    const int node = charl__comm_node(ar->c);

    for (int k = 0; is_one_node(ar) && k < ar->map.n - 1; k++) {
        CHARL_TRY(charl__text_printf(&s->adds, " X(v, k, %d, %d)", ar->map.adds[k].dst, ar->map.adds[k].src));
    }
    for (int k = s->node_map.first[node]; !is_one_node(ar) && k < s->node_map.first[node + 1]; k++) {
        const int leaf = s->node_map.leaf[k], n = s->node_map.leaf[k + 1] - leaf, at = leaf - s->first_lane;

        for (int i = 0; i < n - 1; i++) {
            const charl__tree_add add = s->node_map.inner[leaf + i];

            CHARL_TRY(charl__text_printf(&s->adds, " X(v, k, %d, %d)", at + add.dst, at + add.src));
        }
        CHARL_TRY(charl__text_printf(&s->results, " X(g, t, v, %d, %d)", k - s->node_map.first[node], at));
    }
    return CHARL_OK;
}

static charl_status params_write(const charl_allreduce *ar, peer_state *s)
{
    for (int r = 0; r < s->ranks; r++) {
        CHARL_TRY(charl__text_printf(&s->each_rank, " X(%d)", r));
    }
    for (int l = 0; l < s->lanes; l++) {
        CHARL_TRY(charl__text_printf(&s->owners, " %d,", ar->map.rank[s->first_lane + l] - s->first_rank));
    }
    for (int r = 0; r < s->ranks; r++) {
        CHARL_TRY(charl__text_printf(&s->owners, " %d,", r));
    }
    CHARL_TRY(adds_write(ar, s));
    return CHARL_OK;
}

/* Bytes of a value: gathered values are f32. */
static size_t value_bytes(const peer_state *s, charl__peer_way way)
{
    return way == CHARL__PEER_GATHER_VALUES ? sizeof(float) : s->element;
}

/* Parameters of all kernels. */
static void set_params(const peer_state *s, size_t value, charl__launch *l)
{
    charl__launch_set(l, "BF16", value != sizeof(float));
    charl__launch_set(l, "RANKS", s->ranks);
    charl__launch_set_text(l, "EACH_RANK(X)", charl__text_string(&s->each_rank));
    charl__launch_set(l, "LANES", s->lanes);
    charl__launch_set(l, "LOCAL", s->local);
    charl__launch_set(l, "PACKS", s->packs);
    charl__launch_set(l, "GROUPS", s->tuning.groups);
}

/* Host memory if the device uses it in place: then the host may read it at any time. */
static charl_status buffer_make(charl_device *dev, size_t bytes, const char *what, void *host, charl__buffer **out)
{
    return host ? charl__buffer_wrap(dev, host, bytes, out) : charl__buffer_create(dev, bytes, what, out);
}

/* This node's lanes other than the first are stored after the sum (peer_scatter.cl). */
static size_t sum_lanes(const charl_allreduce *ar, const peer_state *s)
{
    const int node = charl__comm_node(ar->c);
    const int lanes = is_one_node(ar) ? 1 : s->node_map.first[node + 1] - s->node_map.first[node];

    return (size_t)(lanes > 1 ? lanes : 1);
}

static charl_status memory_create(charl_allreduce *ar, peer_state *s)
{
    const size_t one = charl__lane_bytes(ar), sum = ar->options.scatters ? 0 : one * sum_lanes(ar, s);
    const size_t own = one * (size_t)(ar->my_lanes > 0 ? ar->my_lanes : 1); /* empty allocations are not allowed */
    void *seen = NULL;

    if (s->in_place) {
        CHARL_TRY(charl__alloc_aligned(CHARL__PAGE, own + sum, &s->host));
        CHARL_TRY(charl__alloc_aligned(CHARL__PAGE, CHARL__PAGE, &s->words));
        ar->lanes = s->host;
        ar->sum = (unsigned char *)s->host + own;
    }
    CHARL_TRY(buffer_make(s->dev, own, "gradients", ar->lanes, &ar->device_lanes));
    if (ar->options.scatters) {
        ar->sum = ar->lanes;
        ar->device_sum = charl__buffer_retain(ar->device_lanes);
    } else {
        CHARL_TRY(buffer_make(s->dev, sum, "summed gradients", ar->sum, &ar->device_sum));
    }
    CHARL_TRY(charl__buffer_create(s->dev, CHARL__PAGE, "addresses of the all-reduce", &s->block));
    CHARL_TRY(buffer_make(s->dev, CHARL__PAGE, "state of the all-reduce", s->words, &s->state));
    if (s->values) {
        CHARL_TRY(charl__buffer_create(s->dev, CHARL__PAGE, "addresses of the all-reduce", &s->values_block));
    }
    if (!s->in_place) {
        CHARL_TRY(charl_pinned_create(s->dev, 2 * sizeof *s->seen, &s->seen_owner, &seen));
        s->seen = seen;
    }
    CHARL_TRY(params_write(ar, s));
    CHARL_TRY(charl__export_create(s->dev, box_bytes(ar, s), "all-reduce", &s->export));
    return CHARL_OK;
}

static charl_status boxes_import(charl_allreduce *ar, peer_state *s, const int *fds)
{
    for (int r = 0; r < s->ranks; r++) {
        const int fd = r == s->rank ? charl__export_fd(s->export) : fds[r];

        CHARL_TRY(charl__buffer_import(s->dev, fd, box_bytes(ar, s), &s->box[r]));
    }
    return CHARL_OK;
}

/* The addresses of all buffers for the kernels, with `sum` as the array that they complete. */
static charl_status block_write(const charl_allreduce *ar, const peer_state *s, charl__buffer *sum,
                                charl__buffer *block)
{
    charl__launch l = {.file = "peer/peer_block",
                       .entry = "charl_peer_block",
                       .queue = CHARL_QUEUE_COMM,
                       .label = "all-reduce",
                       .global = {1},
                       .local = {1}};

    set_params(s, s->element, &l);
    for (int r = 0; r < s->ranks; r++) {
        charl__launch_add(&l, charl__raw(CHARL_ARG_INOUT, s->box[r]));
    }
    charl__launch_add(&l, charl__raw(CHARL_ARG_IN, ar->device_lanes));
    charl__launch_add(&l, charl__raw(CHARL_ARG_OUT, sum));
    charl__launch_add(&l, charl__raw(CHARL_ARG_INOUT, s->state));
    charl__launch_add(&l, charl__raw(CHARL_ARG_OUT, block));
    charl__launch_add(&l, charl__i64(ar->stride));
    charl__launch_add(&l, charl__i32(s->rank));
    charl__launch_add(&l, charl__i32(ar->map.first[ar->c->rank] - s->first_lane));
    charl__launch_add(&l, charl__i32(ar->my_lanes));
    return charl__launch_enqueue(s->dev, &l);
}

/* The blocks must be written before a kernel of any queue runs. */
static charl_status blocks_write(const charl_allreduce *ar, const peer_state *s)
{
    charl__event *written = NULL;
    charl_status st;

    CHARL_TRY(block_write(ar, s, ar->device_sum, s->block));
    if (s->values) {
        CHARL_TRY(block_write(ar, s, s->values, s->values_block));
    }
    CHARL_TRY(charl__event_record(s->dev, CHARL_QUEUE_COMM, &written));
    st = charl__event_wait(written);
    charl__event_release(written);
    return st;
}

charl__queue charl__peer_gather_queue(const charl__peer_state *s)
{
    return s->nodes && !s->in_place ? CHARL_QUEUE_GATHER : CHARL_QUEUE_COMM;
}

static bool is_needed(const charl_allreduce *ar, const peer_state *s, charl__peer_way way)
{
    switch (way) {
    case CHARL__PEER_WORDS:
    case CHARL__PEER_TILES:
        return is_one_node(ar);
    case CHARL__PEER_SCATTER:
        return !is_one_node(ar) && s->lanes > 0;
    case CHARL__PEER_GATHER:
        return !is_one_node(ar);
    default:
        return s->values != NULL;
    }
}

static bool is_gather(charl__peer_way way)
{
    return way == CHARL__PEER_GATHER || way == CHARL__PEER_GATHER_VALUES;
}

static charl_status way_prepare(peer_state *s, charl__peer_way way, bool scatters)
{
    const struct kernel *k = &kernels[way];
    charl__launch l = {.file = k->file,
                       .entry = k->entry,
                       .queue = is_gather(way) ? charl__peer_gather_queue(s) : CHARL_QUEUE_COMM,
                       .label = "all-reduce",
                       .global = {(size_t)s->local},
                       .local = {(size_t)s->local}};

    set_params(s, value_bytes(s, way), &l);
    if (!is_gather(way)) {
        charl__launch_set_text(&l, "ADDS(X, v, k)", charl__text_string(&s->adds));
    }
    if (way == CHARL__PEER_TILES) {
        charl__launch_set(&l, "SCATTERS", scatters);
    }
    if (way == CHARL__PEER_WORDS) {
        charl__launch_set_text(&l, "OWNERS", charl__text_string(&s->owners));
    }
    if (way == CHARL__PEER_SCATTER) {
        charl__launch_set_text(&l, "RESULTS(X, g, t, v)", charl__text_string(&s->results));
    }
    charl__launch_add(&l, charl__raw(CHARL_ARG_IN, way == CHARL__PEER_GATHER_VALUES ? s->values_block : s->block));
    for (int i = 0; i < 4; i++) {
        charl__launch_add(&l, charl__i64(0));
    }
    for (int i = 4; i < k->n_changing; i++) {
        charl__launch_add(&l, charl__i32(0));
    }
    CHARL_TRY(charl__prepared_create(s->dev, &l, k->n_changing, &s->way[way]));
    return CHARL_OK;
}

static charl_status ways_prepare(charl_allreduce *ar, peer_state *s)
{
    if (!is_one_node(ar)) {
        CHARL_TRY(charl__peer_nodes_create(ar));
    }
    CHARL_TRY(blocks_write(ar, s));
    for (charl__peer_way way = 0; way < CHARL__PEER_WAYS; way++) {
        if (is_needed(ar, s, way)) {
            CHARL_TRY(way_prepare(s, way, ar->options.scatters));
        }
    }
    return CHARL_OK;
}

typedef struct launch_plan {
    int size; /* packs of a tile */
    int groups, rounds;
} launch_plan;

/* Packs of the largest of `parts` parts. */
static int64_t part_packs(charl__range range, int parts, size_t value)
{
    const int64_t pack = PACK_BYTES / (int64_t)value;

    return charl__ceil_div(charl__ceil_div(range.count, CHARL__PART), parts) * (CHARL__PART / pack) +
           (range.offset % pack != 0);
}

static int64_t room(const peer_state *s, bool shares)
{
    return (int64_t)(shares ? s->tuning.groups_beside : s->tuning.groups) * s->local;
}

/* Few values in words, if each work-item gets no more than one pack of every part. */
static bool fits_words(const peer_state *s, charl__range range, bool shares)
{
    return range.count * (int64_t)s->element <= s->tuning.words_bytes && s->tuning.words_left > 0 &&
           part_packs(range, s->ranks, s->element) <= room(s, shares);
}

/* Tiles are as small as the number per work-group allows, so that many work-groups have one; a work-group without a tile is
 * not started, because it would still set its flags. */
static launch_plan plan(const peer_state *s, const charl__peer_launch *l)
{
    const int64_t part = part_packs(l->range, l->parts, value_bytes(s, l->way));
    const int64_t groups = room(s, l->shares) / s->local;
    const int64_t rounds = charl__ceil_div(part, groups * s->local * s->packs);
    const int64_t share = charl__ceil_div(part, rounds * groups);
    launch_plan p = {.rounds = (int)rounds};

    p.size = (int)charl__round_up((size_t)share, (size_t)s->local);
    p.groups = (int)charl__ceil_div(part, p.size * rounds);
    return p;
}

charl_status charl__peer_enqueue(charl_allreduce *ar, const charl__peer_launch *l)
{
    peer_state *s = ar->own;
    const launch_plan p = plan(s, l);
    const double patience_s = s->tuning.patience_s > 0 ? s->tuning.patience_s : ar->c->timeout_s + grace_s;
    const bool in_words = l->way == CHARL__PEER_WORDS;
    int64_t *epoch = is_gather(l->way) ? &s->gather_epoch : &s->epoch;
    const charl__arg changing[] = {
        charl__i64((int64_t)(patience_s * 1e9)),
        charl__i64(l->range.offset),
        charl__i64(l->range.count),
        charl__i64(in_words ? s->tuning.words_left : *epoch),
        charl__i32(p.size),
        charl__i32(p.rounds),
        charl__i32(l->first),
        charl__i32(l->parts),
    };

    CHARL_TRY(charl__prepared_launch(s->way[l->way], (size_t)p.groups, l->after, changing));
    if (in_words) {
        s->tuning.words_left--;
    } else {
        *epoch += p.rounds + 1;
    }
    return CHARL_OK;
}

static charl_status range_launch(charl_allreduce *ar, peer_state *s, charl__range range, const charl__event *written)
{
    const charl__peer_way way = range.gathers                      ? CHARL__PEER_GATHER_VALUES
                                : fits_words(s, range, ar->shares) ? CHARL__PEER_WORDS
                                                                   : CHARL__PEER_TILES;

    return charl__peer_enqueue(
        ar,
        &(charl__peer_launch){.way = way, .range = range, .shares = ar->shares, .parts = s->ranks, .after = written});
}

/* An event per range costs the host more than enqueueing the range, so ends are marked on
 * request. */
static charl_status peer_begin(charl_allreduce *ar, int64_t ticket)
{
    peer_state *s = ar->own;
    const charl__range range = ar->range[ticket % CHARL__RANGES];
    const int64_t commands = charl__queue_commands(s->dev, CHARL_QUEUE_COMPUTE);
    const bool is_behind = commands != s->behind; /* otherwise the previous kernel has waited for it */

    if (range.count > 0 && is_behind) {
        charl__event_release(ar->written);
        ar->written = NULL;
        CHARL_TRY(charl__event_record(s->dev, CHARL_QUEUE_COMPUTE, &ar->written));
    }
    if (s->nodes) {
        CHARL_TRY(charl__peer_nodes_begin(ar, ticket, ar->written));
    } else if (range.count > 0) {
        CHARL_TRY(range_launch(ar, s, range, is_behind ? ar->written : NULL));
    }
    s->behind = range.count > 0 ? commands : s->behind;
    atomic_store(&charl__peer_page_of(s, ar->c->rank)->begun, ticket + 1);
    return CHARL_OK;
}

/* Ranges whose last kernel has been enqueued. */
static int64_t enqueued(const charl_allreduce *ar, const peer_state *s)
{
    return s->nodes ? charl__peer_nodes_gathered(s->nodes) : ar->begun;
}

/* The end of all ranges that have been enqueued. */
static charl_status end_mark(charl_allreduce *ar, peer_state *s)
{
    const charl__queue q = charl__peer_gather_queue(s);

    charl__event_release(s->end);
    s->end = NULL;
    if (s->seen) {
        CHARL_TRY(charl__buffer_fetch(q, s->state, 0, s->seen, 2 * sizeof *s->seen, &s->end));
    } else {
        CHARL_TRY(charl__event_record(s->dev, q, &s->end));
    }
    s->ended = enqueued(ar, s);
    return CHARL_OK;
}

static charl_status peer_progress(charl_allreduce *ar)
{
    peer_state *s = ar->own;
    bool is_done = false;

    if (s->nodes) {
        CHARL_TRY(charl__peer_nodes_progress(ar));
    }
    if (ar->completed == enqueued(ar, s)) {
        return CHARL_OK;
    }
    if (!s->end) {
        CHARL_TRY(end_mark(ar, s));
    }
    CHARL_TRY(charl__event_is_done(s->end, &is_done));
    if (is_done) {
        charl__event_release(s->end);
        s->end = NULL;
        ar->completed = s->ended;
    }
    return CHARL_OK;
}

static bool peer_late(const void *arg, int rank)
{
    const charl_allreduce *ar = arg;
    const peer_state *s = ar->own;
    const charl__peer_page *page;

    if (ar->c->peer[rank].node != charl__comm_node(ar->c)) {
        return charl__peer_nodes_late(ar, rank);
    }
    page = charl__peer_page_of(s, rank);
    return atomic_load(&page->begun) <= ar->completed || (s->nodes && atomic_load(&page->gathered) <= ar->completed);
}

static charl_status peer_join(charl_allreduce *ar)
{
    peer_state *s = ar->own;

    if (ar->completed == ar->begun) {
        return CHARL_OK;
    }
    if (s->nodes) {
        CHARL_TRY(charl__peer_nodes_flush(ar));
    }
    if (!s->end || s->ended < ar->begun) {
        CHARL_TRY(end_mark(ar, s));
    }
    CHARL_TRY(charl__queue_wait(s->dev, CHARL_QUEUE_COMPUTE, s->end));
    return CHARL_OK;
}

charl_status charl__peer_check(charl_allreduce *ar)
{
    peer_state *s = ar->own;
    const charl_status code = s->is_trusted ? CHARL_ERR_COMM : CHARL_ERR_DEVICE;
    uint32_t word[2] = {0, 0};
    char name[160], text[CHARL__MAX_PEERS * (sizeof name + 2)] = "";
    size_t used = 0;

    for (int i = 0; i < 2; i++) {
        word[i] = s->words ? atomic_load(&s->words[i]) : s->seen[i];
    }
    for (int r = 0; r < s->ranks; r++) {
        if (word[0] >> r & 1) {
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used ? ", " : "",
                                     charl__peer_name(ar->c, s->first_rank + r, name, sizeof name));
        }
    }
    ar->c->is_broken = ar->c->is_broken || (s->is_trusted && (word[0] || word[1]));
    CHARL_REQUIRE(word[0] == 0, code, "all-reduce: the device timed out waiting for %s", text);
    CHARL_REQUIRE(word[1] == 0, code, "the all-reduce was abandoned");
    return CHARL_OK;
}

static void peer_abandon(charl_allreduce *ar)
{
    peer_state *s = ar->own;
    const uint32_t one = 1;

    if (s->words) {
        atomic_store(&s->words[1], one);
    } else if (s->state && charl__buffer_write(CHARL_QUEUE_UPLOAD, s->state, 4, &one, sizeof one, true) != CHARL_OK) {
        charl_error_clear(); /* then its timeout ends it */
    }
}

static bool peer_is_exchanging(const charl_allreduce *ar)
{
    const peer_state *s = ar->own;

    return s->nodes && charl__peer_nodes_exchange(s->nodes);
}

/* The values of a trial, in room for `count` values: lane k of the job has (k + 1) (i % PATTERN + 1) in value i. In f32 the sum is exact; in bf16 it
 * depends on the order. */
enum { PATTERN = 97 };
static void trial_lane(const charl_allreduce *ar, int k, int64_t count, void *out)
{
    for (int64_t i = 0; i < count; i++) {
        const float x = (float)(k + 1) * (float)(i % PATTERN + 1);

        if (ar->element == sizeof x) {
            ((float *)out)[i] = x;
        } else {
            ((uint16_t *)out)[i] = charl__bf16_round(x);
        }
    }
}

/* This rank's lanes of the trial. */
static charl_status lanes_fill(charl_allreduce *ar, void *v, int64_t count)
{
    for (int j = 0; j < ar->my_lanes; j++) {
        trial_lane(ar, ar->map.first[ar->c->rank] + j, count, v);
        CHARL_TRY(charl__buffer_write(CHARL_QUEUE_COMPUTE, ar->device_lanes, (size_t)j * charl__lane_bytes(ar), v,
                                      (size_t)count * ar->element, true));
    }
    return CHARL_OK;
}

/* The first PATTERN sums of the trial. */
static charl_status trial_sum(const charl_allreduce *ar, void *out)
{
    const size_t one = PATTERN * ar->element;
    unsigned char *lanes = NULL;
    void *leaf[CHARL_MAX_SLICES];

    CHARL_TRY(charl__alloc_array(ar->map.n, one, &lanes));
    for (int k = 0; k < ar->map.n; k++) {
        leaf[k] = lanes + (size_t)k * one;
        trial_lane(ar, k, PATTERN, leaf[k]);
    }
    charl__allreduce_add(ar, ar->map.adds, ar->map.n, leaf, PATTERN, out);
    charl_free(lanes);
    return CHARL_OK;
}

/* Whether all sums of the trial that this rank receives are correct. */
static charl_status sums_look(charl_allreduce *ar, void *v, int64_t count)
{
    float want[PATTERN]; /* room for either type */
    int64_t wrong = 0, from = 0, to = count;

    if (ar->options.scatters) {
        charl__range_part(count, ar->c->rank, ar->c->size, &from, &to);
    }
    CHARL_TRY(trial_sum(ar, want));
    CHARL_TRY(charl__buffer_read(CHARL_QUEUE_COMPUTE, ar->device_sum, 0, v, (size_t)count * ar->element, true));
    for (int64_t i = from; i < to; i++) {
        wrong += memcmp(charl__element(ar, v, i), charl__element(ar, want, i % PATTERN), ar->element) != 0;
    }
    CHARL_REQUIRE(wrong == 0, CHARL_ERR_DEVICE, "%lld of %lld sums over the devices' shared memory are wrong",
                  (long long)wrong, (long long)count);
    return CHARL_OK;
}

/* Zeros in lanes and sum, as before. */
static charl_status trial_clear(charl_allreduce *ar, void *v, int64_t count)
{
    const size_t bytes = (size_t)count * ar->element;

    memset(v, 0, bytes);
    for (int j = 0; j < ar->my_lanes; j++) {
        CHARL_TRY(charl__buffer_write(CHARL_QUEUE_COMPUTE, ar->device_lanes, (size_t)j * charl__lane_bytes(ar), v,
                                      bytes, true));
    }
    CHARL_TRY(charl__buffer_write(CHARL_QUEUE_COMPUTE, ar->device_sum, 0, v, bytes, true));
    return CHARL_OK;
}

/* A sum with a known result, computed in the same way as gradients. */
static charl_status try_once(charl_allreduce *ar, void *v, int64_t count)
{
    charl_status st = lanes_fill(ar, v, count);
    const bool is_absent = charl__fault("peer.absent");
    int64_t ticket = 0, ms = 0;

    if (charl__fault_arg("peer.late", &ms)) {
        charl__sleep_s((double)ms / 1e3);
    }
    if (st == CHARL_OK && !is_absent) {
        st = charl_allreduce_begin(ar, 0, count, &ticket);
    }
    st = charl_comm_agree(ar->c, st);
    if (st != CHARL_OK) {
        peer_abandon(ar); /* ends the kernels that wait for a rank that failed to begin */
    }
    CHARL_TRY(st);
    if (is_absent) {
        return st;
    }
    CHARL_TRY(charl_allreduce_wait(ar, ticket));
    CHARL_TRY(sums_look(ar, v, count));
    return trial_clear(ar, v, count);
}

/* Run every variant once, so that all are built and tested before anything depends on them. */
static charl_status try_out(charl_allreduce *ar, peer_state *s)
{
    charl_status st = CHARL_OK;
    const int64_t most = 5003, count = ar->n < most ? ar->n : most;
    const int64_t words_bytes = s->tuning.words_bytes;
    int64_t ms = 0;
    void *v = NULL;

    if (charl__device_skips_kernels(s->dev)) { /* nothing is computed, so nothing depends on it */
        return CHARL_OK;
    }
    s->tuning.patience_s = charl__fault_arg("peer.patience", &ms) ? (double)ms / 1e3 : try_s;
    st = charl__alloc_array(count + 1, ar->element, &v);
    CHARL_TRY_CLEANUP(charl_comm_agree(ar->c, st));
    for (int w = 0; w < (is_one_node(ar) && s->tuning.words_left > 0 ? 2 : 1); w++) {
        s->tuning.words_bytes = w == 0 ? INT64_MAX : 0;
        CHARL_TRY_CLEANUP(charl_comm_agree(ar->c, try_once(ar, v, count)));
    }
    s->tuning.words_bytes = words_bytes;
    s->tuning.patience_s = 0;
    s->is_trusted = true;
cleanup:
    charl_free(v);
    return st;
}

/* Whose memory, and where their lanes are. */
static charl_status node_init(charl_allreduce *ar, peer_state *s)
{
    const charl_comm *c = ar->c;
    const int node = charl__comm_node(c);

    s->dev = ar->options.device;
    s->in_place = charl__device_facts_get(s->dev)->zero_copy;
    s->element = ar->element;
    s->values = ar->options.gathers ? ar->device_values : NULL;
    s->ranks = c->local_size;
    s->rank = c->local_rank;
    s->first_rank = c->node_first[node];
    s->first_lane = ar->map.first[s->first_rank];
    s->lanes = ar->map.first[c->node_first[node + 1]] - s->first_lane;
    s->epoch = s->gather_epoch = 1;
    CHARL_TRY(charl__node_map_init(c, &ar->map, &s->node_map));
    shape_choose(ar, s);
    CHARL_TRY(memory_create(ar, s));
    return CHARL_OK;
}

static charl_status peer_create(charl_allreduce *ar)
{
    charl_status st = CHARL_OK;
    charl_comm *c = ar->c;
    peer_state *s = NULL;
    int fds[CHARL__MAX_PEERS] = {-1, -1, -1, -1, -1, -1, -1, -1};

    st = charl__alloc(sizeof *s, &s);
    ar->own = s; /* even if another rank got none */
    CHARL_TRY_CLEANUP(charl_comm_agree(c, st));
    CHARL_TRY_CLEANUP(charl_comm_agree(c, node_init(ar, s)));
    CHARL_TRY_CLEANUP(charl__descriptors_exchange(c, charl__export_fd(s->export), fds));
    CHARL_TRY_CLEANUP(charl_comm_agree(c, boxes_import(ar, s, fds)));
    CHARL_TRY_CLEANUP(charl_comm_agree(c, ways_prepare(ar, s)));
    CHARL_TRY_CLEANUP(charl__window_create(c, (size_t)s->ranks * sizeof(charl__peer_page),
                                           "the progress of the all-reduce", &s->page));
    CHARL_TRY_CLEANUP(try_out(ar, s));
cleanup:
    charl__descriptors_close(c, fds);
    return st;
}

static void peer_destroy(charl_allreduce *ar)
{
    peer_state *s = ar->own;

    if (!s) {
        return;
    }
    peer_abandon(ar);
    charl__event_release(s->end);
    for (int w = 0; w < CHARL__PEER_WAYS; w++) {
        charl__prepared_destroy(s->way[w]);
    }
    for (int r = 0; r < s->ranks; r++) {
        charl__buffer_release(s->box[r]); /* waits for operations in flight */
    }
    charl__buffer_release(ar->device_lanes);
    charl__buffer_release(ar->device_sum);
    charl_pinned_destroy(s->seen_owner);
    charl__peer_nodes_destroy(s->nodes);
    charl__buffer_release(s->block);
    charl__buffer_release(s->values_block);
    charl__buffer_release(s->state);
    charl__export_destroy(s->export);
    charl__window_destroy(ar->c, &s->page);
    charl__text_fini(&s->each_rank);
    charl__text_fini(&s->owners);
    charl__text_fini(&s->adds);
    charl__text_fini(&s->results);
    charl__node_map_fini(&s->node_map);
    charl_free(s->words);
    charl_free(s->host);
    charl_free(s);
}

charl__peer_tuning *charl__peer_tuning_of(charl_allreduce *ar)
{
    return ar->algorithm == &charl__allreduce_peer ? &((peer_state *)ar->own)->tuning : NULL;
}

const charl__algorithm charl__allreduce_peer = {
    .row.name = "peer",
    .row.help =
        "NVIDIA GPUs: kernels add in the memory of the other GPUs of the node; MPI messages of the sums between nodes",
    .preference = 2,
    .is_invariant = true,
    .has_bf16 = true,
    .has_gather = true,
    .has_scatter = true,
    .unavailable = peer_unavailable,
    .create = peer_create,
    .destroy = peer_destroy,
    .begin = peer_begin,
    .progress = peer_progress,
    .late = peer_late,
    .join = peer_join,
    .verify = charl__peer_check,
    .abandon = peer_abandon,
    .is_exchanging = peer_is_exchanging,
};
