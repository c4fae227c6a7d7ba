/* Launches of kernels/x86/device/roofline_amx.cl. */
#include "tensor/roofline/x86/roofline_amx.h"

enum { GROUPS_PER_UNIT = 8 };

static const int ROUNDS = 4096;

charl_status charl__roofline_amx(charl_device *dev, charl__launch *launch, charl__buffer **to, double *flop)
{
    const int64_t groups = GROUPS_PER_UNIT * (int64_t)charl_device_get_info(dev)->compute_units;

    CHARL_TRY(charl__buffer_create(dev, (size_t)groups * sizeof(float), "benchmark", to));
    *flop = 2.0 * 4 * 16 * 16 * 32 * ROUNDS * (double)groups;
    *launch = (charl__launch){.file = "x86/device/roofline_amx",
                              .entry = "roofline_amx",
                              .global = {(size_t)groups},
                              .local = {1},
                              .args = {charl__raw(CHARL_ARG_OUT, *to), charl__i32(ROUNDS)}};
    return CHARL_OK;
}
