/* Events: points in a queue. Recording one flushes the queue, so that waiting for it or polling it always ends. */
#include "base/clock.h"
#include "device/device_private.h"

static bool is_spare(const charl__event *e)
{
    return e >= e->dev->event && e < e->dev->event + CHARL__SPARE_EVENTS;
}

static charl_status new_event(charl_device *dev, charl__event **out)
{
    if (dev->spare) {
        *out = dev->spare;
        dev->spare = (*out)->next;
    } else {
        CHARL_TRY(charl__alloc(sizeof **out, out));
    }
    **out = (charl__event){.dev = charl__device_retain(dev)};
    return CHARL_OK;
}

charl_status charl__event_adopt(charl_device *dev, charl__queue q, charl__driver_event *event, charl__event **out)
{
    charl_status st = CHARL_OK;
    charl__event *e = NULL;

    *out = NULL;
    st = charl__acquire("event");
    if (st != CHARL_OK) {
        dev->driver->event_release(dev, event);
    }
    CHARL_TRY_CLEANUP(st);
    st = new_event(dev, &e);
    if (st != CHARL_OK) {
        dev->driver->event_release(dev, event);
        charl__drop();
    }
    CHARL_TRY_CLEANUP(st);
    e->event = event;
    CHARL_TRY_CLEANUP(charl__device_check(dev, "flushing a queue", dev->driver->flush(dev, q)));
    dev->counters.events++;
    *out = e;
    e = NULL;
cleanup:
    charl__event_release(e);
    return st;
}

charl_status charl__event_record(charl_device *dev, charl__queue q, charl__event **out)
{
    charl__driver_event *event = NULL;

    *out = NULL;
    CHARL_TRY(charl__device_check(dev, "recording an event", dev->driver->mark(dev, q, &event)));
    CHARL_TRY(charl__event_adopt(dev, q, event, out));
    return CHARL_OK;
}

int64_t charl__queue_commands(const charl_device *dev, charl__queue q)
{
    return dev->commands[q];
}

charl_status charl__queue_wait(charl_device *dev, charl__queue q, const charl__event *e)
{
    return charl__device_check(dev, "waiting for an event", dev->driver->after(dev, q, e->event));
}

charl_status charl__event_is_done(const charl__event *e, bool *done)
{
    *done = false;
    return charl__device_check(e->dev, "a command", e->dev->driver->event_is_done(e->dev, e->event, done));
}

bool charl__event_time(const charl__event *e, double *s)
{
    int64_t begin = 0, end = 0;
    const int err = e->dev->driver->event_times(e->dev, e->event, &begin, &end);

    *s = (double)end * 1e-9;
    return err == 0 && end > 0;
}

charl_status charl__event_await(charl_device *dev, charl__driver_event *e)
{
    const double begin = charl__clock_s();
    const int err = dev->driver->event_wait(dev, e);

    charl__device_waited(dev, begin);
    return charl__device_check(dev, "waiting for an event", err);
}

static charl_status wait_counted(const charl__event *e, int64_t *counter)
{
    bool done = false;

    CHARL_TRY(charl__event_is_done(e, &done));
    if (!done) {
        ++*counter;
        CHARL_TRY(charl__event_await(e->dev, e->event));
    }
    return CHARL_OK;
}

charl_status charl__event_wait(const charl__event *e)
{
    return wait_counted(e, &e->dev->counters.host_waits);
}

charl_status charl__event_catch_up(const charl__event *e)
{
    return wait_counted(e, &e->dev->counters.ring_waits);
}

void charl__event_release(charl__event *e)
{
    charl_device *dev;

    if (!e) {
        return;
    }
    dev = e->dev;
    if (e->event) {
        dev->driver->event_release(dev, e->event);
        charl__drop();
    }
    if (is_spare(e)) {
        e->next = dev->spare;
        dev->spare = e;
    } else {
        charl_free(e);
    }
    charl__device_release(dev);
}
