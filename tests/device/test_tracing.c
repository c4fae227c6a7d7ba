/* Traces of a device: every command between begin and end leaves a span on the host's clock, nothing else does, and the device is not waited
 * for. */
#include "base/clock.h"
#include "device/device_private.h"
#include "device/suite.h"

enum { WORDS = 3000, LAUNCHES = 20 };

static charl_device *open_traced(int index)
{
    charl_device *dev = NULL;
    char select[16];

    snprintf(select, sizeof select, "%d", index);
    charl_assert_ok(charl_device_open(&(charl_device_request){sizeof(charl_device_request), .select = select,
                                                              .local_size = 1, .share = true, .traced = true},
                                      &dev));
    return dev;
}

static void fill(charl_device *dev, charl__buffer *b, charl__queue queue, double bytes)
{
    charl__launch l = charl_test_fill_launch(b, 0, 1, WORDS);

    l.label = "layer";
    l.queue = queue;
    l.bytes = bytes;
    charl_assert_ok(charl__launch_enqueue(dev, &l));
}

static void expect_span(const charl__trace_span *s, double begin_s, double end_s, double error_s)
{
    assert_true(s->end_s >= s->begin_s);
    assert_true(s->begin_s >= begin_s - error_s);
    assert_true(s->end_s <= end_s + error_s);
}

static void check_spans(charl_device *dev)
{
    charl__trace *t = charl__device_trace(dev);
    charl__buffer *b = charl_test_buffer(dev, 4 * WORDS);
    uint32_t words[WORDS] = {0};
    double begin_s, end_s, error_s;
    int64_t lost, waits;
    int n[CHARL__LANE_COUNT] = {0};

    fill(dev, b, CHARL_QUEUE_COMPUTE, 0); /* before: not in the trace */
    fill(dev, b, CHARL_QUEUE_COMM, 0);    /* the first launch here waits for the buffer's zeros */
    charl_assert_ok(charl__device_trace_begin(dev));
    begin_s = charl__clock_s();
    waits = charl__device_counters_get(dev).host_waits;
    for (int i = 0; i < LAUNCHES; i++) {
        fill(dev, b, CHARL_QUEUE_COMPUTE, i == 0 ? 77 : 0);
    }
    fill(dev, b, CHARL_QUEUE_COMM, 0);
    assert_int_equal(charl__device_counters_get(dev).host_waits, waits); /* nothing was waited for */
    charl_assert_ok(charl__buffer_write(CHARL_QUEUE_UPLOAD, b, 0, words, sizeof words, true));
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_DOWNLOAD, b, 0, words, sizeof words, false));
    charl_assert_ok(charl__device_trace_end(dev, &error_s, &lost));
    end_s = charl__clock_s();
    fill(dev, b, CHARL_QUEUE_COMPUTE, 0); /* after */
    charl_assert_ok(charl_device_sync(dev));
    assert_int_equal(lost, 0);
    assert_true(error_s >= 0 && error_s < 1);
    assert_int_equal(charl__trace_count(t), LAUNCHES + 3);
    for (int64_t i = 0; i < charl__trace_count(t); i++) {
        const charl__trace_span *s = charl__trace_at(t, i);

        expect_span(s, begin_s, end_s, error_s);
        n[s->lane]++;
        if (s->lane == CHARL__LANE_COMPUTE) {
            assert_string_equal(charl__trace_text(t, s->name), "charl_fill");
            assert_string_equal(charl__trace_text(t, s->label), "layer");
        }
    }
    assert_int_equal(n[CHARL__LANE_COMPUTE], LAUNCHES);
    assert_int_equal(n[CHARL__LANE_COMMUNICATE], 1);
    assert_int_equal(n[CHARL__LANE_UPLOAD], 1);
    assert_int_equal(n[CHARL__LANE_DOWNLOAD], 1);
    assert_true(charl__trace_at(t, 0)->bytes == 77);
    assert_true(charl__trace_at(t, charl__trace_count(t) - 1)->bytes == sizeof words);
    charl__buffer_release(b);
}

static void test_spans(void **state)
{
    const int count = charl_test_device_count();

    (void)state;
    charl__env_set(CHARL_ENV_DEVICE, NULL);
    for (int i = 0; i < count; i++) {
        const long live = charl__live();
        charl_device *dev = open_traced(i);

        check_spans(dev);
        check_spans(dev); /* and again, from nothing */
        charl_device_close(dev);
        assert_int_equal(charl__live(), live);
    }
}

/* What a recording noted of a layer comes with its launches. */
static void test_flop(void **state)
{
    charl__recording *r = NULL;
    charl_device *dev;
    charl__buffer *b;
    double error_s, flop = 0;
    int64_t lost;

    (void)state;
    charl_test_device_count();
    dev = open_traced(0);
    b = charl_test_buffer(dev, 4 * WORDS);
    charl_assert_ok(charl__record_begin(dev, &r));
    fill(dev, b, CHARL_QUEUE_COMPUTE, 0);
    fill(dev, b, CHARL_QUEUE_COMPUTE, 0);
    charl__recording_add_flop(r, 1, 3);
    charl__recording_add_flop(r, 1, 4);
    charl_assert_ok(charl__record_end(dev, CHARL_OK));
    charl_assert_ok(charl__device_trace_begin(dev));
    charl_assert_ok(charl__recording_replay(r, 0, 2));
    charl_assert_ok(charl__device_trace_end(dev, &error_s, &lost));
    assert_int_equal(charl__trace_count(charl__device_trace(dev)), 2);
    for (int i = 0; i < 2; i++) {
        flop += charl__trace_at(charl__device_trace(dev), i)->flop;
    }
    assert_true(flop == 7);
    charl__recording_destroy(r);
    charl__buffer_release(b);
    charl_device_close(dev);
}

static void test_not_asked_for(void **state)
{
    charl_device *dev;

    (void)state;
    charl_test_device_count();
    dev = charl_test_open(0, 0);
    assert_null(charl__device_trace(dev));
    charl_assert_status(charl__device_trace_begin(dev), CHARL_ERR_INVALID);
    charl_assert_message("was not opened to be traced");
    charl_device_close(dev);
}

/* A run that fails in the middle leaves nothing behind. */
static void test_abandoned(void **state)
{
    const long live = charl__live();
    charl_device *dev;
    charl__buffer *b;

    (void)state;
    charl_test_device_count();
    dev = open_traced(0);
    b = charl_test_buffer(dev, 4 * WORDS);
    charl_assert_ok(charl__device_trace_begin(dev));
    fill(dev, b, CHARL_QUEUE_COMPUTE, 0);
    charl__buffer_release(b);
    charl_device_close(dev);
    assert_int_equal(charl__live(), live);
}

/* An event of the clock queue, behind what is enqueued on q. */
static charl__event *clock_event(charl_device *dev, charl__queue q)
{
    charl__event *behind = NULL, *e = NULL;

    charl_assert_ok(charl__event_record(dev, q, &behind));
    charl_assert_ok(charl__queue_wait(dev, CHARL_QUEUE_CLOCK, behind));
    charl_assert_ok(charl__event_record(dev, CHARL_QUEUE_CLOCK, &e));
    charl__event_release(behind);
    return e;
}

/* The times of events are those at which they came to be, and not those at which the host looks: of any device, traced or not. */
static void check_times(charl_device *dev)
{
    charl__buffer *b = charl_test_buffer(dev, 4 * WORDS);
    double host[4], at[2];
    charl__event *e[2];

    for (int i = 0; i < 2; i++) {
        host[2 * i] = charl__clock_s();
        fill(dev, b, CHARL_QUEUE_COMPUTE, 0);
        e[i] = clock_event(dev, CHARL_QUEUE_COMPUTE);
        charl_assert_ok(charl__event_wait(e[i]));
        host[2 * i + 1] = charl__clock_s();
        charl__sleep_s(0.1);
    }
    for (int i = 0; i < 2; i++) {
        assert_true(charl__event_time(e[i], &at[i]));
        charl__event_release(e[i]);
    }
    assert_true(at[1] - at[0] >= 0.999 * (host[2] - host[1]));
    assert_true(at[1] - at[0] <= 1.001 * (host[3] - host[0]));
    charl__buffer_release(b);
}

static void test_times(void **state)
{
    (void)state;
    charl_test_each_device(check_times);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spans),     cmocka_unit_test(test_flop),  cmocka_unit_test(test_not_asked_for),
        cmocka_unit_test(test_abandoned), cmocka_unit_test(test_times),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
