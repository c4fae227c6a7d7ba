/* Memory of NVIDIA's GPUs that can be exported: CUDA's virtual memory functions, the only ones that
 * make memory which OpenCL can import in another process.
 *
 * libcuda.so.1 belongs to the driver. It is loaded at the first question, so charl needs neither it
 * nor CUDA's headers to build and run; what is declared here is the part of its stable binary
 * interface that is used. It is never unloaded.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "device/device_private.h"

enum { ON_DEVICE = 1, PINNED = 1, POSIX_FD = 1, READ_WRITE = 3, OUT_OF_MEMORY = 2 };

typedef struct cuda_location {
    int type, id;
} cuda_location;

typedef struct cuda_properties {
    int type, handle_types;
    cuda_location location;
    void *windows;
    unsigned char flags[8];
} cuda_properties;

typedef struct cuda_access {
    cuda_location location;
    int flags;
} cuda_access;

/* result, name, parameters */
#define FUNCTIONS(X)                                                                                                   \
    X(cuInit, (unsigned))                                                                                              \
    X(cuGetErrorString, (int, const char **))                                                                          \
    X(cuDeviceGetByPCIBusId, (int *, const char *))                                                                    \
    X(cuDeviceCanAccessPeer, (int *, int, int))                                                                        \
    X(cuDevicePrimaryCtxRetain, (void **, int))                                                                        \
    X(cuDevicePrimaryCtxRelease_v2, (int))                                                                             \
    X(cuCtxPushCurrent_v2, (void *))                                                                                   \
    X(cuCtxPopCurrent_v2, (void **))                                                                                   \
    X(cuCtxSynchronize, (void))                                                                                        \
    X(cuMemCreate, (uint64_t *, size_t, const cuda_properties *, unsigned long long))                                  \
    X(cuMemRelease, (uint64_t))                                                                                        \
    X(cuMemAddressReserve, (uint64_t *, size_t, size_t, uint64_t, unsigned long long))                                 \
    X(cuMemAddressFree, (uint64_t, size_t))                                                                            \
    X(cuMemMap, (uint64_t, size_t, size_t, uint64_t, unsigned long long))                                              \
    X(cuMemUnmap, (uint64_t, size_t))                                                                                  \
    X(cuMemSetAccess, (uint64_t, size_t, const cuda_access *, size_t))                                                 \
    X(cuMemsetD32_v2, (uint64_t, unsigned, size_t))                                                                    \
    X(cuMemExportToShareableHandle, (void *, uint64_t, int, unsigned long long))

static struct {
#define X(name, parameters) int(*name) parameters;
    FUNCTIONS(X)
#undef X
    const char *missing; /* NULL: all there */
} cuda;

static void load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    if (!library) {
        cuda.missing = "libcuda.so.1 of NVIDIA's driver cannot be loaded";
        return;
    }
#define X(name, parameters)                                                                                            \
    *(void **)&cuda.name = dlsym(library, #name);                                                                      \
    cuda.missing = cuda.name ? cuda.missing : "NVIDIA's driver is too old: it has no " #name;
    FUNCTIONS(X)
#undef X
    if (!cuda.missing && cuda.cuInit(0) != 0) {
        cuda.missing = "NVIDIA's driver does not start (cuInit)";
    }
}

const char *charl__cuda_missing(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, load);
    return cuda.missing;
}

const char *charl__cuda_unreachable(const char *pci, const char *other)
{
    int mine = 0, theirs = 0, can = 0;

    if (charl__cuda_missing()) {
        return cuda.missing;
    }
    if (cuda.cuDeviceGetByPCIBusId(&mine, pci) != 0 || cuda.cuDeviceGetByPCIBusId(&theirs, other) != 0) {
        return "a rank does not see the GPU of another one (CUDA_VISIBLE_DEVICES?)";
    }
    if (mine != theirs && (cuda.cuDeviceCanAccessPeer(&can, mine, theirs) != 0 || !can)) {
        return "the GPUs have no access to each other's memory";
    }
    return NULL;
}

static const char *error_text(int err)
{
    const char *text = NULL;

    return cuda.cuGetErrorString(err, &text) == 0 && text ? text : "unknown error";
}

#define CUDA(call)                                                                                                     \
    do {                                                                                                               \
        const int cuda_err = cuda.call;                                                                                \
        CHARL_REQUIRE(cuda_err == 0, cuda_err == OUT_OF_MEMORY ? CHARL_ERR_NOMEM : CHARL_ERR_DEVICE, "%s: %s", #call,  \
                      error_text(cuda_err));                                                                           \
    } while (0)

#define CUDA_CLEANUP(call)                                                                                             \
    do {                                                                                                               \
        const int cuda_err = cuda.call;                                                                                \
        CHARL_REQUIRE_CLEANUP(cuda_err == 0, cuda_err == OUT_OF_MEMORY ? CHARL_ERR_NOMEM : CHARL_ERR_DEVICE, "%s: %s", \
                              #call, error_text(cuda_err));                                                            \
    } while (0)

static charl_status fill(charl__cuda_block *b, int *fd)
{
    const cuda_location here = {ON_DEVICE, b->device};
    const cuda_properties properties = {PINNED, POSIX_FD, here, NULL, {0}};
    const cuda_access access = {here, READ_WRITE};

    CUDA(cuMemCreate(&b->handle, b->bytes, &properties, 0));
    CUDA(cuMemAddressReserve(&b->address, b->bytes, 0, 0, 0));
    CUDA(cuMemMap(b->address, b->bytes, 0, b->handle, 0));
    CUDA(cuMemSetAccess(b->address, b->bytes, &access, 1));
    CUDA(cuMemsetD32_v2(b->address, 0, b->bytes / 4));
    CUDA(cuCtxSynchronize());
    CUDA(cuMemExportToShareableHandle(fd, b->handle, POSIX_FD, 0));
    return CHARL_OK;
}

charl_status charl__cuda_export(const char *pci, size_t bytes, charl__cuda_block *b, int *fd)
{
    charl_status st = CHARL_OK;
    const size_t page = (size_t)2 << 20;
    void *context = NULL;

    *b = (charl__cuda_block){.bytes = (bytes + page - 1) / page * page};
    CHARL_REQUIRE_CLEANUP(!charl__cuda_missing(), CHARL_ERR_DEVICE, "%s", cuda.missing);
    CUDA_CLEANUP(cuDeviceGetByPCIBusId(&b->device, pci));
    CUDA_CLEANUP(cuDevicePrimaryCtxRetain(&context, b->device));
    b->has_context = true;
    CUDA_CLEANUP(cuCtxPushCurrent_v2(context));
    st = fill(b, fd);
    cuda.cuCtxPopCurrent_v2(&context);
cleanup:
    if (st != CHARL_OK) {
        charl__cuda_release(b);
    }
    return st;
}

void charl__cuda_release(charl__cuda_block *b)
{
    if (b->address) { /* whether it is mapped already or not */
        cuda.cuMemUnmap(b->address, b->bytes);
        cuda.cuMemAddressFree(b->address, b->bytes);
    }
    if (b->handle) {
        cuda.cuMemRelease(b->handle);
    }
    if (b->has_context) {
        cuda.cuDevicePrimaryCtxRelease_v2(b->device);
    }
    *b = (charl__cuda_block){0};
}
