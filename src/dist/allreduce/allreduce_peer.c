/* The all-reduce "peer": the devices of a node add the gradients themselves, by one kernel per
 * range (kernels/peer/peer.cl, of few values kernels/peer/peer_words.cl) over memory that they map
 * into each other.
 *
 * The lanes and the sum are this device's own memory. What is shared is a box per rank: flags, and
 * slots through which tiles pass, some tens of megabytes however large the model is. Begin enqueues
 * the kernel after the launches that write the lanes and waits for nothing; what reads the sum is
 * ordered after it on the device (join); the host checks the outcome when it waits (verify).
 */
#include "dist/allreduce/allreduce.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/text/text.h"
#include "dist/allreduce/allreduce_device.h"
#include "dist/allreduce/peer.h"

enum { FLAG_BYTES = 128, SETS = 4 }; /* of a work-group: FLAGS and SETS of peer_box.clh */
enum { MAX_BOX_BYTES = 256 << 20 };  /* what the driver imports safely */
static const double grace_s = 5;     /* the host speaks before the kernel gives up */
static const double try_s = 20;      /* where stores to other devices go astray, waiting is in vain */

/* A rank's progress, for the others' hosts. */
typedef struct peer_page {
    _Alignas(CHARL__LINE) atomic_int_least64_t begun;
} peer_page;

/* The kernels. */
enum { WORDS, TILES, WAYS };

/* Arguments that are not the same for every range: all but the block; `rounds` is for tiles. */
static int changing_of(int way)
{
    return way == TILES ? 6 : 5;
}

typedef struct peer_state {
    charl_device *dev;
    charl__device_export *export;
    charl__buffer *box[CHARL__MAX_PEERS];
    charl__prepared *way[WAYS];
    charl__buffer *block;     /* of the kernels: where everything lies */
    charl__buffer *state;     /* of the kernels: [0] ranks lost, [1] end all waiting */
    atomic_uint *words;       /* state, where the host may look at it at any time; or NULL: */
    charl_pinned *seen_owner; /* then it is copied at the end of ranges */
    uint32_t *seen;
    void *host; /* lanes and sum, where the device works in place */
    charl__window page;
    charl__event *end; /* of the ranges before `ended`; NULL until somebody asks */
    int64_t ended;
    charl__text each_rank, owners, adds; /* parameters of kernels */
    int local, packs;                    /* work-items of a group; packs of four floats of each in flight */
    charl__peer_tuning tuning;
    int64_t epoch;   /* of the next meeting */
    int64_t behind;  /* commands of the compute queue that the last kernel has waited for */
    bool is_trusted; /* it has worked: a rank that does not arrive is lost */
} peer_state;

static const char *peer_unavailable(const charl_comm *c)
{
    return c->size == 1 ? "there is one rank" : NULL;
}

static size_t box_bytes(const charl_allreduce *ar, const peer_state *s)
{
    const size_t local = (size_t)s->local, both = (size_t)(ar->map.n + ar->c->size);
    const size_t slots = SETS * both * local * (size_t)s->packs * 16, words = 2 * both * local * 32;

    return charl__round_up((size_t)s->tuning.groups * (FLAG_BYTES + slots + words), CHARL__PAGE);
}

/* The more lanes are added at once, the fewer packs of each fit into registers. On a GPU what
 * counts is how many bytes are on their way. None of these work-groups waits for another one of its
 * own device, but they should all run at once: two on each of an H200's 132 processors, so that one
 * sends while the other waits. Beside products, fewer hold fewer processors for longer: 64 of 128
 * work-items cost a step of GPT-2 on four H200 the same as 32, 64 or 128 of 256. */
static void shape_choose(charl_allreduce *ar, peer_state *s)
{
    const bool gpu = charl_device_get_info(s->dev)->kind == CHARL_DEVICE_GPU;
    const bool is_pair = ar->c->size == 2;
    const int lanes = ar->map.n;

    s->local = is_pair ? 256 : 128;
    s->packs = (lanes <= 4 ? 4 : lanes <= 8 ? 2 : 1) * (is_pair || lanes > 16 ? 1 : 2);
    s->tuning = (charl__peer_tuning){
        .groups = gpu ? 256 : 2, .groups_beside = gpu ? 64 : 1, .words_bytes = 1 << 20, .words_left = UINT32_MAX};
    for (int r = 0; r < ar->c->size; r++) {
        if (ar->map.first[r] == ar->map.first[r + 1]) { /* it has no lanes, see peer_words.cl */
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

static charl_status params_write(const charl_allreduce *ar, peer_state *s)
{
    for (int r = 0; r < ar->c->size; r++) {
        CHARL_TRY(charl__text_printf(&s->each_rank, " X(%d)", r));
    }
    for (int l = 0; l < ar->map.n; l++) {
        CHARL_TRY(charl__text_printf(&s->owners, " %d,", ar->map.rank[l]));
    }
    for (int r = 0; r < ar->c->size; r++) {
        CHARL_TRY(charl__text_printf(&s->owners, " %d,", r));
    }
    for (int k = 0; k < ar->map.n - 1; k++) {
        CHARL_TRY(charl__text_printf(&s->adds, " X(v, k, %d, %d)", ar->map.adds[k].dst, ar->map.adds[k].src));
    }
    return CHARL_OK;
}

/* Parameters of all kernels. */
static void set_params(const charl_allreduce *ar, const peer_state *s, charl__launch *l)
{
    const char *why;

    charl__launch_set(l, "RANKS", ar->c->size);
    charl__launch_set_text(l, "EACH_RANK(X)", charl__text_string(&s->each_rank));
    charl__launch_set(l, "LANES", ar->map.n);
    charl__launch_set(l, "LOCAL", s->local);
    charl__launch_set(l, "PACKS", s->packs);
    charl__launch_set(l, "GROUPS", s->tuning.groups);
    if (charl__export_kind(s->dev, &why) == CHARL_SHARED_CUDA) {
        charl__launch_set(l, "CHARL_PTX", 1);
    }
}

/* Host memory where the device uses it in place: then the host may look at any time. */
static charl_status buffer_make(charl_device *dev, size_t bytes, const char *what, void *host, charl__buffer **out)
{
    return host ? charl__buffer_wrap(dev, host, bytes, out) : charl__buffer_create(dev, bytes, what, out);
}

static charl_status memory_create(charl_allreduce *ar, peer_state *s)
{
    const size_t one = (size_t)ar->stride * sizeof(float);
    const size_t own = one * (size_t)(ar->my_lanes > 0 ? ar->my_lanes : 1); /* no memory is empty */
    const bool in_place = charl__device_facts_get(s->dev)->zero_copy;
    void *seen = NULL;

    if (in_place) {
        CHARL_TRY(charl__alloc_aligned(CHARL__PAGE, own + one, &s->host));
        CHARL_TRY(charl__alloc_aligned(CHARL__PAGE, CHARL__PAGE, &s->words));
        ar->lanes = s->host;
        ar->sum = (unsigned char *)s->host + own;
    }
    CHARL_TRY(buffer_make(s->dev, own, "gradients", ar->lanes, &ar->device_lanes));
    CHARL_TRY(buffer_make(s->dev, one, "summed gradients", ar->sum, &ar->device_sum));
    CHARL_TRY(charl__buffer_create(s->dev, CHARL__PAGE, "addresses of the all-reduce", &s->block));
    CHARL_TRY(buffer_make(s->dev, CHARL__PAGE, "state of the all-reduce", s->words, &s->state));
    if (!in_place) {
        CHARL_TRY(charl_pinned_create(s->dev, 2 * sizeof *s->seen, &s->seen_owner, &seen));
        s->seen = seen;
    }
    CHARL_TRY(params_write(ar, s));
    CHARL_TRY(charl__export_create(s->dev, box_bytes(ar, s), "all-reduce", &s->export));
    return CHARL_OK;
}

static charl_status boxes_import(charl_allreduce *ar, peer_state *s, const int *fds)
{
    for (int r = 0; r < ar->c->size; r++) {
        const int fd = r == ar->c->rank ? charl__export_fd(s->export) : fds[r];

        CHARL_TRY(charl__buffer_import(s->dev, fd, box_bytes(ar, s), &s->box[r]));
    }
    return CHARL_OK;
}

/* Before any other kernel here; they are enqueued to the same queue. */
static charl_status block_write(const charl_allreduce *ar, const peer_state *s)
{
    charl__launch l = {.file = "peer/peer_block",
                       .entry = "charl_peer_block",
                       .queue = CHARL_QUEUE_COMM,
                       .label = "all-reduce",
                       .global = {1},
                       .local = {1}};
    const int rank = ar->c->rank;

    set_params(ar, s, &l);
    for (int r = 0; r < ar->c->size; r++) {
        charl__launch_add(&l, charl__raw(CHARL_ARG_INOUT, s->box[r]));
    }
    charl__launch_add(&l, charl__raw(CHARL_ARG_IN, ar->device_lanes));
    charl__launch_add(&l, charl__raw(CHARL_ARG_OUT, ar->device_sum));
    charl__launch_add(&l, charl__raw(CHARL_ARG_INOUT, s->state));
    charl__launch_add(&l, charl__raw(CHARL_ARG_OUT, s->block));
    charl__launch_add(&l, charl__i64(ar->stride));
    charl__launch_add(&l, charl__i32(rank));
    charl__launch_add(&l, charl__i32(ar->map.first[rank]));
    charl__launch_add(&l, charl__i32(ar->my_lanes));
    return charl__launch_enqueue(s->dev, &l);
}

static charl_status ways_prepare(charl_allreduce *ar, peer_state *s)
{
    CHARL_TRY(block_write(ar, s));
    for (int w = 0; w < WAYS; w++) {
        charl__launch l = {.file = w == TILES ? "peer/peer" : "peer/peer_words",
                           .entry = w == TILES ? "charl_peer_sum" : "charl_peer_words",
                           .queue = CHARL_QUEUE_COMM,
                           .label = "all-reduce",
                           .global = {(size_t)s->local},
                           .local = {(size_t)s->local}};

        set_params(ar, s, &l);
        charl__launch_set_text(&l, "ADDS(X, v, k)", charl__text_string(&s->adds));
        if (w != TILES) {
            charl__launch_set_text(&l, "OWNERS", charl__text_string(&s->owners));
        }
        charl__launch_add(&l, charl__raw(CHARL_ARG_IN, s->block));
        for (int i = 0; i < 4; i++) {
            charl__launch_add(&l, charl__i64(0));
        }
        for (int i = 4; i < changing_of(w); i++) {
            charl__launch_add(&l, charl__i32(0));
        }
        CHARL_TRY(charl__prepared_create(s->dev, &l, changing_of(w), &s->way[w]));
    }
    return CHARL_OK;
}

typedef struct launch_plan {
    int way;
    int size; /* packs of a tile */
    int groups, rounds;
} launch_plan;

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Few values in words, if each work-item gets no more than one pack of every part. Tiles are as
 * small as their number in a row allows, so that many work-groups have one; without a tile no
 * work-group is started, as it would still raise its flags. */
static launch_plan plan(const charl_allreduce *ar, const peer_state *s, charl__range range)
{
    const charl__peer_tuning *t = &s->tuning;
    const int64_t blocks = divide_up(range.count, CHARL__PART);
    const int64_t part =
        divide_up(blocks, ar->c->size) * (CHARL__PART / 4) + (range.offset % 4 != 0); /* packs, at most */
    const int64_t groups = ar->shares ? t->groups_beside : t->groups, room = groups * s->local;
    const bool in_words = range.count * 4 <= t->words_bytes && t->words_left > 0 && part <= room;
    const int64_t rounds = divide_up(part, room * s->packs);
    const int64_t share = divide_up(part, rounds * groups);
    launch_plan p = {.way = in_words ? WORDS : TILES, .rounds = (int)rounds};

    p.size = (int)charl__round_up((size_t)share, (size_t)s->local);
    p.groups = (int)divide_up(part, p.size * rounds);
    return p;
}

static charl_status range_launch(charl_allreduce *ar, peer_state *s, charl__range range, const charl__event *written)
{
    const launch_plan p = plan(ar, s, range);
    const double patience_s = s->tuning.patience_s > 0 ? s->tuning.patience_s : ar->c->timeout_s + grace_s;
    const charl__arg changing[] = {
        charl__i64((int64_t)(patience_s * 1e9)),
        charl__i64(range.offset),
        charl__i64(range.count),
        charl__i64(p.way == TILES ? s->epoch : s->tuning.words_left),
        charl__i32(p.size),
        charl__i32(p.rounds),
    };

    CHARL_TRY(charl__prepared_launch(s->way[p.way], (size_t)p.groups, written, changing));
    if (p.way == TILES) {
        s->epoch += p.rounds + 1;
    } else {
        s->tuning.words_left--;
    }
    return CHARL_OK;
}

/* An event of every range costs the host more than to enqueue one; so ends are marked when somebody
 * asks. */
static charl_status peer_begin(charl_allreduce *ar, int64_t ticket)
{
    peer_state *s = ar->own;
    const charl__range range = ar->range[ticket % CHARL__RANGES];
    const int64_t commands = charl__queue_commands(s->dev, CHARL_QUEUE_COMPUTE);
    const bool is_behind = commands != s->behind; /* else the kernel before has waited for it */

    if (range.count > 0) {
        if (is_behind) {
            charl__event_release(ar->written);
            ar->written = NULL;
            CHARL_TRY(charl__event_record(s->dev, CHARL_QUEUE_COMPUTE, &ar->written));
        }
        CHARL_TRY(range_launch(ar, s, range, is_behind ? ar->written : NULL));
        s->behind = commands;
    }
    atomic_store(&((peer_page *)(void *)s->page.base)[ar->c->rank].begun, ticket + 1);
    return CHARL_OK;
}

/* The end of all ranges begun. */
static charl_status end_mark(charl_allreduce *ar, peer_state *s)
{
    charl__event_release(s->end);
    s->end = NULL;
    if (s->seen) {
        CHARL_TRY(charl__buffer_fetch(CHARL_QUEUE_COMM, s->state, 0, s->seen, 2 * sizeof *s->seen, &s->end));
    } else {
        CHARL_TRY(charl__event_record(s->dev, CHARL_QUEUE_COMM, &s->end));
    }
    s->ended = ar->begun;
    return CHARL_OK;
}

static charl_status peer_progress(charl_allreduce *ar)
{
    peer_state *s = ar->own;
    bool is_done = false;

    if (ar->completed == ar->begun) {
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

    return atomic_load(&((peer_page *)(void *)s->page.base)[rank].begun) <= ar->completed;
}

static charl_status peer_join(charl_allreduce *ar)
{
    peer_state *s = ar->own;

    if (ar->completed == ar->begun) {
        return CHARL_OK;
    }
    if (!s->end || s->ended < ar->begun) {
        CHARL_TRY(end_mark(ar, s));
    }
    CHARL_TRY(charl__queue_wait(s->dev, CHARL_QUEUE_COMPUTE, s->end));
    return CHARL_OK;
}

static charl_status peer_verify(charl_allreduce *ar)
{
    peer_state *s = ar->own;
    const charl_status code = s->is_trusted ? CHARL_ERR_COMM : CHARL_ERR_DEVICE;
    uint32_t word[2] = {0, 0};
    char name[160], text[CHARL__MAX_PEERS * (sizeof name + 2)] = "";
    size_t used = 0;

    for (int i = 0; i < 2; i++) {
        word[i] = s->words ? atomic_load(&s->words[i]) : s->seen[i];
    }
    for (int r = 0; r < ar->c->size; r++) {
        if (word[0] >> r & 1) {
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used ? ", " : "",
                                     charl__peer_name(ar->c, r, name, sizeof name));
        }
    }
    ar->c->is_broken = ar->c->is_broken || (s->is_trusted && (word[0] || word[1]));
    CHARL_REQUIRE(word[0] == 0, code, "all-reduce: the device waited in vain for %s", text);
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
        charl_error_clear(); /* then its patience ends it */
    }
}

/* v in all lanes, times the lane's number. */
static charl_status lanes_fill(charl_allreduce *ar, float *v, int64_t count, float factor)
{
    const size_t bytes = (size_t)count * sizeof *v;

    for (int j = 0; j < ar->my_lanes; j++) {
        for (int64_t i = 0; i < count; i++) {
            v[i] = factor * (float)(ar->map.first[ar->c->rank] + j + 1) * (float)(i % 97 + 1);
        }
        CHARL_TRY(charl__buffer_write(CHARL_QUEUE_COMPUTE, ar->device_lanes, (size_t)(j * ar->stride) * sizeof *v, v,
                                      bytes, true));
    }
    return CHARL_OK;
}

static charl_status sums_look(charl_allreduce *ar, float *v, int64_t count)
{
    const size_t bytes = (size_t)count * sizeof *v;
    const float total = (float)(ar->map.n * (ar->map.n + 1) / 2);
    int64_t wrong = 0;

    CHARL_TRY(charl__buffer_read(CHARL_QUEUE_COMPUTE, ar->device_sum, 0, v, bytes, true));
    for (int64_t i = 0; i < count; i++) {
        wrong += v[i] != total * (float)(i % 97 + 1);
    }
    CHARL_REQUIRE(wrong == 0, CHARL_ERR_DEVICE, "%lld of %lld sums over the devices' shared memory are wrong",
                  (long long)wrong, (long long)count);
    memset(v, 0, bytes);
    CHARL_TRY(charl__buffer_write(CHARL_QUEUE_COMPUTE, ar->device_sum, 0, v, bytes, true));
    return CHARL_OK;
}

/* Whole numbers, whose sum is exact in any order, on the way that gradients will take. */
static charl_status try_once(charl_allreduce *ar, float *v, int64_t count)
{
    charl_status st = lanes_fill(ar, v, count, 1.0F);
    const bool is_absent = charl__fault("peer.absent");
    int64_t ticket = 0;

    if (st == CHARL_OK && !is_absent) {
        st = charl_allreduce_begin(ar, 0, count, &ticket);
    }
    st = charl_comm_agree(ar->c, st);
    if (st != CHARL_OK) {
        peer_abandon(ar); /* ends the kernels that wait for a rank that could not begin */
    }
    CHARL_TRY(st);
    if (is_absent) {
        return st;
    }
    CHARL_TRY(charl_allreduce_wait(ar, ticket));
    CHARL_TRY(sums_look(ar, v, count));
    CHARL_TRY(lanes_fill(ar, v, count, 0.0F));
    return st;
}

/* Both kernels, once: they are built and known to work before anything depends on them. */
static charl_status try_out(charl_allreduce *ar, peer_state *s)
{
    charl_status st = CHARL_OK;
    const int64_t most = 5003, count = ar->n < most ? ar->n : most;
    const int64_t words_bytes = s->tuning.words_bytes;
    int64_t ms = 0;
    float *v = NULL;

    s->tuning.patience_s = charl__fault_arg("peer.patience", &ms) ? (double)ms / 1e3 : try_s;
    st = charl__alloc_array(count + 1, sizeof *v, &v);
    CHARL_TRY_CLEANUP(charl_comm_agree(ar->c, st));
    for (int w = 0; w < WAYS; w++) {
        s->tuning.words_bytes = w == TILES ? 0 : INT64_MAX;
        CHARL_TRY_CLEANUP(charl_comm_agree(ar->c, try_once(ar, v, count)));
    }
    s->tuning.words_bytes = words_bytes;
    s->tuning.patience_s = 0;
    s->is_trusted = true;
cleanup:
    charl_free(v);
    return st;
}

static charl_status peer_create(charl_allreduce *ar)
{
    charl_status st = CHARL_OK;
    charl_comm *c = ar->c;
    peer_state *s = NULL;
    int fds[CHARL__MAX_PEERS] = {-1, -1, -1, -1, -1, -1, -1, -1};

    st = charl__alloc(sizeof *s, &s);
    ar->own = s; /* also where another rank got none */
    CHARL_TRY_CLEANUP(charl_comm_agree(c, st));
    s->dev = ar->options.device;
    s->epoch = 1;
    shape_choose(ar, s);
    CHARL_TRY_CLEANUP(charl_comm_agree(c, memory_create(ar, s)));
    CHARL_TRY_CLEANUP(charl__descriptors_exchange(c, charl__export_fd(s->export), fds));
    CHARL_TRY_CLEANUP(charl_comm_agree(c, boxes_import(ar, s, fds)));
    CHARL_TRY_CLEANUP(charl_comm_agree(c, ways_prepare(ar, s)));
    CHARL_TRY_CLEANUP(
        charl__window_create(c, (size_t)c->size * sizeof(peer_page), "the progress of the all-reduce", &s->page));
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
    for (int w = 0; w < WAYS; w++) {
        charl__prepared_destroy(s->way[w]);
    }
    for (int r = 0; r < ar->c->size; r++) {
        charl__buffer_release(s->box[r]); /* waits for operations in flight */
    }
    charl__buffer_release(ar->device_lanes);
    charl__buffer_release(ar->device_sum);
    charl_pinned_destroy(s->seen_owner);
    charl__buffer_release(s->block);
    charl__buffer_release(s->state);
    charl__export_destroy(s->export);
    charl__window_destroy(ar->c, &s->page);
    charl__text_fini(&s->each_rank);
    charl__text_fini(&s->owners);
    charl__text_fini(&s->adds);
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
    .row.help = "NVIDIA GPUs of one node: kernels add in each other's GPU memory",
    .is_invariant = true,
    .unavailable = peer_unavailable,
    .create = peer_create,
    .destroy = peer_destroy,
    .begin = peer_begin,
    .progress = peer_progress,
    .late = peer_late,
    .join = peer_join,
    .verify = peer_verify,
    .abandon = peer_abandon,
};
