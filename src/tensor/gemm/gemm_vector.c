/* Products on CPUs: kernels/gemm/gemm_vector.cl. */
#include "tensor/gemm/gemm_private.h"

enum {
    BLOCK_ARG = 21,
    ROWS = 8,
    PANEL = 32,
    BLOCK = 384,            /* rows */
    BLOCK_PANELS = 24,      /* of columns, beside that many rows */
    LONGEST_IN_PLACE = 512, /* elements of a row */
};

/* Micro-tiles of a work-item, to choose from. */
static const int down[] = {2, 6, 12, 24, 48}, across[] = {1, 3, 8, 24};

/* Of sums in registers: 8 x 32 in vectors of 16, 4 x 16 where vectors are shorter; a narrow product
 * is not worth more. */
typedef struct micro_tile {
    int rows, columns;
} micro_tile;

static micro_tile tile_of(charl_device *dev, const charl__gemm *p)
{
    const bool wide = p->form != CHARL_GEMM_VECTOR_NARROW && charl__device_facts_get(dev)->vector_width >= 16;

    return (micro_tile){.rows = wide && p->m >= 8 ? 8 : 4, .columns = wide && p->n > PANEL / 2 ? PANEL : PANEL / 2};
}

/* What packing a panel costs, in sixteenths of the time of a micro-tile over its depth; most of it
 * is waiting for memory. */
static int packing(charl__gemm_kind kind)
{
    switch (kind) {
    case CHARL_GEMM_PLAIN:
    case CHARL_GEMM_TRANSPOSED:
        return 16;
    case CHARL_GEMM_TAPS:
    case CHARL_GEMM_WINDOW:
    case CHARL_GEMM_WINDOW_T:
        break;
    }
    return 32;
}

/* Rows of A are read where they lie, not packed: where they are short. Longer ones come faster
 * from a packed block than from pages far apart. */
static bool reads_in_place(const charl__gemm *p, micro_tile t)
{
    return p->a_kind == CHARL_GEMM_PLAIN && p->a->dtype == CHARL_F32 && p->m >= t.rows && p->k <= LONGEST_IN_PLACE;
}

/* Micro-tiles for which a work-item of gemm_vector.cl has memory, and for the levels of a fold. */
static int most_tiles(const charl__gemm *p, int most)
{
    int levels = 0;

    if (p->leaves <= 1) {
        return BLOCK_PANELS * most;
    }
    while ((p->leaves - 1) >> levels != 0) {
        levels++;
    }
    return levels > 2 ? 6 * most / levels : 3 * most;
}

/* Micro-tiles of one work-item, mi * nj: whichever lets the compute units finish first, when a
 * work-item packs mi panels of rows, a quarter as large as those of columns, and nj of columns. A
 * little is added for the compute unit that starts late. */
static void choose_block(charl_device *dev, const charl__gemm *p, micro_tile t, int *mi, int *nj)
{
    const int64_t row_panels = charl__ceil_div(p->m, t.rows), col_panels = charl__ceil_div(p->n, t.columns);
    const int64_t z = charl__at_least_one(p->count), units = charl__gemm_units(dev);
    const int most = BLOCK / t.rows, tiles = most_tiles(p, most);
    const int row_cost = reads_in_place(p, t) ? 1 : packing(p->a_kind) / 4;
    const int rows = (int)(row_panels < most ? row_panels : most);
    const int columns = (int)(col_panels < tiles ? col_panels : tiles);
    int64_t least = INT64_MAX;

    *mi = *nj = 1;
    for (int i = 1; i <= rows && p->form != CHARL_GEMM_VECTOR_SMALL; i++) {
        for (int j = 1; i * j <= tiles && j <= columns; j++) {
            const int64_t items = charl__ceil_div(row_panels, i) * charl__ceil_div(col_panels, j) * z;
            const int64_t cost =
                (16 * charl__ceil_div(items, units) + 1) * (16 * i * j + row_cost * i + packing(p->b_kind) * j + 4);

            if (cost < least) {
                least = cost;
                *mi = i;
                *nj = j;
            }
        }
    }
}

static bool block_fits(charl_device *dev, const charl__gemm *p, int mi, int nj)
{
    const micro_tile t = tile_of(dev, p);
    const int most = BLOCK / t.rows;

    return mi <= most && mi * nj <= most_tiles(p, most) && mi <= charl__ceil_div(p->m, t.rows) &&
           nj <= charl__ceil_div(p->n, t.columns);
}

/* A work-item does all leaves: there must be enough work-items. */
static bool folds(charl_device *dev, const charl__gemm *p)
{
    return charl__ceil_div(p->m, ROWS) * charl__ceil_div(p->n, PANEL) * charl__at_least_one(p->inner) >=
           4 * (int64_t)charl__gemm_units(dev);
}

static int plans(charl_device *dev, const charl__gemm *p, charl__gemm_plan *out)
{
    int n = 1;

    out[0] = (charl__gemm_plan){.backend = &charl__gemm_vector, .form = p->form}; /* choose_block */
    for (int i = 0; i < (int)(sizeof down / sizeof *down); i++) {
        for (int j = 0; j < (int)(sizeof across / sizeof *across); j++) {
            if (block_fits(dev, p, down[i], across[j])) {
                out[n++] = (charl__gemm_plan){
                    .backend = &charl__gemm_vector, .form = CHARL_GEMM_VECTOR, .rows = down[i], .columns = across[j]};
            }
        }
    }
    return n;
}

static charl_status enqueue(charl_device *dev, const charl__gemm *p, const charl__gemm_plan *plan)
{
    const micro_tile t = tile_of(dev, p);
    charl__launch l = {.file = "gemm/gemm_vector",
                       .entry = "gemm_vector",
                       .params = {{"MR", t.rows}, {"NR", t.columns}, {"IN_PLACE", reads_in_place(p, t)}},
                       .local = {1}};
    int mi = plan->rows, nj = plan->columns;

    charl__gemm_set_common(p, &l);
    charl__gemm_set_epilogue(p, 16, &l);
    charl__gemm_set_fold(p, &l);
    if (plan->rows == 0) {
        choose_block(dev, p, t, &mi, &nj);
    }
    l.global[0] = (size_t)(charl__ceil_div(p->m, (int64_t)mi * t.rows) *
                           charl__ceil_div(p->n, (int64_t)nj * t.columns) * charl__at_least_one(p->count));
    charl__gemm_describe(p, &l);
    l.args[BLOCK_ARG] = charl__i32(mi);
    l.args[BLOCK_ARG + 1] = charl__i32(nj);
    return charl__launch_enqueue(dev, &l);
}

const charl__gemm_backend charl__gemm_vector = {.name = "vector",
                                                .key = "",
                                                .memory = CHARL_GEMM_VECTORS,
                                                .has_rng = true,
                                                .plans = plans,
                                                .enqueue = enqueue,
                                                .folds = folds};
