/* CHARL_PROFILE: every launch is timed, direct or replayed, and the table is logged once, when the
 * device goes. */
#include "support/support.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/env.h"
#include "base/log.h"
#include "tensor/tensor.h"

static char logged[4096];

static void keep(void *ctx, charl_log_level level, const char *message)
{
    (void)ctx;
    (void)level;
    strncat(logged, message, sizeof logged - strlen(logged) - 2);
    strncat(logged, "\n", sizeof logged - strlen(logged) - 1);
}

/* As a layer's kernel would be launched. */
static charl_status fill_as(charl_tensor *t, const char *label)
{
    return charl__launch_enqueue(t->dev, &(charl__launch){.file = "tensor/copy",
                                                          .entry = "charl_fill",
                                                          .defines = "#define BITS uint\n",
                                                          .global = {1024},
                                                          .local = {64},
                                                          .args = {charl__i64(0), charl__out(t), charl__i64(1000)},
                                                          .label = label});
}

static charl_status scenario(void *ctx)
{
    charl_status st = CHARL_OK;
    const charl_device_request request = {sizeof request, .local_size = 1};
    charl_device *dev = NULL;
    charl_tensor *t = NULL;
    charl__recording *r = NULL;

    (void)ctx;
    CHARL_TRY_CLEANUP(charl_device_open(&request, &dev));
    CHARL_TRY_CLEANUP(charl_tensor_create(dev, CHARL_F32, &(charl_shape){1, {1000}}, &t));
    CHARL_TRY_CLEANUP(charl_tensor_fill(t, 1.0));
    CHARL_TRY_CLEANUP(charl__record_begin(dev, &r));
    st = charl_tensor_fill(t, 2.0);
    charl_assert_ok(charl__record_end(dev, CHARL_OK));
    CHARL_TRY_CLEANUP(st);
    CHARL_TRY_CLEANUP(charl__recording_replay(r, 0, 1));
    CHARL_TRY_CLEANUP(charl__recording_replay(r, 0, 1));
    CHARL_TRY_CLEANUP(fill_as(t, "h.0.fc1.linear"));
    CHARL_TRY_CLEANUP(fill_as(t, "h.17.fc1.linear"));
    CHARL_TRY_CLEANUP(fill_as(t, "h2.linear"));
cleanup:
    charl__recording_destroy(r);
    charl_tensor_release(t);
    charl_device_close(dev);
    return st;
}

static void test_table(void **state)
{
    (void)state;
    charl__env_set(CHARL_ENV_PROFILE, "1");
    charl_log_set_callback(keep, NULL);
    charl_log_set_level(CHARL_LOG_INFO);
    logged[0] = '\0';
    charl_assert_ok(scenario(NULL));
    assert_non_null(strstr(logged, "3 x "));
    assert_non_null(strstr(logged, "2 x "));
    assert_non_null(strstr(logged, "  h.*.fc1.linear (charl_fill)"));
    assert_non_null(strstr(logged, "  h2.linear (charl_fill)"));
    assert_non_null(strstr(logged, " ms in ")); /* and so many kernels; to open some devices takes more than the one */
    assert_non_null(strstr(logged, "6 x "));
    assert_non_null(strstr(logged, "  all (charl_fill)"));
    logged[0] = '\0';
    charl__env_set(CHARL_ENV_PROFILE, "0");
    charl_assert_ok(scenario(NULL));
    assert_null(strstr(logged, "charl_fill"));
}

static void test_every_acquisition_may_fail(void **state)
{
    (void)state;
    charl__env_set(CHARL_ENV_PROFILE, "1");
    charl_log_set_callback(NULL, NULL);
    charl_test_fail_every_acquisition(scenario, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_table), cmocka_unit_test(test_every_acquisition_may_fail)};
    charl_device_info info[1];
    int count;

    if (charl_device_list(info, 1, &count) != CHARL_OK) {
        fprintf(stderr, "skipped: %s\n", charl_error_message());
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
