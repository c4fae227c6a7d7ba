/* Products on NVIDIA's tensor cores. The choices made here (tile, how operands are copied) do not
 * affect bits: kernels/nvidia/gemm/gemm_wgmma.cl and gemm_mma.cl explain why. */
#include <limits.h>
#include <math.h>

#include "tensor/gemm/gemm_private.h"

enum {
    ROWS = 128,
    STAGE_K = 64,
    EDGE = 64,
    STAGE_BYTES = 128, /* of a row of tiles for wgmma */
    SHORT_STAGE_BYTES = 64,
    CHUNK_BYTES = 16,
    SPLIT_COST = 16,
    NARROW_TILES = 4, /* of a group, where that is enough of them */
    SHORT_K = 512,
    LEVEL_COST = 9, /* steps in the time in which a node goes to memory and another comes back */
    STORE_COST = 4, /* in which a tile is stored */
    FOLD_COST = 6,  /* in which its part of a matrix is read by another launch */
    ROWS_BYTES = 32768
};

/* groups: that run at a time on a compute unit: registers and local memory allow no more */
typedef struct tile {
    const char *file, *entry;
    int columns, stages, items, groups;
    int words;  /* bytes after the stages */
    int a_sums; /* bytes for sums of A */
} tile;

static const tile narrow = {"nvidia/gemm/gemm_wgmma", "gemm_wgmma", 128, 3, 256, 2, 0, 4096};
static const tile wide = {"nvidia/gemm/gemm_roles", "gemm_roles", 256, 4, 384, 1, 512, 0};
static const tile of_mma = {"nvidia/gemm/gemm_mma", "gemm_mma", 128, 3, 128, 2, 0, 0};

static bool takes(charl_device *dev, charl_dtype type)
{
    return charl__device_has_nvidia_cores(dev, type);
}

/* Layouts only, not alignment or extents, because it decides the bits. */
static bool supports(charl_device *dev, const charl__gemm *p)
{
    (void)dev;
    return (p->a.kind == CHARL_GEMM_PLAIN || p->a.kind == CHARL_GEMM_TRANSPOSED) &&
           (p->b.kind == CHARL_GEMM_PLAIN || p->b.kind == CHARL_GEMM_TRANSPOSED) && p->segments <= 1 &&
           (p->fold.leaves <= 1 || p->fold.levels);
}

/* Of what goes to tensor cores: whether by gemm_mma.cl. */
static bool is_mma(charl_device *dev, const charl__gemm *p)
{
    return p->a.tensor->dtype == CHARL_F32 || !charl__device_facts_get(dev)->nvidia.wgmma;
}

static bool sums_a(charl_device *dev, const charl__gemm *p)
{
    (void)dev;
    return p->a.tensor->dtype != CHARL_F32 && p->a.kind == CHARL_GEMM_TRANSPOSED;
}

/* How a launch assigns its tiles: kernels/nvidia/gemm/tile_order.clh. */
typedef struct assignment {
    int64_t groups;
    bool is_split;
    int rounds; /* of whole tiles, before those that are divided */
} assignment;

/* How a product is launched. */
typedef struct plan {
    const tile *tile;
    int64_t tiles;
    assignment assignment;
    charl__matrix a, b;
} plan;

static charl__matrix matrix_of(charl__arg_kind use, const charl__gemm_matrix *x, int64_t rows, int64_t columns)
{
    const bool transposed = x->kind == CHARL_GEMM_TRANSPOSED;

    return (charl__matrix){.first = charl__gemm_operand(use, x->tensor, x->at),
                           .rows = transposed ? columns : rows,
                           .length = transposed ? rows : columns,
                           .pitch = transposed ? rows : columns,
                           .outer = x->outer,
                           .inner = x->inner};
}

static void set_operands(const charl__gemm *p, plan *x)
{
    x->a = matrix_of(CHARL_ARG_IN, &p->a, p->m, p->k);
    x->b = matrix_of(CHARL_ARG_IN, &p->b, p->k, p->n);
}

static int64_t count_tiles(const charl__gemm *p, const tile *t)
{
    return charl__ceil_div(p->m, ROWS) * charl__ceil_div(p->n, t->columns) * charl__at_least_one(p->count);
}

/* Columns of the last wide tile of a row, if these are 64 or 128, which have separate programs; else 0. */
static int edge_of(const charl__gemm *p)
{
    const int64_t columns = charl__ceil_div(p->n % wide.columns, EDGE) * EDGE;

    return columns <= 2 * EDGE ? (int)columns : 0;
}

/* Columns that wide tiles of a row multiply. */
static int64_t wide_columns(const charl__gemm *p)
{
    const int edge = edge_of(p);

    return edge > 0 ? p->n / wide.columns * wide.columns + edge : charl__ceil_div(p->n, wide.columns) * wide.columns;
}

/* The wide tile reads a quarter less memory per product. It is used where its columns are nearly full and some compute unit would get two narrow
 * tiles, which take it longer than one wide tile. However, a compute unit runs one group of wide tiles, so nothing overlaps with an epilogue; with
 * narrow tiles another group multiplies meanwhile. Therefore products of short sums with an epilogue use narrow tiles. At k = 768 wide tiles are
 * faster (docs/benchmarks.md); shorter sums have not been measured. */
static bool is_wide(charl_device *dev, const charl__gemm *p)
{
    return charl__device_facts_get(dev)->nvidia.tensor_maps && 8 * wide_columns(p) <= 9 * p->n &&
           !(p->epilogue && p->k <= SHORT_K) && count_tiles(p, &narrow) > charl_device_get_info(dev)->compute_units;
}

/* has_chunks: rows of both operands begin at multiples of 16 bytes, without which the copy engine does not take them. */
static const tile *choose_tile(charl_device *dev, const charl__gemm *p, bool has_chunks)
{
    if (is_mma(dev, p)) {
        return &of_mma;
    }
    if (!has_chunks || p->k == 0 || !charl__device_facts_get(dev)->nvidia.tensor_maps) {
        return &narrow;
    }
    if (p->fold.levels) {
        return &wide;
    }
    switch (p->form) {
    case CHARL_GEMM_TENSOR_CORE:
        return &narrow;
    case CHARL_GEMM_TENSOR_CORE_WIDE:
    case CHARL_GEMM_TENSOR_CORE_SPLIT:
        return &wide;
    default:
        return is_wide(dev, p) ? &wide : &narrow;
    }
}

/* Whether half of a tree's nodes stay in local memory, with shorter stages: if rows of both operands are k, as in gradients of weights. */
static bool has_local_level(const charl__gemm *p)
{
    return p->fold.levels && p->a.kind == CHARL_GEMM_TRANSPOSED && p->b.kind == CHARL_GEMM_PLAIN;
}

int64_t charl__gemm_levels(charl_device *dev, int levels)
{
    return (int64_t)levels * charl_device_get_info(dev)->compute_units * ROWS * wide.columns;
}

/* Time of so many leaves if nodes of 2^levels of them are computed in the same launch, in steps of a work-group: its tiles, and its share
 * of the launch that adds up the nodes. */
static double fold_cost(charl_device *dev, const charl__gemm *p, int leaves, int levels)
{
    const int inside = 1 << levels, nodes = leaves / inside;
    const double units = charl_device_get_info(dev)->compute_units;
    const double tiles = (double)(charl__ceil_div(p->m, ROWS) * wide_columns(p)) / wide.columns;
    const double one = inside * (double)charl__ceil_div(p->k, STAGE_K) + (inside - 1) * LEVEL_COST + STORE_COST;
    const double each = tiles * nodes / units;
    const double rounds = levels > 0 ? ceil(each) : each + SPLIT_COST / one;

    return rounds * one + (nodes > 1 ? (nodes + 1) * tiles / units * FOLD_COST : 0.0);
}

static int fold_levels(charl_device *dev, const charl__gemm *p, int most)
{
    double least = 0.9 * fold_cost(dev, p, (int)p->count, 0); /* an estimate: only if it is clearly less */
    int best = 0;
    plan x = {0};

    set_operands(p, &x);
    if (p->k == 0 || !charl__gemm_can_pad(p, &x.a) || !charl__gemm_can_pad(p, &x.b)) {
        return 0;
    }
    if (p->form != CHARL_GEMM_AUTO || is_mma(dev, p) || !is_wide(dev, p) || p->inner > 1 ||
        p->out.outer != p->m * p->n) {
        return 0;
    }
    for (int levels = 1; levels <= most; levels++) {
        const int64_t nodes = p->count >> levels, beside = nodes > 1 ? nodes : 0;
        const double cost = fold_cost(dev, p, (int)p->count, levels);

        if ((p->count - beside) * p->out.outer >= charl__gemm_levels(dev, levels) + CHUNK_BYTES && cost < least) {
            least = cost;
            best = levels;
        }
    }
    return best;
}

/* Compute units may be occupied by another launch, such as an all-reduce. A group that starts late must not delay the launch by a fixed share
 * of the tiles. Therefore narrow tiles have many short groups; groups of wide tiles, which take longer to start, fetch tiles from a counter.
 *
 * Splitting the last tiles (stream-K) avoids idle compute units in the last round. It costs each group about SPLIT_COST steps, in which sums
 * go through memory, and concurrent groups share less of the cache, so it is not worth a gain of a few percent. */
static assignment assign_tiles(charl_device *dev, const charl__gemm *p, const tile *t, int64_t tiles)
{
    const int64_t units = charl_device_get_info(dev)->compute_units;
    const int64_t most =
        t == &wide && units > CHARL_SPLIT_K_GROUPS ? CHARL_SPLIT_K_GROUPS : t->groups * units; /* maps */
    const int64_t steps = charl__ceil_div(p->k, STAGE_K);
    const bool can_split =
        t != &narrow && !p->fold.levels && (t != &of_mma || !p->a_sums); /* which does not pass sums of A on */
    assignment d = {.groups = tiles < most ? tiles : most};

    if (p->form == CHARL_GEMM_TENSOR_CORE_SPLIT && can_split) {
        d.is_split = true;
        d.groups = charl__ceil_div(2 * d.groups, 3); /* small products can be cut as well */
    } else if (p->form == CHARL_GEMM_AUTO && can_split && tiles > d.groups) {
        const int64_t idle = (d.groups - tiles % d.groups) % d.groups;

        d.is_split = d.groups <= CHARL_SPLIT_K_GROUPS && 12 * idle > tiles && idle * steps > SPLIT_COST * d.groups;
    }
    if (t == &narrow && d.groups < charl__ceil_div(tiles, NARROW_TILES)) {
        d.groups = charl__ceil_div(tiles, NARROW_TILES);
    }
    d.rounds = d.is_split ? (int)(tiles / d.groups) - 1 : 0;
    return d;
}

/* Whether every row of t, which has the layout of out, begins at a multiple of so many bytes; true without t. */
static bool is_by(const charl__gemm *p, const charl_tensor *t, int64_t at, int bytes)
{
    const charl__gemm_matrix like = {t, .at = at, .outer = p->out.outer, .inner = p->out.inner};
    const charl__matrix x = matrix_of(CHARL_ARG_OUT, &like, p->m, p->n);

    return !t || charl__matrix_is_aligned(&x, bytes / (int)charl_dtype_size(t->dtype));
}

bool charl__gemm_writes_by_8(const charl__gemm *p)
{
    const charl__gemm_epilogue *e = p->epilogue;
    bool all = is_by(p, p->out.tensor, p->out.at, 8) && (!p->bias || p->bias->offset % 2 == 0);

    if (e) {
        all = all && is_by(p, e->product, 0, 8);
        for (int i = 0; i < e->n_in; i++) {
            all = all && is_by(p, e->in[i], 0, 8);
        }
    }
    return all;
}

bool charl__gemm_writes_by_16(const charl__gemm *p)
{
    const charl_tensor *product = p->epilogue ? p->epilogue->product : NULL;

    return charl__gemm_writes_by_8(p) &&
           (p->out.tensor->dtype != CHARL_F32 || is_by(p, p->out.tensor, p->out.at, 16)) &&
           (!product || product->dtype != CHARL_F32 || is_by(p, product, 0, 16));
}

/* Stored in whole rows through local memory. */
static bool is_by_rows(const charl__gemm *p, const tile *t)
{
    return t == &wide && p->out.tensor->dtype != CHARL_F32 && !p->a_sums;
}

static int levels_of(const charl__gemm *p)
{
    int levels = 0;

    while (1 << levels < p->fold.leaves) {
        levels++;
    }
    return levels;
}

static void set_params(const charl__gemm *p, const plan *x, charl__launch *l)
{
    const tile *t = x->tile;
    const int size = (int)charl_dtype_size(p->a.tensor->dtype);
    const charl__kernel_param params[] = {{"ACT", .text = charl__kernel_type(p->a.tensor->dtype)},
                                          {"IS_F16", p->a.tensor->dtype == CHARL_F16},
                                          {"OUT_T", .text = charl__kernel_type(p->out.tensor->dtype)},
                                          {"A_KIND", p->a.kind},
                                          {"B_KIND", p->b.kind},
                                          {"BIAS", p->bias_kind},
                                          {"A_BY_16", charl__matrix_is_aligned(&x->a, CHUNK_BYTES / size)},
                                          {"B_BY_16", charl__matrix_is_aligned(&x->b, CHUNK_BYTES / size)},
                                          {"OUT_BY_8", charl__gemm_writes_by_8(p)},
                                          {"SPLIT", x->assignment.is_split},
                                          {"A_SUMS", p->a_sums != NULL},
                                          {"BN", t->columns},
                                          {"STAGES", t->stages},
                                          {"SIZE", size},
                                          {"OUT_BY_16", charl__gemm_writes_by_16(p)},
                                          {"WHOLE_ROWS", is_by_rows(p, t)},
                                          {NULL}};
    const charl__kernel_param of_wide[] = {{"ROWS_BY_16", is_by(p, p->out.tensor, p->out.at, 16)},
                                           {"LEVELS", levels_of(p)},
                                           {"LOCAL_LEVEL", has_local_level(p)},
                                           {"EDGE", edge_of(p)},
                                           {NULL}};

    charl__gemm_set_epilogue(p, 4, l);
    charl__launch_set_all(l, params);
    if (t == &wide) {
        charl__launch_set_all(l, of_wide);
    }
}

static void set_tiles(charl_device *dev, const charl__gemm *p, plan *x)
{
    const int chunk = CHUNK_BYTES / (int)charl_dtype_size(p->a.tensor->dtype);

    x->tile = choose_tile(dev, p, charl__matrix_is_aligned(&x->a, chunk) && charl__matrix_is_aligned(&x->b, chunk));
    x->tiles = count_tiles(p, x->tile);
    x->assignment = assign_tiles(dev, p, x->tile, x->tiles);
}

/* Local memory; of mma.sync's kernel the front end knows it. */
static int64_t local_bytes(const charl__gemm *p, const tile *t)
{
    const bool is_local = has_local_level(p);
    const int64_t row = is_local ? SHORT_STAGE_BYTES : STAGE_BYTES;

    if (t == &of_mma) {
        return 0;
    }
    return t->stages * (ROWS + t->columns) * row + t->words + (p->a_sums ? t->a_sums : 0) +
           (is_by_rows(p, t) ? ROWS_BYTES : 0) + (is_local ? ROWS * t->columns * (int64_t)sizeof(float) : 0);
}

static charl_status launch(charl_device *dev, const charl__gemm *p, const plan *x)
{
    const tile *t = x->tile;
    uint64_t none; /* the workspace begins at 0 */
    charl__launch l = {
        .file = t->file,
        .entry = t->entry,
        .global = {(size_t)(x->assignment.groups * t->items)},
        .local = {(size_t)t->items},
        .sm90a.shared_bytes = local_bytes(p, t),
        .sm90a.min_blocks = t == &of_mma ? 0 : t->groups,
    };
    charl__gemm_args args;

    set_params(p, x, &l);
    charl__gemm_describe(p, &args, &l);
    l.args[0] = charl__placed(x->a.first, &args.a); /* a copy, perhaps */
    l.args[1] = charl__placed(x->b.first, &args.b);
    args.a_outer = x->a.outer;
    args.a_inner = x->a.inner;
    args.b_outer = x->b.outer;
    args.b_inner = x->b.inner;
    args.a_pitch = (int32_t)x->a.pitch;
    args.b_pitch = (int32_t)x->b.pitch;
    args.tiles = (int32_t)x->tiles;
    args.rounds = x->assignment.rounds;
    charl__launch_add(&l, charl__placed(charl__gemm_operand(CHARL_ARG_OUT, p->a_sums, p->a_sums_at), &args.a_sums));
    charl__launch_add(&l, charl__placed(charl__raw(CHARL_ARG_INOUT, charl__workspace_split_k(dev)), &none));
    charl__launch_add(
        &l, charl__placed(charl__gemm_operand(CHARL_ARG_INOUT, p->fold.levels, p->fold.levels_at), &args.levels));
    return charl__launch_enqueue(dev, &l);
}

static int plans(charl_device *dev, const charl__gemm *p, charl__gemm_plan *out)
{
    static const charl__gemm_form forms[] = {CHARL_GEMM_TENSOR_CORE, CHARL_GEMM_TENSOR_CORE_WIDE};
    int n = 1;

    (void)dev;
    out[0] = (charl__gemm_plan){.backend = &charl__gemm_tensor_cores, .form = p->form};
    for (int i = 0; i < 2; i++) {
        if (forms[i] != p->form) {
            out[n++] = (charl__gemm_plan){.backend = &charl__gemm_tensor_cores, .form = forms[i]};
        }
    }
    return n;
}

static charl_status enqueue(charl_device *dev, const charl__gemm *p, const charl__gemm_plan *chosen)
{
    charl__gemm q = *p, leaves = *p;
    plan x = {0};

    CHARL_INVARIANT(!p->epilogue || !p->epilogue->record);
    q.form = chosen->form;
    set_operands(&q, &x);
    leaves.form = q.form;
    leaves.count = charl__at_least_one(p->count) * charl__at_least_one(p->fold.leaves);
    if (p->a.tensor->dtype != CHARL_F32) { /* single elements of f32 can be copied beside the products */
        CHARL_TRY(charl__gemm_pad(dev, &leaves, &x.a, &x.b));
    }
    set_tiles(dev, &q, &x);
    CHARL_INVARIANT(!p->fold.levels || x.tile == &wide);
    CHARL_REQUIRE(x.tiles * charl__at_least_one(p->fold.leaves) + x.assignment.groups <= INT_MAX, CHARL_ERR_SHAPE,
                  "matrix product of %lld x %lld x %lld, %lld times: %lld tiles are beyond 2^31", (long long)p->m,
                  (long long)p->n, (long long)p->k, (long long)charl__at_least_one(p->count), (long long)x.tiles);
    CHARL_TRY(launch(dev, &q, &x));
    return CHARL_OK;
}

const charl__gemm_backend charl__gemm_tensor_cores = {.name = "tensor_core",
                                                      .key = " cores",
                                                      .memory = CHARL_GEMM_UNITS,
                                                      .has_own_bits = true,
                                                      .has_slow_epilogue = true,
                                                      .takes = takes,
                                                      .supports = supports,
                                                      .plans = plans,
                                                      .enqueue = enqueue,
                                                      .sums_a = sums_a,
                                                      .fold_levels = fold_levels};
