/* Memory that processes pass to each other: every descriptor leads to the same bytes. */
#include "device/suite.h"

#include "device/device_private.h"

enum { BYTES = 3 << 20 };

static charl_status scenario(void *ctx)
{
    charl_status st = CHARL_OK;
    charl_device *dev = ctx;
    charl__device_export *e = NULL;
    charl__buffer *a = NULL, *b = NULL;

    CHARL_TRY_CLEANUP(charl__export_create(dev, BYTES, "a test", &e));
    CHARL_TRY_CLEANUP(charl__buffer_import(dev, charl__export_fd(e), BYTES, &a));
    CHARL_TRY_CLEANUP(charl__buffer_import(dev, charl__export_fd(e), BYTES, &b));
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
        charl_assert_status(charl__export_create(dev, BYTES, "a test", &e), CHARL_ERR_DEVICE);
        charl_assert_message(why);
        return;
    }
    assert_null(charl__export_unreachable(dev, charl_device_get_info(dev)->pci));
    charl_assert_ok(charl__export_create(dev, BYTES, "a test", &e));
    assert_int_equal(charl_device_get_memory(dev).in_use, in_use + BYTES);
    charl_assert_ok(charl__buffer_import(dev, charl__export_fd(e), BYTES, &a));
    charl_assert_ok(charl__buffer_import(dev, charl__export_fd(e), BYTES, &b));
    charl__export_destroy(e); /* what is imported stays */
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, b, BYTES - sizeof got, got, sizeof got, true));
    assert_int_equal(got[0] | got[1] | got[2], 0);
    charl_assert_ok(charl__buffer_write(CHARL_QUEUE_COMPUTE, a, BYTES - sizeof sent, sent, sizeof sent, true));
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, b, BYTES - sizeof got, got, sizeof got, true));
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
        charl_assert_status(charl__buffer_import(dev, -1, BYTES, &b), CHARL_ERR_NOMEM);
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
    charl_assert_status(charl__cuda_export("0000:00:00.0", BYTES, &block, &fd), CHARL_ERR_DEVICE);
    charl_assert_message("libcuda.so.1");
    assert_non_null(charl__cuda_unreachable("0000:00:00.0", "0000:01:00.0"));
    assert_int_equal(fd, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_export_is_the_same_memory_everywhere),
        cmocka_unit_test(test_gpus_without_inline_ptx_share_nothing),
        cmocka_unit_test(test_what_cannot_be_had_is_refused),
        cmocka_unit_test(test_without_the_driver_of_nvidia),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
