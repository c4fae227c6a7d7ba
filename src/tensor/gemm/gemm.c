/* Choice of a product's form, and its launch. All forms give the same bits except tensor cores, whose use depends on the device and the
 * operands' types and layouts only. */
#include "tensor/gemm/gemm_private.h"

#include <limits.h>
#include <stdio.h>

enum {
    BLOCK_ARG = 21,
    GROUP = 256,
    PANEL = 32,
    BLOCK = 384,       /* rows */
    BLOCK_PANELS = 24, /* of columns, beside that many rows */
    LONGEST_LINE = 1024,
    LONGEST_IN_PLACE = 512, /* elements of a row */
    LOCAL_SUM = 256,        /* elements of all leaves */
    COLUMN_CHUNK = 256      /* of kernels/reduce/reduce.cl */
};

bool charl__gemm_is_local(charl_device *dev, const charl_gemm *p)
{
    switch (p->form) {
    case CHARL_GEMM_LOCAL:
    case CHARL_GEMM_LOCAL_LARGE:
    case CHARL_GEMM_LOCAL_SMALL:
        return true;
    case CHARL_GEMM_VECTOR:
    case CHARL_GEMM_VECTOR_SMALL:
    case CHARL_GEMM_VECTOR_NARROW:
        return false;
    case CHARL_GEMM_AUTO:
    case CHARL_GEMM_TENSOR_CORE: /* fall back like AUTO */
    case CHARL_GEMM_TENSOR_CORE_WIDE:
    case CHARL_GEMM_TENSOR_CORE_SPLIT:
    case CHARL_GEMM_TENSOR_CORE_PADDED:
        break;
    }
    return charl__device_facts(dev)->tiles_in_local && charl_device_get_info(dev)->max_group >= GROUP;
}

int charl__gemm_units(charl_device *dev)
{
    const int n = charl_device_get_info(dev)->compute_units;

    return n > 1 ? n : 1;
}

/* A work-group that folds keeps the levels of the tree in registers, and does all leaves by itself:
 * they must be few and short. */
static bool folds_locally(charl_device *dev, const charl_gemm *p)
{
    const int64_t leaves = charl__at_least_one(p->count) / charl__at_least_one(p->inner);

    return leaves <= CHARL__GEMM_LOCAL_LEAVES && p->k > 0 && !charl__gemm_uses_tensor_cores(dev, p) &&
           leaves * p->k * charl__at_least_one(p->segments) <= LOCAL_SUM;
}

/* Without work-groups a work-item does that: there must be enough work-items. */
bool charl__gemm_folds(charl_device *dev, const charl_gemm *p)
{
    if (charl__gemm_is_local(dev, p)) {
        return folds_locally(dev, p);
    }
    return charl__ceil_div(p->m, 8) * charl__ceil_div(p->n, PANEL) * charl__at_least_one(p->inner) >=
           4 * (int64_t)charl__gemm_units(dev);
}

bool charl__gemm_folds_sums(charl_device *dev, const charl_gemm *p)
{
    charl_gemm folded = *p;

    folded.leaves = 2;
    return charl__gemm_is_local(dev, p) && p->a_kind == CHARL_GEMM_TRANSPOSED && p->inner <= 1 && p->segments <= 1 &&
           p->k <= COLUMN_CHUNK && p->a->dtype == CHARL_F32 &&
           charl__gemm_guess(dev, &folded).form == CHARL_GEMM_LOCAL_SMALL;
}

static charl_status check(const charl_gemm *p)
{
    const int64_t largest = INT_MAX - 4096;

    CHARL_REQUIRE(p->m <= largest && p->n <= largest && p->k <= largest && p->segments <= largest, CHARL_ERR_SHAPE,
                  "matrix product of %lld x %lld x %lld: an extent is beyond 2^31", (long long)p->m, (long long)p->n,
                  (long long)p->k);
    CHARL_REQUIRE(p->a->dtype == p->b->dtype && charl__is_float(p->a->dtype) && charl__is_float(p->out->dtype) &&
                      (!p->bias || p->bias->dtype == CHARL_F32),
                  CHARL_ERR_DTYPE, "matrix product of %s and %s with result in %s", charl_dtype_name(p->a->dtype),
                  charl_dtype_name(p->b->dtype), charl_dtype_name(p->out->dtype));
    return CHARL_OK;
}

int charl__gemm_define_common(const charl_gemm *p, char *text, size_t bytes)
{
    const charl_gemm_window *w = &p->window;
    const int a_kind = p->a_kind == CHARL_GEMM_TAPS ? 2 : (int)p->a_kind;
    const int b_kind = p->b_kind == CHARL_GEMM_WINDOW ? 2 : p->b_kind == CHARL_GEMM_WINDOW_T ? 3 : (int)p->b_kind;
    int n = snprintf(text, bytes, "#define A_KIND %d\n#define B_KIND %d\n#define BIAS %d\n%s", a_kind, b_kind,
                     (int)p->bias_kind, charl__act_define(p->a->dtype));

    if (p->out->dtype != CHARL_F32) {
        n += snprintf(text + n, bytes - (size_t)n, "#define OUT_T %s\n", charl__kernel_type(p->out->dtype));
    }
    if (a_kind >= 2 || b_kind >= 2) {
        n += snprintf(text + n, bytes - (size_t)n,
                      "#define KW %d\n#define TAPS %d\n#define STEP_H %d\n#define STEP_W %d\n"
                      "#define SHIFT_H (%d)\n#define SHIFT_W (%d)\n#define TAP_H (%d)\n#define TAP_W (%d)\n"
                      "#define DIV_H %d\n#define DIV_W %d\n",
                      w->taps[1], w->taps[0] * w->taps[1], w->step[0], w->step[1], w->shift[0], w->shift[1],
                      w->tap_step[0], w->tap_step[1], w->divide[0], w->divide[1]);
    }
    return n;
}

int charl__gemm_define_rounding(const charl_gemm *p, char *text, size_t bytes)
{
    int level = 0;

    while (1 << level < p->rounded) {
        level++;
    }
    return p->leaves > 1 && p->rounded > 0 ? snprintf(text, bytes, "#define ROUND %d\n", level) : 0;
}

int charl__gemm_define_fold(const charl_gemm *p, char *text, size_t bytes)
{
    const int n = snprintf(text, bytes, "#define FOLD %d\n", p->leaves > 1 || p->a_sums);

    return n + charl__gemm_define_rounding(p, text + n, bytes - (size_t)n);
}

/* Of sums in registers: 8 x 32 in vectors of 16, 4 x 16 where vectors are shorter; a narrow product
 * is not worth more. */
typedef struct micro_tile {
    int rows, columns;
} micro_tile;

static micro_tile tile_of(charl_device *dev, const charl_gemm *p)
{
    const bool wide = p->form != CHARL_GEMM_VECTOR_NARROW && charl__device_facts(dev)->vector_width >= 16;

    return (micro_tile){.rows = wide && p->m >= 8 ? 8 : 4, .columns = wide && p->n > PANEL / 2 ? PANEL : PANEL / 2};
}

/* What packing a panel costs, in sixteenths of the time of a micro-tile over its depth; most of it
 * is waiting for memory. */
static int packing(charl_gemm_kind kind)
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
static bool reads_in_place(const charl_gemm *p, micro_tile t)
{
    return p->a_kind == CHARL_GEMM_PLAIN && p->a->dtype == CHARL_F32 && p->m >= t.rows && p->k <= LONGEST_IN_PLACE;
}

/* Micro-tiles for which a work-item of gemm_vector.cl has memory, and for the levels of a fold. */
static int most_tiles(const charl_gemm *p, int most)
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
static void choose_block(charl_device *dev, const charl_gemm *p, micro_tile t, int *mi, int *nj)
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

bool charl__gemm_block_fits(charl_device *dev, const charl_gemm *p, int mi, int nj)
{
    const micro_tile t = tile_of(dev, p);
    const int most = BLOCK / t.rows;

    return mi <= most && mi * nj <= most_tiles(p, most) && mi <= charl__ceil_div(p->m, t.rows) &&
           nj <= charl__ceil_div(p->n, t.columns);
}

static void shape_vector(charl_device *dev, const charl_gemm *p, const charl__gemm_plan *plan, charl_launch *l,
                         char *text, size_t bytes)
{
    const micro_tile t = tile_of(dev, p);
    int n = charl__gemm_define_common(p, text, bytes), mi, nj;

    n += charl__gemm_define_epilogue(p, 16, text + n, bytes - (size_t)n);
    choose_block(dev, p, t, &mi, &nj);
    if (plan->rows > 0) {
        mi = plan->rows;
        nj = plan->columns;
    }
    n += charl__gemm_define_fold(p, text + n, bytes - (size_t)n);
    snprintf(text + n, bytes - (size_t)n, "#define MR %d\n#define NR %d\n#define IN_PLACE %d\n", t.rows, t.columns,
             reads_in_place(p, t));
    l->file = "gemm/gemm_vector";
    l->entry = "gemm_vector";
    l->global[0] = (size_t)(charl__ceil_div(p->m, (int64_t)mi * t.rows) *
                            charl__ceil_div(p->n, (int64_t)nj * t.columns) * charl__at_least_one(p->count));
    l->local[0] = 1;
    l->args[BLOCK_ARG] = charl__i32(mi);
    l->args[BLOCK_ARG + 1] = charl__i32(nj);
}

/* Floats of an image row with the zeros that gemm_plane.cl reads around it. */
static int64_t plane_line(const charl_gemm_window *w)
{
    const int64_t last = (int64_t)(w->taps[1] - 1) * w->tap_step[1];
    const int64_t lowest = w->shift[1] + (last < 0 ? last : 0);
    const int64_t highest = w->shift[1] + (last > 0 ? last : 0);
    const int64_t margin = lowest < 0 ? -lowest : 0;
    const int64_t read = charl__ceil_div(w->row, 16) * 16 * w->step[1] + (highest > 0 ? highest : 0);

    return charl__ceil_div(margin + (read > w->image[1] ? read : w->image[1]) + 16, 16) * 16;
}

/* One channel in and out, in f32: what gemm_plane.cl does, with the same bits. */
static bool is_plane(const charl_gemm *p)
{
    const charl_gemm_window *w = &p->window;

    return p->form == CHARL_GEMM_AUTO && p->m == 1 && p->b_kind == CHARL_GEMM_WINDOW &&
           p->k == (int64_t)w->taps[0] * w->taps[1] && w->divide[0] == 1 && w->divide[1] == 1 && p->leaves <= 1 &&
           p->segments <= 1 && !p->epilogue && w->taps[0] <= 16 && p->a->dtype == CHARL_F32 &&
           p->out->dtype == CHARL_F32 && plane_line(w) <= LONGEST_LINE;
}

static void shape_plane(const charl_gemm *p, charl_launch *l, char *text, size_t bytes)
{
    const int n = charl__gemm_define_common(p, text, bytes);

    snprintf(text + n, bytes - (size_t)n, "#define LINE %d\n", (int)plane_line(&p->window));
    l->file = "gemm/gemm_plane";
    l->entry = "gemm_plane";
    l->global[0] = (size_t)charl__at_least_one(p->count);
    l->local[0] = 1;
}

charl_status charl__gemm_launch(charl_device *dev, const charl_gemm *p, const charl__gemm_plan *plan)
{
    char defines[CHARL__GEMM_DEFINES], second[CHARL__GEMM_SECOND];
    charl_launch l = {
        .defines = defines,
        .args = {charl__gemm_operand(CHARL_ARG_IN, p->a, p->a_at),
                 charl__gemm_operand(CHARL_ARG_IN, p->b, p->b_at),
                 charl__gemm_operand(CHARL_ARG_IN, p->bias, 0),
                 charl__gemm_operand(CHARL_ARG_OUT, p->out, p->out_at),
                 charl__i32((int32_t)p->m),
                 charl__i32((int32_t)p->n),
                 charl__i32((int32_t)p->k),
                 charl__i32((int32_t)charl__at_least_one(p->segments)),
                 charl__i64(p->a_segment),
                 charl__i64(p->b_segment),
                 charl__i32((int32_t)charl__at_least_one(p->inner)),
                 charl__i64(p->a_outer),
                 charl__i64(p->a_inner),
                 charl__i64(p->b_outer),
                 charl__i64(p->b_inner),
                 charl__i64(p->out_outer),
                 charl__i64(p->out_inner),
                 charl__i32(p->leaves > 1 ? p->leaves : 1),
                 charl__i32(p->window.image[0]),
                 charl__i32(p->window.image[1]),
                 charl__i32(p->window.row),
                 charl__i32(0),
                 charl__i32(0)},
        .label = p->label,
    };

    charl__gemm_add_epilogue(p, &l);
    if (charl__gemm_uses_tensor_cores(dev, p)) {
        charl_gemm chosen = *p;

        CHARL_INVARIANT(!p->epilogue || !p->epilogue->record);
        chosen.form = plan->form;
        CHARL_TRY(charl__gemm_tensor_core(dev, &chosen));
        return CHARL_OK;
    }
    CHARL_INVARIANT(!p->a_sums || charl__gemm_folds_sums(dev, p));
    if (charl__gemm_is_local(dev, p)) {
        CHARL_INVARIANT(p->leaves <= CHARL__GEMM_LOCAL_LEAVES);
        charl__gemm_shape_local(p, plan, &l, defines);
        if (plan->form == CHARL_GEMM_LOCAL_SMALL) {
            charl__gemm_offer_pair(p, &l, second);
        }
    } else if (is_plane(p) && plan->rows == 0) {
        shape_plane(p, &l, defines, sizeof defines);
    } else {
        shape_vector(dev, p, plan, &l, defines, sizeof defines);
    }
    CHARL_TRY(charl__launch(dev, &l));
    return CHARL_OK;
}

charl_status charl__gemm(charl_device *dev, const charl_gemm *p)
{
    charl__gemm_plan plan;

    CHARL_TRY(check(p));
    CHARL_TRY(charl__gemm_check_epilogue(p));
    if (p->m == 0 || p->n == 0) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__gemm_plan_of(dev, p, &plan));
    CHARL_TRY(charl__gemm_launch(dev, p, &plan));
    return CHARL_OK;
}
