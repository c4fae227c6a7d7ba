/* Detects facts.nvidia.wgmma, mma and tf32: whether kernels/nvidia/gemm/gemm_wgmma.cl or gemm_mma.cl compute correct results. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "device/device_private.h"

enum { M = 200, N = 136, K = 264, LOCAL_BYTES = 98304, MOST_ITEMS = 256, TILES = 4, GROUPS = 3 };
enum { PTX_8_3 = 545 }; /* the first driver whose assembler supports it */

typedef struct kernel {
    const char *file, *entry;
    charl__kernel_param param;
    int64_t shared_bytes;
    size_t items; /* of a work-group */
    size_t size;  /* bytes of an element: 2, bf16; 4, f32 */
} kernel;

static const kernel wgmma = {"nvidia/gemm/gemm_wgmma", "gemm_wgmma", {"ACT", .text = "ushort"}, LOCAL_BYTES, 256, 2},
                    mma = {"nvidia/gemm/gemm_mma", "gemm_mma", {"ACT", .text = "ushort"}, 0, 128, 2},
                    tf32 = {"nvidia/gemm/gemm_mma", "gemm_mma", {"SIZE", 4}, 0, 128, 4};

/* Operands of both orientations and partial tiles; for gemm_wgmma also the program for sm_90a and more than 48 KB of local memory. */
static charl_status try_kernel(charl_device *dev, const kernel *k, const char *what, bool *is_right)
{
    return charl__probe_product(
        dev,
        &(charl__product_probe){
            .args = {.m = M, .n = N, .k = K, .a_pitch = K, .b_pitch = N, .inner = 1, .tiles = TILES},
            .others = 3,
            .size = k->size,
            .what = what,
            .launch = {.file = k->file,
                       .entry = k->entry,
                       .params = {k->param},
                       .global = {GROUPS * k->items},
                       .local = {k->items},
                       .sm90a.shared_bytes = k->shared_bytes}},
        is_right);
}

charl_status charl__probe_tensor_cores(charl_device *dev, int capability, bool allow_tf32)
{
    const bool is_wanted = dev->info.max_group >= MOST_ITEMS && !charl__env_is_on(CHARL_ENV_NO_TENSOR_CORES);
    const bool has_mma = is_wanted && capability >= 80 && dev->facts.nvidia.ptx;

    if (is_wanted && capability == 90 && !charl__env_is_on(CHARL_ENV_NO_WGMMA)) {
        CHARL_TRY(try_kernel(dev, &wgmma, "half types on tensor cores", &dev->facts.nvidia.wgmma));
        dev->facts.nvidia.tensor_maps = dev->facts.nvidia.wgmma && atoi(dev->info.driver) >= PTX_8_3;
    }
    if (has_mma && !dev->facts.nvidia.wgmma) {
        CHARL_TRY(try_kernel(dev, &mma, "half types on tensor cores", &dev->facts.nvidia.mma));
    }
    if (has_mma && allow_tf32) {
        CHARL_TRY(try_kernel(dev, &tf32, "tf32 on tensor cores", &dev->facts.nvidia.tf32));
    }
    if (dev->facts.nvidia.wgmma || dev->facts.nvidia.mma || dev->facts.nvidia.tf32) {
        CHARL_TRY(charl__workspace_replace(
            dev, CHARL__WORKSPACE_SPLIT_K,
            (CHARL_SPLIT_K_WORDS + CHARL_SPLIT_K_MAPS + (size_t)dev->info.compute_units * CHARL_SPLIT_K_FLOATS) *
                sizeof(float),
            "sums between work-groups"));
    }
    return CHARL_OK;
}
