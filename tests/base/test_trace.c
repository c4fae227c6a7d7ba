/* Clocks, and spans of time. */
#include "support/support.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/trace.h"

static void test_format(void **state)
{
    (void)state;
    char text[CHARL__CLOCK_TEXT];

    assert_string_equal(charl__clock_format(0, text), "1970-01-01T00:00:00Z");
    assert_string_equal(charl__clock_format(1795255393.9, text), "2026-11-21T10:03:13Z");
    assert_string_equal(charl__clock_format(-0.5, text), "1969-12-31T23:59:59Z");
    assert_string_equal(charl__clock_format((double)NAN, text), "?");
    assert_string_equal(charl__clock_format(1e30, text), "?");
}

static void test_clocks_advance(void **state)
{
    (void)state;
    const double start = charl__clock_s();

    charl__sleep_s(0.01);
    assert_true(charl__clock_s() - start >= 0.01);
    assert_true(charl__clock_wall_s() > 1.7e9);
}

static void on_alarm(int number)
{
    (void)number;
}

static void test_sleep_goes_on_after_a_signal(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = on_alarm};
    const struct itimerval soon = {.it_value = {.tv_usec = 1000}};
    const double start = charl__clock_s();

    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
    charl__sleep_s(0.02);
    assert_true(charl__clock_s() - start >= 0.02);
}

static void *nap_for_an_hour(void *arg)
{
    const double *hours = arg;

    charl__clock_set_member(true);
    charl__clock_nap_s(3600, *hours * 3600);
    return NULL;
}

/* Hours pass at once where all members nap. */
static void test_time_jumps_when_all_members_nap(void **state)
{
    double hours[] = {1, 2};
    const double start = charl__clock_s();
    pthread_t thread[2];

    (void)state;
    charl__clock_add_members(2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&thread[i], NULL, nap_for_an_hour, &hours[i]), 0);
    }
    pthread_join(thread[0], NULL);
    charl__clock_add_members(-1); /* the one that has ended: the other is alone */
    pthread_join(thread[1], NULL);
    charl__clock_add_members(-1);
    assert_true(charl__clock_s() - start >= 7200);
}

static void test_time_does_not_jump_while_a_member_works(void **state)
{
    const double start = charl__clock_s();

    (void)state;
    charl__clock_add_members(2);
    charl__clock_set_member(true);
    charl__clock_nap_s(0.01, 3600);
    charl__clock_set_member(false);
    charl__clock_nap_s(0.01, 3600); /* and this thread is none any more */
    charl__clock_add_members(-2);
    assert_true(charl__clock_s() - start >= 0.02);
    assert_true(charl__clock_s() - start < 3600);
}

static void test_sleep_of_nothing(void **state)
{
    (void)state;
    charl__sleep_s(0);
    charl__sleep_s(-1);
    charl__sleep_s((double)NAN);
}

/* Spans: what is kept, what is lost without memory, and threads that add at the same time. */

static void test_spans(void **state)
{
    charl__trace *t = NULL;
    double begun;

    (void)state;
    charl_assert_ok(charl__trace_create(&t));
    assert_false(charl__trace_is_on(t));
    assert_true(charl__trace_begin(t) < 0);
    charl__trace_end(t, CHARL__LANE_HOST, "not recorded", "", 0, charl__trace_begin(t));
    charl__trace_start(t);
    begun = charl__trace_begin(t);
    assert_true(begun > 0);
    charl__trace_end(t, CHARL__LANE_HOST, "data", "", 0, begun);
    charl__trace_set_aside(t, true);
    charl__trace_end(t, CHARL__LANE_INPUT, "read", "data", 12, begun);
    charl__trace_stop(t);
    charl__trace_end(t, CHARL__LANE_HOST, "not recorded", "", 0, charl__trace_begin(t));
    assert_int_equal(charl__trace_count(t), 2);
    assert_string_equal(charl__trace_text(t, charl__trace_at(t, 0)->name), "data");
    assert_int_equal(charl__trace_at(t, 1)->label, charl__trace_at(t, 0)->name); /* a text is kept once */
    assert_true(charl__trace_at(t, 0)->begin_s == begun && charl__trace_at(t, 0)->end_s >= begun);
    assert_true(charl__trace_at(t, 1)->is_aside && !charl__trace_at(t, 0)->is_aside);
    assert_true(charl__trace_at(t, 1)->bytes == 12 && charl__trace_at(t, 1)->lane == CHARL__LANE_INPUT);
    charl__trace_start(t);
    assert_int_equal(charl__trace_count(t), 0);
    assert_int_equal(charl__trace_texts(t), 0);
    charl__trace_destroy(t);
    charl__trace_destroy(NULL);
    charl__trace_end(NULL, CHARL__LANE_HOST, "", "", 0, charl__trace_begin(NULL));
}

/* Whoever is watched does not fail: the span is lost, and counted. */
static void test_without_memory(void **state)
{
    const long live = charl__live();

    (void)state;
    for (long nth = 1; nth <= 6; nth++) {
        charl__trace *t = NULL;

        charl_assert_ok(charl__trace_create(&t));
        charl__trace_start(t);
        charl__fault_after(nth);
        for (int i = 0; i < 3; i++) {
            charl__trace_end(t, CHARL__LANE_HOST, i == 1 ? "b" : "a", "c", 0, charl__trace_begin(t));
        }
        assert_int_equal(charl__trace_count(t) + charl__trace_lost(t), 3);
        assert_true(charl__trace_lost(t) > 0 || charl__fault_pending() > 0);
        charl__fault_after(0);
        for (int64_t i = 0; i < charl__trace_count(t); i++) {
            assert_true(strchr("ab", charl__trace_text(t, charl__trace_at(t, i)->name)[0]));
            assert_string_equal(charl__trace_text(t, charl__trace_at(t, i)->label), "c");
        }
        charl__trace_destroy(t);
        assert_int_equal(charl__live(), live);
    }
}

enum { THREADS = 4, EACH = 2000 };

static void *add(void *t)
{
    for (int i = 0; i < EACH; i++) {
        charl__trace_end(t, CHARL__LANE_INPUT, i % 2 ? "odd" : "even", "", 1, charl__trace_begin(t));
    }
    return NULL;
}

static void test_threads(void **state)
{
    charl__trace *t = NULL;
    pthread_t thread[THREADS];
    double bytes = 0;

    (void)state;
    charl_assert_ok(charl__trace_create(&t));
    charl__trace_start(t);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&thread[i], NULL, add, t), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
    }
    assert_int_equal(charl__trace_count(t), THREADS * EACH);
    assert_int_equal(charl__trace_texts(t), 3);
    for (int64_t i = 0; i < charl__trace_count(t); i++) {
        bytes += charl__trace_at(t, i)->bytes;
    }
    assert_true(bytes == THREADS * EACH);
    charl__trace_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_format),
        cmocka_unit_test(test_clocks_advance),
        cmocka_unit_test(test_sleep_goes_on_after_a_signal),
        cmocka_unit_test(test_sleep_of_nothing),
        cmocka_unit_test(test_time_jumps_when_all_members_nap),
        cmocka_unit_test(test_time_does_not_jump_while_a_member_works),
        cmocka_unit_test(test_spans),
        cmocka_unit_test(test_without_memory),
        cmocka_unit_test(test_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
