/* Intervals and durations: every form, every refusal, and when one is due. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "config/text/interval.h"
#include "support/support.h"

static void test_intervals(void **state)
{
    static const struct {
        const char *text;
        charl__interval_unit unit;
        int64_t count;
        const char *printed;
    } cases[] = {
        {"500", CHARL__INTERVAL_STEPS, 500, "500"},
        {"500 steps", CHARL__INTERVAL_STEPS, 500, "500"},
        {"1ep", CHARL__INTERVAL_EPOCHS, 1, "1ep"},
        {"3 epochs", CHARL__INTERVAL_EPOCHS, 3, "3ep"},
        {"1 epoch", CHARL__INTERVAL_EPOCHS, 1, "1ep"},
        {"30m", CHARL__INTERVAL_SECONDS, 1800, "30m"},
        {"5min", CHARL__INTERVAL_SECONDS, 300, "5m"},
        {"45s", CHARL__INTERVAL_SECONDS, 45, "45s"},
        {"2h", CHARL__INTERVAL_SECONDS, 7200, "120m"},
        {"1d", CHARL__INTERVAL_SECONDS, 86400, "1440m"},
        {"0", CHARL__INTERVAL_OFF, 0, "0"},
        {"0ep", CHARL__INTERVAL_OFF, 0, "0"},
        {"none", CHARL__INTERVAL_OFF, 0, "0"},
        {"1000000000000", CHARL__INTERVAL_STEPS, 1000000000000, "1000000000000"},
    };
    static const char *const bad[] = {"",   "ep", "-1", "1.5ep", "1 ep x",        "1e3",
                                      "1w", "x",  " 1", "1epp",  "1000000000001", "9999999999999999999999"};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        charl__interval v = {CHARL__INTERVAL_OFF, -1};
        char text[64];

        assert_true(charl__interval_parse(cases[i].text, &v));
        assert_int_equal(v.unit, cases[i].unit);
        assert_int_equal(v.count, cases[i].count);
        assert_string_equal(charl__interval_format(v, text, sizeof text), cases[i].printed);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        charl__interval v = {CHARL__INTERVAL_OFF, -1};

        assert_false(charl__interval_parse(bad[i], &v));
        assert_int_equal(v.count, -1);
    }
}

static void test_durations(void **state)
{
    static const struct {
        const char *text;
        double seconds;
        const char *printed;
    } cases[] = {
        {"", 0, ""},
        {"00:00:05", 5, "00:00:05"},
        {"1:02:03", 3723, "01:02:03"},
        {"100:00:00", 360000, "4-04:00:00"},
        {"2-03:04:05", 183845, "2-03:04:05"},
        {"90s", 90, "00:01:30"},
        {"30m", 1800, "00:30:00"},
        {"2h", 7200, "02:00:00"},
        {"1d", 86400, "1-00:00:00"},
    };
    static const char *const bad[] = {"5",        "1:00",     "1:60:00",        "1:00:60", "1-24:00:00", "1:2:3",
                                      "-1:00:00", "1:00:00x", "1-1:00",         "1.5h",    "h",          "1-",
                                      "1:00:000", "1:000:00", "9999999999999h", "0:00:00", "0s"};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double s = -1;
        char text[64];

        assert_true(charl__duration_parse(cases[i].text, &s));
        assert_true(s == cases[i].seconds);
        assert_string_equal(charl__duration_format(s, text, sizeof text), cases[i].printed);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double s = -1;

        assert_false(charl__duration_parse(bad[i], &s));
        assert_true(s == -1);
    }
}

/* Every epoch is reported exactly once, by the step that completes it, also when batches straddle
 * epochs. */
static void test_due(void **state)
{
    const charl__interval steps = {CHARL__INTERVAL_STEPS, 3};
    const charl__interval seconds = {CHARL__INTERVAL_SECONDS, 60};
    const charl__interval off = {CHARL__INTERVAL_OFF, 0};

    (void)state;
    assert_false(charl__interval_due(steps, 0, 1, 1, 0));
    assert_false(charl__interval_due(steps, 2, 1, 1, 0));
    assert_true(charl__interval_due(steps, 3, 1, 1, 0));
    assert_false(charl__interval_due(seconds, 1, 1, 1, 59.9));
    assert_true(charl__interval_due(seconds, 1, 1, 1, 60));
    assert_false(charl__interval_due(off, 3, 1, 1, 1e9));
    for (int64_t rows = 1; rows < 30; rows++) {
        for (int64_t batch = 1; batch < 12; batch++) {
            for (int64_t every = 1; every < 4; every++) {
                const charl__interval epochs = {CHARL__INTERVAL_EPOCHS, every};

                for (int64_t step = 1; step < 40; step++) {
                    bool want = false;

                    for (int64_t s = (step - 1) * batch + 1; s <= step * batch; s++) {
                        want = want || s % (rows * every) == 0;
                    }
                    assert_int_equal(charl__interval_due(epochs, step, batch, rows, 0), want);
                }
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_intervals),
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_due),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
