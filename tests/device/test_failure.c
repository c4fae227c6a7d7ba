/* What is said when a command has failed on the device, which a later call finds out. */
#include "device/suite.h"

#include "device/opencl/opencl.h"

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

    charl_assert_ok(charl__opencl_build(dev, "innocent", source, "", &program));
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
        cmocka_unit_test(test_build_after_fault),
        cmocka_unit_test(test_unknown_errors_have_their_number),
        cmocka_unit_test(test_the_largest_buffer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
