/* Launches of kernels/device/roofline.cl, kernels/nvidia/device/roofline_wgmma.cl and roofline_mma.cl.
 */
#include "charl/roofline.h"

#include "base/alloc.h"
#include "tensor/tensor.h"

enum { WGMMA_GROUP = 256, MMA_GROUP = 256, WGMMA_BYTES = 65536, GROUPS_PER_UNIT = 8 };

static const int WGMMA_ROUNDS = 2048, MMA_ROUNDS = 8192, FMA_ROUNDS = 16384;

struct charl_roofline {
    charl_device *dev;
    double amount;
    charl__buffer *from, *to;
    charl__launch launch;
};

/* On CPUs a work-item is a loop over vectors as wide as a register; on GPUs it has its own
 * registers, and 16 bytes at a time. */
static void specialise(charl_roofline *c, int *lanes, int *each, int *chains)
{
    const charl__device_facts *facts = charl__device_facts_get(c->dev);
    static const char *const vector[] = {[2] = "float2", [4] = "float4", [8] = "float8", [16] = "float16"};
    const bool is_wide = facts->group == 1;

    *lanes = is_wide ? facts->vector_width : 4;
    *lanes = *lanes < 2 ? 2 : *lanes > 16 ? 16 : *lanes;
    *each = is_wide ? 256 : 4;
    *chains = is_wide ? 12 : 4;
    c->launch.file = "device/roofline";
    charl__launch_set_text(&c->launch, "V", vector[*lanes]);
    charl__launch_set(&c->launch, "EACH", *each);
    charl__launch_set(&c->launch, "CHAINS", *chains);
    c->launch.local[0] = is_wide ? 1 : 256;
}

static charl_status create(charl_device *dev, charl_roofline **out)
{
    CHARL_TRY(charl__alloc(sizeof **out, out));
    (*out)->dev = dev;
    return CHARL_OK;
}

charl_status charl_roofline_copy(charl_device *dev, int64_t bytes, charl_roofline **out)
{
    charl_status st = CHARL_OK;
    charl_roofline *c = NULL;
    int lanes, each, chains;
    int64_t group, groups;

    *out = NULL;
    CHARL_TRY_CLEANUP(create(dev, &c));
    specialise(c, &lanes, &each, &chains);
    group = (int64_t)c->launch.local[0] * each * lanes * 4;
    groups = bytes > group ? (bytes + group - 1) / group : 1;
    CHARL_TRY_CLEANUP(charl__buffer_create(dev, (size_t)(groups * group), "benchmark", &c->from));
    CHARL_TRY_CLEANUP(charl__buffer_create(dev, (size_t)(groups * group), "benchmark", &c->to));
    c->amount = 2.0 * (double)(groups * group);
    c->launch.entry = "roofline_copy";
    c->launch.global[0] = (size_t)groups * c->launch.local[0];
    c->launch.args[0] = charl__raw(CHARL_ARG_IN, c->from);
    c->launch.args[1] = charl__raw(CHARL_ARG_OUT, c->to);
    *out = c;
    c = NULL;
cleanup:
    charl_roofline_destroy(c);
    return st;
}

static charl_status prepare_fma(charl_roofline *c)
{
    const int64_t groups = (int64_t)GROUPS_PER_UNIT * charl_device_get_info(c->dev)->compute_units;
    int lanes, each, chains;
    int64_t items;

    specialise(c, &lanes, &each, &chains);
    items = groups * (int64_t)c->launch.local[0];
    CHARL_TRY(charl__buffer_create(c->dev, (size_t)(items * lanes * 4), "benchmark", &c->to));
    c->amount = 2.0 * chains * lanes * FMA_ROUNDS * (double)items;
    c->launch.entry = "roofline_fma";
    c->launch.global[0] = (size_t)items;
    c->launch.args[0] = charl__raw(CHARL_ARG_OUT, c->to);
    c->launch.args[1] = charl__f32(0.5F);
    c->launch.args[2] = charl__i32(FMA_ROUNDS);
    return CHARL_OK;
}

static charl_status prepare_wgmma(charl_roofline *c, charl_dtype dtype)
{
    const int64_t groups = charl_device_get_info(c->dev)->compute_units;

    CHARL_TRY(charl__buffer_create(c->dev, (size_t)groups * WGMMA_GROUP * 4, "benchmark", &c->to));
    c->amount = 2.0 * 2 * 64 * 256 * 64 * WGMMA_ROUNDS * (double)groups;
    c->launch = (charl__launch){.file = "nvidia/device/roofline_wgmma",
                                .entry = "roofline_wgmma",
                                .params = {{"IS_F16", dtype == CHARL_F16}},
                                .global = {(size_t)groups * WGMMA_GROUP},
                                .local = {WGMMA_GROUP},
                                .sm90a.shared_bytes = WGMMA_BYTES,
                                .args = {charl__raw(CHARL_ARG_OUT, c->to), charl__i32(WGMMA_ROUNDS)}};
    return CHARL_OK;
}

static charl_status prepare_mma(charl_roofline *c, charl_dtype dtype)
{
    const int size = (int)charl_dtype_size(dtype);
    const int64_t groups = 2 * (int64_t)charl_device_get_info(c->dev)->compute_units;

    CHARL_TRY(charl__buffer_create(c->dev, (size_t)groups * MMA_GROUP * 4, "benchmark", &c->to));
    c->amount = 2.0 * 8 * 8 * 16 * 8 * (32.0 / size) * MMA_ROUNDS * (double)groups;
    c->launch = (charl__launch){.file = "nvidia/device/roofline_mma",
                                .entry = "roofline_mma",
                                .params = {{"SIZE", size}, {"IS_F16", dtype == CHARL_F16}},
                                .global = {(size_t)groups * MMA_GROUP},
                                .local = {MMA_GROUP},
                                .args = {charl__raw(CHARL_ARG_OUT, c->to), charl__i32(MMA_ROUNDS)}};
    return CHARL_OK;
}

charl_status charl_roofline_multiply(charl_device *dev, charl_dtype dtype, charl_roofline **out)
{
    charl_status st = CHARL_OK;
    const charl__device_facts *facts = charl__device_facts_get(dev);
    const bool is_half = dtype == CHARL_BF16 || dtype == CHARL_F16;
    charl_roofline *c = NULL;

    *out = NULL;
    CHARL_TRY_CLEANUP(create(dev, &c));
    CHARL_TRY_CLEANUP(facts->nvidia.wgmma && is_half              ? prepare_wgmma(c, dtype)
                      : charl_device_has_tensor_cores(dev, dtype) ? prepare_mma(c, dtype)
                                                                  : prepare_fma(c));
    *out = c;
    c = NULL;
cleanup:
    charl_roofline_destroy(c);
    return st;
}

void charl_roofline_destroy(charl_roofline *c)
{
    if (c) {
        charl__buffer_release(c->from);
        charl__buffer_release(c->to);
        charl_free(c);
    }
}

double charl_roofline_amount(const charl_roofline *c)
{
    return c->amount;
}

charl_status charl_roofline_run(charl_roofline *c)
{
    return charl__launch_enqueue(c->dev, &c->launch);
}
