/* The plans of a product: candidates, the heuristic choice, and the tuning database. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "tensor/gemm/gemm_private.h"

enum { BYTES_PER_4 = 16, SMALL = 16, SMALL_LARGE = 32 };

/* What is guessed of the tiles below. A lane that holds 8 x 8 sums takes 16 numbers from local
 * memory for 64 fma; work-groups of 64 such lanes wait less for one another than larger ones. But a
 * lane that reads images needs registers for its places in them, and one that folds, for the tree.
 */
enum { TILE_64, TILE_128, TILE_OF_MATRICES };

static const charl__gemm_plan tiles[] = {
    {CHARL_GEMM_LOCAL, 64, 64, 4, 4, 16, 1},  {CHARL_GEMM_LOCAL, 128, 128, 8, 8, 16, 2},
    {CHARL_GEMM_LOCAL, 64, 64, 8, 8, 16, 2},  {CHARL_GEMM_LOCAL, 128, 128, 8, 8, 8, 2},
    {CHARL_GEMM_LOCAL, 128, 64, 8, 4, 16, 2}, {CHARL_GEMM_LOCAL, 128, 64, 8, 8, 16, 2},
    {CHARL_GEMM_LOCAL, 64, 128, 8, 8, 16, 2}, {CHARL_GEMM_LOCAL, 256, 128, 16, 8, 8, 2},
    {CHARL_GEMM_LOCAL, 64, 64, 4, 4, 32, 2},  {CHARL_GEMM_LOCAL, 32, 64, 4, 4, 16, 2},
    {CHARL_GEMM_LOCAL, 32, 64, 4, 4, 32, 2},  {CHARL_GEMM_LOCAL, 32, 32, 4, 4, 16, 2},
    {CHARL_GEMM_LOCAL, 32, 32, 4, 4, 32, 2},  {CHARL_GEMM_LOCAL, 32, 32, 4, 4, 64, 2},
    {CHARL_GEMM_LOCAL, 16, 32, 4, 4, 32, 2},  {CHARL_GEMM_LOCAL, 16, 32, 4, 4, 64, 2},
};

/* Micro-tiles of a work-item of gemm_vector.cl. */
static const int down[] = {2, 6, 12, 24, 48}, across[] = {1, 3, 8, 24};

bool charl__gemm_fits_small(const charl_gemm *p)
{
    const int64_t parts = charl__at_least_one(p->leaves > 1 ? p->leaves : p->segments);

    return (p->a_kind == CHARL_GEMM_PLAIN || p->a_kind == CHARL_GEMM_TRANSPOSED) &&
           (p->b_kind == CHARL_GEMM_PLAIN || p->b_kind == CHARL_GEMM_TRANSPOSED) &&
           p->k * parts <= INT_MAX / 2 / charl__at_least_one(p->m > p->n ? p->m : p->n) &&
           (p->leaves <= 1 || p->segments <= 1);
}

static int64_t count_tiles(const charl_gemm *p, int extent)
{
    return charl__ceil_div(p->m, extent) * charl__ceil_div(p->n, extent) *
           charl__at_least_one(p->leaves > 1 ? p->inner : p->count);
}

static charl__gemm_plan small_tile(int extent)
{
    return (charl__gemm_plan){.form = CHARL_GEMM_LOCAL_SMALL, .rows = extent, .columns = extent};
}

charl__gemm_plan charl__gemm_guess(charl_device *dev, const charl_gemm *p)
{
    const int units = charl__gemm_units(dev);

    if (charl__gemm_uses_tensor_cores(dev, p) || !charl__gemm_is_local(dev, p)) {
        return (charl__gemm_plan){.form = p->form};
    }
    /* Tiles of 64 would leave compute units idle, and what a product waits for is memory. */
    if (charl__gemm_fits_small(p) &&
        (p->form == CHARL_GEMM_LOCAL_SMALL || (p->form == CHARL_GEMM_AUTO && count_tiles(p, 64) <= units))) {
        return small_tile(count_tiles(p, SMALL_LARGE) > 2 * units ? SMALL_LARGE : SMALL);
    }
    if (p->leaves > 1 || p->form == CHARL_GEMM_LOCAL) {
        return tiles[TILE_64];
    }
    if (p->form == CHARL_GEMM_LOCAL_LARGE ||
        (!charl__gemm_fits_small(p) && p->m > 64 && p->n > 64 && count_tiles(p, 128) >= units)) {
        return tiles[TILE_128];
    }
    return charl__gemm_fits_small(p) ? tiles[TILE_OF_MATRICES] : tiles[TILE_64];
}

/* The device has room for the tile, and it is not mostly empty. A tree over leaves needs registers
 * for each of its levels. */
static bool can_have(charl_device *dev, const charl_gemm *p, const charl__gemm_plan *t)
{
    const charl_device_info *info = charl_device_get_info(dev);
    const int lanes = t->rows / t->part_rows * (t->columns / t->part_columns);
    const int bytes = t->buffers * t->depth * (t->rows / 4 + 1 + t->columns / 4 + 1) * BYTES_PER_4;

    return lanes <= info->max_group && bytes <= info->local_bytes && (t->rows <= 32 || t->rows < 2 * p->m) &&
           (t->columns <= 32 || t->columns < 2 * p->n) && (p->leaves <= 1 || t->part_rows * t->part_columns <= 16);
}

static int add(charl__gemm_plan *out, int n, charl__gemm_plan plan)
{
    for (int i = 0; i < n; i++) {
        if (memcmp(&out[i], &plan, sizeof plan) == 0) {
            return n;
        }
    }
    CHARL_INVARIANT(n < CHARL__GEMM_PLANS);
    out[n] = plan;
    return n + 1;
}

int charl__gemm_plans(charl_device *dev, const charl_gemm *p, charl__gemm_plan out[CHARL__GEMM_PLANS])
{
    int n = add(out, 0, charl__gemm_guess(dev, p));

    if (charl__gemm_uses_tensor_cores(dev, p)) {
        n = add(out, n, (charl__gemm_plan){.form = CHARL_GEMM_TENSOR_CORE});
        n = add(out, n, (charl__gemm_plan){.form = CHARL_GEMM_TENSOR_CORE_WIDE});
        return n;
    }
    if (!charl__gemm_is_local(dev, p)) {
        for (int i = 0; i < (int)(sizeof down / sizeof *down); i++) {
            for (int j = 0; j < (int)(sizeof across / sizeof *across); j++) {
                if (charl__gemm_block_fits(dev, p, down[i], across[j])) {
                    n = add(out, n, (charl__gemm_plan){CHARL_GEMM_VECTOR, down[i], across[j], 0, 0, 0, 0});
                }
            }
        }
        return n;
    }
    if (charl__gemm_fits_small(p)) {
        n = add(out, n, small_tile(SMALL));
        n = add(out, n, small_tile(SMALL_LARGE));
    }
    for (int i = 0; i < (int)(sizeof tiles / sizeof *tiles); i++) {
        n = can_have(dev, p, &tiles[i]) ? add(out, n, tiles[i]) : n;
    }
    return n;
}

const char *charl__gemm_plan_text(const charl__gemm_plan *x, char *text)
{
    static const char *const names[] = {
        [CHARL_GEMM_AUTO] = "as guessed",         [CHARL_GEMM_LOCAL] = "local",
        [CHARL_GEMM_VECTOR] = "vector",           [CHARL_GEMM_LOCAL_SMALL] = "small",
        [CHARL_GEMM_TENSOR_CORE] = "tensor_core", [CHARL_GEMM_TENSOR_CORE_WIDE] = "tensor_core wide"};

    if (x->depth > 0) {
        snprintf(text, CHARL__GEMM_TEXT, "%s %dx%d %dx%d %d %d", names[x->form], x->rows, x->columns, x->part_rows,
                 x->part_columns, x->depth, x->buffers);
    } else if (x->rows > 0) {
        snprintf(text, CHARL__GEMM_TEXT, "%s %dx%d", names[x->form], x->rows, x->columns);
    } else {
        snprintf(text, CHARL__GEMM_TEXT, "%s", names[x->form]);
    }
    return text;
}

const char *charl__gemm_key(charl_device *dev, const charl_gemm *p, char *text)
{
    static const char *const a[] = {[CHARL_GEMM_PLAIN] = "n", [CHARL_GEMM_TRANSPOSED] = "t", [CHARL_GEMM_TAPS] = "f"};
    static const char *const b[] = {[CHARL_GEMM_PLAIN] = "n",
                                    [CHARL_GEMM_TRANSPOSED] = "t",
                                    [CHARL_GEMM_WINDOW] = "w",
                                    [CHARL_GEMM_WINDOW_T] = "v"};
    const charl_gemm_window *w = &p->window;
    const size_t bytes = CHARL__GEMM_TEXT;
    int n =
        snprintf(text, bytes, "gemm%s %s %s %s%s %lldx%lldx%lld z%lld/%lld s%lld l%d",
                 charl__gemm_uses_tensor_cores(dev, p) ? " cores" : "", charl_dtype_name(p->a->dtype),
                 charl_dtype_name(p->out->dtype), a[p->a_kind], b[p->b_kind], (long long)p->m, (long long)p->n,
                 (long long)p->k, (long long)charl__at_least_one(p->count), (long long)charl__at_least_one(p->inner),
                 (long long)charl__at_least_one(p->segments), p->leaves > 1 ? p->leaves : 1);

    if (p->b_kind >= CHARL_GEMM_WINDOW) {
        snprintf(text + n, bytes - (size_t)n, " w%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d", w->taps[0], w->taps[1],
                 w->step[0], w->step[1], w->shift[0], w->shift[1], w->tap_step[0], w->tap_step[1], w->divide[0],
                 w->divide[1], w->image[0], w->image[1], w->row);
    }
    return text;
}

/* The plan whose text that is, where it is one that p can have. */
static bool find(charl_device *dev, const charl_gemm *p, const char *choice, charl__gemm_plan *out)
{
    charl__gemm_plan plans[CHARL__GEMM_PLANS];
    const int n = charl__gemm_plans(dev, p, plans);
    char text[CHARL__GEMM_TEXT];

    for (int i = 0; i < n; i++) {
        if (strcmp(charl__gemm_plan_text(&plans[i], text), choice) == 0) {
            *out = plans[i];
            return true;
        }
    }
    return false;
}

/* A choice that cannot be kept serves this run. */
static charl_status keep(charl_device *dev)
{
    charl_status st = charl__tuning_db_save(dev);

    if (st == CHARL_ERR_DISK) {
        charl__log(CHARL_LOG_INFO, "%s", charl_error_message());
        charl_error_clear();
        st = CHARL_OK;
    }
    return st;
}

/* Sums of A have one kernel. On tensor cores an epilogue takes as long as a short product, and
 * trials have none. */
static bool has_tuning(charl_device *dev, const charl_gemm *p)
{
    return p->form == CHARL_GEMM_AUTO && !p->a_sums && !(p->epilogue && charl__gemm_uses_tensor_cores(dev, p));
}

charl_status charl__gemm_plan_of(charl_device *dev, const charl_gemm *p, charl__gemm_plan *out)
{
    charl_status st = CHARL_OK;
    const bool first = charl__tune_mode(dev) == CHARL_TUNE_FIRST;
    const char *choice;
    char key[CHARL__GEMM_TEXT];

    *out = charl__gemm_guess(dev, p);
    if (!has_tuning(dev, p) || (!first && !charl__tuning_db_has_any(dev))) {
        return st;
    }
    choice = charl__tuning_find(dev, charl__gemm_key(dev, p, key));
    if (choice && find(dev, p, choice, out)) {
        return st;
    }
    if (first) {
        charl__gemm_tuned tuned;

        st = charl__gemm_tune(dev, p, &tuned);
        if (st == CHARL_ERR_NOMEM) { /* then as guessed */
            charl__log(CHARL_LOG_INFO, "tuning: %s", charl_error_message());
            charl_error_clear();
            return CHARL_OK;
        }
        CHARL_TRY(st);
        *out = tuned.plan[tuned.best];
        CHARL_TRY(keep(dev));
    }
    return st;
}
