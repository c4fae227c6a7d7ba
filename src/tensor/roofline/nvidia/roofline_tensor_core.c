/* Launches of kernels/nvidia/device/roofline_wgmma.cl and roofline_mma.cl. */
#include "tensor/roofline/nvidia/roofline_tensor_core.h"

enum { GROUP = 256, WGMMA_BYTES = 65536 };

static const int WGMMA_ROUNDS = 2048, MMA_ROUNDS = 8192;

static charl_status wgmma(charl_device *dev, charl_dtype dtype, charl__launch *launch, charl__buffer **to, double *flop)
{
    const int64_t groups = charl_device_get_info(dev)->compute_units;

    CHARL_TRY(charl__buffer_create(dev, (size_t)groups * GROUP * 4, "benchmark", to));
    *flop = 2.0 * 2 * 64 * 256 * 64 * WGMMA_ROUNDS * (double)groups;
    *launch = (charl__launch){.file = "nvidia/device/roofline_wgmma",
                              .entry = "roofline_wgmma",
                              .params = {{"IS_F16", dtype == CHARL_F16}},
                              .global = {(size_t)groups * GROUP},
                              .local = {GROUP},
                              .sm90a.shared_bytes = WGMMA_BYTES,
                              .args = {charl__raw(CHARL_ARG_OUT, *to), charl__i32(WGMMA_ROUNDS)}};
    return CHARL_OK;
}

static charl_status mma(charl_device *dev, charl_dtype dtype, charl__launch *launch, charl__buffer **to, double *flop)
{
    const int size = (int)charl_dtype_size(dtype);
    const int64_t groups = 2 * (int64_t)charl_device_get_info(dev)->compute_units;

    CHARL_TRY(charl__buffer_create(dev, (size_t)groups * GROUP * 4, "benchmark", to));
    *flop = 2.0 * 8 * 8 * 16 * 8 * (32.0 / size) * MMA_ROUNDS * (double)groups;
    *launch = (charl__launch){.file = "nvidia/device/roofline_mma",
                              .entry = "roofline_mma",
                              .params = {{"SIZE", size}, {"IS_F16", dtype == CHARL_F16}},
                              .global = {(size_t)groups * GROUP},
                              .local = {GROUP},
                              .args = {charl__raw(CHARL_ARG_OUT, *to), charl__i32(MMA_ROUNDS)}};
    return CHARL_OK;
}

charl_status charl__roofline_tensor_core(charl_device *dev, charl_dtype dtype, charl__launch *launch,
                                         charl__buffer **to, double *flop)
{
    return charl__device_facts_get(dev)->nvidia.wgmma && dtype != CHARL_F32 ? wgmma(dev, dtype, launch, to, flop)
                                                                            : mma(dev, dtype, launch, to, flop);
}
