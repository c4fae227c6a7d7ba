/* Products too small to fill a device with the tiles of gemm_local.c: kernels/gemm/gemm_small.cl. */
#include <limits.h>
#include <string.h>

#include "tensor/gemm/gemm_private.h"

enum {
    TILE = 16,
    TILE_LARGE = 32,
    ROOMY = 64,
    COLUMN_CHUNK = 256 /* of kernels/reduce/reduce.clh */
};

/* Operands are matrices, whose elements it counts in 31 bits. */
static bool supports(charl_device *dev, const charl__gemm *p)
{
    const int64_t parts = charl__at_least_one(p->fold.leaves > 1 ? p->fold.leaves : p->segments);

    (void)dev;
    return (p->a.kind == CHARL_GEMM_PLAIN || p->a.kind == CHARL_GEMM_TRANSPOSED) &&
           (p->b.kind == CHARL_GEMM_PLAIN || p->b.kind == CHARL_GEMM_TRANSPOSED) &&
           p->k * parts <= INT_MAX / 2 / charl__at_least_one(p->m > p->n ? p->m : p->n) &&
           (p->fold.leaves <= 1 || p->segments <= 1);
}

static int64_t count_tiles(const charl__gemm *p, int extent)
{
    return charl__ceil_div(p->m, extent) * charl__ceil_div(p->n, extent) *
           charl__at_least_one(p->fold.leaves > 1 ? p->inner : p->count);
}

/* If tiles of 64 would leave compute units idle, memory latency limits the product. */
static bool suits(charl_device *dev, const charl__gemm *p)
{
    return p->form == CHARL_GEMM_LOCAL_SMALL ||
           (p->form == CHARL_GEMM_AUTO && count_tiles(p, ROOMY) <= charl__gemm_units(dev));
}

/* `part`: rows and columns of a tile per work-item. */
static charl__gemm_plan plan_of(int extent, int part)
{
    return (charl__gemm_plan){.backend = &charl__gemm_small,
                              .form = CHARL_GEMM_LOCAL_SMALL,
                              .rows = extent,
                              .columns = extent,
                              .part_rows = part,
                              .part_columns = part,
                              .depth = extent == TILE ? 64 : 32};
}

static int plans(charl_device *dev, const charl__gemm *p, charl__gemm_plan *out)
{
    const int units = charl__gemm_units(dev);
    const int64_t tiles = count_tiles(p, TILE_LARGE);
    /* Small tiles read local memory twice as often, but there are more of them, and of a tree less to keep. */
    const bool large = tiles > (p->fold.leaves > 1 ? 2 * units : units);

    out[0] = large ? plan_of(TILE_LARGE, 4) : plan_of(TILE, 2);
    out[1] = large ? plan_of(TILE, 2) : plan_of(TILE_LARGE, 4);
    out[2] = plan_of(TILE_LARGE, 2);
    return 3;
}

/* Whether the segments of a sum, or the leaves of a tree, are contiguous in both operands. */
static bool is_flat(const charl__gemm *p)
{
    const bool folds = p->fold.leaves > 1;
    const bool by_steps = p->a.kind == CHARL_GEMM_TRANSPOSED && p->b.kind == CHARL_GEMM_PLAIN;

    return (!folds && p->segments <= 1) || (by_steps && (folds ? p->a.outer : p->a.segment) == p->k * p->m &&
                                            (folds ? p->b.outer : p->b.segment) == p->k * p->n);
}

/* A product in the kernel for small ones may share a launch with another
 * (kernels/gemm/gemm_small.cl).
 */
static void offer_pair(const charl__gemm *p, const charl__gemm_plan *plan, charl__launch *l)
{
    const bool folds = p->fold.leaves > 1 || p->a_sums;
    const int level = charl__gemm_rounded_level(p);
    const charl__kernel_param second[CHARL_PAIR_PARAMS] = {{"A_KIND_2", p->a.kind},
                                                           {"B_KIND_2", p->b.kind},
                                                           {"BIAS_2", p->bias_kind},
                                                           {"A_BY_4_2", charl__gemm_reads_by_4(p, true)},
                                                           {"B_BY_4_2", charl__gemm_reads_by_4(p, false)},
                                                           {"FOLD_2", folds},
                                                           {"A_SUMS_2", p->a_sums != NULL},
                                                           {folds ? "M" : NULL, CHARL__GEMM_LOCAL_LEAVES},
                                                           {level >= 0 ? "ROUND" : NULL, level}};

    if (p->a.tensor->dtype != CHARL_F32 || p->out.tensor->dtype != CHARL_F32) {
        return;
    }
    l->pair_first = !folds;
    l->pair_second = !p->epilogue;
    l->pair_form = 2 * plan->rows * plan->part_rows + is_flat(p);
    memcpy(l->pair_params, second, sizeof second);
}

static charl_status enqueue(charl_device *dev, const charl__gemm *p, const charl__gemm_plan *plan)
{
    charl__launch l = {.file = "gemm/gemm_small",
                       .entry = "gemm_small",
                       .params = {{"TILE", plan->rows},
                                  {"PART", plan->part_rows},
                                  {"A_BY_4", charl__gemm_reads_by_4(p, true)},
                                  {"B_BY_4", charl__gemm_reads_by_4(p, false)},
                                  {"FLAT", is_flat(p)},
                                  {"A_SUMS", p->a_sums != NULL}}};
    charl__gemm_args args;

    charl__gemm_set_common(p, &l);
    charl__gemm_set_epilogue(p, 1, &l);
    charl__gemm_set_leaves(p, &l);
    charl__gemm_describe(p, &args, &l);
    if (p->a_sums) {
        charl__launch_add(&l, charl__placed(charl__gemm_operand(CHARL_ARG_OUT, p->a_sums, p->a_sums_at), &args.a_sums));
    }
    l.local[0] = (size_t)(plan->rows / plan->part_rows * (plan->columns / plan->part_columns));
    l.global[0] = (size_t)(charl__ceil_div(p->m, plan->rows) * charl__ceil_div(p->n, plan->columns) *
                           charl__at_least_one(p->count)) *
                  l.local[0];
    offer_pair(p, plan, &l);
    return charl__launch_enqueue(dev, &l);
}

static bool folds_sums(charl_device *dev, const charl__gemm *p)
{
    (void)dev;
    return p->a.kind == CHARL_GEMM_TRANSPOSED && p->inner <= 1 && p->segments <= 1 && p->k <= COLUMN_CHUNK &&
           p->a.tensor->dtype == CHARL_F32;
}

const charl__gemm_backend charl__gemm_small = {.name = "small",
                                               .key = "",
                                               .memory = CHARL_GEMM_TILES,
                                               .has_rng = true,
                                               .supports = supports,
                                               .suits = suits,
                                               .plans = plans,
                                               .enqueue = enqueue,
                                               .folds = charl__gemm_folds_in_tiles,
                                               .folds_sums = folds_sums};
