/* Exportable memory of NVIDIA GPUs, by CUDA's virtual memory functions, the only ones whose
 * memory OpenCL can import in another process.
 */
#include <stdio.h>
#include <string.h>

#include "device/device_private.h"
#include "device/nvidia/cuda.h"

const char *charl__cuda_hides(const char *pci)
{
    int device = 0;

    if (charl__cuda_missing()) {
        return charl__cuda_missing();
    }
    return charl__cuda.cuDeviceGetByPCIBusId(&device, pci) == 0 ? NULL
                                                                : "libcuda does not see it (CUDA_VISIBLE_DEVICES?)";
}

const char *charl__cuda_unreachable(const char *pci, const char *other)
{
    int mine = 0, theirs = 0, can = 0;

    if (charl__cuda_missing()) {
        return charl__cuda_missing();
    }
    if (charl__cuda.cuDeviceGetByPCIBusId(&mine, pci) != 0 || charl__cuda.cuDeviceGetByPCIBusId(&theirs, other) != 0) {
        return "a rank does not see the GPU of another one (CUDA_VISIBLE_DEVICES?)";
    }
    if (mine != theirs && (charl__cuda.cuDeviceCanAccessPeer(&can, mine, theirs) != 0 || !can)) {
        return "the GPUs have no access to each other's memory";
    }
    return NULL;
}

static const char *error_text(int err)
{
    const char *text = NULL;

    return charl__cuda.cuGetErrorString(err, &text) == 0 && text ? text : "unknown error";
}

#define CUDA(call)                                                                                                     \
    do {                                                                                                               \
        const int cuda_err = charl__cuda.call;                                                                         \
        CHARL_REQUIRE(cuda_err == 0, cuda_err == CHARL__CU_OUT_OF_MEMORY ? CHARL_ERR_NOMEM : CHARL_ERR_DEVICE,         \
                      "%s: %s", #call, error_text(cuda_err));                                                          \
    } while (0)

#define CUDA_CLEANUP(call)                                                                                             \
    do {                                                                                                               \
        const int cuda_err = charl__cuda.call;                                                                         \
        CHARL_REQUIRE_CLEANUP(cuda_err == 0, cuda_err == CHARL__CU_OUT_OF_MEMORY ? CHARL_ERR_NOMEM : CHARL_ERR_DEVICE, \
                              "%s: %s", #call, error_text(cuda_err));                                                  \
    } while (0)

static charl_status fill(charl__cuda_block *b, int *fd)
{
    const charl__cuda_location here = {CHARL__CU_ON_DEVICE, b->device};
    const charl__cuda_properties properties = {CHARL__CU_PINNED, CHARL__CU_POSIX_FD, here, NULL, {0}};
    const charl__cuda_access access = {here, CHARL__CU_READ_WRITE};

    CUDA(cuMemCreate(&b->handle, b->bytes, &properties, 0));
    CUDA(cuMemAddressReserve(&b->address, b->bytes, 0, 0, 0));
    CUDA(cuMemMap(b->address, b->bytes, 0, b->handle, 0));
    CUDA(cuMemSetAccess(b->address, b->bytes, &access, 1));
    CUDA(cuMemsetD32_v2(b->address, 0, b->bytes / 4));
    CUDA(cuCtxSynchronize());
    CUDA(cuMemExportToShareableHandle(fd, b->handle, CHARL__CU_POSIX_FD, 0));
    return CHARL_OK;
}

charl_status charl__cuda_export(const char *pci, size_t bytes, charl__cuda_block *b, int *fd)
{
    charl_status st = CHARL_OK;
    const size_t page = charl__cuda_page;
    void *context = NULL;

    *b = (charl__cuda_block){.bytes = (bytes + page - 1) / page * page};
    CHARL_REQUIRE_CLEANUP(!charl__cuda_missing(), CHARL_ERR_DEVICE, "%s", charl__cuda_missing());
    CUDA_CLEANUP(cuDeviceGetByPCIBusId(&b->device, pci));
    CUDA_CLEANUP(cuDevicePrimaryCtxRetain(&context, b->device));
    b->has_context = true;
    CUDA_CLEANUP(cuCtxPushCurrent_v2(context));
    st = fill(b, fd);
    charl__cuda.cuCtxPopCurrent_v2(&context);
cleanup:
    if (st != CHARL_OK) {
        charl__cuda_release(b);
    }
    return st;
}

void charl__cuda_release(charl__cuda_block *b)
{
    if (b->address) { /* whether or not it is mapped */
        charl__cuda.cuMemUnmap(b->address, b->bytes);
        charl__cuda.cuMemAddressFree(b->address, b->bytes);
    }
    if (b->handle) {
        charl__cuda.cuMemRelease(b->handle);
    }
    if (b->has_context) {
        charl__cuda.cuDevicePrimaryCtxRelease_v2(b->device);
    }
    *b = (charl__cuda_block){0};
}
