/* Time lines: overlap of made-up spans, and threads for what overlaps in a lane. */
#include "support/support.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "train/metrics/trace_file.h"

static void add(charl__trace *t, charl__lane lane, const char *name, double begin_s, double end_s)
{
    charl__trace_add(t, &(charl__trace_span){.lane = lane,
                                             .name = charl__trace_number(t, name),
                                             .label = charl__trace_number(t, "layer \"x\""),
                                             .begin_s = begin_s,
                                             .end_s = end_s});
}

static void expect_overlap(const charl__trace *t, double way_s, double hidden_s)
{
    double way = -1, hidden = -1;

    charl_assert_ok(charl__trace_overlap(t, &way, &hidden));
    assert_true(fabs(way - way_s) < 1e-9);
    assert_true(fabs(hidden - hidden_s) < 1e-9);
}

static void test_overlap(void **state)
{
    charl__trace *t = NULL;

    (void)state;
    charl_assert_ok(charl__trace_create(&t));
    expect_overlap(t, 0, 0);
    add(t, CHARL__LANE_ALLREDUCE, "a", 10, 12);
    expect_overlap(t, 2, 0);
    add(t, CHARL__LANE_COMPUTE, "k", 11.5, 13); /* covers the end */
    expect_overlap(t, 2, 0.5);
    add(t, CHARL__LANE_ALLREDUCE, "b", 11, 12.5); /* counted once where two are on their way */
    expect_overlap(t, 2.5, 1);
    add(t, CHARL__LANE_COMPUTE, "k", 9, 10.25);
    add(t, CHARL__LANE_COMPUTE, "k", 10, 10.5); /* overlaps the kernel before it */
    expect_overlap(t, 2.5, 1.5);
    add(t, CHARL__LANE_COMMUNICATE, "sums", 20, 21); /* on the device */
    add(t, CHARL__LANE_COMPUTE, "k", 20.5, 20.75);
    add(t, CHARL__LANE_COMPUTE, "k", 20.8, 20.9);
    expect_overlap(t, 3.5, 1.85);
    add(t, CHARL__LANE_UPLOAD, "write", 0, 100); /* neither */
    add(t, CHARL__LANE_HOST, "step", 0, 100);
    expect_overlap(t, 3.5, 1.85);
    charl__trace_destroy(t);
}

static int count(const char *text, const char *part)
{
    int n = 0;

    for (const char *p = strstr(text, part); p; p = strstr(p + 1, part)) {
        n++;
    }
    return n;
}

static void test_print(void **state)
{
    const long live = charl__live();
    const charl__trace_clock clock = {.host_s = 100, .offset_s = 2, .drift = 0.5, .zero_s = 98};
    charl__trace *t = NULL;
    charl__text out = {0};
    const char *text;

    (void)state;
    charl_assert_ok(charl__trace_create(&t));
    add(t, CHARL__LANE_ALLREDUCE, "first", 100, 101);
    add(t, CHARL__LANE_ALLREDUCE, "beside", 100.5, 102);
    add(t, CHARL__LANE_ALLREDUCE, "after", 101, 101.5);
    add(t, CHARL__LANE_HOST, "inner", 100.25, 100.5);
    add(t, CHARL__LANE_HOST, "outer", 100, 102); /* holds the other: one thread */
    charl_assert_ok(charl__trace_print(t, &clock, 3, "rank 3: a \"host\"", &out));
    text = charl__text_string(&out);
    assert_int_equal(count(text, "\"name\":\"thread_name\""), 3);
    assert_int_equal(count(text, "\"name\":\"all-reduce 2\""), 1);
    assert_non_null(strstr(text, "{\"name\":\"rank 3: a \\\"host\\\"\"}"));
    assert_int_equal(count(text, "\"layer\":\"layer \\\"x\\\"\""), 5);
    /* 101 s: less the offset of 2 s, the drift of half a second in one, and the zero at 98 s */
    assert_non_null(strstr(
        text, "\"pid\":3,\"tid\":769,\"ts\":500000.000,\"dur\":250000.000,\"cat\":\"all-reduce\",\"name\":\"after\""));
    assert_true(strstr(text, "\"outer\"") < strstr(text, "\"inner\""));
    charl__text_fini(&out);
    charl__trace_destroy(t);
    assert_int_equal(charl__live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_print),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
