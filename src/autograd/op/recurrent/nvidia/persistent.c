/* The smallest tiles for which there are enough compute units distribute a step over the most work-groups. */
#include "autograd/op/recurrent/nvidia/persistent.h"

#include <limits.h>
#include <stdio.h>

#include "autograd/launch/map.h"

enum {
    CELLS = 2,              /* as in kernels/nvidia/recurrent/persistent_tile.clh */
    COUNTER_STRIDE = 32,    /* as there */
    BUFFERS = 3,            /* chunks in local memory */
    LOCAL_DECLARED = 49152, /* local memory that NVIDIA's compiler accepts */
    LOCAL_MOST = 212992,    /* of the 227 KB that a program for sm_90a can have; the rest is for
                               kernels of other queues */
};

/* In the order in which they are tried. Of tiles with the same area, the one with fewer rows reads
 * less in each step: a training step of an LSTM 2 x 512 on 64 windows of 256 takes 19.2 ms on an H200 with
 * tiles of 16 x 16, 19.7 with 32 x 8 forward, 20.9 with 32 x 8 backward (charl-bench step, 22
 * November 2026). */
static const struct {
    int rows, units;
} tiles[] = {{8, 16}, {16, 8}, {8, 32}, {16, 16}, {32, 8}, {16, 32}, {32, 16}, {64, 8}, {32, 32}, {64, 16}};

static const int chunks[] = {256, 128, 64, 32};

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* Terms of a sum. */
static int64_t depth_of(const charl__recurrence *r, bool back)
{
    return back ? r->gates * r->hidden : r->hidden;
}

static int64_t group_count(const charl__recurrence *r, int rows, int units)
{
    return charl__ceil_div(r->batch, rows) * charl__ceil_div(r->hidden, units);
}

static int64_t local_bytes(const charl__recurrence *r, bool back, int rows, int units, int chunk)
{
    const int64_t columns = back ? units : (int64_t)units * r->gates;
    const int64_t weights = columns * (charl__ceil_div(depth_of(r, back), 32) * 32 + 4);
    const int64_t copies = (int64_t)BUFFERS * rows * (chunk + 4);

    return (weights + copies) * (int64_t)sizeof(float);
}

/* The largest chunk that leaves room for the weights; 0: none does. */
static int chunk_of(charl_device *dev, const charl__recurrence *r, bool back, int rows, int units)
{
    const int64_t room =
        charl__device_facts_get(dev)->nvidia.wgmma ? LOCAL_MOST : charl_device_get_info(dev)->local_bytes;

    for (int i = 0; i < COUNT(chunks); i++) {
        const bool is_whole = chunks[i] <= depth_of(r, back) || i + 1 == COUNT(chunks);

        if (is_whole && local_bytes(r, back, rows, units, chunks[i]) <= room) {
            return chunks[i];
        }
    }
    return 0;
}

bool charl__persistent_plan_of(charl_device *dev, const charl__recurrence *r, bool back, charl__persistent_plan *out)
{
    const charl_device_info *info = charl_device_get_info(dev);

    /* Arrivals are counted in the words of the split-K workspace, which all devices that run
     * this PTX have. Kernels count in int. */
    if (!charl__device_facts_get(dev)->nvidia.ptx || !charl__workspace_split_k(dev) || r->steps < 2 ||
        r->hidden % 4 != 0 || r->batch > INT_MAX || r->steps * r->hidden > INT_MAX ||
        r->hidden * r->hidden * r->gates > INT_MAX) {
        return false;
    }
    for (int i = 0; i < COUNT(tiles); i++) {
        const int rows = tiles[i].rows, units = tiles[i].units;
        const int chunk = chunk_of(dev, r, back, rows, units);

        if (chunk > 0 && group_count(r, rows, units) <= info->compute_units &&
            charl__ceil_div(r->batch, rows) * COUNTER_STRIDE <= CHARL_SPLIT_K_WORDS &&
            rows * units / CELLS <= info->max_group) {
            *out = (charl__persistent_plan){rows, units, chunk, local_bytes(r, back, rows, units, chunk)};
            return true;
        }
    }
    return false;
}

charl_status charl__persistent_launch(const charl__enqueue *e, const charl__recurrence *r, bool back,
                                      const charl__persistent_plan *plan, charl__launch *l)
{
    const bool fits = plan->local_bytes <= LOCAL_DECLARED;
    charl__recurrent_args args = {.batch = (int32_t)r->batch, .steps = (uint64_t)r->steps};
    uint64_t none; /* the workspace begins at 0 */
    const charl__kernel_param params[] = {{"ACT", .text = charl__kernel_type(r->act)},
                                          {"GATES", r->gates},
                                          {"H", r->hidden},
                                          {"ROWS", plan->rows},
                                          {"UNITS", plan->units},
                                          {"CHUNK", plan->chunk},
                                          {"BUFFERS", BUFFERS},
                                          {"LOCAL_BYTES", fits ? plan->local_bytes : LOCAL_DECLARED},
                                          {NULL}};

    charl__launch_set_all(l, params);
    l->file = back ? "nvidia/recurrent/persistent_gradient" : "nvidia/recurrent/persistent";
    l->entry = back ? "charl_persistent_gradient" : "charl_persistent";
    l->label = e->label;
    l->local[0] = (size_t)(plan->rows * plan->units / CELLS);
    l->global[0] = (size_t)group_count(r, plan->rows, plan->units) * l->local[0];
    l->sm90a.shared_bytes = fits ? 0 : plan->local_bytes;
    charl__launch_add(l, charl__placed(charl__inout(&r->exchange), &args.state));
    charl__launch_add(l, charl__placed(charl__raw(CHARL_ARG_INOUT, charl__workspace_split_k(e->dev)), &none));
    charl__launch_add(l, charl__struct(&args, sizeof args));
    CHARL_TRY(charl__launch_enqueue(e->dev, l));
    return CHARL_OK;
}
