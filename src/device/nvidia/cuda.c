/* Loading libcuda.so.1. */
#include "device/nvidia/cuda.h"

#include <dlfcn.h>
#include <pthread.h>

#include "device/device_private.h"

struct charl__cuda charl__cuda;
static const char *missing; /* NULL: all are there */

static void load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    if (!library) {
        missing = "libcuda.so.1 of NVIDIA's driver cannot be loaded";
        return;
    }
#define X(name, parameters)                                                                                            \
    *(void **)&charl__cuda.name = dlsym(library, #name);                                                               \
    missing = charl__cuda.name ? missing : "NVIDIA's driver is too old: it has no " #name;
    CHARL__CUDA_FUNCTIONS(X)
#undef X
    *(void **)&charl__cuda.cuFuncLoad = dlsym(library, "cuFuncLoad");
    if (charl__cuda.cuFuncLoad) { /* of CUDA 12.4; graphs take such launches since 12.3 */
        *(void **)&charl__cuda.cuLaunchKernelEx = dlsym(library, "cuLaunchKernelEx");
    }
    if (!missing && charl__cuda.cuInit(0) != 0) {
        missing = "NVIDIA's driver does not start (cuInit)";
    }
}

const char *charl__cuda_missing(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, load);
    return missing;
}
