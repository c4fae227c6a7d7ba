/* Capabilities of a device, detected by running kernels. */
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/fault.h"
#include "device/device_private.h"

enum { PAGE = 4096 };

/* Whether a buffer over host memory uses that memory in place: fill it on the device and compare. Only CPU devices with unified memory can
 * be tested without mapping. */
static charl_status probe_zero_copy(charl_device *dev)
{
    const unsigned char pattern = 0xa5;
    CHARL_SCOPED_FREE unsigned char *host = NULL;
    CHARL_SCOPED(charl__buffer_left) charl__buffer *b = NULL;
    void *mapped = NULL;
    bool in_place = true;

    if (dev->info.kind != CHARL_DEVICE_CPU || !dev->found.unified) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__alloc_aligned(PAGE, PAGE, &host));
    CHARL_TRY(charl__buffer_wrap(dev, host, PAGE, &b));
    CHARL_TRY(charl__device_check(dev, "probing shared memory",
                                  dev->driver->fill(dev, CHARL_QUEUE_COMPUTE, b->mem, PAGE, pattern)));
    CHARL_TRY(charl__queue_finish(dev, CHARL_QUEUE_COMPUTE, "probing shared memory"));
    for (int i = 0; i < PAGE; i++) {
        in_place = in_place && host[i] == pattern;
    }
    CHARL_TRY(charl__buffer_map(CHARL_QUEUE_COMPUTE, b, 0, PAGE, &mapped));
    dev->facts.zero_copy = in_place && mapped == host && !charl__fault("device.copies");
    CHARL_TRY(charl__buffer_unmap(CHARL_QUEUE_COMPUTE, b, mapped));
    CHARL_TRY(charl__queue_finish(dev, CHARL_QUEUE_COMPUTE, "probing shared memory"));
    return CHARL_OK;
}

/* Half arithmetic works if the square of 1 + 2^-10 is rounded to half. NVIDIA's driver compiles it without reporting cl_khr_fp16. Other
 * devices that do not report it are not tested: some compilers print an error, or end the process. */
static charl_status probe_fp16(charl_device *dev)
{
    charl_status st = CHARL_OK;
    charl__buffer *b = NULL;
    float got = 0;

    if (!dev->found.has_half && dev->found.capability == 0) {
        goto cleanup;
    }
    CHARL_TRY_CLEANUP(charl__buffer_create(dev, sizeof got, "probe", &b));
    st = charl__launch_enqueue(dev, &(charl__launch){
                                        .file = "device/probe",
                                        .entry = "charl_probe_half",
                                        .global = {1},
                                        .args = {charl__raw(CHARL_ARG_OUT, b), charl__f32(1.0f + 0x1p-10f)},
                                    });
    if (st == CHARL_ERR_KERNEL) {
        charl_error_clear();
        st = CHARL_OK;
        goto cleanup;
    }
    CHARL_TRY_CLEANUP(st);
    CHARL_TRY_CLEANUP(charl__buffer_read(CHARL_QUEUE_COMPUTE, b, 0, &got, sizeof got, true));
    dev->facts.fp16 = got == 1.0f + 0x1p-9f;
cleanup:
    charl__buffer_release(b);
    return st;
}

/* Compute capability, times 10, of an NVIDIA GPU; 0 for other devices, and for all with CHARL_NO_PTX, which makes them use the same kernels
 * as other devices. All other features of NVIDIA's compiler or driver depend on it. */
static int nvidia_capability(const charl_device *dev)
{
    return charl__env_is_on(CHARL_ENV_NO_PTX) ? 0 : dev->found.capability;
}

charl_status charl__device_probe(charl_device *dev, bool allow_tf32, bool exact_half)
{
    const bool cpu = dev->info.kind == CHARL_DEVICE_CPU;
    const int capability = nvidia_capability(dev);

    dev->facts.exact_half = exact_half;
    dev->facts.tiles_in_local = !cpu;
    dev->facts.vector_width = dev->found.vector_width;
    /* On a CPU a work-item is a loop over vectors. 256 fills every known GPU, and almost all allow it. */
    dev->facts.group = cpu ? 1 : dev->info.max_group < 256 ? dev->info.max_group : 256;
    CHARL_TRY(probe_zero_copy(dev));
    CHARL_TRY(probe_fp16(dev));
    CHARL_TRY(charl__probe_ptx(dev, capability));
    CHARL_TRY(charl__probe_tensor_cores(dev, capability, allow_tf32));
    CHARL_TRY(charl__probe_amx(dev));
    dev->counters = (charl__device_counters){0};
    dev->memory.peak = dev->memory.in_use;
    return CHARL_OK;
}
