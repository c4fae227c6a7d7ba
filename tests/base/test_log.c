/* The environment and the log, and messages that only charl writes. */
#include "support/support.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/env.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/log.h"

/* The log, and messages that only charl writes. */

typedef struct seen {
    int count;
    charl_log_level level;
    char text[4096];
} seen;

static void keep(void *ctx, charl_log_level level, const char *message)
{
    seen *s = ctx;

    s->count++;
    s->level = level;
    strncpy(s->text, message, sizeof s->text - 1);
}

static void test_level_comes_from_the_environment(void **state)
{
    (void)state;
    seen s = {0};

    charl_log_set_callback(keep, &s);
    charl__log(CHARL_LOG_DEBUG, "no");
    assert_int_equal(s.count, 0);
    charl__log(CHARL_LOG_INFO, "%s %d", "seven", 7);
    assert_int_equal(s.count, 1);
    assert_int_equal(s.level, CHARL_LOG_INFO);
    assert_string_equal(s.text, "seven 7");
    charl_log_set_callback(NULL, NULL);
}

static void test_level_set(void **state)
{
    (void)state;
    seen s = {0};

    charl_log_set_callback(keep, &s);
    charl_log_set_level(CHARL_LOG_ERROR);
    assert_false(charl__log_enabled(CHARL_LOG_WARN));
    assert_true(charl__log_enabled(CHARL_LOG_ERROR));
    charl_log_set_level(CHARL_LOG_DEBUG);
    assert_true(charl__log_enabled(CHARL_LOG_DEBUG));
    charl_log_set_callback(NULL, NULL);
    assert_int_equal(s.count, 0);
}

/* Without a callback nothing is printed, unless CHARL_LOG is set. */
static void test_default(void **state)
{
    (void)state;
    char text[64] = "";
    FILE *f = tmpfile();
    const int saved = dup(STDERR_FILENO);

    assert_non_null(f);
    charl_log_set_level(CHARL_LOG_WARN);
    dup2(fileno(f), STDERR_FILENO);
    charl__env_set(CHARL_ENV_LOG, NULL);
    assert_false(charl__log_enabled(CHARL_LOG_ERROR));
    charl__log(CHARL_LOG_ERROR, "dropped");
    charl__env_set(CHARL_ENV_LOG, "warn");
    charl__log(CHARL_LOG_WARN, "one %d", 1);
    charl__log(CHARL_LOG_INFO, "not at this level");
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(f);
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    assert_string_equal(text, "charl: warn: one 1\n");
}

static void test_long_message_is_cut(void **state)
{
    (void)state;
    static char wide[5000];
    seen s = {0};

    memset(wide, 'a', sizeof wide - 1);
    charl_log_set_callback(keep, &s);
    charl__log(CHARL_LOG_ERROR, "%s", wide);
    assert_int_equal(strlen(s.text), 2047);
    charl_log_set_callback(NULL, NULL);
}

static void test_names(void **state)
{
    (void)state;
    charl_log_level level = CHARL_LOG_WARN;

    assert_string_equal(charl_log_level_name(CHARL_LOG_DEBUG), "debug");
    assert_string_equal(charl_log_level_name((charl_log_level)99), "?");
    assert_true(charl__log_level_find("error", &level));
    assert_int_equal(level, CHARL_LOG_ERROR);
    assert_false(charl__log_level_find("loud", &level));
    assert_int_equal(level, CHARL_LOG_ERROR);
}

static void *chatter(void *arg)
{
    (void)arg;
    for (int i = 0; i < 1000; i++) {
        charl__log(CHARL_LOG_ERROR, "x");
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[4];
    seen s = {0};

    charl_log_set_callback(keep, &s);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, chatter, NULL), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(s.count, 4000); /* the sink's counter has no lock of its own */
    charl_log_set_callback(NULL, NULL);
}

static void test_prefix_of_the_error(void **state)
{
    (void)state;
    static char wide[5000];

    memset(wide, 'm', sizeof wide - 1);
    charl_error_set(CHARL_ERR_IO, "f.c", 1, "f", "inner extents %d and %d differ", 3, 4);
    charl__error_prefix("layer %s: ", "fc1");
    assert_string_equal(charl_error_message(), "layer fc1: inner extents 3 and 4 differ");
    charl_error_set(CHARL_ERR_IO, "f.c", 1, "f", "%s", wide);
    charl__error_prefix("%s", wide);
    assert_int_equal(strlen(charl_error_message()), 2047);
}

static void say(void *ctx, charl_log_level level, const char *message)
{
    (void)ctx;
    _exit(level == CHARL_LOG_ERROR && strstr(message, "internal error: 1 == 2 does not hold (") ? 42 : 43);
}

static int exit_of_panic(charl_log_fn callback)
{
    int how = 0;
    const pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        charl_log_set_callback(callback, NULL);
        CHARL_INVARIANT(1 == 1);
        CHARL_INVARIANT(1 == 2);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    return how;
}

static void test_panic(void **state)
{
    (void)state;
    const int told = exit_of_panic(say);
    const int bare = exit_of_panic(NULL);

    assert_true(WIFEXITED(told) && WEXITSTATUS(told) == 42);
    assert_true(WIFSIGNALED(bare) && WTERMSIG(bare) == SIGABRT);
}

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

static void env_keep(void *ctx, charl_log_level level, const char *message)
{
    assert_int_equal(level, CHARL_LOG_WARN);
    strncat(ctx, message, 500);
}

static void test_unknown_variable_is_a_warning(void **state)
{
    (void)state;
    char text[4096] = "";

    setenv("CHARL_LGO", "debug", 1);
    charl_log_set_callback(env_keep, text);
    charl_assert_ok(charl_environment_check());
    charl_log_set_callback(NULL, NULL);
    unsetenv("CHARL_LGO");
    assert_non_null(strstr(text, "CHARL_LGO is not one that charl knows"));
    assert_null(strstr(text, "CHARL_DEVICE"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_level_comes_from_the_environment),
        cmocka_unit_test(test_level_set),
        cmocka_unit_test(test_default),
        cmocka_unit_test(test_long_message_is_cut),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_prefix_of_the_error),
        cmocka_unit_test(test_panic),
        cmocka_unit_test(test_names_and_meanings),
        cmocka_unit_test(test_read_once),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_check_names_the_bad_value),
        cmocka_unit_test(test_check_puts_faults_into_force),
        cmocka_unit_test(test_unknown_variable_is_a_warning),
    };

    unsetenv("CHARL_FAULT");
    setenv("CHARL_LOG", "info", 1);
    setenv("CHARL_DEVICE", "cpu", 1);
    setenv("CHARL_DUMP_KERNELS", "", 1);
    setenv("CHARL_TEST_SEED", "0x10", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
