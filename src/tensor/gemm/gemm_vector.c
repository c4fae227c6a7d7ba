/* Products on CPUs, in vectors or on the matrix unit of x86: kernels/gemm/gemm_vector.cl. */
#include "tensor/gemm/gemm_private.h"

enum {
    ROWS = 8,
    PANEL = 32,
    TILE = 16,              /* rows and columns of sums in a register of the matrix unit */
    STEPS = 32,             /* of k, of an instruction there */
    LONGEST_IN_PLACE = 512, /* elements of a row */
};

/* Micro-tiles of a work-item, to choose from. */
static const int down[] = {2, 6, 12, 24, 48}, across[] = {1, 3, 8, 24};

/* How a work-item computes its block. */
typedef struct blocking {
    bool amx;
    int rows, columns; /* of a micro-tile, whose sums are in registers */
    /* micro-tiles down at most, and across beside so many: as much memory as a thread has */
    int most, beside;
} blocking;

/* 8 x 32 in vectors of 16, 4 x 16 where vectors are shorter; a narrow product is not worth more. */
static blocking vectors_for(charl_device *dev, const charl__gemm *p)
{
    const bool wide = p->form != CHARL_GEMM_VECTOR_NARROW && charl__device_facts_get(dev)->vector_width >= 16;
    const int rows = wide && p->m >= ROWS ? ROWS : ROWS / 2;

    return (blocking){
        .rows = rows, .columns = wide && p->n > PANEL / 2 ? PANEL : PANEL / 2, .most = 384 / rows, .beside = 24};
}

/* Whether A and B swap roles on the matrix unit, and the product accordingly. The unit reads rows of A in place, but B must be packed by columns. If
 * these are rows in memory, like those of weights, and A has at most half as many rows, packing A instead is cheaper. The sums do not change. */
static bool swap_operands(const charl__gemm *p, charl__gemm *out)
{
    const bool swaps =
        p->a.kind == CHARL_GEMM_PLAIN && p->b.kind == CHARL_GEMM_TRANSPOSED && p->k % STEPS == 0 && 2 * p->m <= p->n;

    *out = *p;
    if (swaps) {
        out->a = p->b;
        out->b = p->a;
        out->m = p->n;
        out->n = p->m;
        out->a.kind = CHARL_GEMM_PLAIN;
        out->b.kind = CHARL_GEMM_TRANSPOSED;
    }
    return swaps;
}

static blocking tiles_for(const charl__gemm *p)
{
    const int rows = p->m > TILE ? 2 * TILE : TILE;

    return (blocking){
        .amx = true, .rows = rows, .columns = p->n > TILE ? 2 * TILE : TILE, .most = 512 / rows, .beside = 12};
}

/* Cost of packing a panel, in sixteenths of the time of a micro-tile over its depth; most of it
 * is memory latency. */
static int packing(charl__gemm_kind kind, const blocking *t)
{
    const int cost = kind == CHARL_GEMM_PLAIN || kind == CHARL_GEMM_TRANSPOSED ? 16 : 32;

    return t->amx ? 3 * cost : cost;
}

/* Rows of A are read in place, not packed. For f32 only if they are short: longer ones are faster from a packed block than from
 * pages far apart. */
static bool reads_in_place(const charl__gemm *p, const blocking *t)
{
    const bool can =
        t->amx ? p->k % STEPS == 0 : p->a.tensor->dtype == CHARL_F32 && p->m >= t->rows && p->k <= LONGEST_IN_PLACE;

    return p->a.kind == CHARL_GEMM_PLAIN && can;
}

/* The same for a panel of A, which is as tall as a micro-tile. */
static int packing_rows(const charl__gemm *p, const blocking *t)
{
    return reads_in_place(p, t) ? 1 : t->amx ? packing(p->a.kind, t) : packing(p->a.kind, t) / 4;
}

/* Micro-tiles for which gemm_vector.cl has sums, and how many it has for the levels of a fold. */
static int tiles_of(const charl__gemm *p, const blocking *t)
{
    return (p->fold.leaves > 1 ? 3 : t->beside) * t->most;
}

static int kept_of(const charl__gemm *p, const blocking *t)
{
    return p->fold.leaves > 1 ? 6 * t->most : 0;
}

/* So many can a work-item compute. */
static int most_tiles(const charl__gemm *p, const blocking *t)
{
    const int tiles = tiles_of(p, t);
    int levels = 0;

    while (p->fold.leaves > 1 && (p->fold.leaves - 1) >> levels != 0) {
        levels++;
    }
    return levels * tiles > kept_of(p, t) && levels > 0 ? kept_of(p, t) / levels : tiles;
}

/* Micro-tiles of one work-item, mi * nj: the numbers with which the compute units finish first, if a
 * work-item packs mi panels of rows and nj of columns. A little is added for the compute unit that
 * starts late. */
static void choose_block(charl_device *dev, const charl__gemm *p, const blocking *t, int *mi, int *nj)
{
    const int64_t row_panels = charl__ceil_div(p->m, t->rows), col_panels = charl__ceil_div(p->n, t->columns);
    const int64_t z = charl__at_least_one(p->count), units = charl__gemm_units(dev);
    const int tiles = most_tiles(p, t), row_cost = packing_rows(p, t), column_cost = packing(p->b.kind, t);
    const int rows = (int)(row_panels < t->most ? row_panels : t->most);
    const int columns = (int)(col_panels < tiles ? col_panels : tiles);
    int64_t least = INT64_MAX;

    *mi = *nj = 1;
    for (int i = 1; i <= rows && p->form != CHARL_GEMM_VECTOR_SMALL; i++) {
        for (int j = 1; i * j <= tiles && j <= columns; j++) {
            const int64_t items = charl__ceil_div(row_panels, i) * charl__ceil_div(col_panels, j) * z;
            const int64_t cost =
                (16 * charl__ceil_div(items, units) + 1) * (16 * i * j + row_cost * i + column_cost * j + 4);

            if (cost < least) {
                least = cost;
                *mi = i;
                *nj = j;
            }
        }
    }
}

static bool block_fits(const charl__gemm *p, const blocking *t, int mi, int nj)
{
    return mi <= t->most && mi * nj <= most_tiles(p, t) && mi <= charl__ceil_div(p->m, t->rows) &&
           nj <= charl__ceil_div(p->n, t->columns);
}

/* A work-item processes all leaves: there must be enough work-items. */
static bool folds_tiles(charl_device *dev, const charl__gemm *p, int rows)
{
    return charl__ceil_div(p->m, rows) * charl__ceil_div(p->n, PANEL) * charl__at_least_one(p->inner) >=
           4 * (int64_t)charl__gemm_units(dev);
}

static bool folds(charl_device *dev, const charl__gemm *p)
{
    return folds_tiles(dev, p, ROWS);
}

static bool amx_folds(charl_device *dev, const charl__gemm *p)
{
    return folds_tiles(dev, p, 2 * TILE);
}

/* For one of the two back ends. The first lets choose_block choose the block. */
static int plans_by(const charl__gemm_backend *b, const charl__gemm *p, blocking t, charl__gemm_plan *out)
{
    int n = 1;

    out[0] = (charl__gemm_plan){.backend = b, .form = p->form};
    for (int i = 0; i < (int)(sizeof down / sizeof *down); i++) {
        for (int j = 0; j < (int)(sizeof across / sizeof *across); j++) {
            if (block_fits(p, &t, down[i], across[j])) {
                out[n++] =
                    (charl__gemm_plan){.backend = b, .form = CHARL_GEMM_VECTOR, .rows = down[i], .columns = across[j]};
            }
        }
    }
    return n;
}

static int plans(charl_device *dev, const charl__gemm *p, charl__gemm_plan *out)
{
    return plans_by(&charl__gemm_vector, p, vectors_for(dev, p), out);
}

static int amx_plans(charl_device *dev, const charl__gemm *p, charl__gemm_plan *out)
{
    charl__gemm q;

    (void)dev;
    swap_operands(p, &q);
    return plans_by(&charl__gemm_amx, &q, tiles_for(&q), out);
}

static charl_status enqueue_by(charl_device *dev, const charl__gemm *p, const blocking *t, bool swaps,
                               const charl__gemm_plan *plan)
{
    charl__launch l = {.file = "gemm/gemm_vector",
                       .entry = "gemm_vector",
                       .params = {{"MR", t->rows},
                                  {"NR", t->columns},
                                  {"MI", t->most},
                                  {"TILES", tiles_of(p, t)},
                                  {"KEPT", kept_of(p, t)},
                                  {"IN_PLACE", reads_in_place(p, t)},
                                  {"AMX", t->amx},
                                  {"SWAP", swaps}},
                       .local = {1}};
    charl__gemm_args args;
    int mi = plan->rows, nj = plan->columns;

    charl__gemm_set_common(p, &l);
    charl__gemm_set_epilogue(p, 16, &l);
    charl__gemm_set_fold(p, &l);
    if (plan->rows == 0) {
        choose_block(dev, p, t, &mi, &nj);
    }
    l.global[0] = (size_t)(charl__ceil_div(p->m, (int64_t)mi * t->rows) *
                           charl__ceil_div(p->n, (int64_t)nj * t->columns) * charl__at_least_one(p->count));
    charl__gemm_describe(p, &args, &l);
    args.mi = mi;
    args.nj = nj;
    return charl__launch_enqueue(dev, &l);
}

static charl_status enqueue(charl_device *dev, const charl__gemm *p, const charl__gemm_plan *plan)
{
    const blocking t = vectors_for(dev, p);

    return enqueue_by(dev, p, &t, false, plan);
}

static charl_status amx_enqueue(charl_device *dev, const charl__gemm *p, const charl__gemm_plan *plan)
{
    charl__gemm q;
    const bool swaps = swap_operands(p, &q);
    const blocking t = tiles_for(&q);

    return enqueue_by(dev, &q, &t, swaps, plan);
}

static bool amx_takes(charl_device *dev, charl_dtype type)
{
    return type == CHARL_BF16 && charl__device_facts_get(dev)->x86.amx;
}

const charl__gemm_backend charl__gemm_vector = {.name = "vector",
                                                .key = "",
                                                .memory = CHARL_GEMM_VECTORS,
                                                .has_rng = true,
                                                .plans = plans,
                                                .enqueue = enqueue,
                                                .folds = folds};

const charl__gemm_backend charl__gemm_amx = {.name = "amx",
                                             .key = " amx",
                                             .memory = CHARL_GEMM_UNITS,
                                             .has_own_bits = true,
                                             .has_rng = true,
                                             .takes = amx_takes,
                                             .plans = amx_plans,
                                             .enqueue = amx_enqueue,
                                             .folds = amx_folds};
