#include "support/support.h"

#include <pthread.h>
#include <string.h>

#include "charl/error.h"

static charl_status inner(int a, int b)
{
    CHARL_REQUIRE(a == b, CHARL_ERR_SHAPE, "inner extents %d and %d differ", a, b);
    return CHARL_OK;
}

static charl_status outer(int a, int b)
{
    CHARL_TRY(inner(a, b));
    return CHARL_OK;
}

static void test_message_and_path(void **state)
{
    (void)state;
    charl_assert_ok(outer(3, 3));
    assert_int_equal(outer(3, 4), CHARL_ERR_SHAPE);
    assert_string_equal(charl_error_message(), "inner extents 3 and 4 differ");
    assert_non_null(strstr(charl_error_path(), "\n  at inner (test_status.c:"));
    assert_non_null(strstr(charl_error_path(), "\n  at outer (test_status.c:"));
    charl_error_set(CHARL_ERR_IO, "f.c", 1, "f", "again: %s", charl_error_message());
    assert_string_equal(charl_error_message(), "again: inner extents 3 and 4 differ");
    charl_error_clear();
    assert_string_equal(charl_error_message(), "");
    assert_string_equal(charl_error_path(), "");
}

static void test_names(void **state)
{
    (void)state;
    for (int i = 0; i < CHARL_STATUS_COUNT; i++) {
        assert_true(strlen(charl_status_name((charl_status)i)) >= 2);
        assert_true(strlen(charl_status_text((charl_status)i)) >= 7);
    }
    assert_string_equal(charl_status_name(CHARL_ERR_COMM), "ERR_COMM");
    assert_string_equal(charl_status_name(CHARL_STATUS_COUNT), "ERR_UNKNOWN");
    assert_string_equal(charl_status_text(CHARL_STATUS_COUNT), "unknown status");
}

static void test_long_messages_and_deep_paths_are_cut(void **state)
{
    (void)state;
    static char wide[5000];

    memset(wide, 'm', sizeof wide - 1);
    charl_error_set(CHARL_ERR_IO, "f.c", 1, "f", "%s", wide);
    assert_int_equal(strlen(charl_error_message()), 2047);
    for (int i = 0; i < 200; i++) {
        charl_error_trace("dir/file.c", i, "function");
    }
    assert_true(strlen(charl_error_path()) < 1024);
}

static void *fail_elsewhere(void *arg)
{
    return outer(1, 2) == CHARL_ERR_SHAPE && strlen(charl_error_message()) > 0 ? arg : NULL;
}

static void test_record_belongs_to_the_thread(void **state)
{
    (void)state;
    pthread_t thread;
    void *result = NULL;

    charl_error_clear();
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, state), 0);
    pthread_join(thread, &result);
    assert_non_null(result);
    assert_string_equal(charl_error_message(), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_message_and_path),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_long_messages_and_deep_paths_are_cut),
        cmocka_unit_test(test_record_belongs_to_the_thread),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
