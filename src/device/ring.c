/* Ring: one device buffer, rewritten from the host slots in turn. The copy of a slot is enqueued before the launches that read it; its event
 * tells when the slot may be reused. */
#include <string.h>

#include "device/device_private.h"

struct charl__ring {
    charl_device *dev; /* retained */
    charl__buffer *buffer;
    charl_pinned *pinned;
    size_t bytes;
    int depth, next;
    unsigned char *slot;        /* depth * bytes of pinned memory */
    charl__driver_event **busy; /* the copy out of each slot, or NULL */
};

charl_status charl__ring_create(charl_device *dev, size_t bytes, int depth, charl__ring **out)
{
    charl_status st = CHARL_OK;
    charl__ring *r = NULL;
    void *host = NULL;

    *out = NULL;
    CHARL_REQUIRE_CLEANUP(bytes > 0 && depth > 0 && bytes <= SIZE_MAX / (size_t)depth, CHARL_ERR_INVALID,
                          "a ring of %d records of %zu bytes", depth, bytes);
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *r, &r));
    r->dev = charl__device_retain(dev);
    r->bytes = bytes;
    r->depth = depth;
    CHARL_TRY_CLEANUP(charl__alloc_array(depth, sizeof *r->busy, &r->busy));
    CHARL_TRY_CLEANUP(charl_pinned_create(dev, (size_t)depth * bytes, &r->pinned, &host));
    r->slot = host;
    CHARL_TRY_CLEANUP(charl__buffer_create(dev, bytes, "step record", &r->buffer));
    *out = r;
    r = NULL;
cleanup:
    charl__ring_destroy(r);
    return st;
}

static void forget(charl_device *dev, charl__driver_event **e)
{
    if (*e) {
        dev->driver->event_release(dev, *e);
        charl__drop();
        *e = NULL;
    }
}

/* Wait until slot i has been copied. */
static charl_status free_slot(charl__ring *r, int i)
{
    bool done = true;

    if (r->busy[i]) {
        CHARL_TRY(charl__device_check(r->dev, "writing a step record",
                                      r->dev->driver->event_is_done(r->dev, r->busy[i], &done)));
    }
    if (!done) {
        r->dev->counters.ring_waits++;
        CHARL_TRY(charl__event_await(r->dev, r->busy[i]));
    }
    forget(r->dev, &r->busy[i]);
    return CHARL_OK;
}

charl_status charl__ring_push(charl__ring *r, const void *record)
{
    unsigned char *slot = r->slot + (size_t)r->next * r->bytes;
    const size_t bytes = r->buffer->is_planned ? 1 : r->bytes; /* of what is only planned, little is there */
    int err;

    CHARL_TRY(free_slot(r, r->next));
    memcpy(slot, record, r->bytes);
    CHARL_TRY(charl__acquire("event"));
    err = r->dev->driver->write(r->dev, CHARL_QUEUE_COMPUTE, r->buffer->mem, 0, slot, bytes, false, &r->busy[r->next]);
    if (err != 0) {
        r->busy[r->next] = NULL;
        charl__drop();
    }
    CHARL_TRY(charl__device_check(r->dev, "writing a step record", err));
    charl__tracing_note(r->dev, CHARL_QUEUE_COMPUTE, &(charl__traced){.name = "write", .bytes = (double)r->bytes},
                        r->busy[r->next]);
    r->dev->counters.transfers++;
    r->dev->commands[CHARL_QUEUE_COMPUTE]++;
    r->next = (r->next + 1) % r->depth;
    return CHARL_OK;
}

charl__buffer *charl__ring_buffer(const charl__ring *r)
{
    return r->buffer;
}

void charl__ring_destroy(charl__ring *r)
{
    if (!r) {
        return;
    }
    charl_pinned_destroy(r->pinned); /* waits for the copies */
    for (int i = 0; r->busy && i < r->depth; i++) {
        forget(r->dev, &r->busy[i]);
    }
    charl__buffer_release(r->buffer);
    charl_free(r->busy);
    charl__device_release(r->dev);
    charl_free(r);
}
