/* Buffers, and memory of another process. */
#include "device/suite.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "device/device_private.h"

/* Buffers, transfers, mapping, pinned memory, events and the budget, on every device. */

enum { WORDS = 5000, BYTES = 4 * WORDS };

static void fill_words(uint32_t *out, uint32_t seed)
{
    for (uint32_t i = 0; i < WORDS; i++) {
        out[i] = (i + seed) * 2654435761u;
    }
}

static void check_zero_and_transfers(charl_device *dev)
{
    static uint32_t src[WORDS], dst[WORDS], zero[WORDS];

    for (int q = 0; q < CHARL_QUEUE_COUNT; q++) {
        charl__buffer *b = charl_test_buffer(dev, BYTES);

        assert_ptr_equal(charl__buffer_device(b), dev);
        assert_true(charl__buffer_bytes(b) >= BYTES);
        memset(dst, 1, BYTES);
        charl_assert_ok(charl__buffer_read((charl__queue)q, b, 0, dst, BYTES, true));
        assert_memory_equal(dst, zero, BYTES);
        fill_words(src, (uint32_t)q);
        charl_assert_ok(charl__buffer_write((charl__queue)q, b, 0, src, BYTES, true));
        charl_assert_ok(charl__buffer_write((charl__queue)q, b, 4 * 7, src, 4 * 3, true));
        charl_assert_ok(charl__buffer_read((charl__queue)q, b, 4, dst, BYTES - 4, true));
        memcpy(zero, src, BYTES); /* what is expected */
        memcpy(zero + 7, src, 4 * 3);
        assert_memory_equal(dst, zero + 1, BYTES - 4);
        memset(zero, 0, BYTES);
        charl_assert_ok(charl__buffer_write((charl__queue)q, b, BYTES, src, 0, true));
        charl__buffer_release(b);
    }
}

static void test_transfers(void **state)
{
    (void)state;
    charl_test_each_device(check_zero_and_transfers);
}

/* Of sizes around those from which on pages are large: zero all over, and every page holds what it
 * is given. */
static void check_large_pages(charl_device *dev)
{
    static const size_t sizes[] = {(2 << 20) - 64, 2 << 20, (5 << 20) + 64};
    const size_t step = 1 << 18;

    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        charl__buffer *b = charl_test_buffer(dev, sizes[s]);

        for (size_t at = 0; at + 8 <= sizes[s]; at += step) {
            uint64_t word = UINT64_MAX;
            const uint64_t mark = at + 1;

            charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, b, at, &word, 8, true));
            assert_int_equal(word, 0);
            charl_assert_ok(charl__buffer_write(CHARL_QUEUE_COMPUTE, b, at, &mark, 8, true));
        }
        for (size_t at = 0; at + 8 <= sizes[s]; at += step) {
            uint64_t word = 0;

            charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, b, at, &word, 8, true));
            assert_int_equal(word, at + 1);
        }
        charl__buffer_release(b);
    }
}

static void test_large_pages(void **state)
{
    (void)state;
    charl_test_each_device(check_large_pages);
}

static void check_ranges(charl_device *dev)
{
    charl__buffer *b = charl_test_buffer(dev, 64), *none = charl_test_buffer(dev, 0);
    char byte[128];
    void *p = NULL;

    charl_assert_status(charl__buffer_write(CHARL_QUEUE_COMPUTE, b, 0, byte, 65, true), CHARL_ERR_INVALID);
    charl_assert_status(charl__buffer_read(CHARL_QUEUE_COMPUTE, b, 65, byte, 0, true), CHARL_ERR_INVALID);
    charl_assert_status(charl__buffer_read(CHARL_QUEUE_COMPUTE, b, SIZE_MAX, byte, 2, true), CHARL_ERR_INVALID);
    charl_assert_status(charl__buffer_map(CHARL_QUEUE_COMPUTE, b, 60, 5, &p), CHARL_ERR_INVALID);
    charl_assert_status(charl__buffer_map(CHARL_QUEUE_COMPUTE, b, 0, 0, &p), CHARL_ERR_INVALID);
    assert_null(p);
    charl__buffer_release(b);
    charl__buffer_release(none);
    charl__buffer_release(NULL);
}

/* In pieces through pinned memory: whole pieces and a rest, from anywhere. */
static void check_fast_reads(charl_device *dev)
{
    const size_t n = (size_t)36 << 18, bytes = 4 * n; /* two pieces of 16 MiB and a quarter */
    charl__buffer *b = charl_test_buffer(dev, bytes);
    uint32_t *src = NULL, *dst = NULL;

    charl_assert_ok(charl__alloc_array((int64_t)n, 4, &src));
    charl_assert_ok(charl__alloc_array((int64_t)n, 4, &dst));
    for (size_t i = 0; i < n; i++) {
        src[i] = (uint32_t)i * 2654435761u;
    }
    charl_assert_ok(charl__buffer_write(CHARL_QUEUE_COMPUTE, b, 0, src, bytes, true));
    charl_assert_ok(charl__fault_set("device.fast_reads:*"));
    charl_assert_ok(charl__fast_reads_begin(dev));
    charl_assert_ok(charl__fault_set(""));
    for (size_t skip = 0; skip < 3; skip++) {
        memset(dst, 0, bytes);
        charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, b, 4 * skip, dst + skip, bytes - 8 * skip, true));
        assert_memory_equal(dst + skip, src + skip, bytes - 8 * skip);
    }
    charl_assert_status(charl__buffer_read(CHARL_QUEUE_COMPUTE, b, 4, dst, bytes, true), CHARL_ERR_INVALID);
    charl__fast_reads_end(dev);
    charl__fast_reads_end(dev);
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, b, 0, dst, bytes, true));
    assert_memory_equal(dst, src, bytes);
    charl_free(src);
    charl_free(dst);
    charl__buffer_release(b);
}

static void test_fast_reads(void **state)
{
    (void)state;
    charl_test_each_device(check_fast_reads);
}

static void test_ranges(void **state)
{
    (void)state;
    charl_test_each_device(check_ranges);
}

static void check_map_and_wrap(charl_device *dev)
{
    uint32_t *host = NULL;
    charl__buffer *w = NULL, *b = charl_test_buffer(dev, 4096);
    charl__launch copy;
    void *p = NULL;

    charl_assert_status(charl__buffer_wrap(dev, (char *)&host, 4096, &w), CHARL_ERR_INVALID);
    charl_assert_ok(charl__alloc_aligned(4096, 8192, &host));
    charl_assert_status(charl__buffer_wrap(dev, host, 0, &w), CHARL_ERR_INVALID);
    charl_assert_status(charl__buffer_wrap(dev, host + 1, 4096, &w), CHARL_ERR_INVALID);
    charl_assert_status(charl__buffer_wrap(dev, NULL, 4096, &w), CHARL_ERR_INVALID);
    charl_assert_ok(charl__buffer_map(CHARL_QUEUE_UPLOAD, b, 0, 4096, &p));
    for (uint32_t i = 0; i < 1024; i++) {
        ((uint32_t *)p)[i] = i * 3;
    }
    charl_assert_ok(charl__buffer_unmap(CHARL_QUEUE_UPLOAD, b, p));
    charl_assert_ok(charl_device_sync(dev));
    charl_assert_ok(charl__buffer_wrap(dev, host, 8192, &w));
    copy = charl_test_copy_launch(b, 0, w, 512, 1024);
    charl_assert_ok(charl__launch_enqueue(dev, &copy));
    charl_assert_ok(charl__buffer_map(CHARL_QUEUE_COMPUTE, w, 0, 8192, &p));
    if (charl__device_facts_get(dev)->zero_copy) {
        assert_ptr_equal(p, host);
        assert_int_equal(charl_device_get_memory(dev).in_use, 4096);
    }
    for (uint32_t i = 0; i < 1024; i++) {
        assert_int_equal(((uint32_t *)p)[512 + i], i * 3);
    }
    charl_assert_ok(charl__buffer_unmap(CHARL_QUEUE_COMPUTE, w, p));
    charl__buffer_release(w);
    charl__buffer_release(b);
    charl_free(host);
}

static void test_map_and_wrap(void **state)
{
    (void)state;
    charl_test_each_device(check_map_and_wrap);
}

/* Host memory that launches use as any other, zero at first, and that counts apart; where the device reaches it. */
static void check_offloaded(int index)
{
    static uint32_t words[WORDS], zero[WORDS];
    char select[16];
    charl_device *dev = NULL;
    charl_device_request request = {sizeof request, .select = select,         .local_size = 1,
                                    .share = true,  .memory_limit = 64 << 20, .offload = true};
    charl__buffer *b, *o = NULL, *none = NULL;
    charl__launch in, out;
    int64_t in_use;

    snprintf(select, sizeof select, "%d", index);
    if (charl_device_open(&request, &dev) != CHARL_OK) {
        charl_assert_message("does not access host memory");
        return;
    }
    b = charl_test_buffer(dev, BYTES);
    in_use = charl_device_get_memory(dev).in_use;
    charl_assert_ok(charl__buffer_create_offloaded(dev, BYTES, "offloaded", &o));
    assert_true(charl_device_get_memory(dev).offloaded >= BYTES);
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_DOWNLOAD, o, 0, words, BYTES, false));
    assert_memory_equal(words, zero, BYTES);
    fill_words(words, 9);
    charl_assert_ok(charl__buffer_write(CHARL_QUEUE_COMPUTE, o, 8, words, BYTES - 8, false));
    out = charl_test_copy_launch(o, 2, b, 0, WORDS - 2);
    charl_assert_ok(charl__launch_enqueue(dev, &out));
    in = charl_test_copy_launch(b, 0, o, 0, WORDS - 2);
    charl_assert_ok(charl__launch_enqueue(dev, &in));
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, o, 0, zero, BYTES - 8, true));
    assert_memory_equal(zero, words, BYTES - 8);
    memset(zero, 0, BYTES);
    charl_assert_status(charl__buffer_read(CHARL_QUEUE_COMPUTE, o, charl__buffer_bytes(o), words, 4, true),
                        CHARL_ERR_INVALID);
    charl_assert_ok(charl__fault_set("device.host_memory:1"));
    charl_assert_status(charl__buffer_create_offloaded(dev, BYTES, "more", &none), CHARL_ERR_NOMEM);
    charl_assert_ok(charl__fault_set(""));
    charl_assert_message("for more do not fit, 0.0 MiB are free for 1 rank");
    assert_int_equal(charl_device_get_memory(dev).in_use, in_use);
    charl__buffer_release(o);
    assert_int_equal(charl_device_get_memory(dev).offloaded, 0);
    charl__buffer_release(b);
    charl_device_close(dev);
}

static void test_offloaded(void **state)
{
    const int count = charl_test_device_count();

    (void)state;
    charl_test_env_set("CHARL_DEVICE", NULL);
    for (int i = 0; i < count; i++) {
        check_offloaded(i);
    }
}

/* Memory of the caller, pinned: transfers use it, its contents stay, and it is the caller's again
 * afterwards. */
static void check_pinned_wrap(charl_device *dev)
{
    charl__buffer *b = charl_test_buffer(dev, BYTES);
    charl_pinned *p = NULL;
    uint32_t *host = NULL;

    charl_assert_ok(charl__alloc_aligned(4096, 2 * BYTES, &host));
    charl_assert_status(charl__pinned_wrap(dev, host, 0, &p), CHARL_ERR_INVALID);
    charl_assert_status(charl__pinned_wrap(dev, host + 1, BYTES, &p), CHARL_ERR_INVALID);
    charl_assert_status(charl__pinned_wrap(dev, NULL, BYTES, &p), CHARL_ERR_INVALID);
    fill_words(host, 5);
    charl_assert_ok(charl__pinned_wrap(dev, host, 2 * BYTES, &p));
    charl_assert_ok(charl__buffer_write(CHARL_QUEUE_UPLOAD, b, 0, host, BYTES, true));
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_DOWNLOAD, b, 0, host + WORDS, BYTES, false));
    charl_pinned_destroy(p); /* waits for the transfer */
    assert_memory_equal(host, host + WORDS, BYTES);
    charl__buffer_release(b);
    charl_free(host);
}

static void test_pinned_wrap(void **state)
{
    (void)state;
    charl_test_each_device(check_pinned_wrap);
}

/* Pinned memory up, across queues by events, and down into other pinned memory. */
static void check_events(charl_device *dev)
{
    charl_pinned *up = NULL, *down = NULL;
    charl__event *arrived = NULL, *moved = NULL, *back = NULL;
    charl__buffer *a = charl_test_buffer(dev, BYTES), *b = charl_test_buffer(dev, BYTES);
    const charl__launch copy = charl_test_copy_launch(a, 0, b, 0, WORDS);
    void *src = NULL, *dst = NULL;
    bool done = false;

    charl_assert_ok(charl_pinned_create(dev, BYTES, &up, &src));
    charl_assert_ok(charl_pinned_create(dev, BYTES, &down, &dst));
    for (uint32_t round = 0; round < 20; round++) {
        fill_words(src, round);
        charl_assert_ok(charl__buffer_write(CHARL_QUEUE_UPLOAD, a, 0, src, BYTES, false));
        charl_assert_ok(charl__event_record(dev, CHARL_QUEUE_UPLOAD, &arrived));
        charl_assert_ok(charl__queue_wait(dev, CHARL_QUEUE_COMPUTE, arrived));
        charl_assert_ok(charl__launch_enqueue(dev, &copy));
        charl_assert_ok(charl__event_record(dev, CHARL_QUEUE_COMPUTE, &moved));
        charl_assert_ok(charl__queue_wait(dev, CHARL_QUEUE_DOWNLOAD, moved));
        if (round % 2 == 0) {
            charl_assert_ok(charl__buffer_read(CHARL_QUEUE_DOWNLOAD, b, 0, dst, BYTES, false));
            charl_assert_ok(charl__event_record(dev, CHARL_QUEUE_DOWNLOAD, &back));
        } else {
            charl_assert_ok(charl__buffer_fetch(CHARL_QUEUE_DOWNLOAD, b, 0, dst, BYTES, &back));
        }
        do { /* polling alone must get there */
            charl_assert_ok(charl__event_is_done(back, &done));
        } while (!done);
        assert_memory_equal(src, dst, BYTES);
        charl_assert_ok(charl__event_wait(arrived));
        charl__event_release(arrived);
        charl__event_release(moved);
        charl__event_release(back);
    }
    charl__event_release(NULL);
    charl_pinned_destroy(up);
    charl_pinned_destroy(down);
    charl_pinned_destroy(NULL);
    charl__buffer_release(a);
    charl__buffer_release(b);
}

static void test_events(void **state)
{
    (void)state;
    charl_test_each_device(check_events);
}

static void test_budget(void **state)
{
    (void)state;
    const int count = charl_test_device_count();

    for (int i = 0; i < count; i++) {
        const double mib = 1 << 20;
        charl_device *dev = charl_test_open(i, 0);
        const int64_t kept = charl_device_get_memory(dev).in_use; /* of the device itself */
        charl__buffer *a = NULL, *b = NULL;
        charl_device_memory m;
        char text[64];

        charl_device_close(dev);
        dev = charl_test_open(i, kept + (1 << 20));
        assert_int_equal(charl_device_get_memory(dev).capacity, kept + (1 << 20));
        charl_assert_ok(charl__buffer_create(dev, 768 << 10, "activations", &a));
        charl_assert_status(charl__buffer_create(dev, 512 << 10, "gradients", &b), CHARL_ERR_NOMEM);
        snprintf(text, sizeof text, "0.5 MiB for gradients do not fit, %.1f of %.1f MiB", (double)kept / mib + 0.75,
                 (double)kept / mib + 1.0);
        charl_assert_message(text);
        assert_null(b);
        charl__buffer_release(a);
        charl_assert_ok(charl__buffer_create(dev, 512 << 10, "gradients", &b));
        m = charl_device_get_memory(dev);
        assert_int_equal(m.in_use, kept + (512 << 10));
        assert_int_equal(m.peak, kept + (768 << 10));
        charl__buffer_release(b);
        assert_int_equal(charl_device_get_memory(dev).in_use, kept);
        charl_device_close(dev);
    }
}

static void check_too_large(charl_device *dev)
{
    const charl_device_info *info = charl_device_get_info(dev);
    charl__buffer *b = NULL;

    charl_assert_status(charl__buffer_create(dev, (size_t)info->max_alloc_bytes + 1, "arena", &b), CHARL_ERR_NOMEM);
    charl_assert_message("MiB for arena do not fit");
    charl_assert_message("in one piece");
    charl_assert_status(charl__buffer_create(dev, SIZE_MAX, "arena", &b), CHARL_ERR_NOMEM);
    assert_null(b);
    assert_true(charl_device_get_memory(dev).capacity <= info->global_bytes);
}

static void test_too_large(void **state)
{
    (void)state;
    charl_test_each_device(check_too_large);
}

/* What outlives its device stays valid. */
static void test_order_of_release(void **state)
{
    (void)state;
    const long live = charl__live();
    const int count = charl_test_device_count();

    for (int i = 0; i < count; i++) {
        charl_device *dev = charl_test_open(i, 0);
        charl__buffer *b = charl_test_buffer(dev, 64), *again = charl__buffer_retain(b);
        uint32_t word = 1;

        charl__buffer_release(b);
        charl_device_close(dev);
        charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, again, 0, &word, 4, true));
        assert_int_equal(word, 0);
        charl__buffer_release(again);
        assert_int_equal(charl__live(), live);
    }
    charl_device_close(NULL);
}

/* Memory that processes pass to each other: every descriptor leads to the same bytes. */

enum { EXPORTED_BYTES = 3 << 20 };

static charl_status scenario(void *ctx)
{
    charl_status st = CHARL_OK;
    charl_device *dev = ctx;
    charl__device_export *e = NULL;
    charl__buffer *a = NULL, *b = NULL;

    CHARL_TRY_CLEANUP(charl__export_create(dev, EXPORTED_BYTES, "a test", &e));
    CHARL_TRY_CLEANUP(charl__buffer_import(dev, charl__export_fd(e), EXPORTED_BYTES, &a));
    CHARL_TRY_CLEANUP(charl__buffer_import(dev, charl__export_fd(e), EXPORTED_BYTES, &b));
cleanup:
    charl__buffer_release(a);
    charl__buffer_release(b);
    charl__export_destroy(e);
    return st;
}

static void check_sharing(charl_device *dev)
{
    const int64_t in_use = charl_device_get_memory(dev).in_use;
    const uint32_t sent[3] = {1, 2, 0xfffffff0};
    uint32_t got[3] = {9, 9, 9};
    const char *why = NULL;
    charl__device_export *e = NULL;
    charl__buffer *a = NULL, *b = NULL;

    if (charl__export_kind(dev, &why) == CHARL_SHARED_NONE) {
        assert_non_null(why);
        charl_assert_status(charl__export_create(dev, EXPORTED_BYTES, "a test", &e), CHARL_ERR_DEVICE);
        charl_assert_message(why);
        return;
    }
    assert_null(charl__export_unreachable(dev, charl_device_get_info(dev)->pci));
    charl_assert_ok(charl__export_create(dev, EXPORTED_BYTES, "a test", &e));
    assert_int_equal(charl_device_get_memory(dev).in_use, in_use + EXPORTED_BYTES);
    charl_assert_ok(charl__buffer_import(dev, charl__export_fd(e), EXPORTED_BYTES, &a));
    charl_assert_ok(charl__buffer_import(dev, charl__export_fd(e), EXPORTED_BYTES, &b));
    charl__export_destroy(e); /* what is imported stays */
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, b, EXPORTED_BYTES - sizeof got, got, sizeof got, true));
    assert_int_equal(got[0] | got[1] | got[2], 0);
    charl_assert_ok(charl__buffer_write(CHARL_QUEUE_COMPUTE, a, EXPORTED_BYTES - sizeof sent, sent, sizeof sent, true));
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, b, EXPORTED_BYTES - sizeof got, got, sizeof got, true));
    assert_memory_equal(got, sent, sizeof sent);
    charl__buffer_release(a);
    charl__buffer_release(b);
    assert_int_equal(charl_device_get_memory(dev).in_use, in_use);
    charl_test_fail_every_acquisition(scenario, dev);
}

static void test_an_export_is_the_same_memory_everywhere(void **state)
{
    (void)state;
    charl_test_each_device(check_sharing);
}

/* As for a GPU whose memory is its own. */
static void check_portable(charl_device *dev)
{
    charl__device_facts facts = *charl__device_facts_get(dev);
    const char *why = NULL;

    facts.zero_copy = false;
    facts.nvidia.ptx = false;
    facts = charl__device_set_facts(dev, facts);
    assert_int_equal(charl__export_kind(dev, &why), CHARL_SHARED_NONE);
    assert_non_null(strstr(why, "CHARL_NO_PTX=1"));
    charl__device_set_facts(dev, facts);
}

static void test_gpus_without_inline_ptx_share_nothing(void **state)
{
    (void)state;
    charl_test_each_device(check_portable);
}

static void check_limits(charl_device *dev)
{
    const char *why = NULL;
    charl__device_export *e = NULL;
    charl__buffer *b = NULL;

    if (charl__export_kind(dev, &why) == CHARL_SHARED_HOST) {
        charl_assert_status(charl__export_create(dev, (size_t)1 << 60, "a test", &e), CHARL_ERR_NOMEM);
        charl_assert_message("a test");
        charl_assert_status(charl__buffer_import(dev, -1, EXPORTED_BYTES, &b), CHARL_ERR_NOMEM);
        assert_null(b);
    }
}

static void test_what_cannot_be_had_is_refused(void **state)
{
    (void)state;
    charl_test_each_device(check_limits);
}

static void test_without_the_driver_of_nvidia(void **state)
{
    charl__cuda_block block;
    int fd = -1;

    (void)state;
    if (!charl__cuda_missing()) {
        skip();
    }
    charl_assert_status(charl__cuda_export("0000:00:00.0", EXPORTED_BYTES, &block, &fd), CHARL_ERR_DEVICE);
    charl_assert_message("libcuda.so.1");
    assert_non_null(charl__cuda_unreachable("0000:00:00.0", "0000:01:00.0"));
    assert_int_equal(fd, -1);
}

/* A mistake in host memory that only a sanitizer that watches PoCL notices. */
static int overrun(const char *what)
{
    enum { SIZE = 4096 };
    charl_device *dev = NULL;
    charl__buffer *b = NULL;
    char *host = calloc(SIZE / 2, 1), *mapped = NULL;

    if (charl_device_open(&(charl_device_request){sizeof(charl_device_request), .local_size = 1, .share = true},
                          &dev) != CHARL_OK ||
        !charl_test_is_pocl(dev)) {
        return 77;
    }
    if (!host || charl__buffer_create(dev, SIZE, "test", &b) != CHARL_OK) {
        return 0;
    }
    if (strcmp(what, "read") == 0) {
        (void)!charl__buffer_read(CHARL_QUEUE_COMPUTE, b, 0, host, SIZE, true);
    } else if (strcmp(what, "write") == 0) {
        (void)!charl__buffer_write(CHARL_QUEUE_COMPUTE, b, 0, host, SIZE, true);
    } else if (charl__buffer_map(CHARL_QUEUE_COMPUTE, b, 0, SIZE, (void **)&mapped) == CHARL_OK) {
        mapped[2 * SIZE] = 1; /* PoCL makes buffers a little longer */
    }
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_transfers),
        cmocka_unit_test(test_fast_reads),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_map_and_wrap),
        cmocka_unit_test(test_pinned_wrap),
        cmocka_unit_test(test_offloaded),
        cmocka_unit_test(test_large_pages),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_order_of_release),
        cmocka_unit_test(test_an_export_is_the_same_memory_everywhere),
        cmocka_unit_test(test_gpus_without_inline_ptx_share_nothing),
        cmocka_unit_test(test_what_cannot_be_had_is_refused),
        cmocka_unit_test(test_without_the_driver_of_nvidia),
    };

    if (argc == 3 && strcmp(argv[1], "--overrun") == 0) {
        return overrun(argv[2]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
