/* Products by tiles in local memory: kernels/gemm/gemm_local.cl. */
#include <limits.h>
#include <math.h>

#include "tensor/gemm/gemm_private.h"

enum { VECTOR = 4, BYTES_PER_4 = 16, SPOT_BYTES = 16 };

int64_t charl__gemm_joined(const charl__gemm *p, int tile_columns)
{
    const int64_t outers = charl__at_least_one(p->count) / charl__at_least_one(p->inner);
    const bool fits = p->b.kind == CHARL_GEMM_PLAIN || p->b.kind == CHARL_GEMM_WINDOW;

    return fits && p->fold.leaves <= 1 && !p->a_sums && p->a.outer == 0 && p->n % VECTOR == 0 &&
                   p->n % tile_columns != 0 && outers <= (INT_MAX - CHARL__GEMM_MARGIN) / p->n
               ? outers
               : 1;
}

/* Tiles of gemm_local.cl. `rate`: percent of the rate of a loop of fma, in large products; `resident`: work-items that a compute unit can
 * hold, by their registers.
 *
 * Rates: `charl tune -t f32 -v -s 4096x4096x4096:nn -s 4096x4096x4096:tn`, mean of both, on an H200 (132 compute units, driver 580.159),
 * 23 November 2026. The three numbers below are fitted so that cost_of gives the times of the convolutions of launch/cifar10-resnet.ini there, all
 * within 12 percent (docs/benchmarks/measurements.md).
 * within 12 percent (docs/benchmarks/measurements.md). */
typedef struct tile {
    int rows, columns, part_rows, part_columns, depth, rate, resident;
} tile;

enum { TILE_LARGE, TILE_PLAIN = 6 };

/* clang-format off */
static const tile tiles[] = {
    { 64, 128, 8, 8, 16, 73,  384}, /* TILE_LARGE */
    {128,  64, 8, 8, 16, 72,  384},
    { 64,  64, 8, 8, 16, 71,  384},
    {128, 128, 8, 8,  8, 66,  512},
    { 64,  64, 8, 4, 16, 68,  640},
    { 32,  64, 4, 8, 16, 63,  640},
    { 64,  64, 4, 4, 16, 60, 1024}, /* TILE_PLAIN */
    { 64,  32, 8, 4, 16, 61,  640},
    { 32,  64, 4, 4, 16, 60, 1024},
    { 32,  32, 4, 4, 16, 55, 1024},
    { 32,  32, 4, 4, 32, 52, 1024},
    { 16,  32, 4, 4, 32, 43, 1024},
};
/* clang-format on */
enum { TILES = sizeof tiles / sizeof *tiles };

/* Work-items that keep a compute unit busy. Half of them reach more than half of its rate: (1 + idle_share) / (2 + idle_share). */
static const double busy_lanes = 256, idle_share = 0.45;
/* Instructions to read an element of an image, for which each row of the tile has one fma. */
static const double image_cost = 13;

static int lanes_of(const tile *t)
{
    return t->rows / t->part_rows * (t->columns / t->part_columns);
}

/* Whether the device has room for the tile, and it is mostly full. A tree over leaves needs registers
 * for each of its levels. */
static bool can_have(charl_device *dev, const charl__gemm *p, const tile *x)
{
    const charl_device_info *info = charl_device_get_info(dev);
    const int64_t columns = p->n * charl__gemm_joined(p, x->columns);
    const int spots = p->b.kind >= CHARL_GEMM_WINDOW ? 2 * x->depth + x->columns : 0;
    const int bytes = 2 * x->depth * (x->rows / 4 + 1 + x->columns / 4 + 1) * BYTES_PER_4 + spots * SPOT_BYTES;

    return lanes_of(x) <= info->max_group && bytes <= info->local_bytes && (x->rows <= 32 || x->rows < 2 * p->m) &&
           (x->columns <= 32 || x->columns < 2 * columns) &&
           (p->fold.leaves <= 1 || x->part_rows * x->part_columns <= 16);
}

/* An estimate of the time of p in such tiles, in arbitrary units. Compute units share the tiles; if each has more than it can hold, one starts
 * as soon as another ends, and about half of the last ones wait. */
static double cost_of(charl_device *dev, const charl__gemm *p, const tile *t)
{
    const int64_t joined = charl__gemm_joined(p, t->columns);
    const int64_t products = charl__at_least_one(p->fold.leaves > 1 ? p->inner : p->count) / joined;
    const double groups =
        (double)(charl__ceil_div(p->m, t->rows) * charl__ceil_div(p->n * joined, t->columns) * products);
    const double share = groups / charl__gemm_units(dev);
    const double held = fmin(ceil(share) * lanes_of(t), t->resident);
    const double busy = fmin(1, held / busy_lanes);
    const double rounds = ceil(share) * lanes_of(t) <= t->resident ? ceil(share) : share + 0.5;
    const double reading = p->b.kind >= CHARL_GEMM_WINDOW ? image_cost / t->rows : 0;

    return rounds * t->rows * t->columns * (1 + reading) / t->rate * (1 + idle_share * busy) / busy;
}

static const tile *best_tile(charl_device *dev, const charl__gemm *p)
{
    const tile *best = &tiles[TILE_PLAIN];
    double least = (double)INFINITY;

    for (int i = 0; i < TILES; i++) {
        const double cost = can_have(dev, p, &tiles[i]) ? cost_of(dev, p, &tiles[i]) : (double)INFINITY;

        if (cost < least) {
            least = cost;
            best = &tiles[i];
        }
    }
    return best;
}

static charl__gemm_plan plan_of(const tile *t)
{
    return (charl__gemm_plan){.backend = &charl__gemm_local,
                              .form = CHARL_GEMM_LOCAL,
                              .rows = t->rows,
                              .columns = t->columns,
                              .part_rows = t->part_rows,
                              .part_columns = t->part_columns,
                              .depth = t->depth};
}

static int plans(charl_device *dev, const charl__gemm *p, charl__gemm_plan *out)
{
    const tile *best = p->form == CHARL_GEMM_LOCAL         ? &tiles[TILE_PLAIN]
                       : p->form == CHARL_GEMM_LOCAL_LARGE ? &tiles[TILE_LARGE]
                                                           : best_tile(dev, p);
    int n = 1;

    out[0] = plan_of(best);
    for (int i = 0; i < TILES; i++) {
        if (&tiles[i] != best && can_have(dev, p, &tiles[i])) {
            out[n++] = plan_of(&tiles[i]);
        }
    }
    return n;
}

static bool is_tile_of(const tile *t, const charl__gemm_plan *plan)
{
    return t->rows == plan->rows && t->columns == plan->columns && t->part_rows == plan->part_rows &&
           t->part_columns == plan->part_columns && t->depth == plan->depth;
}

/* If reading an image needs registers too, NVIDIA's compiler may use so many that a compute unit holds fewer work-items than `resident`. */
static void hold_resident(charl_device *dev, const charl__gemm *p, const charl__gemm_plan *plan, charl__launch *l)
{
    const bool wanted =
        p->b.kind >= CHARL_GEMM_WINDOW && p->fold.leaves <= 1 && plan->part_rows * plan->part_columns == 64;

    for (int i = 0; i < TILES && wanted && charl__device_facts_get(dev)->nvidia.wgmma; i++) {
        if (is_tile_of(&tiles[i], plan)) {
            l->sm90a.min_blocks = tiles[i].resident / lanes_of(&tiles[i]);
        }
    }
}

static void set_tile(const charl__gemm *p, const charl__gemm_plan *plan, bool joins, charl__launch *l)
{
    const bool out = !p->epilogue && charl__gemm_is_by_4(&p->out, p->n);
    const charl__kernel_param params[] = {{"TM", plan->rows},
                                          {"TN", plan->columns},
                                          {"PM", plan->part_rows},
                                          {"PN", plan->part_columns},
                                          {"BK", plan->depth},
                                          {"A_V", charl__gemm_reads_by_4(p, true) ? VECTOR : 1},
                                          {"B_V", charl__gemm_reads_by_4(p, false) ? VECTOR : 1},
                                          {"OUT_V", out ? VECTOR : 1},
                                          {"JOIN", joins},
                                          {"WHOLE_K", p->k % plan->depth == 0},
                                          {p->epilogue ? NULL : "CHARL_VEC", VECTOR},
                                          {NULL}};

    charl__launch_set_all(l, params);
}

static charl_status enqueue(charl_device *dev, const charl__gemm *p, const charl__gemm_plan *plan)
{
    const int64_t joined = charl__gemm_joined(p, plan->columns), columns = p->n * joined;
    const double k_tiles = (double)charl__ceil_div(p->k, plan->depth) * (double)charl__at_least_one(p->segments) *
                           (double)charl__at_least_one(p->fold.leaves);
    charl__launch l = {.file = "gemm/gemm_local", .entry = "gemm_local"};
    charl__gemm_args args;

    CHARL_INVARIANT(p->fold.leaves <= CHARL__GEMM_LOCAL_LEAVES && !p->a_sums);
    CHARL_REQUIRE(p->b.kind < CHARL_GEMM_WINDOW || charl__gemm_image_elements(p) <= INT_MAX, CHARL_ERR_SHAPE,
                  "convolution of an image of %lld elements: beyond 2^31", (long long)charl__gemm_image_elements(p));
    CHARL_REQUIRE(k_tiles < INT_MAX, CHARL_ERR_SHAPE,
                  "matrix product whose sums have %.0f terms, in tiles of %d steps: beyond 2^31", k_tiles * plan->depth,
                  plan->depth);
    charl__gemm_set_common(p, &l);
    charl__gemm_set_epilogue(p, VECTOR, &l);
    charl__gemm_set_leaves(p, &l);
    set_tile(p, plan, joined > 1, &l);
    hold_resident(dev, p, plan, &l);
    charl__gemm_describe(p, &args, &l);
    args.columns = (int32_t)columns;
    l.local[0] = (size_t)(plan->rows / plan->part_rows * (plan->columns / plan->part_columns));
    l.global[0] = (size_t)(charl__ceil_div(p->m, plan->rows) * charl__ceil_div(columns, plan->columns) *
                           (charl__at_least_one(p->count) / joined)) *
                  l.local[0];
    return charl__launch_enqueue(dev, &l);
}

const charl__gemm_backend charl__gemm_local = {.name = "local",
                                               .key = "",
                                               .memory = CHARL_GEMM_TILES,
                                               .has_rng = true,
                                               .plans = plans,
                                               .enqueue = enqueue,
                                               .folds = charl__gemm_folds_in_tiles};
