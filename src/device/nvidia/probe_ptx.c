/* Detects facts.nvidia.ptx: whether inline PTX works in OpenCL C as the kernels use it under CHARL_PTX. A small kernel runs every such
 * instruction on numbers with exact results. */
#include <string.h>

#include "base/log.h"
#include "device/device_private.h"

enum { ITEMS = 32, CAPABILITY = 80 }; /* 8.0 introduced conversions to bf16 */

static uint32_t bf16_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits >> 16;
}

static bool is_right(const uint32_t *got)
{
    for (int i = 0; i < ITEMS; i++) {
        const int from = i ^ 16;

        if (got[i] != (bf16_of((float)(1 << from / 8)) | bf16_of((float)from) << 16)) {
            return false;
        }
    }
    return true;
}

charl_status charl__probe_ptx(charl_device *dev, int capability)
{
    charl_status st = CHARL_OK;
    uint32_t got[ITEMS] = {0};
    charl__buffer *b = NULL;

    if (capability < CAPABILITY || dev->info.max_group < ITEMS) {
        goto cleanup;
    }
    CHARL_TRY_CLEANUP(charl__buffer_create(dev, sizeof got, "probe", &b));
    dev->facts.nvidia.ptx = true; /* built like all later programs */
    st = charl__launch_enqueue(dev, &(charl__launch){.file = "nvidia/device/probe_ptx",
                                                     .entry = "charl_probe_ptx",
                                                     .global = {ITEMS},
                                                     .local = {ITEMS},
                                                     .args = {charl__raw(CHARL_ARG_OUT, b)}});
    if (st == CHARL_OK) {
        st = charl__buffer_read(CHARL_QUEUE_COMPUTE, b, 0, got, sizeof got, true);
    }
    dev->facts.nvidia.ptx = st == CHARL_OK && is_right(got);
    if (!dev->facts.nvidia.ptx) {
        charl__log(CHARL_LOG_INFO, "%s: no inline PTX: %s", dev->info.name,
                   st == CHARL_OK ? "the results are wrong" : charl_error_message());
    }
    if (st == CHARL_ERR_KERNEL || st == CHARL_ERR_DEVICE) {
        charl_error_clear();
        st = CHARL_OK;
    }
cleanup:
    charl__buffer_release(b);
    return st;
}
