/* Work on other threads. */
#define _DEFAULT_SOURCE 1 /* syscall */
#include "support/support.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/parallel.h"
#include "files/job.h"

/* A job runs beside its caller, or before it returns, and hands on its status with its message. */

typedef struct work {
    atomic_bool may_end;
    charl_status result;
    int done;
} work;

static charl_status wait_and_end(void *ctx)
{
    work *w = ctx;

    while (!atomic_load(&w->may_end)) {
        charl__sleep_s(0.001);
    }
    w->done++;
    CHARL_REQUIRE(w->result == CHARL_OK, w->result, "the disk is full");
    return CHARL_OK;
}

static void test_background(void **state)
{
    work w = {.result = CHARL_OK};
    charl__job *job = NULL;

    (void)state;
    charl_assert_ok(charl__job_start(true, wait_and_end, &w, &job));
    assert_false(charl__job_is_done(job));
    assert_false(charl__job_wait(job, 0.002));
    atomic_store(&w.may_end, true);
    assert_true(charl__job_wait(job, 60.0));
    assert_true(charl__job_is_done(job));
    charl_assert_ok(charl__job_end(job));
    assert_int_equal(w.done, 1);
}

/* Takes the place of the C library's: the wall clock is ahead of the kernel's by so many seconds. */
static time_t ahead_s;

__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *now)
{
    const int err = (int)syscall(SYS_clock_gettime, id, now);

    now->tv_sec += id == CLOCK_REALTIME ? ahead_s : 0;
    return err;
}

/* A wait that goes by the wall clock would take hours, and end in the timeout of this test. */
static void test_wall_clock_set_back(void **state)
{
    work w = {.result = CHARL_OK};
    charl__job *job = NULL;

    (void)state;
    charl_assert_ok(charl__job_start(true, wait_and_end, &w, &job));
    ahead_s = 5 * 3600;
    alarm(60);
    assert_false(charl__job_wait(job, 0.002));
    alarm(0);
    ahead_s = 0;
    atomic_store(&w.may_end, true);
    charl_assert_ok(charl__job_end(job));
}

static void test_failure(void **state)
{
    (void)state;
    for (int background = 0; background < 2; background++) {
        work w = {.result = CHARL_ERR_DISK};
        charl__job *job = NULL;

        atomic_store(&w.may_end, true);
        charl_assert_ok(charl__job_start(background != 0, wait_and_end, &w, &job));
        charl_error_clear();
        charl_assert_status(charl__job_end(job), CHARL_ERR_DISK);
        charl_assert_message("the disk is full");
        assert_int_equal(w.done, 1);
        charl_assert_ok(charl__job_start(background != 0, wait_and_end, &w, &job));
        charl_error_clear();
        charl__job_discard(job);
        assert_string_equal(charl_error_message(), ""); /* of the job's thread, or of before */
        assert_int_equal(w.done, 2);
    }
}

static void test_nothing(void **state)
{
    (void)state;
    assert_true(charl__job_is_done(NULL));
    assert_true(charl__job_wait(NULL, 1.0));
    charl_assert_ok(charl__job_end(NULL));
    charl__job_discard(NULL);
}

static void test_no_thread(void **state)
{
    work w = {.result = CHARL_OK};
    charl__job *job = NULL;

    (void)state;
    for (long n = 1; n <= 2; n++) { /* memory, thread */
        charl__fault_after(n);
        charl_assert_status(charl__job_start(true, wait_and_end, &w, &job), CHARL_ERR_NOMEM);
        charl__fault_after(0);
        assert_null(job);
    }
    assert_int_equal(charl__live(), 0);
}

/* Loops over all processors. */

enum { MOST = 10000 };

typedef struct counts {
    atomic_int of[MOST];
} counts;

static void count(void *ctx, int64_t i)
{
    counts *c = ctx;

    assert_in_range(i, 0, MOST - 1);
    atomic_fetch_add(&c->of[i], 1);
}

static void test_each_once(void **state)
{
    static const int64_t n[] = {0, 1, 2, 3, 63, 64, 65, MOST};

    (void)state;
    for (size_t k = 0; k < sizeof n / sizeof *n; k++) {
        static counts c;

        memset(&c, 0, sizeof c);
        charl__parallel(n[k], count, &c);
        for (int64_t i = 0; i < MOST; i++) {
            assert_int_equal(atomic_load(&c.of[i]), i < n[k]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_background), cmocka_unit_test(test_wall_clock_set_back), cmocka_unit_test(test_failure),
        cmocka_unit_test(test_nothing),    cmocka_unit_test(test_no_thread),           cmocka_unit_test(test_each_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
