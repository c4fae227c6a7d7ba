/* The driver opencl: supports every device. */
#include <dlfcn.h>
#include <string.h>

#include "base/fault.h"
#include "device/opencl/opencl.h"

/* OpenCL 3.0 and its extensions, as numbers: charl also builds with the headers of 1.2. */
enum { DEVICE_HANDLE_LIST = 0x2051, OPAQUE_FD = 0x2060 };
typedef cl_mem create_function(cl_context, const uint64_t *, cl_mem_flags, size_t, void *, cl_int *);

static cl_command_queue queue_of(const charl_device *dev, charl__queue q)
{
    return dev->opencl->queue[q];
}

static cl_mem mem_of(charl__driver_memory *m)
{
    return (cl_mem)m;
}

static cl_event event_of(charl__driver_event *e)
{
    return (cl_event)e;
}

void *charl__device_cl_queue(charl_device *dev)
{
    return dev->driver == &charl__driver_opencl ? queue_of(dev, CHARL_QUEUE_COMPUTE) : NULL;
}

void *charl__buffer_cl_mem(const charl__buffer *b)
{
    return b->dev->driver == &charl__driver_opencl ? mem_of(b->mem) : NULL;
}

charl_status charl__opencl_context(charl_device *dev)
{
    charl_status st;

    if (!dev->opencl) {
        CHARL_TRY(charl__alloc(sizeof *dev->opencl, &dev->opencl));
        dev->opencl->id = dev->found.id;
    }
    if (!dev->opencl->context) {
        CHARL_TRY(charl__acquire("OpenCL context"));
        st = charl__opencl_context_get(dev, &dev->opencl->shared);
        if (st != CHARL_OK) {
            charl__drop();
            return st;
        }
        dev->opencl->context = charl__opencl_context_of(dev->opencl->shared);
    }
    return CHARL_OK;
}

static charl_status open(charl_device *dev, bool is_timed)
{
    cl_int err = CL_SUCCESS;

    CHARL_TRY(charl__opencl_context(dev));
    for (int q = 0; q < CHARL_QUEUE_COUNT; q++) {
        CHARL_TRY(charl__acquire("command queue"));
        dev->opencl->queue[q] =
            clCreateCommandQueue(dev->opencl->context, dev->opencl->id,
                                 is_timed || q == CHARL_QUEUE_CLOCK ? CL_QUEUE_PROFILING_ENABLE : 0, &err);
        if (err != CL_SUCCESS) {
            dev->opencl->queue[q] = NULL;
            charl__drop();
            CHARL_FAIL(charl__opencl_error(err).status, "clCreateCommandQueue on %s: %s", dev->info.name,
                       charl__opencl_error(err).text);
        }
    }
    return CHARL_OK;
}

void charl__opencl_close(charl_device *dev)
{
    struct charl__opencl *cl = dev->opencl;

    if (!cl) {
        return;
    }
    for (int q = 0; q < CHARL_QUEUE_COUNT; q++) {
        if (cl->queue[q]) {
            clReleaseCommandQueue(cl->queue[q]);
            charl__drop();
        }
    }
    if (cl->context) {
        charl__opencl_context_put(cl->shared);
        charl__drop();
    }
    charl_free(cl);
    dev->opencl = NULL;
}

static int flush(charl_device *dev, charl__queue q)
{
    return clFlush(queue_of(dev, q));
}

static int finish(charl_device *dev, charl__queue q)
{
    return clFinish(queue_of(dev, q));
}

static int create(charl_device *dev, cl_mem_flags flags, void *host, size_t bytes, charl__driver_memory **out)
{
    cl_int err = CL_SUCCESS;

    *out = (charl__driver_memory *)clCreateBuffer(dev->opencl->context, CL_MEM_READ_WRITE | flags, bytes, host, &err);
    return err;
}

static int memory_create(charl_device *dev, void *host, size_t bytes, charl__driver_memory **out)
{
    return create(dev, host ? CL_MEM_USE_HOST_PTR : 0, host, bytes, out);
}

/* Other devices may keep a copy of CL_MEM_USE_HOST_PTR in their own memory. */
static bool reaches_host(const charl_device *dev)
{
    return dev->facts.zero_copy || charl__fault("device.reaches_host");
}

static void memory_release(charl_device *dev, charl__driver_memory *m)
{
    (void)dev;
    clReleaseMemObject(mem_of(m));
}

static int map_on(charl_device *dev, charl__queue q, charl__driver_memory *m, size_t offset, size_t bytes, void **out)
{
    cl_int err = CL_SUCCESS;

    *out = clEnqueueMapBuffer(queue_of(dev, q), mem_of(m), CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, offset, bytes, 0, NULL,
                              NULL, &err);
    return err;
}

/* Mapping pins it. */
static int pinned_create(charl_device *dev, void *host, size_t bytes, charl__driver_memory **out, void **mapped)
{
    int err = create(dev, host ? CL_MEM_USE_HOST_PTR : CL_MEM_ALLOC_HOST_PTR, host, bytes, out);

    if (err == CL_SUCCESS) {
        err = map_on(dev, CHARL_QUEUE_UPLOAD, *out, 0, bytes, mapped);
        if (err != CL_SUCCESS) {
            memory_release(dev, *out);
        }
    }
    return err;
}

static void pinned_release(charl_device *dev, charl__driver_memory *m, void *mapped)
{
    clEnqueueUnmapMemObject(queue_of(dev, CHARL_QUEUE_UPLOAD), mem_of(m), mapped, 0, NULL, NULL);
    clFinish(queue_of(dev, CHARL_QUEUE_UPLOAD));
    memory_release(dev, m);
}

static create_function *create_with_properties(void)
{
    create_function *f = NULL;
    void *self = dlopen(NULL, RTLD_NOW);

    if (self) {
        *(void **)&f = dlsym(self, "clCreateBufferWithProperties");
        dlclose(self); /* the OpenCL loader is linked, so it stays loaded */
    }
    return f;
}

static const char *cannot_import(const charl_device *dev)
{
    char extensions[8192] = "";

    clGetDeviceInfo(dev->opencl->id, CL_DEVICE_EXTENSIONS, sizeof extensions - 1, extensions, NULL);
    return strstr(extensions, "cl_khr_external_memory_opaque_fd") && create_with_properties()
               ? NULL
               : "OpenCL cannot import memory here (cl_khr_external_memory_opaque_fd)";
}

static int memory_import(charl_device *dev, int fd, size_t bytes, charl__driver_memory **out)
{
    const uint64_t properties[] = {OPAQUE_FD, (uint64_t)fd, DEVICE_HANDLE_LIST, (uint64_t)(uintptr_t)dev->opencl->id, 0,
                                   0};
    cl_int err = CL_SUCCESS;

    *out = (charl__driver_memory *)create_with_properties()(dev->opencl->context, properties, CL_MEM_READ_WRITE, bytes,
                                                            NULL, &err);
    return err;
}

static int fill(charl_device *dev, charl__queue q, charl__driver_memory *m, size_t bytes, unsigned char value)
{
    unsigned char pattern[16];

    memset(pattern, value, sizeof pattern);
    return clEnqueueFillBuffer(queue_of(dev, q), mem_of(m), pattern, sizeof pattern, 0, bytes, 0, NULL, NULL);
}

static int write(charl_device *dev, charl__queue q, charl__driver_memory *m, size_t offset, const void *src,
                 size_t bytes, bool wait, charl__driver_event **event)
{
    return clEnqueueWriteBuffer(queue_of(dev, q), mem_of(m), wait, offset, bytes, src, 0, NULL, (cl_event *)event);
}

static int read(charl_device *dev, charl__queue q, charl__driver_memory *m, size_t offset, void *dst, size_t bytes,
                bool wait, charl__driver_event **event)
{
    return clEnqueueReadBuffer(queue_of(dev, q), mem_of(m), wait, offset, bytes, dst, 0, NULL, (cl_event *)event);
}

static int unmap(charl_device *dev, charl__queue q, charl__driver_memory *m, void *ptr)
{
    const int err = clEnqueueUnmapMemObject(queue_of(dev, q), mem_of(m), ptr, 0, NULL, NULL);

    return err == CL_SUCCESS ? flush(dev, q) : err;
}

static int mark(charl_device *dev, charl__queue q, charl__driver_event **event)
{
    return clEnqueueMarkerWithWaitList(queue_of(dev, q), 0, NULL, (cl_event *)event);
}

static int after(charl_device *dev, charl__queue q, charl__driver_event *e)
{
    const cl_event event = event_of(e);

    return clEnqueueBarrierWithWaitList(queue_of(dev, q), 1, &event, NULL);
}

static int event_is_done(charl_device *dev, charl__driver_event *e, bool *done)
{
    cl_int state = CL_QUEUED;
    const int err = clGetEventInfo(event_of(e), CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);

    (void)dev;
    *done = state == CL_COMPLETE;
    return err != CL_SUCCESS || state >= 0 ? err : state;
}

static int event_wait(charl_device *dev, charl__driver_event *e)
{
    const cl_event event = event_of(e);

    (void)dev;
    return clWaitForEvents(1, &event);
}

static int event_times(charl_device *dev, charl__driver_event *e, int64_t *begin, int64_t *end)
{
    cl_ulong at[2] = {0, 0};
    int err = clGetEventProfilingInfo(event_of(e), CL_PROFILING_COMMAND_START, sizeof at[0], &at[0], NULL);

    (void)dev;
    if (err == CL_SUCCESS) {
        err = clGetEventProfilingInfo(event_of(e), CL_PROFILING_COMMAND_END, sizeof at[1], &at[1], NULL);
    }
    *begin = (int64_t)at[0];
    *end = (int64_t)at[1];
    return err;
}

static void event_retain(charl__driver_event *e)
{
    clRetainEvent(event_of(e));
}

static void event_release(charl_device *dev, charl__driver_event *e)
{
    (void)dev;
    clReleaseEvent(event_of(e));
}

static charl_status program_build(charl_device *dev, const char *file, const char *const source[3], const char *options,
                                  const char *key, charl__driver_program **out)
{
    return charl__opencl_build(dev, file, source, options, key, (cl_program *)out);
}

static charl_status program_load(charl_device *dev, const unsigned char *data, size_t bytes, const char *options,
                                 charl__driver_program **out)
{
    return charl__opencl_load(dev, data, bytes, options, (cl_program *)out);
}

static charl_status program_binary(charl_device *dev, charl__driver_program *p, unsigned char **data, size_t *bytes)
{
    (void)dev;
    return charl__opencl_binary((cl_program)p, data, bytes);
}

static void program_release(charl_device *dev, charl__driver_program *p)
{
    (void)dev;
    charl__opencl_program_release((cl_program)p);
}

static int kernel_create(charl_device *dev, charl__driver_program *p, const char *entry, charl__driver_kernel **out,
                         int *args)
{
    cl_int err = CL_SUCCESS;
    cl_uint n = 0;
    cl_kernel k = clCreateKernel((cl_program)p, entry, &err);

    (void)dev;
    if (err == CL_SUCCESS) {
        err = clGetKernelInfo(k, CL_KERNEL_NUM_ARGS, sizeof n, &n, NULL);
        if (err != CL_SUCCESS) {
            clReleaseKernel(k);
        }
    }
    *args = (int)n;
    *out = (charl__driver_kernel *)k;
    return err;
}

static void kernel_release(charl_device *dev, charl__driver_kernel *k)
{
    (void)dev;
    clReleaseKernel((cl_kernel)k);
}

static int set(charl_device *dev, charl__driver_kernel *k, int at, size_t bytes, const void *value)
{
    (void)dev;
    return clSetKernelArg((cl_kernel)k, (cl_uint)at, bytes, value);
}

static int set_memory(charl_device *dev, charl__driver_kernel *k, int at, charl__driver_memory *m)
{
    const cl_mem mem = mem_of(m);

    return set(dev, k, at, sizeof mem, mem ? &mem : NULL);
}

static int launch(charl_device *dev, charl__queue q, charl__driver_kernel *k, const size_t global[3],
                  const size_t local[3], charl__driver_event *behind, charl__driver_event **event)
{
    const cl_event first = event_of(behind);

    return clEnqueueNDRangeKernel(queue_of(dev, q), (cl_kernel)k, 3, NULL, global, local, first ? 1 : 0,
                                  first ? &first : NULL, (cl_event *)event);
}

static size_t group_limit(charl_device *dev, charl__driver_kernel *k, int err)
{
    size_t most = 0;

    if (err == CL_INVALID_WORK_GROUP_SIZE) {
        clGetKernelWorkGroupInfo((cl_kernel)k, dev->opencl->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most, NULL);
    }
    return most;
}

const charl__driver charl__driver_opencl = {.name = "opencl",
                                            .error = charl__opencl_error,
                                            .open = open,
                                            .close = charl__opencl_close,
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
                                            .write = write,
                                            .read = read,
                                            .map = map_on,
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
                                            .group_limit = group_limit};
