/* The plans of a product: candidates, the heuristic choice, and the tuning database. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "tensor/gemm/gemm_private.h"

/* In the order in which they are tried. */
static const charl__gemm_backend *const backends[] = {
    &charl__gemm_digits_wgmma, &charl__gemm_digits, &charl__gemm_token, &charl__gemm_few_rows,
    &charl__gemm_tensor_cores, &charl__gemm_amx,    &charl__gemm_plane, &charl__gemm_small,
    &charl__gemm_local,        &charl__gemm_vector};
enum { BACKENDS = sizeof backends / sizeof *backends };

/* The form that p->form requests; forms that the device does not support fall back to AUTO. */
static charl__gemm_memory memory_of(charl_device *dev, charl__gemm_form form)
{
    const bool tiles =
        charl__device_facts_get(dev)->tiles_in_local && charl_device_get_info(dev)->max_group >= CHARL__GEMM_GROUP;

    switch (form) {
    case CHARL_GEMM_LOCAL:
    case CHARL_GEMM_LOCAL_LARGE:
    case CHARL_GEMM_LOCAL_SMALL:
        return CHARL_GEMM_TILES;
    case CHARL_GEMM_VECTOR:
    case CHARL_GEMM_VECTOR_SMALL:
    case CHARL_GEMM_VECTOR_NARROW:
        return CHARL_GEMM_VECTORS;
    case CHARL_GEMM_AUTO:
    case CHARL_GEMM_TENSOR_CORE:
    case CHARL_GEMM_TENSOR_CORE_WIDE:
    case CHARL_GEMM_TENSOR_CORE_SPLIT:
    case CHARL_GEMM_TENSOR_CORE_PADDED:
        break;
    }
    return tiles ? CHARL_GEMM_TILES : CHARL_GEMM_VECTORS;
}

static bool is_allowed(charl_device *dev, const charl__gemm_backend *b, charl__gemm_form form)
{
    return b->memory == CHARL_GEMM_UNITS ? form == CHARL_GEMM_AUTO || form >= CHARL_GEMM_TENSOR_CORE
                                         : b->memory == memory_of(dev, form);
}

static bool supports(charl_device *dev, const charl__gemm_backend *b, const charl__gemm *p)
{
    return b->is_integer == charl__gemm_is_integer(p) && (b->is_integer || is_allowed(dev, b, p->form)) &&
           (!b->takes || b->takes(dev, p->a.tensor->dtype)) && (!b->supports || b->supports(dev, p));
}

/* The first back end that supports p and is worth it. */
static const charl__gemm_backend *choose(charl_device *dev, const charl__gemm *p)
{
    int i = 0;

    while (i + 1 < BACKENDS &&
           !(supports(dev, backends[i], p) && (!backends[i]->suits || backends[i]->suits(dev, p)))) {
        i++;
    }
    return backends[i];
}

bool charl__gemm_has_rng(charl_device *dev, charl_dtype type)
{
    for (int i = 0; i < BACKENDS; i++) {
        if (!backends[i]->has_rng && !backends[i]->is_integer && backends[i]->takes && backends[i]->takes(dev, type)) {
            return false;
        }
    }
    return true;
}

bool charl__gemm_sums_a(charl_device *dev, const charl__gemm *p)
{
    const charl__gemm_backend *b = choose(dev, p);

    return b->sums_a && b->sums_a(dev, p);
}

bool charl__gemm_folds(charl_device *dev, const charl__gemm *p)
{
    const charl__gemm_backend *b = choose(dev, p);

    return b->folds && b->folds(dev, p);
}

bool charl__gemm_folds_sums(charl_device *dev, const charl__gemm *p)
{
    const charl__gemm_backend *b;
    charl__gemm folded = *p;

    folded.fold.leaves = 2;
    b = choose(dev, &folded);
    return b->folds_sums && b->folds_sums(dev, p);
}

int charl__gemm_fold_levels(charl_device *dev, const charl__gemm *p, int most)
{
    const charl__gemm_backend *b = choose(dev, p);

    return b->fold_levels ? b->fold_levels(dev, p, most) : 0;
}

charl__gemm_plan charl__gemm_guess(charl_device *dev, const charl__gemm *p)
{
    charl__gemm_plan plans[CHARL__GEMM_PLANS];

    choose(dev, p)->plans(dev, p, plans);
    return plans[0];
}

int charl__gemm_plans(charl_device *dev, const charl__gemm *p, charl__gemm_plan out[CHARL__GEMM_PLANS])
{
    const charl__gemm_backend *first = choose(dev, p);
    int n = first->plans(dev, p, out);

    for (int i = 0; i < BACKENDS && !first->has_own_bits; i++) {
        if (backends[i] != first && supports(dev, backends[i], p)) {
            n += backends[i]->plans(dev, p, out + n);
        }
    }
    CHARL_INVARIANT(n <= CHARL__GEMM_PLANS);
    return n;
}

const char *charl__gemm_plan_text(const charl__gemm_plan *x, char *text)
{
    const char *name = x->backend->name;

    if (x->depth > 0) {
        snprintf(text, CHARL__GEMM_TEXT, "%s %dx%d %dx%d %d", name, x->rows, x->columns, x->part_rows, x->part_columns,
                 x->depth);
    } else if (x->rows > 0) {
        snprintf(text, CHARL__GEMM_TEXT, "%s %dx%d", name, x->rows, x->columns);
    } else {
        snprintf(text, CHARL__GEMM_TEXT, "%s%s", name,
                 x->form == CHARL_GEMM_TENSOR_CORE        ? " narrow"
                 : x->form == CHARL_GEMM_TENSOR_CORE_WIDE ? " wide"
                                                          : "");
    }
    return text;
}

const char *charl__gemm_key(charl_device *dev, const charl__gemm *p, char *text)
{
    static const char *const a[] = {[CHARL_GEMM_PLAIN] = "n", [CHARL_GEMM_TRANSPOSED] = "t", [CHARL_GEMM_TAPS] = "f"};
    static const char *const b[] = {[CHARL_GEMM_PLAIN] = "n",
                                    [CHARL_GEMM_TRANSPOSED] = "t",
                                    [CHARL_GEMM_WINDOW] = "w",
                                    [CHARL_GEMM_WINDOW_T] = "v"};
    const charl__gemm_window *w = &p->window;
    const size_t bytes = CHARL__GEMM_TEXT;
    int n = snprintf(text, bytes, "gemm%s %s %s %s%s %lldx%lldx%lld z%lld/%lld s%lld l%d", choose(dev, p)->key,
                     charl_dtype_name(p->a.tensor->dtype), charl_dtype_name(p->out.tensor->dtype), a[p->a.kind],
                     b[p->b.kind], (long long)p->m, (long long)p->n, (long long)p->k,
                     (long long)charl__at_least_one(p->count), (long long)charl__at_least_one(p->inner),
                     (long long)charl__at_least_one(p->segments), p->fold.leaves > 1 ? p->fold.leaves : 1);

    if (p->b.kind >= CHARL_GEMM_WINDOW) {
        snprintf(text + n, bytes - (size_t)n, " w%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d", w->taps[0], w->taps[1],
                 w->step[0], w->step[1], w->shift[0], w->shift[1], w->tap_step[0], w->tap_step[1], w->divide[0],
                 w->divide[1], w->image[0], w->image[1], w->row);
    }
    return text;
}

/* The plan with that text, if p can have it. */
static bool find(charl_device *dev, const charl__gemm *p, const char *choice, charl__gemm_plan *out)
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

/* A choice that cannot be saved is used in this run only. */
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

/* Sums of A have a single kernel, and so have sums of leaves with levels. */
static bool has_tuning(charl_device *dev, const charl__gemm *p)
{
    return p->form == CHARL_GEMM_AUTO && !p->a_sums && !p->fold.levels && !charl__gemm_is_integer(p) &&
           !(p->epilogue && choose(dev, p)->has_slow_epilogue);
}

charl_status charl__gemm_plan_of(charl_device *dev, const charl__gemm *p, charl__gemm_plan *out)
{
    charl_status st = CHARL_OK;
    const bool first = charl__device_tune_mode(dev) == CHARL_TUNE_FIRST;
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
        if (st == CHARL_ERR_NOMEM) { /* then use the heuristic's choice */
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
