/* What fails when a test wants it: acquisitions, which are counted, and points of the code. */
#include "support/support.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/numeric/rng.h"
#include "charl/log.h"

static void test_counted_and_zeroed(void **state)
{
    (void)state;
    unsigned char *p = NULL, *q = NULL;
    char *s = NULL;
    const long before = charl__allocated();

    charl_assert_ok(charl__alloc(0, &p));
    charl_assert_ok(charl__alloc_aligned(4096, 100, &q));
    charl_assert_ok(charl__strdup("text", &s));
    assert_int_equal(charl__live(), 3);
    assert_int_equal((uintptr_t)q % 4096, 0);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(q[i], 0);
    }
    assert_string_equal(s, "text");
    charl_assert_ok(charl__realloc(1000, &s));
    assert_string_equal(s, "text");
    assert_int_equal(charl__live(), 3);
    assert_int_equal(charl__allocated() - before, 4);
    charl_free(p);
    charl_free(q);
    charl_free(s);
    charl_free(NULL);
    assert_int_equal(charl__live(), 0);
}

static void test_overflow(void **state)
{
    (void)state;
    void *p = &p;

    charl_assert_status(charl__alloc_array(INT64_MAX, 16, &p), CHARL_ERR_NOMEM);
    assert_null(p);
    charl_assert_status(charl__alloc_array(-1, 4, &p), CHARL_ERR_NOMEM);
    charl_assert_ok(charl__alloc_array(INT64_MAX, 0, &p));
    charl_free(p);
    assert_int_equal(charl__live(), 0);
}

static void test_out_of_host_memory(void **state)
{
    (void)state;
    const size_t too_much = SIZE_MAX / 4;
    char *p = NULL, *s = NULL;

    charl_assert_status(charl__alloc(too_much, &p), CHARL_ERR_NOMEM);
    charl_assert_message("out of host memory: 4611686018427387903 bytes");
    charl_assert_status(charl__alloc_aligned(64, too_much, &p), CHARL_ERR_NOMEM);
    assert_null(p);
    charl_assert_ok(charl__strdup("kept", &s));
    charl_assert_status(charl__realloc(too_much, &s), CHARL_ERR_NOMEM);
    assert_string_equal(s, "kept");
    assert_int_equal(charl__live(), 1);
    charl_free(s);
}

static charl_status scenario(void *ctx)
{
    charl_status st = CHARL_OK;
    void *a = NULL, *b = NULL;
    char *c = NULL;

    (void)ctx;
    CHARL_TRY_CLEANUP(charl__alloc(10, &a));
    CHARL_TRY_CLEANUP(charl__alloc_aligned(64, 10, &b));
    CHARL_TRY_CLEANUP(charl__strdup("x", &c));
    CHARL_TRY_CLEANUP(charl__realloc(100, &c));
    CHARL_TRY_CLEANUP(charl__acquire("a handle"));
    charl__drop();
cleanup:
    charl_free(a);
    charl_free(b);
    charl_free(c);
    return st;
}

static void test_every_acquisition_can_fail(void **state)
{
    (void)state;
    assert_int_equal(charl_test_fail_every_acquisition(scenario, NULL), 5);
}

static void test_failed_realloc_changes_nothing(void **state)
{
    (void)state;
    char *s = NULL;

    charl_assert_ok(charl__strdup("kept", &s));
    charl__fault_after(1);
    charl_assert_status(charl__realloc(100, &s), CHARL_ERR_NOMEM);
    charl_assert_message("injected failure acquiring host memory");
    assert_string_equal(s, "kept");
    assert_int_equal(charl__live(), 1);
    charl_free(s);
}

static void test_pending(void **state)
{
    (void)state;
    assert_int_equal(charl__fault_pending(), 0);
    charl__fault_after(2);
    charl_assert_ok(charl__acquire("one"));
    assert_int_equal(charl__fault_pending(), 1);
    charl_assert_status(charl__acquire("two"), CHARL_ERR_NOMEM);
    assert_int_equal(charl__fault_pending(), 0);
    charl__drop();
}

/* An array that grows by one item keeps all of them, whatever its length, and asks for memory at 0, 16, 32, ... items only. */
static void test_grow(void **state)
{
    int64_t *a = NULL;
    long asked = charl__allocated();

    (void)state;
    for (int64_t n = 0; n < 100; n++) {
        charl_assert_ok(charl__grow(n, sizeof *a, &a));
        a[n] = n * n;
    }
    assert_int_equal(charl__allocated() - asked, 4); /* 16, 32, 64, 128 */
    for (int64_t n = 0; n < 100; n++) {
        assert_int_equal(a[n], n * n);
    }
    charl__fault_after(1);
    charl_assert_status(charl__grow(128, sizeof *a, &a), CHARL_ERR_NOMEM);
    charl__fault_after(0);
    assert_int_equal(a[99], 99 * 99);
    charl_assert_status(charl__grow(INT64_C(1) << 62, sizeof *a, &a), CHARL_ERR_NOMEM);
    charl_free(a);
}

static void test_environment(void **state)
{
    (void)state;
    int64_t arg = 0;

    /* main set CHARL_FAULT=start.up:2:28,alloc:3 before anything was asked */
    assert_false(charl__fault_arg("start.up", &arg));
    assert_true(charl__fault_arg("start.up", &arg));
    assert_int_equal(arg, 28);
    assert_false(charl__fault_arg("start.up", &arg));
    assert_int_equal(charl__fault_pending(), 3);
    charl__fault_after(0);
}

static void test_when(void **state)
{
    (void)state;
    charl_assert_ok(charl__fault_set("a:2,b:2+,c:*"));
    for (int i = 1; i <= 4; i++) {
        assert_int_equal(charl__fault("a"), i == 2);
        assert_int_equal(charl__fault("b"), i >= 2);
        assert_true(charl__fault("c"));
        assert_false(charl__fault("d"));
    }
    charl_assert_ok(charl__fault_set("a:1"));
    assert_true(charl__fault("a")); /* counters start anew */
    assert_false(charl__fault("c"));
    charl_assert_ok(charl__fault_set(""));
    assert_false(charl__fault("a"));
}

/* A point of a program: the faults that it can have, and one whose name is too long to have any. */
static void test_points_of_programs(void **state)
{
    char name[256];

    (void)state;
    charl_assert_ok(charl_fault("own"));
    charl_assert_ok(charl__fault_set("own.fail:2,own.raise:4:0"));
    charl_assert_ok(charl_fault("own"));
    charl_assert_status(charl_fault("own"), CHARL_ERR_DEVICE);
    charl_assert_message("fails on purpose");
    charl_assert_ok(charl_fault("own"));
    charl_assert_ok(charl_fault("other"));
    charl_assert_ok(charl_fault("own")); /* signal 0 is none */
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    charl_assert_ok(charl_fault(name));
    charl_assert_ok(charl__fault_set(NULL));
}

static void test_rules_are_added(void **state)
{
    (void)state;
    charl_assert_ok(charl__fault_set("own.first:2"));
    assert_false(charl__fault("own.first"));
    charl_assert_ok(charl_fault_add("own.second:1"));
    assert_false(charl__fault("own.first")); /* it counts from 1 again */
    assert_true(charl__fault("own.first") && charl__fault("own.second"));
    charl_assert_status(charl_fault_add("own.third:0"), CHARL_ERR_CONFIG);
    charl_assert_status(charl_fault_add(NULL), CHARL_ERR_INVALID);
    charl_assert_ok(charl__fault_set(NULL));
}

static int told;

static void on_log(void *ctx, charl_log_level level, const char *message)
{
    told += level == CHARL_LOG_INFO && strcmp(message, ctx) == 0;
}

/* A log says once of each rule that its fault happens. */
static void test_faults_are_logged(void **state)
{
    char first[] = "fault own.loud", none[] = "fault own.silent";

    (void)state;
    charl_log_set_level(CHARL_LOG_INFO);
    for (int i = 0; i < 2; i++) {
        told = 0;
        charl_log_set_callback(on_log, i == 0 ? first : none);
        charl_assert_ok(charl__fault_set("own.loud:2+,own.silent:9"));
        for (int k = 0; k < 4; k++) {
            assert_int_equal(charl__fault("own.loud"), k > 0);
            assert_int_equal(told, i == 0 && k > 0);
            assert_false(charl__fault("own.silent"));
        }
    }
    charl_log_set_callback(NULL, NULL);
    charl_log_set_level(CHARL_LOG_WARN);
    charl_assert_ok(charl__fault_set(NULL));
}

static void *take_signal(void *arg)
{
    int number = 0;

    sigwait(arg, &number);
    return number == SIGUSR1 ? arg : NULL;
}

/* A signal is for the process: charl-train takes signals in a thread of its own. */
static void test_raise_is_for_the_process(void **state)
{
    sigset_t set;
    pthread_t thread;
    void *taken = NULL;
    char rule[32];

    (void)state;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
    assert_int_equal(pthread_create(&thread, NULL, take_signal, &set), 0);
    snprintf(rule, sizeof rule, "own.raise:1:%d", SIGUSR1);
    charl_assert_ok(charl__fault_set(rule));
    charl_assert_ok(charl_fault("own"));
    assert_int_equal(pthread_join(thread, &taken), 0);
    assert_non_null(taken);
    assert_int_equal(pthread_sigmask(SIG_UNBLOCK, &set, NULL), 0);
    charl_assert_ok(charl__fault_set(NULL));
}

static void test_several_rules_for_one_point(void **state)
{
    (void)state;
    int64_t arg = 0;

    charl_assert_ok(charl__fault_set("w:1:5,w:3:-7"));
    assert_true(charl__fault_arg("w", &arg));
    assert_int_equal(arg, 5);
    assert_false(charl__fault_arg("w", &arg));
    assert_true(charl__fault_arg("w", &arg));
    assert_int_equal(arg, -7);
    charl_assert_ok(charl__fault_set(NULL));
}

/* A point that is not charl's would never fire in a program without its own. */
static void test_check(void **state)
{
    static const struct {
        const char *spec, *message;
    } bad[] = {
        {"train.data.kil:1", "there is no point train.data.kil; HINT did you mean train.data.kill?"},
        {"io.fsync:1:28,io.fsinc:1", "there is no point io.fsinc; HINT did you mean io.fsync?"},
        {"train.setup.flip:1", "there is no point train.setup.flip; HINT did you mean"}, /* there are no weights yet */
        {"train.data:1", "there is no point train.data; HINT "},
        {"myloop.step.kill:1", "there is no point myloop.step.kill; HINT the points are alloc, "}};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        charl_assert_ok(charl__fault_set(bad[i].spec));
        charl_assert_status(charl_fault_check(), CHARL_ERR_CONFIG);
        charl_assert_message(bad[i].message);
    }
    charl_assert_ok(
        charl__fault_set("io.write:1,train.write.hang@1:2+,train.device.flip_gradient:*:800,cli.guard.raise:1:9"));
    charl_assert_ok(charl_fault_check());
    charl_assert_ok(charl__fault_set("alloc:1000000000"));
    charl_assert_ok(charl_fault_check());
    charl_assert_ok(charl__fault_set(NULL));
    charl_assert_ok(charl_fault_check());
}

static void test_finish(void **state)
{
    (void)state;
    charl_assert_ok(charl__fault_set("io.write:9,io.read@1:2+,io.eio:*"));
    charl_assert_status(charl_fault_finish(2, false), CHARL_ERR_CONFIG);
    charl_assert_message("io.write never happened: nothing");
    assert_false(charl__fault("io.write")); /* passed, if not often enough; io.read is for another process to pass */
    charl_assert_ok(charl_fault_finish(2, false));
    charl_assert_status(charl_fault_finish(2, true), CHARL_ERR_CONFIG);
    charl_assert_message("io.read never happened: nothing");
    charl_assert_status(charl_fault_finish(1, false), CHARL_ERR_CONFIG);
    charl_assert_message("io.read@1 never happened: this job has 1 rank");
    charl_assert_ok(charl__fault_set(NULL));
    charl_assert_ok(charl_fault_finish(1, false));
}

static void test_rank(void **state)
{
    (void)state;
    charl_assert_ok(charl__fault_set("kill@2:*"));
    assert_false(charl__fault("kill"));
    charl__fault_rank_set(2);
    assert_true(charl__fault("kill"));
    charl__fault_rank_set(0);
    assert_false(charl__fault("kill"));
    charl_assert_ok(charl__fault_set(NULL));
}

static void *pass_as_rank_3(void *out)
{
    bool *fired = out;

    charl__fault_thread_rank_set(3);
    for (int i = 0; i < 3; i++) {
        fired[i] = charl__fault("kill");
    }
    return NULL;
}

static void test_threads_that_are_ranks_count_for_themselves(void **state)
{
    bool fired[3];
    pthread_t thread;

    (void)state;
    charl_assert_ok(charl__fault_set("kill:2"));
    assert_false(charl__fault("kill"));
    assert_int_equal(pthread_create(&thread, NULL, pass_as_rank_3, fired), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(!fired[0] && fired[1] && !fired[2]);
    assert_true(charl__fault("kill"));
    charl_assert_ok(charl__fault_set(NULL));
}

static void test_alloc(void **state)
{
    (void)state;
    void *p = NULL;

    charl_assert_ok(charl__fault_set("alloc:2"));
    charl_assert_ok(charl__alloc(8, &p));
    charl_free(p);
    charl_assert_status(charl__alloc(8, &p), CHARL_ERR_NOMEM);
    assert_null(p);
    charl_assert_ok(charl__alloc(8, &p));
    charl_free(p);
    charl_assert_ok(charl__fault_set(NULL));
}

static void test_malformed(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "a",
        "a:",
        ":1",
        "a:0",
        "a:-1",
        "a:x",
        "a:1:",
        "a:1:x",
        "a:1 ",
        "a:1,",
        ",a:1",
        "a b:1",
        "a@:1",
        "a@-1:1",
        "a@99999999999:1",
        "a:99999999999999999999",
        "alloc:1+",
        "alloc:*",
        "alloc@1:1",
        "a:*+",
        "a234567890123456789012345678901234567890123456789:1",
        "a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1",
    };

    charl_assert_ok(charl__fault_set("keep:*"));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        print_message("  %s\n", bad[i]);
        charl_assert_status(charl__fault_set(bad[i]), CHARL_ERR_CONFIG);
        charl_assert_message("fault specification");
        assert_true(charl__fault("keep"));
    }
    charl_assert_ok(charl__fault_set(NULL));
}

/* Whatever the text, the parser answers OK or ERR_CONFIG and reads nothing beyond it (the sanitizer
 * looks). */
static void test_random_texts(void **state)
{
    (void)state;
    static const char alphabet[] = "ab.@:*+,-0129 ";
    const charl__rng rng = charl__rng_key(charl_test_seed(), 0, 0);
    int64_t accepted = 0;

    for (uint64_t i = 0; i < 20000; i++) {
        const size_t length = charl__rng_u32(&rng, 64 * i) % 12;
        char *text = NULL;
        charl_status st;

        charl_assert_ok(charl__alloc(length + 1, &text));
        for (size_t k = 0; k < length; k++) {
            text[k] = alphabet[charl__rng_u32(&rng, 64 * i + k + 1) % (sizeof alphabet - 1)];
        }
        st = charl__fault_set(text);
        assert_true(st == CHARL_OK || st == CHARL_ERR_CONFIG);
        accepted += st == CHARL_OK;
        charl_free(text);
    }
    assert_true(accepted > 100 && accepted < 20000);
    charl_assert_ok(charl__fault_set(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_when),
        cmocka_unit_test(test_points_of_programs),
        cmocka_unit_test(test_rules_are_added),
        cmocka_unit_test(test_faults_are_logged),
        cmocka_unit_test(test_raise_is_for_the_process),
        cmocka_unit_test(test_several_rules_for_one_point),
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_finish),
        cmocka_unit_test(test_rank),
        cmocka_unit_test(test_threads_that_are_ranks_count_for_themselves),
        cmocka_unit_test(test_alloc),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_random_texts),
        cmocka_unit_test(test_counted_and_zeroed),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_out_of_host_memory),
        cmocka_unit_test(test_every_acquisition_can_fail),
        cmocka_unit_test(test_failed_realloc_changes_nothing),
        cmocka_unit_test(test_grow),
        cmocka_unit_test(test_pending),
    };

    setenv("CHARL_FAULT", "start.up:2:28,alloc:3", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
