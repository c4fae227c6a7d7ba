/* Copies between host and device, mapped buffers, pinned memory. */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/parallel.h"
#include "device/device_private.h"

enum { PAGE = 4096, PIECE = 16 << 20, SHARE = 1 << 20, LARGE = 4 << 20 };

/* Two pinned staging buffers: the device fills one while the host copies from the other. */
struct charl__fast_reads {
    charl_pinned *pinned[2];
    unsigned char *host[2];
};

static charl_status check_range(const charl__buffer *b, size_t offset, size_t bytes)
{
    CHARL_REQUIRE(offset <= b->bytes && bytes <= b->bytes - offset, CHARL_ERR_INVALID,
                  "%zu bytes from byte %zu on are outside the buffer of %zu bytes", bytes, offset, b->bytes);
    return CHARL_OK;
}

/* Returns the start time for end_transfer; only blocking transfers are timed. */
static double count_transfer(charl_device *dev, charl__queue q, bool wait)
{
    dev->commands[q]++;
    dev->counters.transfers++;
    dev->counters.host_waits += wait;
    return wait ? charl__clock_s() : 0.0;
}

static void end_transfer(charl_device *dev, charl__queue q, bool wait, double begin)
{
    if (wait) {
        charl__device_waited(dev, begin);
    }
    if (wait && q == CHARL_QUEUE_COMPUTE) {
        charl__commands_completed(dev);
    }
}

/* Where a command stores its event: NULL, unless a trace needs it. */
static charl__driver_event **event_slot(const charl_device *dev, charl__driver_event **event)
{
    return charl__tracing_is_on(dev) ? event : NULL;
}

static void note(charl_device *dev, charl__queue q, const char *what, size_t bytes, charl__driver_event **event)
{
    if (*event) {
        charl__tracing_note(dev, q, &(charl__traced){.name = what, .bytes = (double)bytes}, *event);
        dev->driver->event_release(dev, *event);
    }
}

/* A copy in host memory, such as from a staging buffer to its destination. */
typedef struct copy {
    const unsigned char *from;
    unsigned char *to;
    size_t bytes;
} copy;

static void copy_share(void *ctx, int64_t i)
{
    const copy *c = ctx;
    const size_t at = (size_t)i * SHARE, left = c->bytes - at;

    memcpy(c->to + at, c->from + at, left < SHARE ? left : SHARE);
}

/* Between offloaded memory and other host memory no device is needed. Blocks. */
static charl_status copy_on_host(charl__queue q, const charl__buffer *b, copy c)
{
    CHARL_TRY(charl__queue_finish(b->dev, q, "waiting for offloaded memory"));
    charl__parallel((int64_t)((c.bytes + SHARE - 1) / SHARE), copy_share, &c);
    return CHARL_OK;
}

charl_status charl__buffer_write(charl__queue q, charl__buffer *b, size_t offset, const void *src, size_t bytes,
                                 bool wait)
{
    CHARL_TRY(check_range(b, offset, bytes));
    if (b->offloaded) {
        return copy_on_host(q, b, (copy){src, b->offloaded + offset, bytes});
    }
    if (bytes > 0 && !b->is_planned) {
        const double begin = count_transfer(b->dev, q, wait);
        charl__driver_event *event = NULL;

        CHARL_TRY(charl__buffer_wait_zeroed(b, q));
        CHARL_TRY(charl__device_check(
            b->dev, "writing to a buffer",
            b->dev->driver->write(b->dev, q, b->mem, offset, src, bytes, wait, event_slot(b->dev, &event))));
        note(b->dev, q, "write", bytes, &event);
        end_transfer(b->dev, q, wait, begin);
    }
    return CHARL_OK;
}

/* Wait for a piece to arrive, then copy it with all processors: if the destination is new, page faults
 * take longer than the copy. */
static charl_status copy_out(charl__event **arrived, copy *c)
{
    const charl_status st = charl__event_wait(*arrived);

    charl__event_release(*arrived);
    *arrived = NULL;
    if (st == CHARL_OK) {
        charl__parallel((int64_t)((c->bytes + SHARE - 1) / SHARE), copy_share, c);
    }
    return st;
}

static charl_status read_in_pieces(charl__queue q, charl__buffer *b, size_t offset, unsigned char *dst, size_t bytes)
{
    charl_status st = CHARL_OK;
    const struct charl__fast_reads *f = b->dev->fast_reads;
    charl__event *arrived[2] = {NULL, NULL};
    copy piece[2];
    size_t at = 0;
    int k = 0;

    for (; at < bytes; at += PIECE, k ^= 1) {
        piece[k] = (copy){f->host[k], dst + at, bytes - at < PIECE ? bytes - at : PIECE};
        CHARL_TRY_CLEANUP(charl__buffer_fetch(q, b, offset + at, f->host[k], piece[k].bytes, &arrived[k]));
        if (arrived[k ^ 1]) {
            CHARL_TRY_CLEANUP(copy_out(&arrived[k ^ 1], &piece[k ^ 1]));
        }
    }
    CHARL_TRY_CLEANUP(copy_out(&arrived[k ^ 1], &piece[k ^ 1]));
cleanup:
    for (k = 0; k < 2; k++) { /* after a failure: wait for transfers in progress */
        if (arrived[k]) {
            (void)!charl__event_wait(arrived[k]);
            charl__event_release(arrived[k]);
        }
    }
    return st;
}

charl_status charl__buffer_read(charl__queue q, charl__buffer *b, size_t offset, void *dst, size_t bytes, bool wait)
{
    CHARL_TRY(check_range(b, offset, bytes));
    if (b->is_planned) {
        memset(dst, 0, bytes);
        return CHARL_OK;
    }
    if (b->offloaded) {
        return copy_on_host(q, b, (copy){b->offloaded + offset, dst, bytes});
    }
    if (wait && bytes >= LARGE && b->dev->fast_reads) {
        return read_in_pieces(q, b, offset, dst, bytes);
    }
    if (bytes > 0) {
        const double begin = count_transfer(b->dev, q, wait);
        charl__driver_event *event = NULL;

        CHARL_TRY(charl__buffer_wait_zeroed(b, q));
        CHARL_TRY(charl__device_check(
            b->dev, "reading from a buffer",
            b->dev->driver->read(b->dev, q, b->mem, offset, dst, bytes, wait, event_slot(b->dev, &event))));
        note(b->dev, q, "read", bytes, &event);
        end_transfer(b->dev, q, wait, begin);
    }
    return CHARL_OK;
}

charl_status charl__buffer_fetch(charl__queue q, charl__buffer *b, size_t offset, void *dst, size_t bytes,
                                 charl__event **out)
{
    charl__driver_event *event = NULL;

    *out = NULL;
    CHARL_TRY(check_range(b, offset, bytes));
    CHARL_REQUIRE(bytes > 0, CHARL_ERR_INVALID, "an empty range cannot be fetched");
    CHARL_TRY(charl__buffer_wait_zeroed(b, q));
    count_transfer(b->dev, q, false);
    CHARL_TRY(charl__device_check(b->dev, "reading from a buffer",
                                  b->dev->driver->read(b->dev, q, b->mem, offset, dst, bytes, false, &event)));
    charl__tracing_note(b->dev, q, &(charl__traced){.name = "read", .bytes = (double)bytes}, event);
    CHARL_TRY(charl__event_adopt(b->dev, q, event, out));
    return CHARL_OK;
}

charl_status charl__buffer_map(charl__queue q, charl__buffer *b, size_t offset, size_t bytes, void **out)
{
    double begin;

    *out = NULL;
    CHARL_TRY(check_range(b, offset, bytes));
    CHARL_REQUIRE(bytes > 0, CHARL_ERR_INVALID, "an empty range cannot be mapped");
    CHARL_TRY(charl__buffer_wait_zeroed(b, q));
    begin = count_transfer(b->dev, q, true);
    CHARL_TRY(
        charl__device_check(b->dev, "mapping a buffer", b->dev->driver->map(b->dev, q, b->mem, offset, bytes, out)));
    end_transfer(b->dev, q, true, begin);
    return CHARL_OK;
}

charl_status charl__buffer_unmap(charl__queue q, charl__buffer *b, void *ptr)
{
    b->dev->commands[q]++;
    return charl__device_check(b->dev, "unmapping a buffer", b->dev->driver->unmap(b->dev, q, b->mem, ptr));
}

struct charl_pinned {
    charl_device *dev; /* retained */
    charl__driver_memory *mem;
    void *host;
    int64_t counted;
    charl_device_use *use;
};

/* host NULL: allocate new memory. */
static charl_status pinned_open(charl_device *dev, void *host, size_t bytes, const char *what, charl_pinned **out)
{
    charl_status st = CHARL_OK;
    charl_pinned *p = NULL;
    int err;

    *out = NULL;
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *p, &p));
    p->dev = charl__device_retain(dev);
    CHARL_TRY_CLEANUP(charl__acquire(what));
    err = dev->driver->pinned_create(dev, host, bytes, &p->mem, &p->host);
    if (err != 0) {
        p->mem = NULL;
        charl__drop();
        CHARL_FAIL_CLEANUP(CHARL_ERR_NOMEM, "%s of %zu bytes: %s", what, bytes, dev->driver->error(err).text);
    }
    CHARL_REQUIRE_CLEANUP(!host || p->host == host, CHARL_ERR_DEVICE, "%s: the driver maps it elsewhere", what);
    *out = p;
    p = NULL;
cleanup:
    charl_pinned_destroy(p);
    return st;
}

charl_status charl_pinned_create(charl_device *dev, size_t bytes, charl_pinned **out, void **host)
{
    CHARL_GIVEN(dev, out, host);
    static const char what[] = "pinned memory";
    const size_t size = bytes ? bytes : 1;

    *out = NULL;
    *host = NULL;
    if (dev->facts.zero_copy) {
        CHARL_TRY(charl__budget_check(dev, size, what)); /* host memory is the device's memory */
    }
    CHARL_TRY(pinned_open(dev, NULL, size, what, out));
    memset((*out)->host, 0, size);
    (*out)->counted = dev->facts.zero_copy ? (int64_t)size : 0;
    (*out)->use = charl__budget_add(dev, what, (*out)->counted);
    *host = (*out)->host;
    return CHARL_OK;
}

charl_status charl__pinned_wrap(charl_device *dev, void *host, size_t bytes, charl_pinned **out)
{
    *out = NULL;
    CHARL_REQUIRE(host && (uintptr_t)host % PAGE == 0 && bytes > 0, CHARL_ERR_INVALID,
                  "host memory to be pinned must be page-aligned and not empty");
    CHARL_TRY(pinned_open(dev, host, bytes, "memory to be pinned", out));
    return CHARL_OK;
}

void charl_pinned_destroy(charl_pinned *p)
{
    if (!p) {
        return;
    }
    if (p->mem) {
        for (int q = 0; q < CHARL_QUEUE_COUNT; q++) {
            p->dev->driver->finish(p->dev, (charl__queue)q); /* transfers from or to this memory */
        }
        p->dev->driver->pinned_release(p->dev, p->mem, p->host);
        charl__drop();
    }
    charl__budget_drop(p->dev, p->use, p->counted);
    charl__device_release(p->dev);
    charl_free(p);
}

charl_status charl__fast_reads_begin(charl_device *dev)
{
    struct charl__fast_reads *f = NULL;

    if (dev->facts.zero_copy && !charl__fault("device.fast_reads")) {
        return CHARL_OK;
    }
    CHARL_INVARIANT(!dev->fast_reads);
    CHARL_TRY(charl__alloc(sizeof *f, &f));
    dev->fast_reads = f;
    for (int k = 0; k < 2; k++) {
        void *host = NULL;
        const charl_status st = charl_pinned_create(dev, PIECE, &f->pinned[k], &host);

        if (st != CHARL_OK) {
            charl__fast_reads_end(dev);
            return st;
        }
        f->host[k] = host;
    }
    return CHARL_OK;
}

void charl__fast_reads_end(charl_device *dev)
{
    struct charl__fast_reads *f = dev->fast_reads;

    if (f) {
        dev->fast_reads = NULL;
        charl_pinned_destroy(f->pinned[0]);
        charl_pinned_destroy(f->pinned[1]);
        charl_free(f);
    }
}
