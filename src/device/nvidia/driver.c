/* The driver nvidia: NVIDIA's GPUs through libcuda, which launches faster than OpenCL and replays a recording as one graph. Programs are
 * the output of OpenCL's compiler, so both drivers compute the same bits and share the cache. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "device/device_private.h"
#include "device/nvidia/cuda.h"
#include "device/nvidia/ptx.h"

/* Values of libcuda's interface. */
enum {
    NON_BLOCKING = 1,   /* CU_STREAM_... */
    DISABLE_TIMING = 2, /* CU_EVENT_... */
    DEVICE_MAPPED = 2,  /* CU_MEMHOSTREGISTER_..., CU_MEMHOSTALLOC_... */
    MAX_THREADS = 0,    /* CU_FUNC_ATTRIBUTE_... */
    MAX_DYNAMIC = 8,
    INFO_LOG = 3, /* CU_JIT_..., each followed by its size */
    ERROR_LOG = 5,
    LOG_VERBOSE = 12,
    THREAD_LOCAL = 1,  /* CU_STREAM_CAPTURE_MODE_... */
    SERIALIZATION = 6, /* CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_... */
    INVALID_VALUE = 1, /* CUDA_ERROR_... */
    OUT_OF_LAUNCH_RESOURCES = 701
};
/* Errors of this file. */
enum { WRONG_SIZE = -1, TOO_MANY_GROUPS = -2, NO_KERNEL = -3 };
enum { MOST_GROUPS = 65535, LOCAL_ALIGN = 128, JIT_LOG = 8192, FEW_BYTES = 4096 };

#define cu charl__cuda

typedef struct memory {
    uint64_t address;
    size_t bytes;
    void *host;      /* registered or pinned; or NULL */
    bool is_own;     /* host memory that this object allocated */
    uint64_t handle; /* imported */
} memory;

/* A mapped range of device memory, through a host copy. */
typedef struct mapping {
    size_t offset, bytes;
    unsigned char pad[48];
} mapping;

typedef struct event {
    void *begin, *end; /* begin is NULL if it is not timed */
    bool is_timed;     /* also of the end */
    int refs;
    struct event *next; /* in the list of spare ones */
} event;

typedef struct program {
    void *module;
    char *text; /* from the compiler */
    size_t bytes;
} program;

typedef struct kernel {
    void *function;
    charl__ptx_kernel about;
    size_t asked[CHARL__PTX_MAX_PARAMS]; /* for pointers to local memory: bytes */
    size_t dynamic, allowed;             /* local memory of a launch; the maximum set for the function */
    size_t group;                        /* of the last launch */
    void *at[CHARL__PTX_MAX_PARAMS];     /* offset of each argument in `value` */
    uint64_t value[];
} kernel;

struct charl__nvidia {
    int device;
    void *context;
    void *stream[CHARL_QUEUE_COUNT];
    bool is_timed;
    void *captured;                 /* the stream whose launches become a graph, or NULL */
    bool has_first;                 /* one has already */
    event own[CHARL__SPARE_EVENTS]; /* so that a step does not allocate any */
    event *spare;                   /* those not in use */
    /* Times are differences in float milliseconds: from a recent event, at base_ns. */
    void *base;
    double base_ns;
};

static memory *memory_of(charl__driver_memory *m)
{
    return (memory *)m;
}

static event *event_of(charl__driver_event *e)
{
    return (event *)e;
}

static void *stream_of(const charl_device *dev, charl__queue q)
{
    return dev->nvidia->stream[q];
}

/* libcuda uses the context of the calling thread. */
static int enter(const charl_device *dev)
{
    return cu.cuCtxSetCurrent(dev->nvidia->context);
}

/* Call libcuda; return its error. */
#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        const int try_err = (call);                                                                                    \
        if (try_err != 0) {                                                                                            \
            return try_err;                                                                                            \
        }                                                                                                              \
    } while (0)

static charl__driver_error error(int err)
{
    static _Thread_local char text[256];
    const char *name = NULL, *meaning = NULL;
    /* The context is lost: illegal address, timeout, context destroyed, assertion, hardware or instruction faults. */
    const bool is_fault = err == 700 || err == 702 || err == 709 || err == 710 || (err >= 714 && err <= 719);

    switch (err) {
    case WRONG_SIZE:
        return (charl__driver_error){"the kernel's parameter has another size", CHARL_ERR_INVALID, CHARL__NO_FAULT};
    case TOO_MANY_GROUPS:
        return (charl__driver_error){
            "more than 65535 work-groups in the second or third dimension; HINT device.driver = opencl",
            CHARL_ERR_DEVICE, CHARL__NO_FAULT};
    case NO_KERNEL:
        return (charl__driver_error){charl_error_message(), CHARL_ERR_KERNEL, CHARL__NO_FAULT};
    default:
        break;
    }
    (void)cu.cuGetErrorName(err, &name);
    (void)cu.cuGetErrorString(err, &meaning);
    snprintf(text, sizeof text, "%s (%s)", name ? name : "unknown CUDA error", meaning ? meaning : "?");
    return (charl__driver_error){text, err == CHARL__CU_OUT_OF_MEMORY ? CHARL_ERR_NOMEM : CHARL_ERR_DEVICE,
                                 is_fault ? CHARL__FAULT : CHARL__NO_FAULT};
}

static int event_make(void **out, bool is_timed)
{
    return cu.cuEventCreate(out, is_timed ? 0 : DISABLE_TIMING);
}

static int open_streams(charl_device *dev, bool is_timed)
{
    struct charl__nvidia *n = dev->nvidia;

    TRY(cu.cuDeviceGetByPCIBusId(&n->device, dev->info.pci));
    TRY(cu.cuCtxCreate_v2(&n->context, 0, n->device));
    TRY(enter(dev));
    for (int q = 0; q < CHARL_QUEUE_COUNT; q++) {
        TRY(cu.cuStreamCreate(&n->stream[q], NON_BLOCKING));
    }
    for (int i = 0; i < CHARL__SPARE_EVENTS; i++) {
        n->own[i].next = n->spare;
        n->spare = &n->own[i];
    }
    n->is_timed = is_timed;
    TRY(event_make(&n->base, true));
    return cu.cuEventRecord(n->base, n->stream[CHARL_QUEUE_COMPUTE]);
}

static charl_status open(charl_device *dev, bool is_timed)
{
    int err;

    CHARL_TRY(charl__acquire("CUDA context"));
    if (charl__alloc(sizeof *dev->nvidia, &dev->nvidia) != CHARL_OK) {
        charl__drop();
        return CHARL_ERR_NOMEM;
    }
    err = open_streams(dev, is_timed);
    CHARL_REQUIRE(err == 0, error(err).status, "opening %s with the driver nvidia: %s", dev->info.name,
                  error(err).text);
    return CHARL_OK;
}

static void close_device(charl_device *dev)
{
    struct charl__nvidia *n = dev->nvidia;

    if (n) {
        if (n->context) {
            cu.cuCtxDestroy_v2(n->context); /* and with it streams and events */
        }
        charl_free(n);
        charl__drop();
        dev->nvidia = NULL;
    }
    charl__opencl_close(dev);
}

static int flush(charl_device *dev, charl__queue q)
{
    (void)dev, (void)q;
    return 0;
}

static int finish(charl_device *dev, charl__queue q)
{
    TRY(enter(dev));
    return cu.cuStreamSynchronize(stream_of(dev, q));
}

static memory *memory_new(size_t bytes)
{
    memory *m = NULL;

    if (charl__alloc(sizeof *m, &m) != CHARL_OK) {
        return NULL;
    }
    m->bytes = bytes;
    return m;
}

static void memory_release(charl_device *dev, charl__driver_memory *handle)
{
    memory *m = memory_of(handle);

    (void)enter(dev);
    if (m->handle) {
        cu.cuMemUnmap(m->address, m->bytes);
        cu.cuMemAddressFree(m->address, m->bytes);
        cu.cuMemRelease(m->handle);
    } else if (m->host) {
        (void)(m->is_own ? cu.cuMemFreeHost(m->host) : cu.cuMemHostUnregister(m->host));
    } else if (m->address) {
        cu.cuMemFree_v2(m->address);
    }
    charl_free(m);
}

/* On failure frees m. */
static int memory_keep(charl_device *dev, memory *m, int err, charl__driver_memory **out)
{
    if (err != 0) {
        memory_release(dev, (charl__driver_memory *)m);
        m = NULL;
    }
    *out = (charl__driver_memory *)m;
    return err;
}

static int register_host(memory *m, void *host)
{
    TRY(cu.cuMemHostRegister_v2(host, m->bytes, DEVICE_MAPPED));
    m->host = host;
    return cu.cuMemHostGetDevicePointer_v2(&m->address, host, 0);
}

static int memory_create(charl_device *dev, void *host, size_t bytes, charl__driver_memory **out)
{
    memory *m = memory_new(bytes);

    if (!m) {
        return CHARL__CU_OUT_OF_MEMORY;
    }
    TRY(memory_keep(dev, m, enter(dev), out));
    return memory_keep(dev, m, host ? register_host(m, host) : cu.cuMemAlloc_v2(&m->address, bytes), out);
}

static int pinned_create(charl_device *dev, void *host, size_t bytes, charl__driver_memory **out, void **mapped)
{
    memory *m = memory_new(bytes);

    if (!m) {
        return CHARL__CU_OUT_OF_MEMORY;
    }
    TRY(memory_keep(dev, m, enter(dev), out));
    m->is_own = !host;
    TRY(memory_keep(dev, m, host ? register_host(m, host) : cu.cuMemHostAlloc(&m->host, bytes, 0), out));
    *mapped = m->host;
    return 0;
}

static void pinned_release(charl_device *dev, charl__driver_memory *m, void *mapped)
{
    (void)mapped;
    memory_release(dev, m);
}

static bool reaches_host(const charl_device *dev)
{
    (void)dev;
    return true;
}

static const char *cannot_import(const charl_device *dev)
{
    (void)dev;
    return NULL;
}

static int import(const charl_device *dev, int fd, memory *m)
{
    const charl__cuda_access access = {{CHARL__CU_ON_DEVICE, dev->nvidia->device}, CHARL__CU_READ_WRITE};

    TRY(enter(dev));
    TRY(cu.cuMemImportFromShareableHandle(&m->handle, (void *)(intptr_t)fd, CHARL__CU_POSIX_FD));
    TRY(cu.cuMemAddressReserve(&m->address, m->bytes, 0, 0, 0));
    TRY(cu.cuMemMap(m->address, m->bytes, 0, m->handle, 0));
    return cu.cuMemSetAccess(m->address, m->bytes, &access, 1);
}

static int memory_import(charl_device *dev, int fd, size_t bytes, charl__driver_memory **out)
{
    memory *m = memory_new((bytes + charl__cuda_page - 1) / charl__cuda_page * charl__cuda_page);

    if (!m) {
        return CHARL__CU_OUT_OF_MEMORY;
    }
    TRY(memory_keep(dev, m, import(dev, fd, m), out));
    (void)close(fd);
    return 0;
}

static void event_free(charl_device *dev, event *e)
{
    struct charl__nvidia *n = dev->nvidia;

    if (e >= n->own && e < n->own + CHARL__SPARE_EVENTS) {
        e->next = n->spare;
        n->spare = e;
        return;
    }
    (void)enter(dev);
    if (e->begin) {
        cu.cuEventDestroy_v2(e->begin);
    }
    if (e->end) {
        cu.cuEventDestroy_v2(e->end);
    }
    charl_free(e);
}

/* Create what it still lacks and, if it is timed, record its beginning. */
static int event_start(charl_device *dev, charl__queue q, event *e)
{
    const bool is_timed = dev->nvidia->is_timed || q == CHARL_QUEUE_CLOCK;

    if (e->end && is_timed && !e->is_timed) {
        TRY(cu.cuEventDestroy_v2(e->end));
        e->end = NULL;
    }
    if (!e->end) {
        TRY(event_make(&e->end, is_timed));
        e->is_timed = is_timed;
    }
    if (is_timed && !e->begin) {
        TRY(event_make(&e->begin, true));
    }
    return is_timed ? cu.cuEventRecord(e->begin, stream_of(dev, q)) : 0;
}

/* An event for the next command. */
static int event_begin(charl_device *dev, charl__queue q, event **out)
{
    struct charl__nvidia *n = dev->nvidia;
    event *e = n->spare;
    int err;

    *out = NULL;
    if (e) {
        n->spare = e->next;
    } else if (charl__alloc(sizeof *e, &e) != CHARL_OK) {
        return CHARL__CU_OUT_OF_MEMORY;
    }
    err = event_start(dev, q, e);
    if (err != 0) {
        event_free(dev, e);
        return err;
    }
    e->refs = 1;
    *out = e;
    return 0;
}

static void event_retain(charl__driver_event *e)
{
    event_of(e)->refs++;
}

static void event_release(charl_device *dev, charl__driver_event *handle)
{
    event *e = event_of(handle);

    if (--e->refs == 0) {
        event_free(dev, e);
    }
}

/* Complete the event of a command that returned err. */
static int event_end(charl_device *dev, charl__queue q, event *e, int err, charl__driver_event **out)
{
    if (err == 0) {
        err = cu.cuEventRecord(e->end, stream_of(dev, q));
    }
    *out = (charl__driver_event *)e;
    if (err != 0) {
        event_release(dev, *out);
        *out = NULL;
    }
    return err;
}

/* A libcuda call that enqueues on q, with its event if one is requested. */
#define COMMAND(call)                                                                                                  \
    do {                                                                                                               \
        event *command_event = NULL;                                                                                   \
        TRY(enter(dev));                                                                                               \
        if (!out) {                                                                                                    \
            return (call);                                                                                             \
        }                                                                                                              \
        TRY(event_begin(dev, q, &command_event));                                                                      \
        return event_end(dev, q, command_event, (call), out);                                                          \
    } while (0)

static int fill(charl_device *dev, charl__queue q, charl__driver_memory *m, size_t bytes, unsigned char value)
{
    TRY(enter(dev));
    return cu.cuMemsetD8Async(memory_of(m)->address, value, bytes, stream_of(dev, q));
}

/* What lies in pinned memory is fetched by a copy engine, which the launches before and after it wait for, each some microseconds. libcuda sends
 * a few bytes that lie elsewhere with the command, and returns when it has read them. */
static int enqueue_write(charl_device *dev, charl__queue q, charl__driver_memory *m, size_t offset, const void *src,
                         size_t bytes, charl__driver_event **out)
{
    unsigned char few[FEW_BYTES];

    if (bytes <= sizeof few) {
        memcpy(few, src, bytes);
        src = few;
    }
    COMMAND(cu.cuMemcpyHtoDAsync_v2(memory_of(m)->address + offset, src, bytes, stream_of(dev, q)));
}

static int enqueue_read(charl_device *dev, charl__queue q, charl__driver_memory *m, size_t offset, void *dst,
                        size_t bytes, charl__driver_event **out)
{
    COMMAND(cu.cuMemcpyDtoHAsync_v2(dst, memory_of(m)->address + offset, bytes, stream_of(dev, q)));
}

static int write_memory(charl_device *dev, charl__queue q, charl__driver_memory *m, size_t offset, const void *src,
                        size_t bytes, bool wait, charl__driver_event **out)
{
    TRY(enqueue_write(dev, q, m, offset, src, bytes, out));
    return wait ? finish(dev, q) : 0;
}

static int read_memory(charl_device *dev, charl__queue q, charl__driver_memory *m, size_t offset, void *dst,
                       size_t bytes, bool wait, charl__driver_event **out)
{
    TRY(enqueue_read(dev, q, m, offset, dst, bytes, out));
    return wait ? finish(dev, q) : 0;
}

static int map(charl_device *dev, charl__queue q, charl__driver_memory *m, size_t offset, size_t bytes, void **out)
{
    mapping *copy = NULL;
    int err;

    *out = NULL;
    if (memory_of(m)->host) {
        TRY(finish(dev, q));
        *out = (unsigned char *)memory_of(m)->host + offset;
        return 0;
    }
    if (charl__alloc(sizeof *copy + bytes, &copy) != CHARL_OK) {
        return CHARL__CU_OUT_OF_MEMORY;
    }
    *copy = (mapping){.offset = offset, .bytes = bytes};
    err = read_memory(dev, q, m, offset, copy + 1, bytes, true, NULL);
    if (err != 0) {
        charl_free(copy);
        return err;
    }
    *out = copy + 1;
    return 0;
}

static int unmap(charl_device *dev, charl__queue q, charl__driver_memory *m, void *ptr)
{
    mapping *copy = (mapping *)ptr - 1;
    int err = 0;

    if (!memory_of(m)->host) {
        err = write_memory(dev, q, m, copy->offset, ptr, copy->bytes, true, NULL);
        charl_free(copy);
    }
    return err;
}

static int mark(charl_device *dev, charl__queue q, charl__driver_event **out)
{
    COMMAND(0);
}

static int after(charl_device *dev, charl__queue q, charl__driver_event *e)
{
    TRY(enter(dev));
    return cu.cuStreamWaitEvent(stream_of(dev, q), event_of(e)->end, 0);
}

static int event_is_done(charl_device *dev, charl__driver_event *e, bool *done)
{
    int err;

    TRY(enter(dev));
    err = cu.cuEventQuery(event_of(e)->end);
    *done = err == 0;
    return err == CHARL__CU_NOT_READY ? 0 : err;
}

static int event_wait(charl_device *dev, charl__driver_event *e)
{
    TRY(enter(dev));
    return cu.cuEventSynchronize(event_of(e)->end);
}

/* The start event becomes the new base if the base is so old that float milliseconds are coarse. */
static int event_times(charl_device *dev, charl__driver_event *handle, int64_t *begin, int64_t *end)
{
    struct charl__nvidia *n = dev->nvidia;
    event *e = event_of(handle);
    float since = 0, took = 0;

    TRY(enter(dev));
    TRY(cu.cuEventElapsedTime(&since, n->base, e->begin));
    TRY(cu.cuEventElapsedTime(&took, e->begin, e->end));
    *begin = (int64_t)(n->base_ns + (double)since * 1e6);
    *end = *begin + (int64_t)((double)took * 1e6);
    if (since > 100 && e->refs == 1) { /* its times are not requested again */
        void *old = n->base;

        n->base = e->begin;
        n->base_ns += (double)since * 1e6;
        e->begin = old;
    }
    return 0;
}

static charl_status load_text(charl_device *dev, program *p, char log[JIT_LOG])
{
    char info[JIT_LOG] = "";
    const bool is_verbose = charl__log_enabled(CHARL_LOG_DEBUG);
    int option[] = {ERROR_LOG, ERROR_LOG + 1, INFO_LOG, INFO_LOG + 1, LOG_VERBOSE};
    void *value[] = {log, (void *)(uintptr_t)JIT_LOG, info, (void *)(uintptr_t)sizeof info,
                     (void *)(uintptr_t)is_verbose};
    CHARL_SCOPED(charl__text_fini) charl__text text = {0};
    int err;

    log[0] = '\0';
    CHARL_TRY(charl__ptx_for_cuda(p->text, &text));
    err = enter(dev);
    if (err == 0) {
        err = cu.cuModuleLoadDataEx(&p->module, charl__text_string(&text), 5, option, value);
    }
    if (err != 0) {
        p->module = NULL;
        if (error(err).fault != CHARL__NO_FAULT) {
            CHARL_TRY(charl__device_check(dev, "loading a compiled kernel", err));
        }
        if (!log[0]) {
            snprintf(log, JIT_LOG, "%s", error(err).text);
        }
    } else if (is_verbose && info[0]) {
        charl__log(CHARL_LOG_DEBUG, "loaded on %s: %s", dev->info.name, info);
    }
    return CHARL_OK;
}

static void program_release(charl_device *dev, charl__driver_program *handle)
{
    program *p = (program *)handle;

    if (p->module) {
        (void)enter(dev);
        cu.cuModuleUnload(p->module);
    }
    charl_free(p->text);
    charl_free(p);
    charl__drop();
}

/* Takes ownership of text. *out is NULL if libcuda rejects it; log receives the reason. */
static charl_status program_of(charl_device *dev, char *text, char log[JIT_LOG], charl__driver_program **out)
{
    charl_status st = CHARL_OK;
    program *p = NULL;

    *out = NULL;
    CHARL_TRY_CLEANUP(charl__acquire("program"));
    st = charl__alloc(sizeof *p, &p);
    if (st != CHARL_OK) {
        charl__drop();
        goto cleanup;
    }
    p->text = text;
    p->bytes = strlen(text);
    text = NULL;
    CHARL_TRY_CLEANUP(load_text(dev, p, log));
    if (p->module) {
        *out = (charl__driver_program *)p;
        p = NULL;
    }
cleanup:
    if (p) {
        program_release(dev, (charl__driver_program *)p);
    }
    charl_free(text);
    return st;
}

static charl_status program_build(charl_device *dev, const char *file, const char *const source[3], const char *options,
                                  const char *key, charl__driver_program **out)
{
    char *text = NULL, log[JIT_LOG] = "";

    (void)key;
    *out = NULL;
    CHARL_TRY(charl__opencl_ptx(dev, file, source, options, &text));
    CHARL_TRY(program_of(dev, text, log, out));
    CHARL_REQUIRE(*out, CHARL_ERR_KERNEL, "kernels/%s.cl does not build on %s: %.1500s", file, dev->info.name, log);
    return CHARL_OK;
}

static charl_status program_load(charl_device *dev, const unsigned char *data, size_t bytes, const char *options,
                                 charl__driver_program **out)
{
    char *text = NULL, log[JIT_LOG] = "";
    charl_status st;

    (void)options; /* their effect is in the text */
    *out = NULL;
    CHARL_TRY(charl__alloc(bytes + 1, &text));
    memcpy(text, data, bytes);
    text[bytes] = '\0';
    st = program_of(dev, text, log, out);
    if (st == CHARL_ERR_KERNEL) { /* no PTX: a damaged entry */
        charl_error_clear();
        st = CHARL_OK;
    }
    if (st == CHARL_OK && !*out) {
        charl__log(CHARL_LOG_INFO, "%s takes no such program: %s", dev->info.name, log);
    }
    return st;
}

static charl_status program_binary(charl_device *dev, charl__driver_program *handle, unsigned char **data,
                                   size_t *bytes)
{
    const program *p = (const program *)handle;

    (void)dev;
    CHARL_TRY(charl__alloc(p->bytes + 1, data));
    memcpy(*data, p->text, p->bytes + 1);
    *bytes = p->bytes;
    return CHARL_OK;
}

/* Dynamic memory: first the array that was made dynamic, then the memory of each pointer to local memory. */
static int place_local(kernel *k)
{
    size_t end = (size_t)k->about.dynamic_bytes;

    for (int i = 0; i < k->about.params; i++) {
        if (k->about.bytes[i] == CHARL__PTX_LOCAL_POINTER) {
            *(uint64_t *)k->at[i] = (end + LOCAL_ALIGN - 1) / LOCAL_ALIGN * LOCAL_ALIGN;
            end = *(uint64_t *)k->at[i] + k->asked[i];
        }
    }
    k->dynamic = end;
    if (end > k->allowed) {
        TRY(cu.cuFuncSetAttribute(k->function, MAX_DYNAMIC, (int)end));
        k->allowed = end;
    }
    return 0;
}

/* Size of argument i in kernel.value. */
static int words_of(const charl__ptx_kernel *about, int i)
{
    return about->bytes[i] > 8 ? (about->bytes[i] + 7) / 8 : 1;
}

static int prepare(kernel *k, const program *p, const char *entry)
{
    TRY(cu.cuModuleGetFunction(&k->function, p->module, entry));
    if (cu.cuFuncLoad) { /* loads it now: a launch must not wait for kernels that wait for other ranks */
        TRY(cu.cuFuncLoad(k->function));
    }
    for (int i = 0, words = 0; i < k->about.params; words += words_of(&k->about, i++)) {
        k->at[i] = &k->value[words];
    }
    return place_local(k);
}

static int kernel_create(charl_device *dev, charl__driver_program *program_, const char *entry,
                         charl__driver_kernel **out, int *args)
{
    const program *p = (const program *)program_;
    charl__ptx_kernel about;
    kernel *k = NULL;
    size_t words = 0;
    int err;

    *out = NULL;
    TRY(enter(dev));
    if (charl__ptx_kernel_find(p->text, entry, &about) != CHARL_OK) {
        return NO_KERNEL;
    }
    for (int i = 0; i < about.params; i++) {
        words += (size_t)words_of(&about, i);
    }
    if (charl__alloc(sizeof *k + words * sizeof k->value[0], &k) != CHARL_OK) {
        return CHARL__CU_OUT_OF_MEMORY;
    }
    k->about = about;
    err = prepare(k, p, entry);
    if (err != 0) {
        charl_free(k);
        return err;
    }
    *args = k->about.params;
    *out = (charl__driver_kernel *)k;
    return 0;
}

static void kernel_release(charl_device *dev, charl__driver_kernel *k)
{
    (void)dev;
    charl_free(k);
}

static int set(charl_device *dev, charl__driver_kernel *handle, int at, size_t bytes, const void *value)
{
    kernel *k = (kernel *)handle;
    const bool is_local = !value;

    if (at >= k->about.params || (is_local != (k->about.bytes[at] == CHARL__PTX_LOCAL_POINTER)) ||
        (!is_local && bytes != (size_t)k->about.bytes[at])) {
        return WRONG_SIZE;
    }
    if (is_local) {
        k->asked[at] = bytes;
        TRY(enter(dev));
        return place_local(k);
    }
    memcpy(k->at[at], value, bytes);
    return 0;
}

static int set_memory(charl_device *dev, charl__driver_kernel *k, int at, charl__driver_memory *m)
{
    const uint64_t address = m ? memory_of(m)->address : 0;

    return set(dev, k, at, sizeof address, &address);
}

/* In a graph, a kernel that awaits earlier launches begins as soon as the one before it allows it, at the latest when the last work-groups of
 * that one end, not after its memory has been flushed: until it has waited it may only read what no launch of the graph writes. The graph
 * as a whole is an ordinary command. */
static int capture_ahead(const charl_device *dev, charl__queue q, kernel *k, const unsigned groups[3],
                         const size_t local[3])
{
    charl__cuda_attribute early = {.id = SERIALIZATION, .value = {1}};
    const charl__cuda_launch l = {.groups = {groups[0], groups[1], groups[2]},
                                  .local = {(unsigned)local[0], (unsigned)local[1], (unsigned)local[2]},
                                  .dynamic_bytes = (unsigned)k->dynamic,
                                  .stream = stream_of(dev, q),
                                  .attribute = &early,
                                  .n_attributes = 1};

    TRY(enter(dev));
    return cu.cuLaunchKernelEx(&l, k->function, k->at, NULL);
}

static int enqueue_launch(charl_device *dev, charl__queue q, kernel *k, const unsigned groups[3], const size_t local[3],
                          charl__driver_event **out)
{
    const bool is_captured = dev->nvidia->captured == stream_of(dev, q),
               follows = is_captured && dev->nvidia->has_first;

    dev->nvidia->has_first = dev->nvidia->has_first || is_captured;
    if (follows && k->about.awaits && cu.cuLaunchKernelEx && !out) {
        return capture_ahead(dev, q, k, groups, local);
    }
    COMMAND(cu.cuLaunchKernel(k->function, groups[0], groups[1], groups[2], (unsigned)local[0], (unsigned)local[1],
                              (unsigned)local[2], (unsigned)k->dynamic, stream_of(dev, q), k->at, NULL));
}

static int launch(charl_device *dev, charl__queue q, charl__driver_kernel *handle, const size_t global[3],
                  const size_t local[3], charl__driver_event *behind, charl__driver_event **out)
{
    kernel *k = (kernel *)handle;
    unsigned groups[3];

    for (int i = 0; i < 3; i++) {
        const size_t n = global[i] / local[i];

        if (n > (i == 0 ? (size_t)INT32_MAX : (size_t)MOST_GROUPS)) {
            return TOO_MANY_GROUPS;
        }
        groups[i] = (unsigned)n;
    }
    k->group = local[0] * local[1] * local[2];
    if (behind) {
        TRY(after(dev, q, behind));
    }
    return enqueue_launch(dev, q, k, groups, local, out);
}

static int capture(charl_device *dev, charl__queue q)
{
    TRY(enter(dev));
    TRY(cu.cuStreamBeginCapture_v2(stream_of(dev, q), THREAD_LOCAL));
    dev->nvidia->captured = stream_of(dev, q);
    dev->nvidia->has_first = false;
    return 0;
}

static int graph_create(charl_device *dev, charl__queue q, charl__driver_graph **out)
{
    void *graph = NULL, *ready = NULL;
    int err;

    *out = NULL;
    dev->nvidia->captured = NULL;
    TRY(cu.cuStreamEndCapture(stream_of(dev, q), &graph));
    err = cu.cuGraphInstantiateWithFlags(&ready, graph, 0);
    cu.cuGraphDestroy(graph);
    *out = err == 0 ? ready : NULL;
    return err;
}

static int graph_launch(charl_device *dev, charl__queue q, charl__driver_graph *g)
{
    TRY(enter(dev));
    return cu.cuGraphLaunch(g, stream_of(dev, q));
}

static void graph_release(charl_device *dev, charl__driver_graph *g)
{
    (void)enter(dev);
    cu.cuGraphExecDestroy(g);
}

static size_t group_limit(charl_device *dev, charl__driver_kernel *handle, int err)
{
    const kernel *k = (const kernel *)handle;
    int most = 0;

    (void)dev;
    if ((err != INVALID_VALUE && err != OUT_OF_LAUNCH_RESOURCES) ||
        cu.cuFuncGetAttribute(&most, MAX_THREADS, k->function) != 0) {
        return 0;
    }
    return k->group > (size_t)most ? (size_t)most : 0;
}

const charl__driver charl__driver_nvidia = {.name = "nvidia",
                                            .error = error,
                                            .open = open,
                                            .close = close_device,
                                            .flush = flush,
                                            .finish = finish,
                                            .memory_create = memory_create,
                                            .memory_release = memory_release,
                                            .pinned_create = pinned_create,
                                            .pinned_release = pinned_release,
                                            .reaches_host = reaches_host,
                                            .cannot_import = cannot_import,
                                            .memory_import = memory_import,
                                            .fill = fill,
                                            .write = write_memory,
                                            .read = read_memory,
                                            .map = map,
                                            .unmap = unmap,
                                            .mark = mark,
                                            .after = after,
                                            .event_is_done = event_is_done,
                                            .event_wait = event_wait,
                                            .event_times = event_times,
                                            .event_retain = event_retain,
                                            .event_release = event_release,
                                            .program_build = program_build,
                                            .program_load = program_load,
                                            .program_binary = program_binary,
                                            .program_release = program_release,
                                            .kernel_create = kernel_create,
                                            .kernel_release = kernel_release,
                                            .set = set,
                                            .set_memory = set_memory,
                                            .launch = launch,
                                            .capture = capture,
                                            .graph_create = graph_create,
                                            .graph_launch = graph_launch,
                                            .graph_release = graph_release,
                                            .group_limit = group_limit};
