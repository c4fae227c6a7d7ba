/* Choices between kernels: the file that keeps them, and what is no such file. */
#include "device/suite.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "charl/tune.h"

static char *cache;

static charl_device *open_device(void)
{
    (void)charl_test_device_count();
    charl__env_set(CHARL_ENV_CACHE_DIR, cache);
    return charl_test_open(0, 0);
}

static void are_kept(void **state)
{
    charl_device *dev = open_device(), *other;
    const char *what, *choice;

    (void)state;
    assert_false(charl__tuning_db_has_any(dev));
    assert_null(charl__tuning_find(dev, "x"));
    charl_assert_ok(charl__tuning_set(dev, "x", "1"));
    charl_assert_ok(charl__tuning_set(dev, "y", "2"));
    charl_assert_ok(charl__tuning_set(dev, "x", "3"));
    charl_assert_ok(charl__tuning_db_save(dev));
    other = open_device();
    assert_string_equal(charl__tuning_find(other, "x"), "3");
    assert_string_equal(charl__tuning_find(other, "y"), "2");

    /* Two processes that find something at the same time. */
    charl_assert_ok(charl__tuning_set(other, "z", "4"));
    charl_assert_ok(charl__tuning_db_save(other));
    charl_assert_ok(charl__tuning_set(dev, "x", "5"));
    charl_assert_ok(charl__tuning_db_save(dev));
    assert_string_equal(charl__tuning_find(dev, "z"), "4");
    charl_device_close(other);
    other = open_device();
    assert_true(charl_tune_get(other, 0, &what, &choice));
    assert_string_equal(choice, "5");
    assert_true(charl_tune_get(other, 2, &what, &choice));
    assert_false(charl_tune_get(other, 3, &what, &choice));

    charl_assert_ok(charl_tune_clear(other));
    assert_false(charl__tuning_db_has_any(other));
    charl_device_close(other);
    charl_device_close(dev);
    dev = open_device();
    assert_false(charl__tuning_db_has_any(dev));
    charl_device_close(dev);
}

static void *save_often(void *device)
{
    intptr_t failed = 0;

    for (int i = 0; i < 200; i++) {
        failed += charl__tuning_db_save(device) != CHARL_OK;
    }
    return (void *)failed;
}

/* Ranks may be threads of one process. */
static void are_kept_by_threads_at_once(void **state)
{
    charl_device *dev[2] = {open_device(), open_device()};
    pthread_t thread[2];
    void *failed = NULL;

    (void)state;
    for (int i = 0; i < 2; i++) {
        charl_assert_ok(charl__tuning_set(dev[i], i == 0 ? "x" : "y", "1"));
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&thread[i], NULL, save_often, dev[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(thread[i], &failed), 0);
        assert_null(failed);
    }
    charl_assert_ok(charl_tune_clear(dev[0]));
    charl_device_close(dev[0]);
    charl_device_close(dev[1]);
}

static void other_lines_are_skipped(void **state)
{
    charl_device *dev = open_device();
    char text[4096], long_line[2000];

    (void)state;
    memset(long_line, 'l', sizeof long_line - 1);
    long_line[sizeof long_line - 1] = '\0';
    snprintf(text, sizeof text, "# x = 1\nno choice\nx=1\n = \ny = 2\ny = 3\n%s = 1\nlast = not ended", long_line);
    charl_test_write_text(charl_tune_path(dev), text);
    assert_int_equal(chmod(charl_tune_path(dev), 0622), 0); /* others may have written this */
    charl_device_close(dev);
    dev = open_device();
    assert_false(charl__tuning_db_has_any(dev));
    assert_int_equal(chmod(charl_tune_path(dev), 0644), 0);
    charl_device_close(dev);
    dev = open_device();
    assert_string_equal(charl__tuning_find(dev, "y"), "2");
    assert_null(charl__tuning_find(dev, "x"));
    assert_null(charl__tuning_find(dev, "last"));
    charl_assert_ok(charl_tune_clear(dev));
    charl_device_close(dev);
}

/* That there is room for a file, not only a directory, is tried with one, which is not left. */
static void a_check_leaves_nothing(void **state)
{
    const char *own = charl_test_path(cache, "own");
    struct rlimit limit, none = {0, 0};

    (void)state;
    charl__env_set(CHARL_ENV_CACHE_DIR, own);
    charl_assert_ok(charl__tuning_db_check());
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    none.rlim_max = limit.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    charl_assert_status(charl__tuning_db_check(), CHARL_ERR_DISK);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    charl_assert_message("tuning results cannot be saved: cannot write to ");
    assert_int_equal(rmdir(own), 0); /* it is empty */
}

static void failures_say_why(void **state)
{
    charl_device *dev = open_device(), *none = NULL;
    const char *path = charl_tune_path(dev);

    (void)state;
    charl_assert_status(charl__tuning_set(dev, "a = b", "1"), CHARL_ERR_INVALID);
    charl_assert_status(charl__tuning_set(dev, "a", "1\n2"), CHARL_ERR_INVALID);
    assert_int_equal(mkdir(path, 0777), 0); /* a folder in the file's place */
    charl_test_write_text(charl_test_path(path, "x"), "x");
    charl_assert_ok(charl__tuning_set(dev, "a", "1"));
    charl_assert_status(charl__tuning_db_save(dev), CHARL_ERR_DISK);
    charl_assert_message("cannot write");
    charl_assert_status(charl_tune_clear(dev), CHARL_ERR_DISK);
    charl_assert_message("cannot remove");
    assert_int_equal(unlink(charl_test_path(path, "x")), 0);
    assert_int_equal(rmdir(path), 0);
    charl_device_close(dev);

    charl__env_set(CHARL_ENV_CACHE_DIR, "/dev/null/x");
    dev = charl_test_open(0, 0);
    assert_null(charl_tune_path(dev));
    charl_assert_status(charl__tuning_db_save(dev), CHARL_ERR_DISK);
    charl_assert_message("CHARL_CACHE_DIR");
    charl_assert_ok(charl_tune_clear(dev));
    charl_device_close(dev);
    charl_assert_status(charl__tuning_db_check(), CHARL_ERR_DISK);
    charl_assert_message("CHARL_CACHE_DIR");
    charl__env_set(CHARL_ENV_CACHE_DIR, cache);
    charl_assert_ok(charl__tuning_db_check());

    charl__env_set(CHARL_ENV_TUNE, "maybe");
    charl_assert_status(
        charl_device_open(&(charl_device_request){sizeof(charl_device_request), .local_size = 1}, &none),
        CHARL_ERR_CONFIG);
    charl_assert_message("expected stored, first or no");
    charl__env_set(CHARL_ENV_TUNE, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(are_kept),
        cmocka_unit_test(are_kept_by_threads_at_once),
        cmocka_unit_test(other_lines_are_skipped),
        cmocka_unit_test(a_check_leaves_nothing),
        cmocka_unit_test(failures_say_why),
    };
    int failed;

    cache = charl_test_tempdir();
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    charl_test_tempdir_remove(cache);
    return failed;
}
