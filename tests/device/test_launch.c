/* Launches and recordings, and what errors of drivers become. */
#include "device/suite.h"

#include "base/alloc.h"
#include "device/device_private.h"
#include "device/opencl/opencl.h"

/* Launches, what they refuse, recordings and step records, on every device. */

enum { WORDS = 3000, STEPS = 23 };

static void expect_words(charl__buffer *b, int64_t at, int64_t n, uint32_t want)
{
    static uint32_t got[WORDS];

    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, b, 4 * (size_t)at, got, 4 * (size_t)n, true));
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(got[i], want);
    }
}

static void check_offsets(charl_device *dev)
{
    charl__buffer *b = charl_test_buffer(dev, 4 * WORDS);
    charl__launch fill = charl_test_fill_launch(b, 100, 7, 50);

    charl_assert_ok(charl__launch_enqueue(dev, &fill));
    expect_words(b, 0, 100, 0);
    expect_words(b, 100, 50, 7);
    expect_words(b, 150, WORDS - 150, 0);
    fill.global[0] = 0; /* nothing to do is nothing launched, whatever the rest says */
    fill.entry = "no_such_kernel";
    charl_assert_ok(charl__launch_enqueue(dev, &fill));
    charl__buffer_release(b);
}

static void test_offsets(void **state)
{
    (void)state;
    charl_test_each_device(check_offsets);
}

/* Two queues in turn, each launch after the other queue's last: the values say who came when. */
static void check_order(charl_device *dev)
{
    enum { TURNS = 40 };
    static const charl__queue queue[2] = {CHARL_QUEUE_COMPUTE, CHARL_QUEUE_COMM};
    charl__buffer *b = charl_test_buffer(dev, 4 * WORDS);
    charl__event *last = NULL;

    for (int turn = 0; turn < TURNS; turn++) {
        charl__launch fill = charl_test_fill_launch(b, turn, (uint32_t)turn + 1, WORDS - turn);

        fill.queue = queue[turn % 2];
        fill.after = last;
        charl_assert_ok(charl__launch_enqueue(dev, &fill));
        charl__event_release(last);
        charl_assert_ok(charl__event_record(dev, fill.queue, &last));
    }
    charl_assert_ok(charl__event_wait(last));
    for (int turn = 0; turn < TURNS; turn++) {
        expect_words(b, turn, turn + 1 < TURNS ? 1 : WORDS - turn, (uint32_t)turn + 1);
    }
    charl__event_release(last);
    charl__buffer_release(b);
}

/* What another queue writes to a new buffer is not overwritten by the buffer's zeros, which take a while and reach the end last. */
static void check_zeros(charl_device *dev)
{
    enum { MANY = 1 << 24 };

    for (int turn = 0; turn < 5; turn++) {
        charl__buffer *b = charl_test_buffer(dev, 4 * (size_t)MANY);
        charl__launch fill = charl_test_fill_launch(b, MANY - WORDS, (uint32_t)turn + 1, WORDS);
        charl__event *done = NULL;

        fill.queue = CHARL_QUEUE_COMM;
        charl_assert_ok(charl__launch_enqueue(dev, &fill));
        charl_assert_ok(charl__event_record(dev, CHARL_QUEUE_COMM, &done));
        charl_assert_ok(charl__event_wait(done));
        expect_words(b, MANY - WORDS, WORDS, (uint32_t)turn + 1);
        charl__event_release(done);
        charl__buffer_release(b);
    }
}

/* An event that cannot be kept: nothing of it is left behind. */
static charl_status record(void *ctx)
{
    charl_status st = CHARL_OK;
    charl__event *e = NULL;

    CHARL_TRY_CLEANUP(charl__event_record(ctx, CHARL_QUEUE_COMM, &e));
cleanup:
    charl__event_release(e);
    return st;
}

/* What reads or writes memory counts, on its queue; what only orders does not. */
static void check_commands(charl_device *dev)
{
    const int64_t other = charl__queue_commands(dev, CHARL_QUEUE_COMM);
    int64_t n = charl__queue_commands(dev, CHARL_QUEUE_COMPUTE);
    charl__buffer *b = charl_test_buffer(dev, 4 * WORDS);
    charl__launch fill = charl_test_fill_launch(b, 0, 1, WORDS);
    uint32_t word = 0;
    void *p = NULL;

    assert_int_equal(charl__queue_commands(dev, CHARL_QUEUE_COMPUTE), ++n); /* its zeros */
    charl_assert_ok(charl__launch_enqueue(dev, &fill));
    assert_int_equal(charl__queue_commands(dev, CHARL_QUEUE_COMPUTE), ++n);
    charl_assert_ok(charl__buffer_write(CHARL_QUEUE_COMPUTE, b, 0, &word, 4, true));
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, b, 0, &word, 4, true));
    charl_assert_ok(charl__buffer_map(CHARL_QUEUE_COMPUTE, b, 0, 4, &p));
    charl_assert_ok(charl__buffer_unmap(CHARL_QUEUE_COMPUTE, b, p));
    assert_int_equal(charl__queue_commands(dev, CHARL_QUEUE_COMPUTE), n + 4);
    assert_true(charl_test_fail_every_acquisition(record, dev) > 0);
    assert_int_equal(charl__queue_commands(dev, CHARL_QUEUE_COMM), other);
    charl__buffer_release(b);
}

/* The last argument of charl_fill changes from launch to launch, and the number of work-groups. */
static void check_prepared(charl_device *dev)
{
    charl__buffer *b = charl_test_buffer(dev, 4 * WORDS);
    charl__launch fill = charl_test_fill_launch(b, 100, 7, 50);
    charl__event *last = NULL;
    charl__prepared *p = NULL;

    fill.queue = CHARL_QUEUE_COMM;
    charl_assert_ok(charl__prepared_create(dev, &fill, 1, &p));
    for (int n = 40; n <= 1000; n += 960) {
        const charl__arg count = charl__i64(n);

        charl__event_release(last);
        charl_assert_ok(charl__event_record(dev, CHARL_QUEUE_COMPUTE, &last));
        charl_assert_ok(charl__prepared_launch(p, ((size_t)n + 63) / 64, last, &count));
        charl__event_release(last);
        charl_assert_ok(charl__event_record(dev, CHARL_QUEUE_COMM, &last));
        charl_assert_ok(charl__event_wait(last));
        expect_words(b, 100, n, 7);
        expect_words(b, 100 + n, WORDS - 100 - n, 0);
    }
    expect_words(b, 0, 100, 0);
    charl__event_release(last);
    charl__prepared_destroy(p);
    fill.args[2] = (charl__arg){.kind = CHARL_ARG_END};
    charl_assert_status(charl__prepared_create(dev, &fill, 1, &p), CHARL_ERR_INVALID);
    assert_null(p);
    charl__prepared_destroy(p);
    charl__buffer_release(b);
}

static void test_prepared(void **state)
{
    (void)state;
    charl_test_each_device(check_prepared);
}

static void test_order(void **state)
{
    (void)state;
    charl_test_each_device(check_order);
}

static void test_zeros(void **state)
{
    (void)state;
    charl_test_each_device(check_zeros);
}

static void test_commands(void **state)
{
    (void)state;
    charl_test_each_device(check_commands);
}

/* A position above 2^31 elements without the memory for it: the kernel stores what it computes. */
static void check_wide(charl_device *dev)
{
    char *dir = charl_test_kernel_dir(
        "wide.cl", "kernel void wide(global long *out, ulong out_at, global const float *x, ulong x_at,\n"
                   "                 int i, long l, float f, local float *scratch)\n"
                   "{\n"
                   "    out[out_at] = x == 0 ? (long)x_at : -1;\n"
                   "    out[out_at + 1] = i;\n"
                   "    out[out_at + 2] = l;\n"
                   "    scratch[0] = f;\n"
                   "    out[out_at + 3] = as_int(scratch[0]);\n"
                   "}\n");
    charl__buffer *b = charl_test_buffer(dev, 64);
    int64_t got[4] = {0};

    charl__env_set(CHARL_ENV_KERNEL_DIR, dir);
    charl_assert_ok(
        charl__launch_enqueue(dev, &(charl__launch){.file = "wide",
                                                    .entry = "wide",
                                                    .global = {1},
                                                    .args = {charl__raw(CHARL_ARG_OUT, b),
                                                             {.kind = CHARL_ARG_IN, .v.offset = ((int64_t)5 << 31) + 3},
                                                             charl__i32(-5),
                                                             charl__i64(-((int64_t)1 << 40)),
                                                             charl__f32(-0.0f),
                                                             charl__local(16)}}));
    charl__env_set(CHARL_ENV_KERNEL_DIR, NULL);
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, b, 0, got, sizeof got, true));
    assert_true(got[0] == ((int64_t)5 << 31) + 3);
    assert_true(got[1] == -5 && got[2] == -((int64_t)1 << 40) && got[3] == INT32_MIN);
    charl__buffer_release(b);
    charl_test_tempdir_remove(dir);
}

/* A struct with an offset and a position: as the kernel sees it, and as a recording keeps it when it moves. */
typedef struct struct_args {
    uint64_t out;
    int64_t first, far;
    int32_t small;
    float fraction;
} struct_args;

static void check_struct(charl_device *dev)
{
    char *dir = charl_test_kernel_dir(
        "struct.cl", "typedef struct {\n"
                     "    ulong out;\n"
                     "    long first, far;\n"
                     "    int small;\n"
                     "    float fraction;\n"
                     "} struct_args;\n"
                     "kernel void by_value(global long *out, const struct_args s, global uint *word, ulong word_at)\n"
                     "{\n"
                     "    out += s.out;\n"
                     "    out[0] = s.first;\n"
                     "    out[1] = s.far;\n"
                     "    out[2] = s.small;\n"
                     "    out[3] = as_int(s.fraction);\n"
                     "    word[word_at] = 7;\n"
                     "}\n");
    charl__buffer *b = charl_test_buffer(dev, 64), *word = charl_test_buffer(dev, 8);
    struct_args s = {.first = 5, .far = -((int64_t)1 << 40), .small = -3, .fraction = 0.5f};
    charl__launch l = {.file = "struct", .entry = "by_value", .global = {1}};
    charl__recording *r = NULL;
    uint32_t words[2];

    l.args[0] =
        charl__placed((charl__arg){.kind = CHARL_ARG_OUT, .buffer = b, .v.offset = 2, .count = 4, .size = 8}, &s.out);
    l.args[1] = charl__struct_at(&s, sizeof s, offsetof(struct_args, first), charl__position(5, 100));
    l.args[2] = (charl__arg){.kind = CHARL_ARG_OUT, .buffer = word, .v.offset = 1, .count = 1, .size = 4};
    charl__env_set(CHARL_ENV_KERNEL_DIR, dir);
    charl_assert_ok(charl__record_begin(dev, &r));
    charl_assert_ok(charl__record_end(dev, charl__launch_enqueue(dev, &l)));
    charl__env_set(CHARL_ENV_KERNEL_DIR, NULL);
    s = (struct_args){0}; /* borrowed until the launch is enqueued, no longer */
    for (int slices = 0; slices <= 2; slices++) {
        int64_t got[8] = {0};

        charl_assert_ok(charl__recording_move(r, slices));
        charl_assert_ok(charl__recording_replay(r, 0, 1));
        charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, b, 0, got, sizeof got, true));
        assert_true(got[0] == 0 && got[1] == 0);
        assert_true(got[2] == 5 + 100 * slices && got[3] == -((int64_t)1 << 40) && got[4] == -3 &&
                    got[5] == 0x3f000000);
    }
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, word, 0, words, sizeof words, true));
    assert_true(words[0] == 0 && words[1] == 7);
    charl__recording_destroy(r);
    charl__buffer_release(word);
    charl__buffer_release(b);
    charl_test_tempdir_remove(dir);
}

static void test_struct(void **state)
{
    (void)state;
    charl_test_each_device(check_struct);
}

static void test_wide(void **state)
{
    (void)state;
    charl_test_each_device(check_wide);
}

static void refuse(charl_device *dev, const charl__launch *l, const char *part)
{
    const charl__device_counters before = charl__device_counters_get(dev);

    charl_assert_status(charl__launch_enqueue(dev, l), CHARL_ERR_INVALID);
    charl_assert_message(part);
    assert_int_equal(charl__device_counters_get(dev).launches, before.launches);
}

static void check_refusals(charl_device *dev)
{
    const int max = charl_device_get_info(dev)->max_group;
    charl__buffer *b = charl_test_buffer(dev, 4 * WORDS);
    charl__launch l = charl_test_fill_launch(b, 0, 1, 100);

    l.args[2] = (charl__arg){.kind = CHARL_ARG_END};
    refuse(dev, &l, "kernel charl_fill of tensor/copy.cl takes 4 arguments, 3 are given");
    l = charl_test_fill_launch(b, 0, 1, 100);
    l.args[0] = charl__i32(1);
    refuse(dev, &l, "of kernel charl_fill: "); /* and what the driver calls it */
    l = charl_test_fill_launch(b, WORDS - 10, 1, 100);
    refuse(dev, &l, "of a buffer of");
    l = charl_test_fill_launch(b, -1, 1, 100);
    refuse(dev, &l, "elements -1 to 99");
    l = charl_test_fill_launch(b, 0, 1, 100);
    l.global[0] = 100;
    refuse(dev, &l, "100 work-items do not divide into groups of 64");
    l.global[0] = l.local[0] = 2 * (size_t)max;
    refuse(dev, &l, "allows");
    l = charl_test_fill_launch(b, 0, 1, 100);
    l.args[0] = charl__local((size_t)charl_device_get_info(dev)->local_bytes + 1);
    refuse(dev, &l, "of local memory");
    l = charl_test_copy_launch(b, 0, b, 50, 100);
    refuse(dev, &l, "arguments 0 and 1 overlap");
    l = charl_test_copy_launch(b, 50, b, 0, 100);
    refuse(dev, &l, "overlap");
    l = charl_test_copy_launch(b, 0, b, 0, 100);
    l.args[0].count = 99; /* a prefix is not the same range */
    refuse(dev, &l, "overlap");
    l = charl_test_copy_launch(b, 0, b, 0, 100);
    l.args[0].kind = CHARL_ARG_OUT;
    refuse(dev, &l, "overlap");
    l = charl_test_copy_launch(b, 0, b, 0, 100); /* elementwise in place */
    charl_assert_ok(charl__launch_enqueue(dev, &l));
    l = charl_test_copy_launch(b, 0, b, 100, 100); /* neighbours */
    charl_assert_ok(charl__launch_enqueue(dev, &l));
    charl__buffer_release(b);
}

static void test_refusals(void **state)
{
    (void)state;
    charl_test_each_device(check_refusals);
}

static void test_foreign_buffer(void **state)
{
    (void)state;
    charl_device *a = NULL, *b = NULL;
    charl__buffer *x = NULL;
    charl__launch l;

    (void)charl_test_device_count();
    a = charl_test_open(0, 0);
    b = charl_test_open(0, 0);
    x = charl_test_buffer(b, 256);
    l = charl_test_fill_launch(x, 0, 1, 64);
    refuse(a, &l, "another device");
    charl__buffer_release(x);
    charl_device_close(b);
    charl_device_close(a);
}

/* x = 1, then STEPS times: y = x, x = y shifted by one word; the same directly and replayed. */
static void enqueue_steps(charl_device *dev, charl__buffer *x, charl__buffer *y)
{
    for (int i = 0; i < STEPS; i++) {
        char label[32];
        charl__launch l = charl_test_copy_launch(x, 0, y, 1, WORDS - 1);

        snprintf(label, sizeof label, "step %d", i);
        l.label = label; /* dies before the replay */
        charl_assert_ok(charl__launch_enqueue(dev, &l));
        l = charl_test_copy_launch(y, 0, x, 0, WORDS);
        charl_assert_ok(charl__launch_enqueue(dev, &l));
    }
}

static void check_recording(charl_device *dev)
{
    static uint32_t start[WORDS], direct[WORDS], replayed[WORDS];
    charl__buffer *x = charl_test_buffer(dev, 4 * WORDS), *y = charl_test_buffer(dev, 4 * WORDS);
    charl__recording *r = NULL, *second = NULL;
    charl__device_counters before, after;

    for (uint32_t i = 0; i < WORDS; i++) {
        start[i] = i * 2654435761u;
    }
    charl_assert_ok(charl__buffer_write(CHARL_QUEUE_COMPUTE, x, 0, start, sizeof start, true));
    enqueue_steps(dev, x, y);
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, x, 0, direct, sizeof direct, true));

    charl_assert_ok(charl__record_begin(dev, &r));
    charl_assert_status(charl__record_begin(dev, &second), CHARL_ERR_INVALID);
    assert_null(second);
    before = charl__device_counters_get(dev);
    enqueue_steps(dev, x, y);
    charl_assert_ok(charl__record_end(dev, CHARL_OK));
    assert_int_equal(charl__recording_count(r), 2 * STEPS);
    assert_int_equal(charl__device_counters_get(dev).launches, before.launches);

    charl_assert_ok(charl__buffer_write(CHARL_QUEUE_COMPUTE, x, 0, start, sizeof start, true));
    before = charl__device_counters_get(dev);
    charl_assert_ok(charl__recording_replay(r, 0, 5));
    charl_assert_ok(charl__recording_replay(r, 5, 5));
    charl_assert_ok(charl__recording_replay(r, 5, 2 * STEPS));
    after = charl__device_counters_get(dev);
    assert_int_equal(after.launches - before.launches, 2 * STEPS);
    assert_int_equal(after.kernels_created, before.kernels_created);
    assert_int_equal(after.programs_built, before.programs_built);
    assert_int_equal(after.buffers_created, before.buffers_created);
    assert_int_equal(after.host_waits, before.host_waits);
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, x, 0, replayed, sizeof replayed, true));
    assert_memory_equal(replayed, direct, sizeof direct);

    charl_assert_status(charl__recording_replay(r, 0, 2 * STEPS + 1), CHARL_ERR_INVALID);
    charl_assert_status(charl__recording_replay(r, -1, 1), CHARL_ERR_INVALID);
    charl__buffer_release(x); /* the recording holds them */
    charl__buffer_release(y);
    charl_assert_ok(charl__recording_replay(r, 0, 2 * STEPS));
    charl_assert_ok(charl_device_sync(dev));
    charl__recording_destroy(r);
    charl__recording_destroy(NULL);
}

static void test_recording(void **state)
{
    (void)state;
    charl_test_each_device(check_recording);
}

/* A launch that is refused while recording leaves the recording as it was; destroying it ends it. Kernels are looked at when the recording
 * ends. */
static void check_recording_failure(charl_device *dev)
{
    charl__buffer *b = charl_test_buffer(dev, 4 * WORDS);
    charl__launch good = charl_test_fill_launch(b, 0, 3, 100), bad = good;
    charl__recording *r = NULL;

    bad.global[0] = 100;
    bad.local[0] = 64;
    charl_assert_ok(charl__record_begin(dev, &r));
    charl_assert_ok(charl__launch_enqueue(dev, &good));
    charl_assert_status(charl__launch_enqueue(dev, &bad), CHARL_ERR_INVALID);
    assert_int_equal(charl__recording_count(r), 1);
    charl__recording_destroy(r);
    bad = good;
    bad.args[2] = (charl__arg){.kind = CHARL_ARG_END};
    charl_assert_ok(charl__record_begin(dev, &r));
    charl_assert_ok(charl__launch_enqueue(dev, &bad));
    charl_assert_status(charl__record_end(dev, CHARL_OK), CHARL_ERR_INVALID);
    charl__recording_destroy(r);
    charl_assert_ok(charl__launch_enqueue(dev, &good)); /* directly again */
    expect_words(b, 0, 100, 3);
    charl__buffer_release(b);
}

static void test_recording_failure(void **state)
{
    (void)state;
    charl_test_each_device(check_recording_failure);
}

/* Which launches may share one: none is made here. */
static void test_pairs(void **state)
{
    static const charl__env_id off[] = {CHARL_ENV_NO_FUSION, CHARL_ENV_CHECK_FINITE};
    charl__buffer *const b = (charl__buffer *)(void *)state, *const other = b + 1; /* not looked into */
    charl__launch lead = charl_test_copy_launch(b, 0, b, 100, 50), l;
    const charl__launch *first = NULL;

    lead.pair_first = true;
    l = charl_test_copy_launch(b, 0, b, 150, 50);
    assert_false(charl__launch_pair_fits(&lead, &l, &first)); /* neither may be the second */
    l.pair_second = true;
    assert_true(charl__launch_pair_fits(&lead, &l, &first));
    assert_ptr_equal(first, &lead);
    assert_true(charl__launch_pair_fits(&l, &lead, &first));
    assert_ptr_equal(first, &lead);
    for (size_t i = 0; i < sizeof off / sizeof off[0]; i++) {
        charl__env_set(off[i], "1");
        assert_false(charl__launch_pair_fits(&lead, &l, &first));
        charl__env_set(off[i], NULL);
    }
    l.args[0].v.offset = 149; /* the last element that the first writes */
    assert_false(charl__launch_pair_fits(&lead, &l, &first));
    l.args[0].buffer = other;
    assert_true(charl__launch_pair_fits(&lead, &l, &first));
    l.args[1].v.offset = 49; /* the last element that the first reads */
    assert_false(charl__launch_pair_fits(&lead, &l, &first));
    l.args[1].v.offset = 200;
    l.args[1].count = 0; /* does not say how many */
    assert_false(charl__launch_pair_fits(&lead, &l, &first));
    l = charl_test_fill_launch(other, 0, 1, 50);
    l.pair_second = true;
    assert_false(charl__launch_pair_fits(&lead, &l, &first)); /* another kernel */
}

/* The host runs ahead of the device by more steps than the ring is deep; every step sees its own
 * record. */
static void check_ring(charl_device *dev)
{
    charl__ring *ring = NULL, *bad = NULL;
    charl__buffer *log = charl_test_buffer(dev, 4 * 8 * STEPS);
    charl__device_counters before;
    uint32_t got[8 * STEPS], record[8];

    charl_assert_status(charl__ring_create(dev, 0, 1, &bad), CHARL_ERR_INVALID);
    charl_assert_status(charl__ring_create(dev, 32, 0, &bad), CHARL_ERR_INVALID);
    charl_assert_ok(charl__ring_create(dev, sizeof record, 3, &ring));
    before = charl__device_counters_get(dev);
    for (uint32_t step = 0; step < STEPS; step++) {
        charl__launch copy = charl_test_copy_launch(charl__ring_buffer(ring), 0, log, 8 * (int64_t)step, 8);

        for (uint32_t i = 0; i < 8; i++) {
            record[i] = 1000 * step + i;
        }
        charl_assert_ok(charl__ring_push(ring, record));
        memset(record, 0xff, sizeof record); /* the ring keeps its own copy */
        charl_assert_ok(charl__launch_enqueue(dev, &copy));
    }
    assert_int_equal(charl__device_counters_get(dev).buffers_created, before.buffers_created);
    assert_int_equal(charl__device_counters_get(dev).transfers, before.transfers + STEPS);
    assert_int_equal(charl__device_counters_get(dev).host_waits, before.host_waits);
    assert_true(charl__device_counters_get(dev).ring_waits <= before.ring_waits + STEPS - 3);
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, log, 0, got, sizeof got, true));
    for (uint32_t i = 0; i < 8 * STEPS; i++) {
        assert_int_equal(got[i], 1000 * (i / 8) + i % 8);
    }
    charl_assert_ok(charl__ring_push(ring, record)); /* destroyed with a copy in flight */
    charl__ring_destroy(ring);
    charl__ring_destroy(NULL);
    charl__buffer_release(log);
}

static void test_ring(void **state)
{
    (void)state;
    charl_test_each_device(check_ring);
}

/* A device has events for every ordinary step; whoever keeps more of them takes from the heap. */
static void check_events(charl_device *dev)
{
    enum { MANY = 300 };
    charl__event *e[MANY];
    const charl__device_counters before = charl__device_counters_get(dev);
    const long allocated = charl__allocated(), live = charl__live();
    long extra;

    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MANY; i++) {
            charl_assert_ok(charl__event_record(dev, CHARL_QUEUE_COMPUTE, &e[i]));
        }
        charl_assert_ok(charl__event_wait(e[MANY - 1]));
        charl_assert_ok(charl__event_catch_up(e[0]));
        extra = charl__allocated() - allocated;
        assert_true(extra > 0 && extra < MANY);
        for (int i = 0; i < MANY; i++) {
            charl__event_release(e[i]);
        }
        assert_int_equal(charl__live(), live);
    }
    assert_int_equal(charl__device_counters_get(dev).events, before.events + 2 * MANY);
    for (int i = 0; i < MANY; i++) { /* one at a time */
        charl_assert_ok(charl__event_record(dev, CHARL_QUEUE_COMPUTE, &e[0]));
        charl__event_release(e[0]);
    }
    assert_int_equal(charl__allocated() - allocated, extra);
}

static void test_events(void **state)
{
    (void)state;
    charl_test_each_device(check_events);
}

static void test_sync(void **state)
{
    (void)state;
    charl_device *dev = NULL;
    charl__buffer *b = NULL;
    charl__launch l;
    charl__device_counters before;

    (void)charl_test_device_count();
    charl__env_set(CHARL_ENV_SYNC, "1");
    dev = charl_test_open(0, 0);
    charl__env_set(CHARL_ENV_SYNC, NULL);
    b = charl_test_buffer(dev, 4 * WORDS);
    l = charl_test_fill_launch(b, 0, 9, WORDS);
    before = charl__device_counters_get(dev);
    charl_assert_ok(charl__launch_enqueue(dev, &l));
    assert_int_equal(charl__device_counters_get(dev).host_waits, before.host_waits + 1);
    expect_words(b, 0, WORDS, 9);
    charl__buffer_release(b);
    charl_device_close(dev);
}

/* What is said when a command has failed on the device, which a later call finds out. */

static void launch(charl_device *dev, charl__buffer *b, const char *label)
{
    charl__launch l = charl_test_fill_launch(b, 0, 1, 64);

    l.label = label;
    charl_assert_ok(charl__launch_enqueue(dev, &l));
}

/* NVIDIA's driver fails to build any program after a fault; the kernel being built is innocent. */
static void check_build_after_fault(charl_device *dev)
{
    charl__buffer *b = charl_test_buffer(dev, 256);
    const char *const source[3] = {"", "", "kernel void k(void) {}"};
    cl_program program = NULL;

    charl_assert_ok(charl__opencl_build(dev, "innocent", source, "", "innocent", &program));
    charl_assert_ok(charl_device_sync(dev));
    launch(dev, b, "h.0.mlp");
    launch(dev, b, "h.1.mlp");
    charl_assert_status(charl__opencl_build_failed(dev, program, "innocent", CHARL__NVIDIA_FAULT), CHARL_ERR_DEVICE);
    charl_assert_message("out of bounds");
    charl_assert_message("the 2 commands since the device last answered are");
    charl_assert_message("charl_fill (h.0.mlp), charl_fill (h.1.mlp)");
    charl_assert_message("CHARL_SYNC=1");
    assert_null(strstr(charl_error_message(), "innocent"));
    for (int i = 0; i < 20; i++) {
        launch(dev, b, "many");
    }
    charl_assert_status(charl__device_failed(dev, "reading", charl__opencl_error(CL_INVALID_COMMAND_QUEUE)),
                        CHARL_ERR_DEVICE);
    charl_assert_message("of the 22 commands");
    /* What has been waited for has succeeded. */
    charl_assert_ok(charl_device_sync(dev));
    charl_assert_status(charl__device_failed(dev, "reading", charl__opencl_error(CL_INVALID_COMMAND_QUEUE)),
                        CHARL_ERR_DEVICE);
    assert_null(strstr(charl_error_message(), "command has failed"));
    /* What is no fault stays what it is. */
    charl_assert_status(charl__opencl_build_failed(dev, program, "culprit", CL_BUILD_PROGRAM_FAILURE),
                        CHARL_ERR_KERNEL);
    charl_assert_message("kernels/culprit.cl does not build");
    charl_assert_status(charl__device_failed(dev, "reading", charl__opencl_error(CL_MEM_OBJECT_ALLOCATION_FAILURE)),
                        CHARL_ERR_NOMEM);
    charl__opencl_program_release(program);
    charl__buffer_release(b);
}

static void test_build_after_fault(void **state)
{
    (void)state;
    charl_test_each_device(check_build_after_fault);
}

static void test_unknown_errors_have_their_number(void **state)
{
    (void)state;
    assert_string_equal(charl__opencl_error(-4711).text, "OpenCL error -4711");
    assert_string_equal(charl__opencl_error(CL_INVALID_VALUE).text, "CL_INVALID_VALUE");
}

/* A buffer as large as the device allows is zero up to its end, and kernels reach it. */
static void test_the_largest_buffer(void **state)
{
    (void)state;
    const int count = charl_test_device_count();
    bool tried = false;

    for (int i = 0; i < count; i++) {
        charl_device *dev = charl_test_open(i, 0);
        const charl_device_info *info = charl_device_get_info(dev);
        const size_t bytes = (size_t)info->max_alloc_bytes / 64 * 64;

        if (info->kind == CHARL_DEVICE_GPU) {
            charl__buffer *b = charl_test_buffer(dev, bytes);
            const charl__launch last = charl_test_fill_launch(b, (int64_t)bytes / 4 - 2, 7, 2);
            uint64_t word = 1;

            for (size_t at = 0; at + 8 <= bytes; at += ((size_t)1 << 29) - 8) {
                charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, b, at, &word, 8, true));
                assert_int_equal(word, 0);
            }
            charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, b, bytes - 8, &word, 8, true));
            assert_int_equal(word, 0);
            charl_assert_ok(charl__launch_enqueue(dev, &last));
            charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, b, bytes - 8, &word, 8, true));
            assert_true(word == 0x0000000700000007u);
            charl__buffer_release(b);
            tried = true;
        }
        charl_device_close(dev);
    }
    if (!tried) {
        skip(); /* no GPU */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_offsets),
        cmocka_unit_test(test_wide),
        cmocka_unit_test(test_struct),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_foreign_buffer),
        cmocka_unit_test(test_recording),
        cmocka_unit_test(test_recording_failure),
        cmocka_unit_test(test_ring),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_zeros),
        cmocka_unit_test(test_sync),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_prepared),
        cmocka_unit_test(test_build_after_fault),
        cmocka_unit_test(test_unknown_errors_have_their_number),
        cmocka_unit_test(test_the_largest_buffer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
