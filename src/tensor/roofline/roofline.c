/* Launches of kernels/device/roofline.cl. */
#include "charl/roofline.h"

#include <math.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "tensor/roofline/nvidia/roofline_tensor_core.h"
#include "tensor/roofline/x86/roofline_amx.h"

enum { GROUPS_PER_UNIT = 8, FMA_ROUNDS = 16384, REPEATS = 3 };

struct charl_roofline {
    charl_device *dev;
    double amount;
    charl__buffer *from, *to;
    charl__launch launch;
};

/* On CPUs a work-item is a loop over vectors as wide as a register; on GPUs it uses its own
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
    CHARL_GIVEN(dev, out);
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

charl_status charl_roofline_multiply(charl_device *dev, charl_dtype dtype, charl_roofline **out)
{
    CHARL_GIVEN(dev, out);
    charl_status st = CHARL_OK;
    charl_roofline *c = NULL;

    *out = NULL;
    CHARL_TRY_CLEANUP(create(dev, &c));
    if (charl__device_has_nvidia_cores(dev, dtype)) {
        st = charl__roofline_tensor_core(dev, dtype, &c->launch, &c->to, &c->amount);
    } else if (charl_device_has_tensor_cores(dev, dtype)) {
        st = charl__roofline_amx(dev, &c->launch, &c->to, &c->amount);
    } else {
        st = prepare_fma(c);
    }
    CHARL_TRY_CLEANUP(st);
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

double charl_roofline_get_amount(const charl_roofline *c)
{
    return c ? c->amount : 0;
}

charl_status charl_roofline_run(charl_roofline *c)
{
    CHARL_GIVEN(c);
    return charl__launch_enqueue(c->dev, &c->launch);
}

charl_status charl_roofline_measure(charl_roofline *c, double *per_s)
{
    CHARL_GIVEN(c && per_s);
    double best = 0;

    *per_s = 0;
    for (int i = 0; i <= REPEATS; i++) { /* the first compiles */
        const double begin = charl__clock_s();

        CHARL_TRY(charl_roofline_run(c));
        CHARL_TRY(charl_device_sync(c->dev));
        best = i > 0 ? fmax(best, c->amount / (charl__clock_s() - begin)) : 0;
    }
    *per_s = best;
    return CHARL_OK;
}
