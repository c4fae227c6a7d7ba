/* The all-reduce "peer": the devices of a node add the gradients themselves, by one kernel per
 * range (kernels/peer.cl) over memory that they map into each other.
 *
 * The lanes and the sum are this device's own memory. What is shared is a box per rank: flags, and
 * slots through which tiles pass, some tens of megabytes however large the model is. Begin enqueues
 * the kernel behind the launches that write the lanes and waits for nothing; what reads the sum is
 * ordered behind it on the device (join); the host looks at the outcome when it waits (verify).
 */
#include "dist/allreduce.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/text.h"
#include "dist/allreduce_device.h"
#include "dist/peer.h"

enum { FLAG_BYTES = 128 };          /* of a work-group: FLAGS of peer.cl */
enum { MAX_BOX_BYTES = 256 << 20 }; /* what the driver imports safely */
static const double grace_s = 5;    /* the host speaks before the kernel gives up */
static const double try_s = 20; /* where stores to other devices go astray, waiting is in vain */

/* A rank's progress, for the others' hosts. */
typedef struct peer_page {
    _Alignas(CHARL__LINE) atomic_int_least64_t begun;
} peer_page;

typedef struct peer_state {
    charl_device *dev;
    charl_export *export;
    charl_buffer *box[CHARL__MAX_PEERS];
    charl_buffer *state; /* of the kernel: [0] ranks lost, [1] end all waiting */
    atomic_uint *words;  /* state, where the host may look at it at any time; or NULL */
    void *host;          /* lanes and sum, where the device works in place */
    charl__window page;
    charl_event *end; /* of the ranges before `ended`; NULL until somebody asks */
    int64_t ended;
    char *defines;
    int local, packs; /* work-items of a group; packs of four floats of each in flight */
    charl__peer_tuning tuning;
    int64_t epoch;   /* of the next meeting */
    int64_t behind;  /* commands of the compute queue that a kernel here has waited for */
    bool is_trusted; /* it has been seen to work: whoever does not come is lost */
} peer_state;

static const char *peer_unavailable(const charl_comm *c)
{
    return c->size == 1 ? "there is one rank" : NULL;
}

/* The more lanes are added at once, the fewer packs of each fit into registers. On a GPU what
 * counts is how many bytes are on their way: two of these work-groups fit on each of an H200's 132
 * processors, and none waits for another one of its own device. Beside products, fewer hold fewer
 * processors for longer: 32 and 64 cost a step on four H200 the least. */
static void shape_choose(charl_allreduce *ar, peer_state *s)
{
    const bool gpu = charl_device_get_info(s->dev)->kind == CHARL_DEVICE_GPU;
    const int lanes = ar->map.n;
    size_t group_bytes;

    s->local = 256;
    s->packs = lanes <= 2 ? 8 : lanes <= 4 ? 4 : lanes <= 8 ? 2 : 1;
    group_bytes = (size_t)(3 * lanes + ar->c->size) * (size_t)(s->local * s->packs) * 16;
    s->tuning = (charl__peer_tuning){
        .groups = gpu ? 256 : 2, .groups_beside = gpu ? 64 : 1, .all_bytes = 256 << 10};
    while (s->tuning.groups > 1 &&
           (size_t)s->tuning.groups * (group_bytes + FLAG_BYTES) > MAX_BOX_BYTES) {
        s->tuning.groups /= 2;
    }
    if (s->tuning.groups_beside > s->tuning.groups) {
        s->tuning.groups_beside = s->tuning.groups;
    }
}

static size_t box_bytes(const charl_allreduce *ar, const peer_state *s)
{
    const size_t slots = (size_t)(3 * ar->map.n + ar->c->size);

    return charl__round_up((size_t)s->tuning.groups *
                               (FLAG_BYTES + slots * (size_t)(s->local * s->packs) * 16),
                           CHARL__PAGE);
}

static charl_status defines_write(const charl_allreduce *ar, peer_state *s)
{
    charl_status st = CHARL_OK;
    charl__text t = {0};
    const char *why;

    CHARL_TRY(charl__text_printf(
        &t,
        "%s#define RANKS %d\n#define LANES %d\n#define LOCAL %d\n"
        "#define PACKS %d\n#define GROUPS %d\n#define ADDS",
        charl__export_kind(s->dev, &why) == CHARL_SHARED_CUDA ? "#define CHARL_PTX\n" : "",
        ar->c->size, ar->map.n, s->local, s->packs, s->tuning.groups));
    for (int k = 0; k < ar->map.n - 1; k++) {
        CHARL_TRY(charl__text_printf(&t, " ADD(%d, %d)", ar->map.adds[k].dst, ar->map.adds[k].src));
    }
    CHARL_TRY(charl__text_printf(&t, "\n"));
    s->defines = charl__text_steal(&t);
cleanup:
    charl__text_fini(&t);
    return st;
}

/* Host memory where the device uses it in place: then the host may look at any time. */
static charl_status buffer_make(charl_device *dev, size_t bytes, const char *what, void *host,
                                charl_buffer **out)
{
    return host ? charl__buffer_wrap(dev, host, bytes, out)
                : charl__buffer_create(dev, bytes, what, out);
}

static charl_status memory_create(charl_allreduce *ar, peer_state *s)
{
    charl_status st = CHARL_OK;
    const size_t one = (size_t)ar->stride * sizeof(float), own = one * (size_t)ar->my_lanes;
    const bool in_place = charl__device_facts(s->dev)->zero_copy;

    if (in_place) {
        CHARL_TRY(charl_alloc_aligned(CHARL__PAGE, own + one, &s->host));
        CHARL_TRY(charl_alloc_aligned(CHARL__PAGE, CHARL__PAGE, &s->words));
        ar->lanes = s->host;
        ar->sum = (unsigned char *)s->host + own;
    }
    CHARL_TRY(buffer_make(s->dev, own, "gradients", ar->lanes, &ar->device_lanes));
    CHARL_TRY(buffer_make(s->dev, one, "summed gradients", ar->sum, &ar->device_sum));
    CHARL_TRY(buffer_make(s->dev, CHARL__PAGE, "state of the all-reduce", s->words, &s->state));
    CHARL_TRY(defines_write(ar, s));
    CHARL_TRY(charl__export_create(s->dev, box_bytes(ar, s), "all-reduce", &s->export));
cleanup:
    return st;
}

static charl_status boxes_import(charl_allreduce *ar, peer_state *s, const int *fds)
{
    charl_status st = CHARL_OK;

    for (int r = 0; r < ar->c->size; r++) {
        const int fd = r == ar->c->rank ? charl__export_fd(s->export) : fds[r];

        CHARL_TRY(charl__buffer_import(s->dev, fd, box_bytes(ar, s), &s->box[r]));
    }
cleanup:
    return st;
}

typedef struct launch_plan {
    bool in_parts;
    int size; /* packs of a tile */
    int groups, rounds;
} launch_plan;

/* Small ranges in small tiles, so that many work-groups have one; without a tile no work-group is
 * started, as it would still raise its flags. */
static launch_plan plan(const charl_allreduce *ar, const peer_state *s, charl__range range)
{
    const int ranks = ar->c->size, groups = ar->shares ? s->tuning.groups_beside : s->tuning.groups;
    const bool in_parts = range.count * 4 > s->tuning.all_bytes;
    const int64_t blocks = (range.count + CHARL__PART - 1) / CHARL__PART;
    const int64_t packs =
        (in_parts ? (blocks + ranks - 1) / ranks : blocks) * (CHARL__PART / 4) + 1;
    const int64_t share = (packs + groups - 1) / groups;
    const int64_t most = s->local * s->packs;
    const int64_t size = (int64_t)charl__round_up((size_t)share, (size_t)s->local);
    launch_plan p = {.in_parts = in_parts, .size = (int)(size < most ? size : most)};

    p.groups = (int)(size < most ? (packs + size - 1) / size : groups);
    p.rounds = (int)((packs + p.size * groups - 1) / (p.size * groups));
    return p;
}

static charl_status range_launch(charl_allreduce *ar, peer_state *s, charl__range range,
                                 const charl_event *written)
{
    charl_status st = CHARL_OK;
    const charl_comm *c = ar->c;
    const launch_plan p = plan(ar, s, range);
    const double patience_s =
        s->tuning.patience_s > 0 ? s->tuning.patience_s : c->timeout_s + grace_s;
    charl_launch l = {.file = "peer",
                      .entry = p.in_parts ? "charl_peer_sum_parts" : "charl_peer_sum_all",
                      .defines = s->defines,
                      .queue = CHARL_QUEUE_COMM,
                      .after = written,
                      .label = "all-reduce",
                      .global = {(size_t)(p.groups * s->local)},
                      .local = {(size_t)s->local}};
    const charl_arg rest[] = {
        charl__raw(CHARL_ARG_IN, ar->device_lanes),
        charl__raw(CHARL_ARG_OUT, ar->device_sum),
        charl__raw(CHARL_ARG_INOUT, s->state),
        charl__i32(c->rank),
        charl__i32(ar->map.first[c->rank]),
        charl__i32(ar->my_lanes),
        charl__i64(ar->stride),
        charl__i64(range.offset),
        charl__i64(range.count),
        charl__i32(p.size),
        charl__i32(p.rounds),
        charl__i64(s->epoch),
        charl__i64((int64_t)(patience_s * 1e9)),
    };

    for (int r = 0; r < CHARL__MAX_PEERS; r++) {
        l.args[r] = charl__raw(CHARL_ARG_INOUT, s->box[r < c->size ? r : c->rank]);
    }
    memcpy(l.args + CHARL__MAX_PEERS, rest, sizeof rest);
    CHARL_TRY(charl__launch(s->dev, &l));
    s->epoch += (int64_t)p.rounds * (p.in_parts ? 2 : 1);
cleanup:
    return st;
}

/* An event of every range costs the host more than to enqueue one; so ends are marked when somebody
 * asks. */
static charl_status peer_begin(charl_allreduce *ar, int64_t ticket)
{
    charl_status st = CHARL_OK;
    peer_state *s = ar->own;
    const charl__range range = ar->range[ticket % CHARL__RANGES];
    const int64_t commands = charl__queue_commands(s->dev, CHARL_QUEUE_COMPUTE);
    charl_event *written = NULL;

    if (range.count > 0) {
        if (commands != s->behind) { /* else the kernel before has waited for the same */
            CHARL_TRY(charl__event_record(s->dev, CHARL_QUEUE_COMPUTE, &written));
        }
        CHARL_TRY(range_launch(ar, s, range, written));
        s->behind = commands;
    }
    atomic_store(&((peer_page *)(void *)s->page.base)[ar->c->rank].begun, ticket + 1);
cleanup:
    charl__event_release(written);
    return st;
}

/* The end of all ranges begun. */
static charl_status end_mark(charl_allreduce *ar, peer_state *s)
{
    charl_status st = CHARL_OK;

    charl__event_release(s->end);
    s->end = NULL;
    CHARL_TRY(charl__event_record(s->dev, CHARL_QUEUE_COMM, &s->end));
    s->ended = ar->begun;
cleanup:
    return st;
}

static charl_status peer_progress(charl_allreduce *ar)
{
    charl_status st = CHARL_OK;
    peer_state *s = ar->own;
    bool is_done = false;

    if (ar->completed == ar->begun) {
        goto cleanup;
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
cleanup:
    return st;
}

static bool peer_late(const void *arg, int rank)
{
    const charl_allreduce *ar = arg;
    const peer_state *s = ar->own;

    return atomic_load(&((peer_page *)(void *)s->page.base)[rank].begun) <= ar->completed;
}

static charl_status peer_join(charl_allreduce *ar)
{
    charl_status st = CHARL_OK;
    peer_state *s = ar->own;

    if (ar->completed == ar->begun) {
        goto cleanup;
    }
    if (!s->end || s->ended < ar->begun) {
        CHARL_TRY(end_mark(ar, s));
    }
    CHARL_TRY(charl__queue_wait(s->dev, CHARL_QUEUE_COMPUTE, s->end));
cleanup:
    return st;
}

static charl_status peer_verify(charl_allreduce *ar)
{
    charl_status st = CHARL_OK;
    peer_state *s = ar->own;
    const charl_status code = s->is_trusted ? CHARL_ERR_COMM : CHARL_ERR_DEVICE;
    uint32_t word[2] = {0, 0};
    char text[1024] = "", name[160];
    size_t used = 0;

    if (s->words) {
        word[0] = atomic_load(&s->words[0]);
        word[1] = atomic_load(&s->words[1]);
    } else {
        CHARL_TRY(charl__buffer_read(CHARL_QUEUE_DOWNLOAD, s->state, 0, word, sizeof word, true));
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
cleanup:
    return st;
}

static void peer_abandon(charl_allreduce *ar)
{
    peer_state *s = ar->own;
    const uint32_t one = 1;

    if (s->words) {
        atomic_store(&s->words[1], one);
    } else if (s->state && charl__buffer_write(CHARL_QUEUE_UPLOAD, s->state, 4, &one, sizeof one,
                                               true) != CHARL_OK) {
        charl_error_clear(); /* then its patience ends it */
    }
}

/* v in all lanes, times the lane's number. */
static charl_status lanes_fill(charl_allreduce *ar, float *v, int64_t count, float factor)
{
    charl_status st = CHARL_OK;
    const size_t bytes = (size_t)count * sizeof *v;

    for (int j = 0; j < ar->my_lanes; j++) {
        for (int64_t i = 0; i < count; i++) {
            v[i] = factor * (float)(ar->map.first[ar->c->rank] + j + 1) * (float)(i % 97 + 1);
        }
        CHARL_TRY(charl__buffer_write(CHARL_QUEUE_COMPUTE, ar->device_lanes,
                                      (size_t)(j * ar->stride) * sizeof *v, v, bytes, true));
    }
cleanup:
    return st;
}

static charl_status sums_look(charl_allreduce *ar, float *v, int64_t count)
{
    charl_status st = CHARL_OK;
    const size_t bytes = (size_t)count * sizeof *v;
    const float total = (float)(ar->map.n * (ar->map.n + 1) / 2);
    int64_t wrong = 0;

    CHARL_TRY(charl__buffer_read(CHARL_QUEUE_COMPUTE, ar->device_sum, 0, v, bytes, true));
    for (int64_t i = 0; i < count; i++) {
        wrong += v[i] != total * (float)(i % 97 + 1);
    }
    CHARL_REQUIRE(wrong == 0, CHARL_ERR_DEVICE,
                  "%lld of %lld sums over the devices' shared memory are wrong", (long long)wrong,
                  (long long)count);
    memset(v, 0, bytes);
    CHARL_TRY(charl__buffer_write(CHARL_QUEUE_COMPUTE, ar->device_sum, 0, v, bytes, true));
cleanup:
    return st;
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
        peer_abandon(ar); /* of whoever waits for a rank that could not begin */
    }
    CHARL_TRY(st);
    if (is_absent) {
        goto cleanup;
    }
    CHARL_TRY(charl_allreduce_wait(ar, ticket));
    CHARL_TRY(sums_look(ar, v, count));
    CHARL_TRY(lanes_fill(ar, v, count, 0.0F));
cleanup:
    return st;
}

/* Both kernels, once: they are built and known to work before anything depends on them. */
static charl_status try_out(charl_allreduce *ar, peer_state *s)
{
    charl_status st = CHARL_OK;
    const int64_t most = 5003, count = ar->n < most ? ar->n : most;
    const charl__peer_tuning tuning = s->tuning;
    int64_t ms = 0;
    float *v = NULL;

    s->tuning.patience_s = charl__fault_arg("peer.patience", &ms) ? (double)ms / 1e3 : try_s;
    st = charl_alloc_array(count + 1, sizeof *v, &v);
    CHARL_TRY(charl_comm_agree(ar->c, st));
    for (int k = 0; k < 2; k++) {
        s->tuning.all_bytes = k == 0 ? INT64_MAX : 0;
        CHARL_TRY(charl_comm_agree(ar->c, try_once(ar, v, count)));
    }
    s->tuning = tuning;
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

    st = charl_alloc(sizeof *s, &s);
    ar->own = s; /* also where another rank got none */
    CHARL_TRY(charl_comm_agree(c, st));
    s->dev = ar->options.device;
    s->epoch = 1;
    shape_choose(ar, s);
    CHARL_TRY(charl_comm_agree(c, memory_create(ar, s)));
    CHARL_TRY(charl__descriptors_exchange(c, charl__export_fd(s->export), fds));
    CHARL_TRY(charl_comm_agree(c, boxes_import(ar, s, fds)));
    CHARL_TRY(charl__window_create(c, (size_t)c->size * sizeof(peer_page),
                                   "the progress of the all-reduce", &s->page));
    CHARL_TRY(try_out(ar, s));
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
    for (int r = 0; r < ar->c->size; r++) {
        charl__buffer_release(s->box[r]); /* waits for what is on its way */
    }
    charl__buffer_release(ar->device_lanes);
    charl__buffer_release(ar->device_sum);
    charl__buffer_release(s->state);
    charl__export_destroy(s->export);
    charl__window_destroy(ar->c, &s->page);
    charl_free(s->defines);
    charl_free(s->words);
    charl_free(s->host);
    charl_free(s);
}

charl__peer_tuning *charl__peer_tuning_of(charl_allreduce *ar)
{
    return ar->algorithm == &charl__allreduce_peer ? &((peer_state *)ar->own)->tuning : NULL;
}

const charl__algorithm charl__allreduce_peer = {
    .name = "peer",
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
