#ifndef CHARL_DEVICE_NVIDIA_CUDA_H
#define CHARL_DEVICE_NVIDIA_CUDA_H
/** libcuda.so.1 of NVIDIA's driver: loaded on first use, so charl builds and runs without it and without CUDA's headers. Declares the part of
 *  its stable binary interface that charl uses. It is never unloaded. */
#include <stddef.h>
#include <stdint.h>

typedef struct charl__cuda_location {
    int type, id;
} charl__cuda_location;

typedef struct charl__cuda_properties {
    int type, handle_types;
    charl__cuda_location location;
    void *windows;
    unsigned char flags[8];
} charl__cuda_properties;

typedef struct charl__cuda_access {
    charl__cuda_location location;
    int flags;
} charl__cuda_access;

typedef struct charl__cuda_attribute {
    int id, pad;
    int value[16];
} charl__cuda_attribute;

typedef struct charl__cuda_launch {
    unsigned groups[3], local[3], dynamic_bytes;
    void *stream;
    charl__cuda_attribute *attribute;
    unsigned n_attributes;
} charl__cuda_launch;

/* Values of its enums. */
enum {
    CHARL__CU_ON_DEVICE = 1,
    CHARL__CU_PINNED = 1,
    CHARL__CU_POSIX_FD = 1,
    CHARL__CU_READ_WRITE = 3,
    CHARL__CU_OUT_OF_MEMORY = 2, /* CUDA_ERROR_... */
    CHARL__CU_NOT_READY = 600
};
/** Blocks are mapped and exported in multiples of this size. */
static const size_t charl__cuda_page = (size_t)2 << 20;

/* name, parameters; all return a CUresult */
#define CHARL__CUDA_FUNCTIONS(X)                                                                                       \
    X(cuInit, (unsigned))                                                                                              \
    X(cuGetErrorName, (int, const char **))                                                                            \
    X(cuGetErrorString, (int, const char **))                                                                          \
    X(cuDeviceGetByPCIBusId, (int *, const char *))                                                                    \
    X(cuDeviceCanAccessPeer, (int *, int, int))                                                                        \
    X(cuDevicePrimaryCtxRetain, (void **, int))                                                                        \
    X(cuDevicePrimaryCtxRelease_v2, (int))                                                                             \
    X(cuCtxCreate_v2, (void **, unsigned, int))                                                                        \
    X(cuCtxDestroy_v2, (void *))                                                                                       \
    X(cuCtxSetCurrent, (void *))                                                                                       \
    X(cuCtxPushCurrent_v2, (void *))                                                                                   \
    X(cuCtxPopCurrent_v2, (void **))                                                                                   \
    X(cuCtxSynchronize, (void))                                                                                        \
    X(cuStreamCreate, (void **, unsigned))                                                                             \
    X(cuStreamDestroy_v2, (void *))                                                                                    \
    X(cuStreamSynchronize, (void *))                                                                                   \
    X(cuStreamWaitEvent, (void *, void *, unsigned))                                                                   \
    X(cuEventCreate, (void **, unsigned))                                                                              \
    X(cuEventDestroy_v2, (void *))                                                                                     \
    X(cuEventRecord, (void *, void *))                                                                                 \
    X(cuEventQuery, (void *))                                                                                          \
    X(cuEventSynchronize, (void *))                                                                                    \
    X(cuEventElapsedTime, (float *, void *, void *))                                                                   \
    X(cuMemAlloc_v2, (uint64_t *, size_t))                                                                             \
    X(cuMemFree_v2, (uint64_t))                                                                                        \
    X(cuMemHostAlloc, (void **, size_t, unsigned))                                                                     \
    X(cuMemFreeHost, (void *))                                                                                         \
    X(cuMemHostRegister_v2, (void *, size_t, unsigned))                                                                \
    X(cuMemHostUnregister, (void *))                                                                                   \
    X(cuMemHostGetDevicePointer_v2, (uint64_t *, void *, unsigned))                                                    \
    X(cuMemcpyHtoDAsync_v2, (uint64_t, const void *, size_t, void *))                                                  \
    X(cuMemcpyDtoHAsync_v2, (void *, uint64_t, size_t, void *))                                                        \
    X(cuMemsetD8Async, (uint64_t, unsigned char, size_t, void *))                                                      \
    X(cuMemsetD32_v2, (uint64_t, unsigned, size_t))                                                                    \
    X(cuMemCreate, (uint64_t *, size_t, const charl__cuda_properties *, unsigned long long))                           \
    X(cuMemRelease, (uint64_t))                                                                                        \
    X(cuMemAddressReserve, (uint64_t *, size_t, size_t, uint64_t, unsigned long long))                                 \
    X(cuMemAddressFree, (uint64_t, size_t))                                                                            \
    X(cuMemMap, (uint64_t, size_t, size_t, uint64_t, unsigned long long))                                              \
    X(cuMemUnmap, (uint64_t, size_t))                                                                                  \
    X(cuMemSetAccess, (uint64_t, size_t, const charl__cuda_access *, size_t))                                          \
    X(cuMemExportToShareableHandle, (void *, uint64_t, int, unsigned long long))                                       \
    X(cuMemImportFromShareableHandle, (uint64_t *, void *, int))                                                       \
    X(cuModuleLoadDataEx, (void **, const void *, unsigned, int *, void **))                                           \
    X(cuModuleUnload, (void *))                                                                                        \
    X(cuModuleGetFunction, (void **, void *, const char *))                                                            \
    X(cuFuncGetAttribute, (int *, int, void *))                                                                        \
    X(cuFuncSetAttribute, (void *, int, int))                                                                          \
    X(cuLaunchKernel,                                                                                                  \
      (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **))        \
    X(cuStreamBeginCapture_v2, (void *, int))                                                                          \
    X(cuStreamEndCapture, (void *, void **))                                                                           \
    X(cuGraphInstantiateWithFlags, (void **, void *, unsigned long long))                                              \
    X(cuGraphDestroy, (void *))                                                                                        \
    X(cuGraphExecDestroy, (void *))                                                                                    \
    X(cuGraphLaunch, (void *, void *))

struct charl__cuda {
#define X(name, parameters) int(*name) parameters;
    CHARL__CUDA_FUNCTIONS(X)
#undef X
    int (*cuFuncLoad)(void *);                                                     /* since CUDA 12.4; or NULL */
    int (*cuLaunchKernelEx)(const charl__cuda_launch *, void *, void **, void **); /* with cuFuncLoad; or NULL */
};
/** Its functions, after charl__cuda_missing has returned NULL. */
extern struct charl__cuda charl__cuda;

#endif
