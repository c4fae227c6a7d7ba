#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/fault.h"
#include "base/log.h"

static void test_names_and_meanings(void **state)
{
    const char *meaning;

    (void)state;
    assert_string_equal(charl__env_name(CHARL_ENV_LOG), "CHARL_LOG");
    assert_string_equal(charl__env_name(CHARL_ENV_TEST_DATA), "CHARL_TEST_DATA");
    assert_string_equal(charl__env_name(CHARL_ENV_COUNT), "?");
    assert_null(charl_environment_variable(CHARL_ENV_COUNT, &meaning));
    for (int i = 0; i < CHARL_ENV_COUNT; i++) {
        assert_string_equal(charl_environment_variable(i, &meaning), charl__env_name((charl__env_id)i));
        assert_true(strlen(meaning) > 10);
    }
}

static void test_read_once(void **state)
{
    (void)state;
    assert_string_equal(charl__env(CHARL_ENV_DEVICE), "cpu");
    assert_null(charl__env(CHARL_ENV_DUMP_KERNELS)); /* empty counts as unset */
    assert_int_equal(charl__env_integer(CHARL_ENV_TEST_SEED, 5), 0x10);
    setenv("CHARL_DUMP_KERNELS", "late", 1);
    assert_null(charl__env(CHARL_ENV_DUMP_KERNELS));
}

static void test_kinds(void **state)
{
    (void)state;
    charl__env_set(CHARL_ENV_SYNC, "1");
    assert_true(charl__env_is_on(CHARL_ENV_SYNC));
    charl__env_set(CHARL_ENV_SYNC, "yes");
    assert_true(charl__env_is_on(CHARL_ENV_SYNC));
    charl__env_set(CHARL_ENV_SYNC, "0");
    assert_false(charl__env_is_on(CHARL_ENV_SYNC));
    charl__env_set(CHARL_ENV_SYNC, NULL);
    assert_false(charl__env_is_on(CHARL_ENV_SYNC));
    charl__env_set(CHARL_ENV_TEST_SEED, "12x");
    assert_int_equal(charl__env_integer(CHARL_ENV_TEST_SEED, 5), 5);
    charl__env_set(CHARL_ENV_TEST_SEED, NULL);
    assert_int_equal(charl__env_integer(CHARL_ENV_TEST_SEED, 6), 6);
}

static void test_check_names_the_bad_value(void **state)
{
    (void)state;
    static const struct {
        charl__env_id id;
        const char *value, *message;
    } bad[] = {
        {CHARL_ENV_SYNC, "maybe", "CHARL_SYNC=maybe: expected 0 or 1"},
        {CHARL_ENV_LOG, "loud", "CHARL_LOG=loud: expected error, warn, info or debug"},
        {CHARL_ENV_TEST_SEED, "99999999999999999999", "expected an integer"},
        {CHARL_ENV_FAULT, "io.write", "io.write must be followed by :when"},
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        charl__env_set(bad[i].id, bad[i].value);
        charl_assert_status(charl_environment_check(), CHARL_ERR_CONFIG);
        charl_assert_message(bad[i].message);
        charl__env_set(bad[i].id, NULL);
    }
    charl_assert_ok(charl_environment_check());
}

static void test_check_puts_faults_into_force(void **state)
{
    (void)state;
    charl__env_set(CHARL_ENV_FAULT, "io.write:1");
    charl_assert_ok(charl_environment_check());
    assert_true(charl__fault("io.write"));
    charl__env_set(CHARL_ENV_FAULT, NULL);
    charl_assert_ok(charl__fault_set(NULL));
}

static void keep(void *ctx, charl_log_level level, const char *message)
{
    assert_int_equal(level, CHARL_LOG_WARN);
    strncat(ctx, message, 500);
}

static void test_unknown_variable_is_a_warning(void **state)
{
    (void)state;
    char text[4096] = "";

    setenv("CHARL_LGO", "debug", 1);
    charl_log_set_callback(keep, text);
    charl_assert_ok(charl_environment_check());
    charl_log_set_callback(NULL, NULL);
    unsetenv("CHARL_LGO");
    assert_non_null(strstr(text, "CHARL_LGO is not one that charl knows"));
    assert_null(strstr(text, "CHARL_DEVICE"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_and_meanings),
        cmocka_unit_test(test_read_once),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_check_names_the_bad_value),
        cmocka_unit_test(test_check_puts_faults_into_force),
        cmocka_unit_test(test_unknown_variable_is_a_warning),
    };

    unsetenv("CHARL_LOG");
    unsetenv("CHARL_FAULT");
    setenv("CHARL_DEVICE", "cpu", 1);
    setenv("CHARL_DUMP_KERNELS", "", 1);
    setenv("CHARL_TEST_SEED", "0x10", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
