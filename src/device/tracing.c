/* Times of commands on the device, for a trace. Recording never waits: each command leaves its event, and when the trace
 * ends the timestamps are read and converted to the host's clock.
 *
 * The clocks are compared before and after. A copy that the host enqueues at h0 and has waited for at h1 began on the device at d0 and
 * ended at d1, so
 *
 *     d1 - h1 <= device clock - host clock <= d0 - h0
 *
 * and the bounds of several copies together are as tight as the fastest of them; between the two comparisons the difference is assumed
 * to be linear. */
#include <string.h>

#include "base/clock.h"
#include "device/device_private.h"

enum { ROUNDS = 8, PROBE_BYTES = 64 };

typedef struct pending {
    charl__driver_event *event;
    charl__lane lane;
    int name, label;
    double bytes, flop;
    bool is_aside;
} pending;

/* Device clock minus host clock, at a time on the host's clock. */
typedef struct comparison {
    double host_s, difference_s, error_s;
} comparison;

struct charl__tracing {
    charl__trace *trace;
    bool is_on;
    pending *command;
    int64_t count, lost;
    comparison begin;
};

charl_status charl__tracing_create(charl__tracing **out)
{
    charl_status st = CHARL_OK;
    charl__tracing *t = NULL;

    *out = NULL;
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *t, &t));
    CHARL_TRY_CLEANUP(charl__trace_create(&t->trace));
    *out = t;
    t = NULL;
cleanup:
    charl__tracing_destroy(NULL, t);
    return st;
}

static void forget(charl_device *dev, charl__tracing *t)
{
    for (int64_t i = 0; i < t->count; i++) {
        dev->driver->event_release(dev, t->command[i].event);
    }
    charl_free(t->command);
    t->command = NULL;
    t->count = 0;
}

void charl__tracing_destroy(charl_device *dev, charl__tracing *t)
{
    if (t) {
        forget(dev, t);
        charl__trace_destroy(t->trace);
        charl_free(t);
    }
}

bool charl__tracing_is_on(const charl_device *dev)
{
    return dev->tracing && dev->tracing->is_on;
}

void charl__tracing_note(charl_device *dev, charl__queue q, const charl__traced *what, charl__driver_event *event)
{
    static const charl__lane lane_of[CHARL_QUEUE_COUNT] = {[CHARL_QUEUE_COMPUTE] = CHARL__LANE_COMPUTE,
                                                           [CHARL_QUEUE_UPLOAD] = CHARL__LANE_UPLOAD,
                                                           [CHARL_QUEUE_DOWNLOAD] = CHARL__LANE_DOWNLOAD,
                                                           [CHARL_QUEUE_COMM] = CHARL__LANE_COMMUNICATE,
                                                           [CHARL_QUEUE_GATHER] = CHARL__LANE_COMMUNICATE};
    charl__tracing *t = dev->tracing;
    pending *p;

    if (!event || !charl__tracing_is_on(dev)) {
        return;
    }
    if (charl__grow(t->count, sizeof *t->command, &t->command) != CHARL_OK) {
        t->lost++;
        return;
    }
    p = &t->command[t->count];
    *p = (pending){.event = event,
                   .lane = lane_of[q],
                   .name = charl__trace_number(t->trace, what->name),
                   .label = charl__trace_number(t->trace, what->label ? what->label : ""),
                   .bytes = what->bytes,
                   .flop = what->flop,
                   .is_aside = charl__trace_is_aside(t->trace)};
    dev->driver->event_retain(event);
    t->count++;
}

static charl_status times_of(charl_device *dev, charl__driver_event *event, double *begin_s, double *end_s)
{
    int64_t begin = 0, end = 0;

    CHARL_TRY(charl__device_check(dev, "timing a command", dev->driver->event_times(dev, event, &begin, &end)));
    *begin_s = (double)begin * 1e-9;
    *end_s = (double)end * 1e-9;
    return CHARL_OK;
}

/* Resolution of event times: NVIDIA's drivers report half microseconds. */
static const double RESOLUTION_S = 1e-6;

static charl_status probe(charl_device *dev, const charl__buffer *b, double *least, double *most)
{
    charl_status st = CHARL_OK;
    const unsigned char zero[PROBE_BYTES] = {0};
    charl__driver_event *event = NULL;
    double begin_s, end_s;
    const double enqueued = charl__clock_s();
    double done;

    CHARL_TRY_CLEANUP(
        charl__device_check(dev, "comparing clocks",
                            dev->driver->write(dev, CHARL_QUEUE_COMPUTE, b->mem, 0, zero, sizeof zero, false, &event)));
    CHARL_TRY_CLEANUP(charl__event_await(dev, event));
    done = charl__clock_s();
    CHARL_TRY_CLEANUP(times_of(dev, event, &begin_s, &end_s));
    *least = end_s - done > *least ? end_s - done : *least;
    *most = begin_s - enqueued < *most ? begin_s - enqueued : *most;
cleanup:
    if (event) {
        dev->driver->event_release(dev, event);
    }
    return st;
}

/* The compute queue must be idle, or the bounds are wide. */
static charl_status compare(charl_device *dev, comparison *out)
{
    CHARL_SCOPED(charl__buffer_left) charl__buffer *b = NULL;
    double least = -1e300, most = 1e300;

    CHARL_TRY(charl__buffer_create(dev, PROBE_BYTES, "trace", &b));
    for (int i = 0; i < ROUNDS; i++) {
        CHARL_TRY(probe(dev, b, &least, &most));
    }
    *out = (comparison){
        .host_s = charl__clock_s(), .difference_s = (least + most) / 2, .error_s = (most - least) / 2 + RESOLUTION_S};
    return CHARL_OK;
}

charl__trace *charl__device_trace(const charl_device *dev)
{
    return dev->tracing ? dev->tracing->trace : NULL;
}

charl_status charl__device_trace_begin(charl_device *dev)
{
    charl__tracing *t = dev->tracing;

    CHARL_REQUIRE(t, CHARL_ERR_INVALID, "%s was not opened to be traced", dev->info.name);
    CHARL_TRY(charl_device_sync(dev));
    CHARL_TRY(compare(dev, &t->begin));
    forget(dev, t);
    t->lost = 0;
    charl__trace_start(t->trace);
    t->is_on = true;
    return CHARL_OK;
}

static charl_status resolve(charl_device *dev, const comparison *end)
{
    charl__tracing *t = dev->tracing;
    const comparison *begin = &t->begin;
    const double apart = end->host_s - begin->host_s;
    const double drift = apart > 0 ? (end->difference_s - begin->difference_s) / apart : 0;

    for (int64_t i = 0; i < t->count; i++) {
        const pending *p = &t->command[i];
        double begin_s, end_s, difference_s;

        CHARL_TRY(times_of(dev, p->event, &begin_s, &end_s));
        difference_s = begin->difference_s + drift * (begin_s - begin->difference_s - begin->host_s);
        charl__trace_add(t->trace, &(charl__trace_span){.lane = p->lane,
                                                        .name = p->name,
                                                        .label = p->label,
                                                        .begin_s = begin_s - difference_s,
                                                        .end_s = end_s - difference_s,
                                                        .bytes = p->bytes,
                                                        .flop = p->flop,
                                                        .is_aside = p->is_aside});
    }
    return CHARL_OK;
}

charl_status charl__device_trace_end(charl_device *dev, double *error_s, int64_t *lost)
{
    charl_status st = CHARL_OK;
    charl__tracing *t = dev->tracing;
    comparison end;

    *error_s = 0;
    *lost = 0;
    t->is_on = false;
    charl__trace_stop(t->trace);
    CHARL_TRY_CLEANUP(charl_device_sync(dev));
    CHARL_TRY_CLEANUP(compare(dev, &end));
    CHARL_TRY_CLEANUP(resolve(dev, &end));
    *error_s = t->begin.error_s > end.error_s ? t->begin.error_s : end.error_s;
    *lost = t->lost + charl__trace_lost(t->trace);
cleanup:
    forget(dev, t);
    return st;
}
