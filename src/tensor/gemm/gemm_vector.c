/* Products on CPUs, in vectors or on the matrix unit of x86: kernels/gemm/gemm_vector.cl. */
#include "tensor/gemm/gemm_private.h"

enum {
    BLOCK_ARG = 21,
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
    int most;          /* micro-tiles down at most, ... */
    int beside;        /* ... and, of so many down, across */
} blocking;

/* 8 x 32 in vectors of 16, 4 x 16 where vectors are shorter; a narrow product is not worth more. */
static blocking vectors_for(charl_device *dev, const charl__gemm *p)
{
    const bool wide = p->form != CHARL_GEMM_VECTOR_NARROW && charl__device_facts_get(dev)->vector_width >= 16;
    const int rows = wide && p->m >= ROWS ? ROWS : ROWS / 2;

    return (blocking){
        .rows = rows, .columns = wide && p->n > PANEL / 2 ? PANEL : PANEL / 2, .most = 384 / rows, .beside = 24};
}

static blocking tiles_for(const charl__gemm *p)
{
    const int rows = p->m > TILE ? 2 * TILE : TILE;

    return (blocking){
        .amx = true, .rows = rows, .columns = p->n > TILE ? 2 * TILE : TILE, .most = 512 / rows, .beside = 12};
}

/* What packing a panel costs, in sixteenths of the time of a micro-tile over its depth; most of it
 * is waiting for memory. */
static int packing(charl__gemm_kind kind, const blocking *t)
{
    const int cost = kind == CHARL_GEMM_PLAIN || kind == CHARL_GEMM_TRANSPOSED ? 16 : 32;

    return t->amx ? 3 * cost : cost;
}

/* Rows of A are read where they lie, not packed. Of f32, where they are short: longer ones come faster from a packed block than from
 * pages far apart. */
static bool reads_in_place(const charl__gemm *p, const blocking *t)
{
    const bool can =
        t->amx ? p->k % STEPS == 0 : p->a->dtype == CHARL_F32 && p->m >= t->rows && p->k <= LONGEST_IN_PLACE;

    return p->a_kind == CHARL_GEMM_PLAIN && can;
}

/* The same for a panel of A, which is as tall as a micro-tile. */
static int packing_rows(const charl__gemm *p, const blocking *t)
{
    return reads_in_place(p, t) ? 1 : t->amx ? packing(p->a_kind, t) : packing(p->a_kind, t) / 4;
}

/* Micro-tiles for which a work-item of gemm_vector.cl has memory, and for the levels of a fold. */
static int most_tiles(const charl__gemm *p, const blocking *t)
{
    int levels = 0;

    if (p->leaves <= 1) {
        return t->beside * t->most;
    }
    while ((p->leaves - 1) >> levels != 0) {
        levels++;
    }
    return levels > 2 ? 6 * t->most / levels : 3 * t->most;
}

/* Micro-tiles of one work-item, mi * nj: whichever lets the compute units finish first, when a
 * work-item packs mi panels of rows, a quarter as large as those of columns, and nj of columns. A
 * little is added for the compute unit that starts late. */
static void choose_block(charl_device *dev, const charl__gemm *p, const blocking *t, int *mi, int *nj)
{
    const int64_t row_panels = charl__ceil_div(p->m, t->rows), col_panels = charl__ceil_div(p->n, t->columns);
    const int64_t z = charl__at_least_one(p->count), units = charl__gemm_units(dev);
    const int tiles = most_tiles(p, t), row_cost = packing_rows(p, t), column_cost = packing(p->b_kind, t);
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

/* A work-item does all leaves: there must be enough work-items. */
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

/* Of both back ends; the first as choose_block has it. */
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
    (void)dev;
    return plans_by(&charl__gemm_amx, p, tiles_for(p), out);
}

static charl_status enqueue(charl_device *dev, const charl__gemm *p, const charl__gemm_plan *plan)
{
    const blocking t = plan->backend == &charl__gemm_amx ? tiles_for(p) : vectors_for(dev, p);
    charl__launch l = {
        .file = "gemm/gemm_vector",
        .entry = "gemm_vector",
        .params = {{"MR", t.rows}, {"NR", t.columns}, {"IN_PLACE", reads_in_place(p, &t)}, {"AMX", t.amx}},
        .local = {1}};
    int mi = plan->rows, nj = plan->columns;

    charl__gemm_set_common(p, &l);
    charl__gemm_set_epilogue(p, 16, &l);
    charl__gemm_set_fold(p, &l);
    if (plan->rows == 0) {
        choose_block(dev, p, &t, &mi, &nj);
    }
    l.global[0] = (size_t)(charl__ceil_div(p->m, (int64_t)mi * t.rows) *
                           charl__ceil_div(p->n, (int64_t)nj * t.columns) * charl__at_least_one(p->count));
    charl__gemm_describe(p, &l);
    l.args[BLOCK_ARG] = charl__i32(mi);
    l.args[BLOCK_ARG + 1] = charl__i32(nj);
    return charl__launch_enqueue(dev, &l);
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
                                             .enqueue = enqueue,
                                             .folds = amx_folds};
