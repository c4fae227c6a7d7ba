/* The all-reduce that the devices of a node do alone: on GPUs of NVIDIA over the link between them,
 * else the same kernel between CPU devices of several processes. */
#define _GNU_SOURCE /* SO_PASSCRED */
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/numeric/tree.h"
#include "dist/allreduce/allreduce_device.h"
#include "dist/allreduce/parts.h"
#include "dist/allreduce/peer.h"
#include "mpi/ranks.h"

_Thread_local charl_comm *comm, *nodes;
static charl_device *dev;

static charl_status create(charl_comm *c, int total, int64_t n, charl_slices *mine, charl_allreduce **out)
{
    charl_assert_ok(charl_slices_block(total, charl_comm_rank(c), charl_comm_size(c), mine));
    return charl_allreduce_create(
        c, n, mine, &(charl_allreduce_options){sizeof(charl_allreduce_options), .algorithm = "peer", .device = dev},
        out);
}

/* This rank's lanes of a round, by the compute queue, so that begin is ordered behind them. */
static void lanes_write(charl_allreduce *ar, const charl_slices *mine, int64_t round, int64_t n, float **leaf)
{
    charl__buffer *lanes, *sum;

    assert_true(charl__allreduce_buffers(ar, &lanes, &sum));
    for (int j = 0; j < mine->n_lanes; j++) {
        const int lo = mine->lane_lo[j], hi = mine->lane_hi[j];

        for (int s = lo; s < hi; s++) {
            leaf_fill(leaf[s], round, s, n);
        }
        charl__tree_fold(leaf + lo, hi - lo, n);
        charl_assert_ok(charl__buffer_write(CHARL_QUEUE_COMPUTE, lanes,
                                            (size_t)(j * charl__allreduce_stride(ar)) * sizeof(float), leaf[lo],
                                            (size_t)n * sizeof(float), true));
    }
}

/* The sums of a round against those that one rank would form; the device waits, not the host. */
static void sums_check(charl_allreduce *ar, int total, int64_t round, int64_t n, float **leaf)
{
    charl__buffer *lanes, *sum;
    float *got = malloc((size_t)(n + 1) * sizeof *got);

    assert_non_null(got);
    assert_true(charl__allreduce_buffers(ar, &lanes, &sum));
    charl_assert_ok(charl__allreduce_join(ar));
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, sum, 0, got, (size_t)n * sizeof *got, true));
    for (int s = 0; s < total; s++) {
        leaf_fill(leaf[s], round, s, n);
    }
    charl__tree_fold(leaf, total, n);
    charl_assert_same_bits(got, leaf[0], n);
    free(got);
}

static void rounds_run(charl_allreduce *ar, const charl_slices *mine, int64_t n, int rounds)
{
    float **leaf = leaves_alloc(mine->total, n);
    const int64_t cut[] = {0, n / 7, n / 7, n / 2 + 1, n};
    int64_t ticket = 0;

    for (int64_t round = 0; round < rounds; round++) {
        pause_randomly(round);
        lanes_write(ar, mine, round, n, leaf);
        for (int b = 0; b < 4; b++) { /* by all work-groups and by few */
            charl__allreduce_share(ar, (round + b) % 2 == 1);
            charl_assert_ok(charl_allreduce_begin(ar, cut[b], cut[b + 1] - cut[b], &ticket));
        }
        assert_non_null(charl__allreduce_written(ar));
        charl_assert_ok(charl__event_wait(charl__allreduce_written(ar)));
        sums_check(ar, mine->total, round, n, leaf);
        charl_assert_ok(charl_allreduce_wait(ar, ticket));
    }
    leaves_free(leaf, mine->total);
}

/* Odd sizes: ranges that begin and end inside a pack, tiles that are not full, empty parts. */
static void sums(charl_comm *c, int total, int64_t n, bool in_words, int rounds)
{
    charl_allreduce *ar = NULL;
    charl_slices mine;

    charl_assert_ok(create(c, total, n, &mine, &ar));
    assert_string_equal(charl__allreduce_get_name(ar), "peer");
    assert_true(charl__allreduce_is_invariant(ar));
    charl__peer_tuning_of(ar)->words_bytes = in_words ? INT64_MAX : 0;
    rounds_run(ar, &mine, n, rounds);
    charl_allreduce_destroy(ar);
}

static void test_sums_equal_the_serial_fold(void **state)
{
    const int64_t sizes[] = {2, 17, 5003, 60001};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        sums(comm, 8, sizes[i], i % 2 == 0, 1);
        sums(comm, 8, sizes[i], i % 2 == 1, 1);
    }
    if (charl_comm_size(comm) % 2 == 0) { /* several lanes of a rank; three ranks have them anyway */
        sums(comm, 11, 5003, false, 1);
    }
    charl_assert_ok(charl_comm_barrier(comm));
}

/* Whether there are pretended nodes of equal size, several ranks each. */
static bool has_nodes(void)
{
    return charl_comm_size(comm) % 2 == 0 && charl_comm_node_count(nodes) > 1;
}

/* Lanes of a node that are one subtree or several; pieces of a part; parts without values. */
static void test_sums_over_nodes_equal_the_serial_fold(void **state)
{
    const int64_t sizes[] = {2, 17, 700, 5003, 60001};

    (void)state;
    if (!has_nodes()) {
        return; /* mpi/peer_nodes has them */
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        sums(nodes, 8, sizes[i], false, 2);
    }
    sums(nodes, 11, 5003, false, 3);
    sums(nodes, 5, 700, false, 3);
    sums(nodes, 4, 5000001, false, 1);
    charl_assert_ok(charl_comm_barrier(comm));
}

static void in_tiles(charl_allreduce *ar)
{
    charl__peer_tuning_of(ar)->words_bytes = 0;
}

/* Packs of eight values: ranges that begin and end inside one. */
static void sums_in_bf16(charl_comm *c)
{
    check_bf16(c, "peer", dev, NULL, 8, 17);
    check_bf16(c, "peer", dev, in_tiles, 8, 17);
    check_bf16(c, "peer", dev, NULL, 11, 5003);
    check_bf16(c, "peer", dev, in_tiles, 11, 5003);
    check_bf16(c, "peer", dev, in_tiles, 8, 60001);
}

static void test_sums_in_bf16_equal_the_tree(void **state)
{
    (void)state;
    sums_in_bf16(comm);
}

static void test_sums_in_bf16_over_nodes_equal_the_tree(void **state)
{
    (void)state;
    if (!has_nodes()) {
        return; /* mpi/peer_nodes has them */
    }
    sums_in_bf16(nodes);
    if (charl__env_is_on(CHARL_ENV_TEST_LONG)) {
        check_bf16(nodes, "peer", dev, NULL, 4, 2200001); /* two pieces */
    }
}

/* More ranges than may wait for the exchange between nodes. */
static void test_many_ranges_over_nodes(void **state)
{
    enum { N = 7000, RANGES = 200 };
    float **leaf = leaves_alloc(8, N);
    charl_allreduce *ar = NULL;
    charl_slices mine;
    int64_t ticket = 0;

    (void)state;
    if (!has_nodes()) {
        leaves_free(leaf, 8);
        return; /* mpi/peer_nodes has them */
    }
    charl_assert_ok(create(nodes, 8, N, &mine, &ar));
    for (int round = 0; round < 2; round++) {
        lanes_write(ar, &mine, round, N, leaf);
        for (int k = 0; k < RANGES; k++) {
            charl_assert_ok(charl_allreduce_begin(ar, k * (N / RANGES), N / RANGES, &ticket));
        }
        sums_check(ar, 8, round, N, leaf);
        charl_assert_ok(charl_allreduce_wait(ar, ticket));
    }
    charl_allreduce_destroy(ar);
    leaves_free(leaf, 8);
}

/* Ranks of a whole node that bring nothing. */
static void test_nodes_without_lanes(void **state)
{
    const int rank = charl_comm_rank(nodes);
    charl_allreduce *ar = NULL;
    charl_slices mine;

    (void)state;
    if (!has_nodes()) {
        return; /* mpi/peer_nodes has them */
    }
    charl_assert_ok(charl_slices_range(2, rank < 2 ? rank : 2, rank < 2, &mine));
    charl_assert_ok(charl_allreduce_create(
        nodes, 700, &mine,
        &(charl_allreduce_options){sizeof(charl_allreduce_options), .algorithm = "peer", .device = dev}, &ar));
    rounds_run(ar, &mine, 700, 3);
    charl_allreduce_destroy(ar);
}

static float gathered_value(int64_t round, int64_t i)
{
    return (float)(i % 1009) + (float)(round + 1) / 8;
}

/* Every rank writes its part of ranges of the parameters, in place; afterwards all have all. */
static void gather(charl_comm *c, int64_t n, int rounds)
{
    const int64_t cut[] = {0, n / 7, n / 7, n / 2 + 1, n};
    const size_t bytes = (size_t)n * sizeof(float);
    float *v = malloc(bytes);
    charl__buffer *values = NULL;
    charl_allreduce *ar = NULL;
    charl_slices mine;
    int64_t ticket = 0;

    assert_non_null(v);
    charl_assert_ok(charl__buffer_create(dev, bytes, "values", &values));
    charl_assert_ok(charl_slices_block(8, charl_comm_rank(c), charl_comm_size(c), &mine));
    charl_assert_ok(
        charl__allreduce_create_with(c, n, &mine,
                                     &(charl_allreduce_options){sizeof(charl_allreduce_options), .algorithm = "peer",
                                                                .gathers = true, .device = dev},
                                     values, NULL, &ar));
    assert_true(charl__allreduce_gathers_in_place(ar));
    for (int64_t round = 0; round < rounds; round++) {
        pause_randomly(round);
        for (int b = 0; b < 4; b++) {
            int64_t from, to;

            charl__allreduce_part(ar, cut[b], cut[b + 1] - cut[b], charl_comm_rank(c), &from, &to);
            for (int64_t i = cut[b]; i < cut[b + 1]; i++) {
                v[i] = i >= cut[b] + from && i < cut[b] + to ? gathered_value(round, i) : -1.0F;
            }
        }
        charl_assert_ok(charl__buffer_write(CHARL_QUEUE_COMPUTE, values, 0, v, bytes, true));
        for (int b = 0; b < 4; b++) {
            charl_assert_ok(charl__allreduce_gather(ar, cut[b], cut[b + 1] - cut[b], &ticket));
        }
        charl_assert_ok(charl__allreduce_join(ar));
        charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, values, 0, v, bytes, true));
        charl_assert_ok(charl_allreduce_wait(ar, ticket));
        for (int64_t i = 0; i < n; i++) {
            if (v[i] != gathered_value(round, i)) {
                fail_msg("round %lld: value %lld is %g", (long long)round, (long long)i, (double)v[i]);
            }
        }
    }
    charl_allreduce_destroy(ar);
    charl__buffer_release(values);
    free(v);
}

static void test_gathering_in_place(void **state)
{
    const int64_t sizes[] = {1, 17, 700, 5003, 60001};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        gather(comm, sizes[i], 3);
    }
}

static void test_gathering_over_nodes(void **state)
{
    const int64_t sizes[] = {1, 17, 700, 5003, 60001};

    (void)state;
    if (!has_nodes()) {
        return; /* mpi/peer_nodes has them */
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        gather(nodes, sizes[i], 3);
    }
    gather(nodes, 9000001, 1); /* several pieces */
}

/* Values that no buffer was given for are not gathered here. */
static void test_gathering_wants_a_buffer(void **state)
{
    charl_allreduce *ar = NULL;
    charl_slices mine;

    (void)state;
    charl_assert_ok(charl_slices_block(8, charl_comm_rank(comm), charl_comm_size(comm), &mine));
    charl_assert_status(
        charl_allreduce_create(comm, 9, &mine,
                               &(charl_allreduce_options){sizeof(charl_allreduce_options), .algorithm = "peer",
                                                          .gathers = true, .device = dev},
                               &ar),
        CHARL_ERR_CONFIG);
    charl_assert_message("does not gather");
}

static void test_meetings_in_a_row_and_in_turn(void **state)
{
    charl_allreduce *ar = NULL;
    charl_slices mine;
    const bool is_long = charl__env_is_on(CHARL_ENV_TEST_LONG);

    (void)state;
    charl_assert_ok(create(comm, 8, 700, &mine, &ar));
    for (int turn = 0; turn < 6; turn++) { /* both kernels by turns */
        charl__peer_tuning_of(ar)->words_bytes = turn % 2 == 1 ? 0 : INT64_MAX;
        rounds_run(ar, &mine, 700, is_long ? 5000 : 2);
    }
    charl_allreduce_destroy(ar);
}

/* No mark is used twice: when they are spent, ranges go in tiles. Also several tiles in a row, so
 * that each set of slots is used again. */
static void test_marks_come_to_an_end(void **state)
{
    const int64_t n = 100001; /* its half is more than SETS tiles of every part */
    charl_allreduce *ar = NULL;
    charl__peer_tuning *tuning;
    charl_slices mine;

    (void)state;
    charl_assert_ok(create(comm, 8, n, &mine, &ar));
    tuning = charl__peer_tuning_of(ar);
    tuning->groups = 1;
    tuning->words_left = 4 + tuning->words_left % 2; /* marks in a row are odd and even by turns */
    rounds_run(ar, &mine, 700, 3);
    assert_int_equal(tuning->words_left, 0);
    rounds_run(ar, &mine, n, 1);
    charl_assert_ok(charl_comm_barrier(comm));
    charl_allreduce_destroy(ar);
}

/* A rank that brings nothing and gets all: it cannot be heard by words. */
static void test_a_rank_without_lanes(void **state)
{
    const int rank = charl_comm_rank(comm), last = charl_comm_size(comm) - 1;
    charl_allreduce *ar = NULL;
    charl_slices mine;

    (void)state;
    charl_assert_ok(charl_slices_range(last, rank, rank < last, &mine));
    charl_assert_ok(charl_allreduce_create(
        comm, 700, &mine,
        &(charl_allreduce_options){sizeof(charl_allreduce_options), .algorithm = "peer", .device = dev}, &ar));
    assert_int_equal(charl__peer_tuning_of(ar)->words_left, 0);
    rounds_run(ar, &mine, 700, 5);
    charl_allreduce_destroy(ar);
}

/* What a training step does with a peer that is there, but does not come. */
static void lose(double timeout_s, double patience_s, const char *message)
{
    const int last = charl_comm_size(comm) - 1;
    charl_comm *c = NULL;
    charl_allreduce *ar = NULL;
    charl_slices mine;
    int64_t ticket = 0;
    char text[64];

    charl_assert_ok(charl_comm_create(&(charl_comm_options){sizeof(charl_comm_options), .timeout_s = 20}, &c));
    charl_assert_ok(create(c, 8, 5003, &mine, &ar));
    charl_comm_set_timeout(c, timeout_s);
    charl__peer_tuning_of(ar)->patience_s = patience_s;
    if (charl_comm_rank(c) == last) {
        charl_comm_break(c);
    } else {
        charl_assert_ok(charl_allreduce_begin(ar, 0, 5003, &ticket));
        charl_assert_status(charl_allreduce_wait(ar, ticket), CHARL_ERR_COMM);
        snprintf(text, sizeof text, "%s rank %d of", message, last);
        charl_assert_message(text);
        assert_true(charl_comm_is_broken(c));
        charl_assert_status(charl_allreduce_begin(ar, 0, 1, &ticket), CHARL_ERR_COMM);
        charl_assert_status(charl__allreduce_join(ar), CHARL_ERR_COMM);
    }
    charl_allreduce_destroy(ar);
    charl_comm_destroy(c);
    charl_assert_ok(charl_comm_barrier(comm));
}

static void test_the_kernel_gives_up(void **state)
{
    (void)state;
    lose(60, 0.2, "the device timed out waiting for");
}

static void test_the_host_ends_the_kernel(void **state)
{
    (void)state;
    lose(0.3, 600, "waiting for"); /* destroying waits for the kernel */
}

static void test_where_it_does_not_work(void **state)
{
    charl_allreduce *ar = NULL;
    charl_slices mine;
    charl_device *const own = dev;

    (void)state;
    dev = charl_comm_rank(comm) == 1 ? NULL : own;
    charl_assert_status(create(comm, 8, 4, &mine, &ar), CHARL_ERR_CONFIG);
    charl_assert_message("rank 1: no device was given");
    dev = own;
    if (charl_comm_node_count(nodes) > 1 && !has_nodes()) {
        charl_assert_status(create(nodes, 8, 4, &mine, &ar), CHARL_ERR_CONFIG);
        charl_assert_message("the nodes have different numbers of ranks");
    }
    charl_assert_ok(charl_allreduce_create(
        comm, 4, &mine, &(charl_allreduce_options){sizeof(charl_allreduce_options), .device = dev}, &ar));
    assert_string_equal(charl__allreduce_get_name(ar),
                        charl_device_get_info(dev)->kind == CHARL_DEVICE_GPU ? "peer" : "shm");
    assert_int_equal(charl__allreduce_written(ar) != NULL, charl__peer_tuning_of(ar) != NULL);
    charl_allreduce_destroy(ar);
}

static void test_the_survey_says_why(void **state)
{
    charl__peer_fact f[3] = {{CHARL_SHARED_CUDA, "0000:01:00.0", ""},
                             {CHARL_SHARED_CUDA, "0000:02:00.0", ""},
                             {CHARL_SHARED_CUDA, "0000:02:00.0", ""}};
    charl__peer_survey s = {.is_usable = false};

    (void)state;
    charl__peer_compare(f, 0, 2, &s);
    assert_string_equal(s.why, "");
    assert_true(s.is_preferred);
    charl__peer_compare(f, 0, 3, &s);
    assert_string_equal(s.why, "ranks 1 and 2 share one GPU");
    f[2] = (charl__peer_fact){CHARL_SHARED_HOST, "", ""};
    s.why[0] = '\0';
    charl__peer_compare(f, 0, 3, &s);
    assert_string_equal(s.why, "ranks 0 and 2 have devices of different kinds");
}

static int lowest_free(void)
{
    const int fd = dup(0);

    assert_true(fd >= 0);
    close(fd);
    return fd;
}

static void descriptors_send(int socket, const void *text, size_t bytes, const int *fds, size_t n)
{
    union {
        struct cmsghdr header;
        unsigned char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control = {.bytes = {0}};
    struct iovec io = {(void *)(uintptr_t)text, bytes};
    struct msghdr h = {.msg_iov = &io, .msg_iovlen = 1};

    if (n > 0) {
        h.msg_control = control.bytes;
        h.msg_controllen = CMSG_SPACE(n * sizeof *fds);
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(n * sizeof *fds);
        memcpy(CMSG_DATA(&control.header), fds, n * sizeof *fds);
    }
    assert_int_equal(sendmsg(socket, &h, 0), bytes);
}

/* What strangers can send: other lengths, no descriptor, several. */
static void test_a_message_leaves_no_descriptor_behind(void **state)
{
    const charl__descriptor_note sent = {77, 1};
    const int two[] = {0, 0}, on = 1;
    charl__descriptor_note m;
    int pair[2], fd, before;
    bool is_cut;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    assert_int_equal(setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on), 0);
    before = lowest_free();
    for (size_t n = 0; n <= 2; n++) {
        descriptors_send(pair[1], &sent, sizeof sent, two, n);
        assert_true(charl__descriptor_receive(pair[0], &m, &fd, &is_cut));
        assert_true(m.proof == 77 && m.rank == 1);
        assert_false(is_cut);
        assert_int_equal(fd, n == 0 ? -1 : before);
        if (fd >= 0) {
            assert_int_equal(lowest_free(), before + 1);
            close(fd);
        }
    }
    descriptors_send(pair[1], &sent, sizeof sent - 1, two, 0);
    assert_true(charl__descriptor_receive(pair[0], &m, &fd, &is_cut));
    assert_int_equal(m.rank, -1);
    assert_false(charl__descriptor_receive(pair[0], &m, &fd, &is_cut));
    close(pair[0]);
    close(pair[1]);
}

/* A rank that may open its socket and nothing more. */
static void test_no_more_files_may_be_opened(void **state)
{
    const int before = lowest_free();
    const bool is_poor = charl_comm_rank(comm) == 1;
    struct rlimit limit, low;
    int fds[CHARL__MAX_PEERS];
    char text[64];

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    low = limit;
    low.rlim_cur = (rlim_t)before + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, is_poor ? &low : &limit), 0);
    charl_assert_status(charl__descriptors_exchange(comm, 0, fds), CHARL_ERR_COMM);
    snprintf(text, sizeof text, "%d of %d descriptors did not come", charl_comm_size(comm) - 1,
             charl_comm_size(comm) - 1);
    charl_assert_message(text);
    charl_assert_message("ulimit -n");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(lowest_free(), before);
}

static void note(void *ctx, charl_log_level level, const char *text)
{
    *(int *)ctx += level == CHARL_LOG_WARN && strstr(text, "all-reduce peer is not used") != NULL;
}

/* A driver that imports nothing: auto goes on with another algorithm, a name that is asked for
 * fails. */
static void test_auto_falls_back(void **state)
{
    const int failing_rank = charl_comm_size(comm) - 1;
    charl_allreduce *ar = NULL;
    charl_slices mine;
    int warnings = 0;

    (void)state;
    charl_assert_ok(charl_slices_block(8, charl_comm_rank(comm), charl_comm_size(comm), &mine));
    charl_log_set_callback(note, &warnings);
    charl_assert_ok(charl__fault_set("peer.prefer:1+"));
    charl__fault_after(charl_comm_rank(comm) == failing_rank ? 12 : 0);
    charl_assert_ok(charl_allreduce_create(
        comm, 300, &mine, &(charl_allreduce_options){sizeof(charl_allreduce_options), .device = dev}, &ar));
    assert_string_equal(charl__allreduce_get_name(ar), "shm");
    assert_int_equal(warnings, 1);
    charl_allreduce_destroy(ar);

    /* memory through which rank 1 is never heard */
    charl_assert_ok(charl__fault_set("peer.prefer:1+,peer.absent@1:1,peer.patience:1+:100"));
    charl_assert_ok(charl_allreduce_create(
        comm, 300, &mine, &(charl_allreduce_options){sizeof(charl_allreduce_options), .device = dev}, &ar));
    charl_assert_ok(charl__fault_set(NULL));
    charl_log_set_callback(NULL, NULL);
    assert_string_equal(charl__allreduce_get_name(ar), "shm");
    assert_int_equal(warnings, 2);
    assert_false(charl_comm_is_broken(comm));
    charl_allreduce_destroy(ar);
}

/* The trial over nodes: what a kernel that gave up has left is sent to the other node, and both find that its sum is wrong. */
static void test_auto_falls_back_over_nodes(void **state)
{
    charl_allreduce *ar = NULL;
    charl_slices mine;
    int warnings = 0;

    (void)state;
    if (!has_nodes()) {
        return; /* mpi/peer_nodes has them */
    }
    charl_assert_ok(charl_slices_block(8, charl_comm_rank(nodes), charl_comm_size(nodes), &mine));
    charl_log_set_callback(note, &warnings);
    charl_assert_ok(charl__fault_set("peer.prefer:1+,peer.late@1:1:1000,peer.patience:1+:100"));
    charl_assert_ok(charl_allreduce_create(
        nodes, 300, &mine, &(charl_allreduce_options){sizeof(charl_allreduce_options), .device = dev}, &ar));
    charl_assert_ok(charl__fault_set(NULL));
    charl_log_set_callback(NULL, NULL);
    assert_string_equal(charl__allreduce_get_name(ar), "hierarchical");
    assert_int_equal(warnings, 1);
    assert_false(charl_comm_is_broken(nodes));
    charl_allreduce_destroy(ar);
    sums(nodes, 8, 700, false, 1); /* the next trial may succeed */
}

/* One rank fails at its nth acquisition while the all-reduce is created: it fails on all. */
static void fail_alone(charl_comm *c, int n, charl_status *st)
{
    charl_allreduce *ar = NULL;
    charl_slices mine;
    int64_t was_spent;

    charl__fault_after(charl_comm_rank(comm) == 1 ? n : 0);
    *st = create(c, 8, 300, &mine, &ar);
    was_spent = *st != CHARL_OK;
    charl__fault_after(0);
    charl_assert_ok(charl_comm_reduce_i64(comm, CHARL_COMM_MIN, &was_spent, 1));
    assert_int_equal(was_spent, *st != CHARL_OK);
    charl_allreduce_destroy(ar);
}

static int failure_step(void)
{
    return charl__env_is_on(CHARL_ENV_TEST_LONG) ? 1 : 13;
}

/* ... and the ranks can go on. */
static void test_a_lonely_failure_is_everybodys(void **state)
{
    charl_status st = CHARL_ERR_NOMEM;
    int n = 1;

    (void)state;
    for (; st != CHARL_OK; n += failure_step()) {
        fail_alone(comm, n, &st);
        assert_false(charl_comm_is_broken(comm));
    }
    assert_true(n > 20);
}

/* ... and over nodes too, unless messages are under way: then they have lost each other. */
static void test_a_lonely_failure_is_that_of_all_nodes(void **state)
{
    charl_status st = CHARL_ERR_NOMEM;
    int n = 1;

    (void)state;
    for (; has_nodes() && st != CHARL_OK; n += failure_step()) { /* mpi/peer_nodes */
        charl_comm *c = NULL;

        charl_assert_ok(charl_comm_create(
            &(charl_comm_options){sizeof(charl_comm_options), .timeout_s = 1, .ranks_per_node = {2}}, &c));
        fail_alone(c, n, &st);
        charl_comm_destroy(c);
    }
    assert_true(!has_nodes() || n > 20);
}

static int ranks_begin(void **state)
{
    (void)state;
    if (charl_comm_create(&(charl_comm_options){sizeof(charl_comm_options), .timeout_s = 20}, &comm) != CHARL_OK ||
        charl_comm_create(&(charl_comm_options){sizeof(charl_comm_options), .timeout_s = 20, .ranks_per_node = {2}},
                          &nodes) != CHARL_OK ||
        charl_device_open(&(charl_device_request){sizeof(charl_device_request), .local_rank = charl_comm_rank(comm),
                                                  .local_size = charl_comm_size(comm)},
                          &dev) != CHARL_OK) {
        fprintf(stderr, "%s\n", charl_error_message());
        return 1;
    }
    return 0;
}

static int ranks_end(void **state)
{
    (void)state;
    if (charl_comm_is_broken(comm) || charl_comm_is_broken(nodes)) {
        return 1;
    }
    charl_device_close(dev);
    charl_comm_destroy(nodes);
    charl_comm_destroy(comm);
    return charl__live() != 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_equal_the_serial_fold),
        cmocka_unit_test(test_sums_over_nodes_equal_the_serial_fold),
        cmocka_unit_test(test_sums_in_bf16_equal_the_tree),
        cmocka_unit_test(test_sums_in_bf16_over_nodes_equal_the_tree),
        cmocka_unit_test(test_many_ranges_over_nodes),
        cmocka_unit_test(test_nodes_without_lanes),
        cmocka_unit_test(test_gathering_in_place),
        cmocka_unit_test(test_gathering_over_nodes),
        cmocka_unit_test(test_gathering_wants_a_buffer),
        cmocka_unit_test(test_meetings_in_a_row_and_in_turn),
        cmocka_unit_test(test_marks_come_to_an_end),
        cmocka_unit_test(test_a_rank_without_lanes),
        cmocka_unit_test(test_where_it_does_not_work),
        cmocka_unit_test(test_the_survey_says_why),
        cmocka_unit_test(test_a_message_leaves_no_descriptor_behind),
        cmocka_unit_test(test_no_more_files_may_be_opened),
        cmocka_unit_test(test_auto_falls_back),
        cmocka_unit_test(test_auto_falls_back_over_nodes),
        cmocka_unit_test(test_a_lonely_failure_is_everybodys),
        cmocka_unit_test(test_a_lonely_failure_is_that_of_all_nodes),
        cmocka_unit_test(test_the_host_ends_the_kernel),
        cmocka_unit_test(test_the_kernel_gives_up),
    };
    int failed;

    if (charl_comm_init(&argc, &argv) != CHARL_OK) {
        fprintf(stderr, "%s\n", charl_error_message());
        return 1;
    }
    failed = cmocka_run_group_tests(tests, ranks_begin, ranks_end);
    if (failed) { /* the ranks may have parted: no more waiting for each other */
        fflush(NULL);
        charl_comm_exit(NULL, 1, NULL);
    }
    charl_comm_fini();
    return failed;
}
