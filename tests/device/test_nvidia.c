/* NVIDIA's driver, and changes to PTX, a matter of text. */
#include "support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/numeric/hash.h"
#include "device/device_private.h"
#include "device/nvidia/cuda.h"
#include "device/nvidia/ptx.h"

/* The driver nvidia over a libcuda that this test stands for: memory of the device is memory of the host, and the only kernel adds a number. */

enum { MOST = 256, FAULT = 700, OUT_OF_MEMORY = 2, NOT_READY = 600, OUT_OF_LAUNCH_RESOURCES = 701 };

static const char text[] =
    ".version 9.0\n.target sm_90\n.address_size 64\n"
    ".entry step(\n\t.param .u64 .ptr .global .align 4 step_param_0,\n\t.param .u64 step_param_1,\n"
    "\t.param .u32 step_param_2,\n\t.param .u64 step_param_3\n)\n{\n\tgriddepcontrol.wait;\n\tret;\n}\n"
    ".entry scratch(\n\t.param .u64 .ptr .shared .align 4 scratch_param_0,\n"
    "\t.param .u64 .ptr .shared .align 4 scratch_param_1\n)\n{\n"
    "\t.shared .align 1024 .b8 scratch_$_tile[65536];\n\tret;\n}\n";

/* One call of `step`: at[from] += add * scale. */
typedef struct call {
    uint64_t at, from, scale;
    uint32_t add;
} call;

static struct {
    int error;                                              /* of every call from now on */
    int too_large;                                          /* of launches */
    bool is_busy;                                           /* events are not done */
    int contexts, streams, events, blocks, modules, graphs; /* alive */
    int launches, early, graph_launches;
    const void *source; /* of the last copy to the device */
    unsigned groups, dynamic;
    int allowed;
    uint64_t offset[2]; /* of the local memory of `scratch` */
    bool captures;
    call captured[MOST];
    int n_captured;
    float ms; /* the clock of events */
    char loaded[4096];
} fake;

#define FAKE(name, parameters, ...)                                                                                    \
    static int name parameters                                                                                         \
    {                                                                                                                  \
        if (fake.error != 0) {                                                                                         \
            return fake.error;                                                                                         \
        }                                                                                                              \
        __VA_ARGS__;                                                                                                   \
        return 0;                                                                                                      \
    }

static float slot[4096]; /* handles are addresses in it; of an event, its time */
static int n_slots;

static void *made(int *count)
{
    ++*count;
    assert_true(n_slots < 4096);
    return &slot[n_slots++];
}

static void unmade(int *count, void *handle)
{
    assert_non_null(handle);
    --*count;
}

FAKE(device_by_pci, (int *out, const char *pci), *out = strcmp(pci, "0000:01:00.0"))
FAKE(context_create, (void **out, unsigned flags, int device),
     *out = flags + (unsigned)device ? NULL : made(&fake.contexts))
FAKE(context_set, (void *context), (void)context)
FAKE(stream_create, (void **out, unsigned flags), assert_int_equal(flags, 1); *out = made(&fake.streams))
FAKE(stream_synchronize, (void *stream), (void)stream)
FAKE(stream_wait, (void *stream, void *event, unsigned flags), assert_non_null(event); (void)stream; (void)flags)
FAKE(event_create, (void **out, unsigned flags), (void)flags; *out = made(&fake.events))
FAKE(event_record, (void *event, void *stream), (void)stream; *(float *)event = fake.ms += 1)
FAKE(event_synchronize, (void *event), (void)event)
FAKE(event_elapsed, (float *out, void *a, void *b), *out = *(float *)b - *(float *)a)
FAKE(host_alloc, (void **out, size_t bytes, unsigned flags), (void)flags; fake.blocks++; *out = malloc(bytes))
FAKE(host_register, (void *host, size_t bytes, unsigned flags), (void)host; (void)bytes; (void)flags; fake.blocks++)
FAKE(host_unregister, (void *host), (void)host; fake.blocks--)
FAKE(host_pointer, (uint64_t * out, void *host, unsigned flags), *out = (uint64_t)(uintptr_t)host + 0 * flags)
FAKE(copy_to, (uint64_t to, const void *from, size_t bytes, void *stream), memcpy((void *)(uintptr_t)to, from, bytes);
     fake.source = from; (void)stream)
FAKE(copy_from, (void *to, uint64_t from, size_t bytes, void *stream), memcpy(to, (void *)(uintptr_t)from, bytes);
     (void)stream)
FAKE(set_bytes, (uint64_t at, unsigned char value, size_t bytes, void *stream),
     memset((void *)(uintptr_t)at, value, bytes);
     (void)stream)
FAKE(module_load, (void **out, const void *ptx, unsigned n, int *option, void **value), assert_int_equal(option[0], 5);
     (void)n; (void)value; snprintf(fake.loaded, sizeof fake.loaded, "%s", (const char *)ptx);
     *out = made(&fake.modules))
FAKE(module_function, (void **out, void *module, const char *name), assert_non_null(module);
     *out = (void *)(uintptr_t)(name + 0))
FAKE(function_set, (void *function, int what, int value), assert_non_null(function); assert_int_equal(what, 8);
     fake.allowed = value)
FAKE(capture_begin, (void *stream, int mode), (void)stream; assert_int_equal(mode, 1); fake.captures = true;
     fake.n_captured = 0)
FAKE(graph_destroy, (void *graph), (void)graph)

static int context_destroy(void *context)
{
    unmade(&fake.contexts, context);
    fake.streams = 0; /* what is on it goes with it */
    return 0;
}

static int alloc(uint64_t *out, size_t bytes)
{
    if (fake.error != 0 || bytes > (size_t)1 << 30) {
        return fake.error ? fake.error : OUT_OF_MEMORY;
    }
    fake.blocks++;
    *out = (uint64_t)(uintptr_t)malloc(bytes);
    return 0;
}

static int release(uint64_t at)
{
    unmade(&fake.blocks, (void *)(uintptr_t)at);
    free((void *)(uintptr_t)at);
    return 0;
}

static int host_free(void *host)
{
    unmade(&fake.blocks, host);
    free(host);
    return 0;
}

static int event_query(void *event)
{
    (void)event;
    return fake.error ? fake.error : fake.is_busy ? NOT_READY : 0;
}

static int event_destroy(void *event)
{
    unmade(&fake.events, event);
    return 0;
}

static int module_unload(void *module)
{
    unmade(&fake.modules, module);
    return 0;
}

static int function_get(int *out, int what, void *function)
{
    (void)what, (void)function;
    *out = 256;
    return 0;
}

static void compute(const call *c)
{
    ((uint32_t *)(uintptr_t)c->at)[c->from] += c->add * (uint32_t)c->scale;
}

static int launch(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                  unsigned dynamic, void *stream, void **values, void **extra)
{
    (void)stream, (void)extra;
    if (fake.error != 0 || fake.too_large != 0) {
        return fake.error ? fake.error : fake.too_large;
    }
    fake.launches++;
    fake.groups = gx * gy * gz;
    fake.dynamic = dynamic;
    assert_true(bx * by * bz > 0);
    if (strcmp(function, "scratch") == 0) {
        fake.offset[0] = *(uint64_t *)values[0];
        fake.offset[1] = *(uint64_t *)values[1];
    } else {
        const call c = {*(uint64_t *)values[0], *(uint64_t *)values[1], *(uint64_t *)values[3], *(uint32_t *)values[2]};

        if (fake.captures) {
            assert_true(fake.n_captured < MOST);
            fake.captured[fake.n_captured++] = c;
        } else {
            compute(&c);
        }
    }
    return 0;
}

/* Of a kernel that awaits earlier launches itself. */
static int launch_early(const charl__cuda_launch *l, void *function, void **values, void **extra)
{
    assert_true(fake.captures && fake.n_captured > 0);
    assert_int_equal(l->n_attributes, 1);
    assert_int_equal(l->attribute->id, 6);
    assert_int_equal(l->attribute->value[0], 1);
    fake.early++;
    return launch(function, l->groups[0], l->groups[1], l->groups[2], l->local[0], l->local[1], l->local[2],
                  l->dynamic_bytes, l->stream, values, extra);
}

/* A graph: how many calls, then they. */
static int capture_end(void *stream, void **graph)
{
    call *g = calloc(MOST + 1, sizeof *g);

    (void)stream;
    fake.captures = false;
    g[0].at = (uint64_t)fake.n_captured;
    memcpy(g + 1, fake.captured, sizeof fake.captured);
    *graph = g;
    return fake.error;
}

static int graph_instantiate(void **out, void *graph, unsigned long long flags)
{
    (void)flags;
    fake.graphs++;
    *out = graph;
    return 0;
}

static int graph_launch(void *graph, void *stream)
{
    const call *g = graph;

    (void)stream;
    for (uint64_t i = 0; i < g[0].at && fake.error == 0; i++) {
        compute(&g[1 + i]);
    }
    fake.graph_launches++;
    return fake.error;
}

static int graph_release(void *graph)
{
    unmade(&fake.graphs, graph);
    free(graph);
    return 0;
}

static int error_name(int err, const char **out)
{
    *out = err == FAULT           ? "CUDA_ERROR_ILLEGAL_ADDRESS"
           : err == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
                                  : "CUDA_ERROR";
    return 0;
}

static charl_device *open_device(bool is_timed)
{
    charl_device *dev = NULL;

    memset(&fake, 0, sizeof fake);
    n_slots = 0;
    charl__cuda = (struct charl__cuda){.cuGetErrorName = error_name,
                                       .cuGetErrorString = error_name,
                                       .cuDeviceGetByPCIBusId = device_by_pci,
                                       .cuCtxCreate_v2 = context_create,
                                       .cuCtxDestroy_v2 = context_destroy,
                                       .cuCtxSetCurrent = context_set,
                                       .cuStreamCreate = stream_create,
                                       .cuStreamSynchronize = stream_synchronize,
                                       .cuStreamWaitEvent = stream_wait,
                                       .cuEventCreate = event_create,
                                       .cuEventRecord = event_record,
                                       .cuEventQuery = event_query,
                                       .cuEventSynchronize = event_synchronize,
                                       .cuEventElapsedTime = event_elapsed,
                                       .cuEventDestroy_v2 = event_destroy,
                                       .cuMemAlloc_v2 = alloc,
                                       .cuMemFree_v2 = release,
                                       .cuMemHostAlloc = host_alloc,
                                       .cuMemFreeHost = host_free,
                                       .cuMemHostRegister_v2 = host_register,
                                       .cuMemHostUnregister = host_unregister,
                                       .cuMemHostGetDevicePointer_v2 = host_pointer,
                                       .cuMemcpyHtoDAsync_v2 = copy_to,
                                       .cuMemcpyDtoHAsync_v2 = copy_from,
                                       .cuMemsetD8Async = set_bytes,
                                       .cuModuleLoadDataEx = module_load,
                                       .cuModuleUnload = module_unload,
                                       .cuModuleGetFunction = module_function,
                                       .cuFuncGetAttribute = function_get,
                                       .cuFuncSetAttribute = function_set,
                                       .cuLaunchKernel = launch,
                                       .cuStreamBeginCapture_v2 = capture_begin,
                                       .cuStreamEndCapture = capture_end,
                                       .cuGraphInstantiateWithFlags = graph_instantiate,
                                       .cuGraphDestroy = graph_destroy,
                                       .cuGraphExecDestroy = graph_release,
                                       .cuGraphLaunch = graph_launch,
                                       .cuLaunchKernelEx = launch_early};
    charl_assert_ok(charl__alloc(sizeof *dev, &dev));
    charl__owner_init(&dev->owner);
    dev->refs = 1;
    dev->driver = &charl__driver_nvidia;
    dev->info = (charl_device_info){.name = "fake GPU",
                                    .pci = "0000:01:00.0",
                                    .max_alloc_bytes = (int64_t)1 << 40,
                                    .local_bytes = 48 << 10,
                                    .max_group = 1024};
    dev->memory.capacity = (int64_t)1 << 40;
    charl_assert_ok(dev->driver->open(dev, is_timed));
    dev->is_open = true;
    return dev;
}

/* Everything is back. */
static void close_device(charl_device *dev, long live)
{
    charl_device_close(dev);
    assert_int_equal(charl__live(), live);
    assert_int_equal(fake.contexts + fake.streams + fake.blocks + fake.modules + fake.graphs, 0);
}

/* "step" and "scratch" of kernels/step.cl, as if they had been compiled. */
static charl__program *give_program(charl_device *dev)
{
    charl__program *p = NULL;

    charl_assert_ok(charl__alloc(sizeof *p, &p));
    charl_assert_ok(charl__strdup("step", &p->file));
    charl_assert_ok(charl__strdup("", &p->defines));
    p->hash = charl__fnv1a64_string("step") * 31 + charl__fnv1a64_string("");
    charl_assert_ok(dev->driver->program_load(dev, (const unsigned char *)text, sizeof text - 1, "", &p->program));
    assert_non_null(p->program);
    dev->programs = p;
    return p;
}

static charl__launch step(charl__buffer *b, int at, int add, int64_t scale)
{
    return (charl__launch){
        .file = "step",
        .entry = "step",
        .label = "h.0",
        .global = {64},
        .local = {32},
        .args = {{.kind = CHARL_ARG_INOUT, .buffer = b, .v.offset = at}, charl__i32(add), charl__position(scale, 10)}};
}

static void test_memory(void **state)
{
    const long live = charl__live();
    charl_device *dev = open_device(false);
    charl__buffer *b = NULL, *w = NULL;
    charl_pinned *p = NULL;
    void *host = NULL, *mapped = NULL, *page = NULL;
    uint32_t got[4] = {1, 1, 1, 1};

    (void)state;
    charl_assert_ok(charl__buffer_create(dev, 4096, "test", &b));
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, b, 64, got, sizeof got, true));
    assert_int_equal(got[0] | got[3], 0);
    got[2] = 7;
    charl_assert_ok(charl__buffer_write(CHARL_QUEUE_UPLOAD, b, 128, got, sizeof got, false));
    charl_assert_ok(charl__buffer_map(CHARL_QUEUE_COMPUTE, b, 136, 8, &mapped));
    assert_int_equal(*(uint32_t *)mapped, 7);
    *(uint32_t *)mapped = 9;
    charl_assert_ok(charl__buffer_unmap(CHARL_QUEUE_COMPUTE, b, mapped));
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, b, 136, got, 4, true));
    assert_int_equal(got[0], 9);
    charl_assert_ok(charl_pinned_create(dev, 4096, &p, &host));
    assert_non_null(host);
    memset(host, 3, 4096);
    charl_assert_ok(
        charl__buffer_write(CHARL_QUEUE_COMPUTE, b, 0, host, 64, false)); /* a few bytes go with the command */
    assert_ptr_not_equal(fake.source, host);
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, b, 60, got, 4, true));
    assert_int_equal(got[0], 0x03030303);
    charl_pinned_destroy(p);
    charl_assert_ok(charl__alloc_aligned(4096, 4096, &page));
    charl_assert_ok(charl__buffer_wrap(dev, page, 4096, &w));
    got[0] = 5;
    charl_assert_ok(charl__buffer_write(CHARL_QUEUE_COMPUTE, w, 0, got, 4, true));
    charl_assert_ok(charl__buffer_map(CHARL_QUEUE_COMPUTE, w, 0, 4, &mapped));
    assert_ptr_equal(mapped, page);
    assert_int_equal(*(uint32_t *)mapped, 5);
    charl_assert_ok(charl__buffer_unmap(CHARL_QUEUE_COMPUTE, w, mapped));
    charl__buffer_release(w);
    w = NULL;
    charl_assert_status(charl__buffer_create(dev, (size_t)2 << 30, "test", &w), CHARL_ERR_NOMEM);
    charl_assert_message("CUDA_ERROR_OUT_OF_MEMORY");
    charl__buffer_release(b);
    charl_free(page);
    close_device(dev, live);
}

static void test_events(void **state)
{
    const long live = charl__live();
    charl_device *dev = open_device(true);
    charl__event *e = NULL;
    int64_t begin = 0, end = 0, first = 0;
    bool done = true;

    (void)state;
    fake.is_busy = true;
    charl_assert_ok(charl__event_record(dev, CHARL_QUEUE_COMPUTE, &e));
    charl_assert_ok(charl__event_is_done(e, &done));
    assert_false(done);
    charl_assert_ok(charl__queue_wait(dev, CHARL_QUEUE_COMM, e));
    charl_assert_ok(charl__event_wait(e));
    assert_int_equal(dev->counters.host_waits, 1);
    fake.is_busy = false;
    charl_assert_ok(charl__event_is_done(e, &done));
    assert_true(done);
    assert_int_equal(dev->driver->event_times(dev, e->event, &first, &end), 0);
    assert_int_equal(end - first, 1000000);
    charl__event_release(e);
    for (int i = 1; i <= 3; i++) { /* beside an event that is long ago, float milliseconds would be coarse */
        fake.ms += 150;
        charl_assert_ok(charl__event_record(dev, CHARL_QUEUE_COMPUTE, &e));
        assert_int_equal(dev->driver->event_times(dev, e->event, &begin, &end), 0);
        assert_int_equal(begin - first, i * 152000000);
        assert_int_equal(end - begin, 1000000);
        charl__event_release(e);
    }
    assert_int_equal(fake.events, 3); /* of the base and of one event, which is used again */
    close_device(dev, live);
}

/* Those of the clock queue have times where nothing else has, also in the place of one that had none. */
static void test_clock_events(void **state)
{
    const long live = charl__live();
    charl_device *dev = open_device(false);
    charl__event *e = NULL;
    double at[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        charl_assert_ok(charl__event_record(dev, CHARL_QUEUE_COMPUTE, &e));
        charl__event_release(e);
        fake.ms += 150;
        charl_assert_ok(charl__event_record(dev, CHARL_QUEUE_CLOCK, &e));
        assert_true(charl__event_time(e, &at[i]));
        charl__event_release(e);
    }
    assert_true(fabs(at[1] - at[0] - (at[2] - at[1])) < 1e-6 && at[1] - at[0] > 0.150);
    close_device(dev, live);
}

static void test_many_events(void **state)
{
    enum { MANY = CHARL__SPARE_EVENTS + 50 };
    const long live = charl__live();
    charl_device *dev = open_device(false);
    const long kept = charl__live();
    charl__event *e[MANY];

    (void)state;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MANY; i++) {
            charl_assert_ok(charl__event_record(dev, CHARL_QUEUE_COMPUTE, &e[i]));
        }
        assert_int_equal(fake.events, 1 + MANY); /* and the base of times */
        for (int i = 0; i < MANY; i++) {
            charl__event_release(e[i]);
        }
        assert_int_equal(fake.events, 1 + CHARL__SPARE_EVENTS);
        assert_int_equal(charl__live(), kept);
    }
    close_device(dev, live);
}

static void test_launches(void **state)
{
    const long live = charl__live();
    charl_device *dev = open_device(false);
    charl__program *p = give_program(dev);
    charl__kernel scratch;
    charl__buffer *b = NULL;
    charl__launch l;
    uint32_t got = 0;

    (void)state;
    assert_null(strstr(fake.loaded, ".ptr .shared"));
    charl_assert_ok(charl__buffer_create(dev, 4096, "test", &b));
    l = step(b, 3, 5, 2);
    charl_assert_ok(charl__launch_enqueue(dev, &l));
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, b, 12, &got, 4, true));
    assert_int_equal(got, 10);
    assert_int_equal(fake.groups, 2);
    assert_int_equal(fake.dynamic, 0);
    l.args[1] = charl__i64(5);
    charl_assert_status(charl__launch_enqueue(dev, &l), CHARL_ERR_INVALID);
    charl_assert_message("argument 2 of kernel step: the kernel's parameter has another size");
    l = step(b, 3, 5, 2);
    l.global[1] = 65536;
    charl_assert_status(charl__launch_enqueue(dev, &l), CHARL_ERR_DEVICE);
    charl_assert_message("device.driver = opencl");
    l = step(b, 3, 5, 2);
    l.global[0] = l.local[0] = 512;
    fake.too_large = OUT_OF_LAUNCH_RESOURCES;
    charl_assert_status(charl__launch_enqueue(dev, &l), CHARL_ERR_KERNEL);
    charl_assert_message("allows it 256 work-items");
    fake.too_large = 0;
    l.entry = "none";
    charl_assert_status(charl__launch_enqueue(dev, &l), CHARL_ERR_KERNEL);
    charl_assert_message("no kernel none");
    /* Local memory that arguments ask for lies behind the large array. */
    charl_assert_ok(charl__kernel_get(dev, p, "scratch", &scratch));
    charl_assert_ok(charl__launch_enqueue(
        dev, &(charl__launch){
                 .file = "step", .entry = "scratch", .global = {1}, .args = {charl__local(100), charl__local(60)}}));
    assert_int_equal(fake.offset[0], 65536);
    assert_int_equal(fake.offset[1], 65536 + 128);
    assert_int_equal(fake.dynamic, 65536 + 128 + 60);
    assert_int_equal(fake.allowed, fake.dynamic);
    charl__buffer_release(b);
    close_device(dev, live);
}

/* From its second replay on a range of launches is one graph, for each position in the batch. */
static void test_recordings_are_graphs(void **state)
{
    const long live = charl__live();
    charl_device *dev = open_device(false);
    charl__buffer *b = NULL;
    charl__recording *r = NULL;
    uint32_t got[2] = {0};

    (void)state;
    give_program(dev);
    charl_assert_ok(charl__buffer_create(dev, 4096, "test", &b));
    charl_assert_ok(charl__record_begin(dev, &r));
    for (int i = 0; i < 12; i++) {
        const charl__launch l = step(b, i % 2, 1, 1);

        charl_assert_ok(charl__launch_enqueue(dev, &l));
    }
    charl_assert_ok(charl__record_end(dev, CHARL_OK));
    for (int i = 0; i < 4; i++) {
        charl_assert_ok(charl__recording_replay(r, 0, 12));
    }
    assert_int_equal(fake.launches, 24); /* once run, once captured */
    assert_int_equal(fake.early, 11);    /* in the graph all but the first */
    assert_int_equal(fake.graph_launches, 3);
    assert_int_equal(dev->counters.launches, 48);
    assert_int_equal(charl__queue_commands(dev, CHARL_QUEUE_COMPUTE), 49); /* and zeros */
    charl_assert_ok(charl__recording_move(r, 2));                          /* a scale of 21 */
    charl_assert_ok(charl__recording_replay(r, 0, 12));
    charl_assert_ok(charl__recording_replay(r, 0, 12));
    assert_int_equal(fake.graphs, 2);
    charl_assert_ok(charl__recording_move(r, 0));
    charl_assert_ok(charl__recording_replay(r, 0, 12));
    assert_int_equal(fake.graphs, 2);
    charl_assert_ok(charl__recording_replay(r, 0, 1)); /* a single launch is none */
    charl_assert_ok(charl__recording_replay(r, 0, 1));
    assert_int_equal(fake.graphs, 2);
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, b, 0, got, sizeof got, true));
    assert_int_equal(got[0], 6 * 5 + 2 * 6 * 21 + 2);
    assert_int_equal(got[1], 6 * 5 + 2 * 6 * 21);
    /* What has failed is among the commands that are named. */
    charl_assert_ok(charl__recording_replay(r, 0, 12));
    fake.error = FAULT;
    charl_assert_status(charl_device_sync(dev), CHARL_ERR_DEVICE);
    charl_assert_message("CUDA_ERROR_ILLEGAL_ADDRESS");
    charl_assert_message("of the 12 commands since the device last answered, the last 8 are step (h.0)");
    charl_assert_status(charl__recording_replay(r, 0, 12), CHARL_ERR_DEVICE);
    fake.error = 0;
    charl__recording_destroy(r);
    charl__buffer_release(b);
    close_device(dev, live);
}

static charl_status life(void *ctx)
{
    charl_status st = CHARL_OK;
    charl_device *dev = ctx;
    charl__buffer *b = NULL;
    charl_pinned *p = NULL;
    charl__driver_program *program = NULL;
    charl__driver_kernel *kernel = NULL;
    void *host = NULL;
    int args = 0, err;

    CHARL_TRY_CLEANUP(charl__buffer_create(dev, 64, "test", &b));
    CHARL_TRY_CLEANUP(charl_pinned_create(dev, 64, &p, &host));
    CHARL_TRY_CLEANUP(dev->driver->program_load(dev, (const unsigned char *)text, sizeof text - 1, "", &program));
    err = dev->driver->kernel_create(dev, program, "step", &kernel, &args);
    CHARL_TRY_CLEANUP(charl__device_check(dev, "making a kernel", err));
    assert_int_equal(args, 4);
cleanup:
    if (kernel) {
        dev->driver->kernel_release(dev, kernel);
    }
    if (program) {
        dev->driver->program_release(dev, program);
    }
    charl_pinned_destroy(p);
    charl__buffer_release(b);
    return st;
}

static void test_every_acquisition_may_fail(void **state)
{
    const long live = charl__live();
    charl_device *dev = open_device(false);

    (void)state;
    charl_test_fail_every_acquisition(life, dev);
    close_device(dev, live);
}

/* Retargeting PTX: a matter of text. */

#define HEAD "//\n// Generated\n//\n\n.version 8.8\n"
#define ENTRY ".visible .entry k(\n\t.param .u64 .ptr .global .align 2 k_param_0\n)\n{\n"
#define BODY                                                                                                           \
    "\tmov.u32 %r1, k_$_tile;\n\tst.shared.v4.b32 [%r1], {%r2, %r3, %r4, %r5};\n"                                      \
    "\tcp.async.cg.shared.global [%r1], [%rd1], 16;\n\tret;\n}\n"
#define SHARED(n) "\t.shared .align 1024 .b8 k_$_tile[" n "];\n"

static void expect_groups(const char *ptx, int64_t bytes, int groups, const char *want)
{
    charl__text got = {0};

    charl_assert_ok(charl__ptx_retarget(ptx, bytes, groups, &got));
    assert_string_equal(charl__text_string(&got), want);
    charl__text_fini(&got);
}

static void expect(const char *ptx, int64_t bytes, const char *want)
{
    expect_groups(ptx, bytes, 0, want);
}

static void refuse(const char *ptx, int64_t bytes, const char *words)
{
    charl__text got = {0};

    charl_assert_status(charl__ptx_retarget(ptx, bytes, 0, &got), CHARL_ERR_KERNEL);
    charl_assert_message(words);
    assert_int_equal(got.length, 0);
    charl__text_fini(&got);
}

static void target_and_shared_memory(void **state)
{
    (void)state;
    expect(HEAD ".target sm_90, texmode_independent\n.address_size 64\n" ENTRY SHARED("49152") BODY, 98304,
           HEAD ".target sm_90a, texmode_independent\n.address_size 64\n" ENTRY SHARED("98304") BODY);
    expect(HEAD ".target sm_90\n" ENTRY SHARED("48") BODY, 0, HEAD ".target sm_90a\n" ENTRY SHARED("48") BODY);
    expect(HEAD ".target sm_90a\n" SHARED("16") SHARED("32") ENTRY BODY, 196608,
           HEAD ".target sm_90a\n" SHARED("196608") SHARED("32") ENTRY BODY);
}

#define SIZED(directives) ".visible .entry k(\n\t.param .u64 k_param_0\n)\n" directives "{\n"
#define EXTENT ".reqntid 128, 1, 1\n"
#define FIT EXTENT ".minnctapersm 3\n"

/* Room for work-groups, with the array in front of the kernel, in it, and left alone; a text that
 * does not tell how large they are stays. */
static void registers(void **state)
{
    (void)state;
    expect_groups(HEAD ".target sm_90\n" SIZED(EXTENT) SHARED("48") BODY, 96, 3,
                  HEAD ".target sm_90a\n" SIZED(FIT) SHARED("96") BODY);
    expect_groups(HEAD ".target sm_90\n" SHARED("48") SIZED(EXTENT) BODY, 96, 3,
                  HEAD ".target sm_90a\n" SHARED("96") SIZED(FIT) BODY);
    expect_groups(HEAD ".target sm_90\n" SIZED(EXTENT) BODY, 0, 3, HEAD ".target sm_90a\n" SIZED(FIT) BODY);
    expect_groups(HEAD ".target sm_90\n" SHARED("48") SIZED("") BODY, 96, 3,
                  HEAD ".target sm_90a\n" SHARED("96") SIZED("") BODY);
}

static void other_texts_are_refused(void **state)
{
    (void)state;
    refuse("", 0, "no PTX for sm_90");
    refuse("\177ELF", 0, "no PTX for sm_90");
    refuse(HEAD ".target sm_89\n" ENTRY SHARED("48") BODY, 0, "no PTX for sm_90");
    refuse(HEAD ".target sm_900\n" ENTRY BODY, 0, "no PTX for sm_90");
    refuse(HEAD "//.target sm_90\n" ENTRY BODY, 0, "no PTX for sm_90");
    refuse(HEAD ".target sm_90", 1024, "no array");
    refuse(HEAD ".target sm_90\n" ENTRY BODY, 1024, "no array");
    refuse(HEAD ".target sm_90\n\t.shared .align 4 .b32 one;\n" ENTRY BODY, 1024, "no array");
    refuse(HEAD ".target sm_90\n\t.extern .shared .b8 any[];\n" ENTRY BODY, 1024, "no array");
}

#define FOR_CUDA_HEAD ".version 9.0\n.target sm_90, texmode_independent\n.address_size 64\n"

static void expect_for_cuda(const char *ptx, const char *want)
{
    charl__text got = {0};

    charl_assert_ok(charl__ptx_for_cuda(ptx, &got));
    assert_string_equal(charl__text_string(&got), want);
    charl__text_fini(&got);
}

static void registers_of_opencl(void **state)
{
    charl__text got = {0};

    (void)state;
    expect_for_cuda(FOR_CUDA_HEAD "mov.b32 %r1, %envreg3;\nadd.s32 %r2, %envreg0, %envreg6; mov.b32 %r3, %envreg8;\n"
                                  "mov.b32 %r4, %envreg9;\n",
                    FOR_CUDA_HEAD "mov.b32 %r1, 0;\nadd.s32 %r2, 0, %nctaid.x; mov.b32 %r3, %nctaid.z;\n"
                                  "mov.b32 %r4, 3;\n");
    charl_assert_status(charl__ptx_for_cuda(FOR_CUDA_HEAD "mov.b32 %r1, %envreg17;\n", &got), CHARL_ERR_KERNEL);
    charl_assert_message("%envreg17");
    charl__text_fini(&got);
    charl_assert_status(charl__ptx_for_cuda("\177ELF", &got), CHARL_ERR_KERNEL);
    charl__text_fini(&got);
}

/* Not for libcuda: arrays of more than 48 KB, and pointers to local memory. */
static const char two_kernels[] =
    FOR_CUDA_HEAD ".entry large(\n\t.param .u64 .ptr .global .align 4 large_param_0,\n"
                  "\t.param .align 8 .b8 large_param_1[8],\n\t.param .u32 large_param_2\n)\n{\n"
                  "\t.shared .align 1024 .b8 large_$_tile[98304];\n"
                  "\t.shared .align 4 .b8 large_$_small[64];\n\tret;\n}\n"
                  ".entry large_local(\n\t.param .u64 .ptr .shared .align 4 large_local_param_0,\n"
                  "\t.param .u64 large_local_param_1\n)\n{\n"
                  "\tld.param.u64 %rd1, [large_local_param_0];\n"
                  "\tld.param.u64 %rd2, [large_local_param_1];\n\tret;\n}\n";

static void local_memory_for_cuda(void **state)
{
    (void)state;
    expect_for_cuda(two_kernels,
                    FOR_CUDA_HEAD ".extern .shared .align 128 .b8 charl_dynamic[];\n"
                                  ".extern .shared .align 1024 .b8 large_$_tile[];\n"
                                  ".entry large(\n\t.param .u64 .ptr .global .align 4 large_param_0,\n"
                                  "\t.param .align 8 .b8 large_param_1[8],\n\t.param .u32 large_param_2\n)\n{\n"
                                  "griddepcontrol.wait;\n"
                                  "\t.shared .align 4 .b8 large_$_small[64];\n\tret;\n}\n"
                                  ".entry large_local(\n\t.param .u64 large_local_param_0,\n"
                                  "\t.param .u64 large_local_param_1\n)\n{\n"
                                  "griddepcontrol.wait;\n"
                                  "\tld.param.u64 %rd1, [large_local_param_0];\n"
                                  "{ .reg .b64 %charl; mov.u64 %charl, charl_dynamic; add.s64 %rd1, %rd1, %charl; }\n"
                                  "\tld.param.u64 %rd2, [large_local_param_1];\n\tret;\n}\n");
}

#define WAITS "\tgriddepcontrol.wait;\n"
#define AWAITED "griddepcontrol.wait;\n"
#define FUNC ".func (.param .b32 r) f()\n{\n\tret;\n}\n"
#define K(name, begin)                                                                                                 \
    ".entry " name "(\n\t.param .u64 " name "_param_0\n)\n.reqntid 64, 1, 1\n{\n" begin                                \
    "\t{ // nested\n\t}\n\tret;\n}\n"

/* Each kernel awaits earlier launches once: as it does itself, else first. Functions and older devices do not. */
static void kernels_await(void **state)
{
    (void)state;
    expect_for_cuda(FOR_CUDA_HEAD FUNC K("a", "") K("b", WAITS) FUNC K("c", ""),
                    FOR_CUDA_HEAD FUNC K("a", AWAITED) K("b", WAITS) FUNC K("c", AWAITED));
    expect_for_cuda(HEAD ".target sm_89\n.address_size 64\n" K("a", ""),
                    HEAD ".target sm_89\n.address_size 64\n" K("a", ""));
    expect_for_cuda(HEAD ".target sm_100\n.address_size 64\n" K("a", ""),
                    HEAD ".target sm_100\n.address_size 64\n" K("a", AWAITED));
}

static void parameters_of_kernels(void **state)
{
    charl__ptx_kernel k;

    (void)state;
    charl_assert_ok(charl__ptx_kernel_find(text, "step", &k));
    assert_true(k.awaits);
    charl_assert_ok(charl__ptx_kernel_find(".target sm_89\n.entry k(\n\t.param .u32 k_param_0\n)\n{\n}\n", "k", &k));
    assert_false(k.awaits);
    charl_assert_ok(charl__ptx_kernel_find(two_kernels, "large", &k));
    assert_int_equal(k.params, 3);
    assert_int_equal(k.bytes[0], 8);
    assert_int_equal(k.bytes[1], 8);
    assert_int_equal(k.bytes[2], 4);
    assert_int_equal(k.dynamic_bytes, 98304);
    charl_assert_ok(charl__ptx_kernel_find(two_kernels, "large_local", &k));
    assert_int_equal(k.params, 2);
    assert_int_equal(k.bytes[0], CHARL__PTX_LOCAL_POINTER);
    assert_int_equal(k.dynamic_bytes, 0);
    charl_assert_status(charl__ptx_kernel_find(two_kernels, "larg", &k), CHARL_ERR_KERNEL);
    charl_assert_message("no kernel larg");
    charl_assert_ok(charl__ptx_kernel_find(
        ".entry k(\n\t.param .align 8 .b8 k_param_0[24],\n\t.param .u32 k_param_1\n)\n{\n}\n", "k", &k));
    assert_true(k.params == 2 && k.bytes[0] == 24 && k.bytes[1] == 4);
    charl_assert_status(charl__ptx_kernel_find(".entry k(\n\t.param .align 8 .b8 k_param_0[1024]\n)\n{\n}\n", "k", &k),
                        CHARL_ERR_KERNEL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_clock_events),
        cmocka_unit_test(test_many_events),
        cmocka_unit_test(test_launches),
        cmocka_unit_test(test_recordings_are_graphs),
        cmocka_unit_test(test_every_acquisition_may_fail),
        cmocka_unit_test(registers_of_opencl),
        cmocka_unit_test(local_memory_for_cuda),
        cmocka_unit_test(kernels_await),
        cmocka_unit_test(parameters_of_kernels),
        cmocka_unit_test(target_and_shared_memory),
        cmocka_unit_test(registers),
        cmocka_unit_test(other_texts_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
