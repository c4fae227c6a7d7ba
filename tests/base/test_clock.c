#include "support/support.h"

#include <math.h>
#include <signal.h>
#include <sys/time.h>

#include "base/clock.h"

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

static void test_sleep_of_nothing(void **state)
{
    (void)state;
    charl__sleep_s(0);
    charl__sleep_s(-1);
    charl__sleep_s((double)NAN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_format),
        cmocka_unit_test(test_clocks_advance),
        cmocka_unit_test(test_sleep_goes_on_after_a_signal),
        cmocka_unit_test(test_sleep_of_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
