/* Step records: host slots in turn, one device buffer. The copy of a slot is in order before the
 * launches that read it; its event says when the slot may be written again. */
#include <string.h>

#include "device/cl_private.h"

struct charl_ring {
    charl_device *dev; /* retained */
    charl_buffer *buffer;
    charl_pinned *pinned;
    size_t bytes;
    int depth, next;
    unsigned char *slot; /* depth * bytes of pinned memory */
    charl_event **busy;  /* the copy out of each slot, or NULL */
};

charl_status charl__ring_create(charl_device *dev, size_t bytes, int depth, charl_ring **out)
{
    charl_status st = CHARL_OK;
    charl_ring *r = NULL;
    void *host = NULL;

    *out = NULL;
    CHARL_REQUIRE(bytes > 0 && depth > 0 && bytes <= SIZE_MAX / (size_t)depth, CHARL_ERR_INVALID,
                  "a ring of %d records of %zu bytes", depth, bytes);
    CHARL_TRY(charl_alloc(sizeof *r, &r));
    r->dev = charl__device_retain(dev);
    r->bytes = bytes;
    r->depth = depth;
    CHARL_TRY(charl_alloc_array(depth, sizeof *r->busy, &r->busy));
    CHARL_TRY(charl__pinned_create(dev, (size_t)depth * bytes, &r->pinned, &host));
    r->slot = host;
    CHARL_TRY(charl__buffer_create(dev, bytes, "step record", &r->buffer));
    *out = r;
    r = NULL;
cleanup:
    charl__ring_destroy(r);
    return st;
}

charl_status charl__ring_push(charl_ring *r, const void *record)
{
    charl_status st = CHARL_OK;
    unsigned char *slot = r->slot + (size_t)r->next * r->bytes;

    if (r->busy[r->next]) {
        CHARL_TRY(charl__event_wait(r->busy[r->next]));
        charl__event_release(r->busy[r->next]);
        r->busy[r->next] = NULL;
    }
    memcpy(slot, record, r->bytes);
    CHARL_TRY(charl__buffer_write(CHARL_QUEUE_COMPUTE, r->buffer, 0, slot, r->bytes, false));
    st = charl__event_record(r->dev, CHARL_QUEUE_COMPUTE, &r->busy[r->next]);
    if (st != CHARL_OK) {
        clFinish(r->dev->queue[CHARL_QUEUE_COMPUTE]); /* nothing guards the slot */
    }
    CHARL_TRY(st);
    r->next = (r->next + 1) % r->depth;
cleanup:
    return st;
}

charl_buffer *charl__ring_buffer(const charl_ring *r)
{
    return r->buffer;
}

void charl__ring_destroy(charl_ring *r)
{
    if (!r) {
        return;
    }
    charl__pinned_destroy(r->pinned); /* waits for the copies */
    for (int i = 0; r->busy && i < r->depth; i++) {
        charl__event_release(r->busy[i]);
    }
    charl__buffer_release(r->buffer);
    charl_free(r->busy);
    charl__device_release(r->dev);
    charl_free(r);
}
