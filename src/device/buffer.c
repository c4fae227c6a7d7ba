/* Buffers, counted against a budget of the device, because PoCL allocates lazily and never reports a shortage. */
#define _DEFAULT_SOURCE /* madvise */
#include "device/device_private.h"

#include <string.h>
#include <sys/mman.h>

#include "base/fault.h"
#include "base/parallel.h"

enum { PAGE = 4096, GRAIN = 64, TOUCHED = 16 << 20 };

static double mib(int64_t bytes)
{
    return (double)bytes / 1048576.0;
}

charl_status charl__budget_check(const charl_device *dev, size_t bytes, const char *what)
{
    const charl_device_memory *m = &dev->memory;

    CHARL_REQUIRE(bytes <= (uint64_t)dev->info.max_alloc_bytes, CHARL_ERR_NOMEM,
                  "%.1f MiB for %s do not fit in one piece: %s allows at most %.1f MiB", (double)bytes / 1048576.0,
                  what, dev->info.name, mib(dev->info.max_alloc_bytes));
    CHARL_REQUIRE((int64_t)bytes <= m->capacity - m->in_use, CHARL_ERR_NOMEM,
                  "out of device memory: %.1f MiB for %s do not fit, %.1f of %.1f MiB are in use on %s; HINT lower the "
                  "batch size%s",
                  mib((int64_t)bytes), what, mib(m->in_use), mib(m->capacity), dev->info.name,
                  dev->offloads || !dev->driver->reaches_host(dev)
                      ? ", or use more ranks"
                      : ", use more ranks, or train with device.offload = optimizer");
    return CHARL_OK;
}

/* The counter of `what`. Names are literals, so they stay valid; the last two places take those for which there is no room. */
static charl_device_use *use_of(charl_device *dev, const char *what, bool offloaded)
{
    const int last = CHARL__DEVICE_USES - 1 - (int)offloaded;
    int i = 0;

    what = dev->purpose ? dev->purpose : what;
    while (i < CHARL__DEVICE_USES - 2 && dev->use[i].what &&
           (dev->use[i].is_offloaded != offloaded || strcmp(dev->use[i].what, what) != 0)) {
        i++;
    }
    if (i == CHARL__DEVICE_USES - 2) {
        i = last;
        what = "other";
    }
    if (!dev->use[i].what) {
        dev->use[i] = (charl_device_use){.what = what, .is_offloaded = offloaded};
    }
    return &dev->use[i];
}

charl_device_use *charl__budget_add(charl_device *dev, const char *what, int64_t bytes)
{
    charl_device_memory *m = &dev->memory;
    charl_device_use *use = use_of(dev, what, false);

    use->bytes += bytes;
    m->in_use += bytes;
    m->peak = m->in_use > m->peak ? m->in_use : m->peak;
    return use;
}

void charl__budget_drop(charl_device *dev, charl_device_use *use, int64_t bytes)
{
    *(use && use->is_offloaded ? &dev->memory.offloaded : &dev->memory.in_use) -= bytes;
    if (use) {
        use->bytes -= bytes;
    }
}

const char *charl__device_set_purpose(charl_device *dev, const char *purpose)
{
    const char *before = dev->purpose;

    dev->purpose = purpose;
    return before;
}

int charl_device_get_uses(const charl_device *dev, charl_device_use *out, int capacity)
{
    if (!dev || (!out && capacity > 0)) {
        return 0;
    }
    int n = 0;

    for (int i = 0; i < CHARL__DEVICE_USES; i++) {
        if (dev->use[i].bytes > 0) {
            if (n < capacity) {
                out[n] = dev->use[i];
            }
            n++;
        }
    }
    return n;
}

static charl_status create(charl_device *dev, void *host, size_t bytes, const char *what, charl__buffer **out)
{
    CHARL_SCOPED_FREE charl__buffer *b = NULL;
    int err;

    *out = NULL;
    CHARL_TRY(charl__alloc(sizeof *b, &b));
    CHARL_TRY(charl__acquire(what));
    err = dev->driver->memory_create(dev, host, bytes, &b->mem);
    if (err != 0 && charl__compilers_end(dev)) { /* which took some */
        err = dev->driver->memory_create(dev, host, bytes, &b->mem);
    }
    if (err != 0) {
        charl__drop();
        CHARL_FAIL(CHARL_ERR_NOMEM, "%s: device buffer of %zu bytes: %s", what, bytes, dev->driver->error(err).text);
    }
    b->refs = 1;
    b->dev = charl__device_retain(dev);
    dev->counters.buffers_created++;
    *out = b;
    b = NULL;
    return CHARL_OK;
}

charl_status charl__buffer_create(charl_device *dev, size_t bytes, const char *what, charl__buffer **out)
{
    CHARL_SCOPED(charl__buffer_left) charl__buffer *b = NULL;
    size_t rounded = 0;
    int err;

    *out = NULL;
    CHARL_TRY(charl__budget_check(dev, bytes, what));
    rounded = bytes ? (bytes + GRAIN - 1) / GRAIN * GRAIN : GRAIN;
    CHARL_TRY(create(dev, NULL, dev->plans && rounded > PAGE ? PAGE : rounded, what, &b));
    b->bytes = rounded;
    b->counted = (int64_t)rounded;
    b->use = charl__budget_add(dev, what, b->counted);
    b->is_planned = dev->plans && rounded > PAGE;
    if (b->is_planned) {
        *out = b;
        b = NULL;
        return CHARL_OK;
    }
    charl__large_pages(dev, b->mem, rounded);
    err = dev->driver->fill(dev, CHARL_QUEUE_COMPUTE, b->mem, rounded, 0);
    if (err != 0 && dev->driver->error(err).fault == CHARL__FAULT) {
        CHARL_TRY(charl__device_check(dev, "zeroing a buffer", err));
    }
    /* Drivers that allocate lazily allocate here. */
    CHARL_REQUIRE(err == 0, CHARL_ERR_NOMEM, "%s: zeroing a device buffer of %zu bytes: %s", what, rounded,
                  dev->driver->error(err).text);
    dev->commands[CHARL_QUEUE_COMPUTE]++;
    charl__command_note(dev, "zeroing a buffer", what);
    b->filling = true;
    *out = b;
    b = NULL;
    return CHARL_OK;
}

/* The ranks of a machine are alike: each may take its part of what is free. */
static charl_status check_host(const charl_device *dev, size_t bytes, const char *what)
{
    const int64_t available = charl__fault("device.host_memory") ? 0 : charl__host_available();

    CHARL_REQUIRE(
        (int64_t)bytes <= available / dev->local_size, CHARL_ERR_NOMEM,
        "out of host memory: %.1f MiB for %s do not fit, %.1f MiB are free for %d rank%s on this machine, each "
        "of which has offloaded %.1f MiB; HINT more machines with dist.shard, or optimizer.state = bf16 or int8",
        mib((int64_t)bytes), what, mib(available), dev->local_size, dev->local_size == 1 ? "" : "s",
        mib(dev->memory.offloaded));
    return CHARL_OK;
}

/* Host memory, touched in pieces. */
typedef struct host_memory {
    unsigned char *at;
    size_t bytes;
} host_memory;

static void touch(void *ctx, int64_t i)
{
    const host_memory *m = ctx;
    const size_t at = (size_t)i * TOUCHED, left = m->bytes - at;

    memset(m->at + at, 0, left < TOUCHED ? left : TOUCHED);
}

/* All pages are taken now, by all processors: a driver that pins them takes them one by one, and what is missing must be missed before the first
 * step. */
static charl_status take_host(size_t bytes, const char *what, void **out)
{
    host_memory m = {.bytes = bytes};
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHARL_REQUIRE(at != MAP_FAILED, CHARL_ERR_NOMEM, "out of host memory: %.1f MiB for %s", mib((int64_t)bytes), what);
#ifdef MADV_HUGEPAGE
    (void)madvise(at, bytes, MADV_HUGEPAGE);
#endif
    m.at = *out = at;
    charl__parallel((int64_t)((bytes + TOUCHED - 1) / TOUCHED), touch, &m);
    return CHARL_OK;
}

charl_status charl__buffer_create_offloaded(charl_device *dev, size_t bytes, const char *what, charl__buffer **out)
{
    const size_t size = bytes ? (bytes + PAGE - 1) / PAGE * PAGE : PAGE;
    void *host = NULL;
    charl_status st;

    if (!dev->offloads) {
        return charl__buffer_create(dev, bytes, what, out);
    }
    *out = NULL;
    CHARL_TRY(dev->plans ? CHARL_OK : check_host(dev, size, what));
    CHARL_TRY(dev->skip_kernels ? CHARL_OK : take_host(size, what, &host));
    st = create(dev, host, dev->skip_kernels ? PAGE : size, what, out);
    if (st != CHARL_OK) {
        if (host) {
            munmap(host, size);
        }
        return st;
    }
    (*out)->bytes = size;
    (*out)->mapping = (*out)->offloaded = host;
    (*out)->wrapped = host != NULL;
    (*out)->is_planned = !host;
    (*out)->counted = (int64_t)size;
    (*out)->use = use_of(dev, what, true);
    (*out)->use->bytes += (int64_t)size;
    dev->memory.offloaded += (int64_t)size;
    return CHARL_OK;
}

bool charl__device_offloads(const charl_device *dev)
{
    return dev->offloads;
}

charl_status charl__buffer_wrap(charl_device *dev, void *host, size_t bytes, charl__buffer **out)
{
    static const char what[] = "wrapped host memory";

    *out = NULL;
    CHARL_REQUIRE(host && (uintptr_t)host % PAGE == 0 && bytes > 0, CHARL_ERR_INVALID,
                  "host memory to be wrapped must be page-aligned and not empty");
    if (!dev->facts.zero_copy) {
        CHARL_TRY(charl__budget_check(dev, bytes, what)); /* the driver keeps a copy on the device */
    }
    CHARL_TRY(create(dev, host, bytes, what, out));
    (*out)->bytes = bytes;
    (*out)->wrapped = true;
    (*out)->counted = dev->facts.zero_copy ? 0 : (int64_t)bytes;
    (*out)->use = charl__budget_add(dev, what, (*out)->counted);
    return CHARL_OK;
}

charl_status charl__buffer_adopt(charl_device *dev, charl__driver_memory *mem, size_t bytes, charl__buffer **out)
{
    charl_status st = CHARL_OK;

    CHARL_TRY_CLEANUP(charl__alloc(sizeof **out, out));
    st = charl__acquire("imported memory");
    if (st != CHARL_OK) {
        charl_free(*out);
        *out = NULL;
    }
    CHARL_TRY_CLEANUP(st);
    **out = (charl__buffer){.refs = 1, .dev = charl__device_retain(dev), .mem = mem, .bytes = bytes, .wrapped = true};
cleanup:
    if (st != CHARL_OK) {
        dev->driver->memory_release(dev, mem);
    }
    return st;
}

charl__buffer *charl__buffer_retain(charl__buffer *b)
{
    b->refs++;
    return b;
}

void charl__buffer_release(charl__buffer *b)
{
    if (b && --b->refs == 0) {
        for (int q = 0; b->wrapped && q < CHARL_QUEUE_COUNT; q++) {
            /* the caller frees the memory next; the driver keeps other buffers alive while they are used */
            b->dev->driver->finish(b->dev, (charl__queue)q);
        }
        b->dev->driver->memory_release(b->dev, b->mem);
        charl__drop();
        if (b->mapping) {
            munmap(b->mapping, b->bytes);
        }
        charl__budget_drop(b->dev, b->use, b->counted);
        charl__device_release(b->dev);
        charl_free(b);
    }
}

size_t charl__buffer_bytes(const charl__buffer *b)
{
    return b->bytes;
}

charl_device *charl__buffer_device(const charl__buffer *b)
{
    return b->dev;
}

charl_status charl__buffer_wait_zeroed(charl__buffer *b, charl__queue q)
{
    if (b->filling && q != CHARL_QUEUE_COMPUTE) {
        CHARL_TRY(charl__queue_finish(b->dev, CHARL_QUEUE_COMPUTE, "zeroing a new buffer"));
        b->filling = false;
    }
    return CHARL_OK;
}
