/* Rows of an array [n, ...], and targets from another array. */
#include <string.h>

#include "base/alloc.h"
#include "io/dataset/weights.h"
#include "io/image_layout.h"
#include "data/rows/npy.h"
#include "data/rows/rows_private.h"

typedef struct npy_rows {
    charl__npy x, y;
    unsigned char *raw; /* [capacity, row] of the larger one */
    int64_t capacity;
} npy_rows;

/* Shapes of one sample that are equivalent: an image of one channel, or a single number, may omit that extent. */
static bool fits(const charl_shape *have, const charl_shape *want)
{
    const charl_shape gray = {want->ndim - 1, {want->dim[1], want->dim[2]}};

    return charl_shape_equal(have, want) ||
           ((want->ndim == 3 || want->ndim == 1) && want->dim[0] == 1 && charl_shape_equal(have, &gray));
}

static charl_status open_npy(charl__rows *r)
{
    npy_rows *f = NULL;
    charl_shape whole = {0}, channels_first;
    const charl_shape *item;
    char have[CHARL_SHAPE_TEXT];

    CHARL_TRY(charl__alloc(sizeof *f, &f));
    r->self = f;
    CHARL_TRY(charl__npy_open(&f->x, r->path, r->o.x_name, false));
    CHARL_REQUIRE(!f->x.text, CHARL_ERR_DATA, "%s holds text, %s takes samples of %s", r->path, r->o.model,
                  charl__rows_sample_text(r->s));
    item = &f->x.item;
    whole = (charl_shape){item->ndim + 1, {f->x.rows}};
    for (int i = 0; i < item->ndim; i++) {
        whole.dim[i + 1] = item->dim[i];
    }
    if (!fits(item, &r->s->x_shape) && fits(&whole, &r->s->x_shape)) { /* one sample */
        charl__npy_set_single_row(&f->x);
    }
    channels_first = charl__channels_first(item);
    if (!fits(item, &r->s->x_shape) && item->ndim == 3 && charl_shape_equal(&channels_first, &r->s->x_shape)) {
        charl__npy_move_channels(&f->x);
    }
    CHARL_REQUIRE(fits(item, &r->s->x_shape), CHARL_ERR_DATA,
                  "%s is an array of %s, %s takes samples of %s, [rows, ...] of them", r->path,
                  charl_shape_format(&whole, have), r->o.model, charl__rows_sample_text(r->s));
    CHARL_REQUIRE(f->x.element.kind != CHARL__ELEMENT_FLOAT || r->s->x_dtype == CHARL_F32, CHARL_ERR_DATA,
                  "%s holds floating-point numbers, %s takes %s; HINT in the units of the training "
                  "data, x.astype('%s')",
                  r->path, r->o.model, charl__rows_sample_text(r->s),
                  r->s->x_dtype == CHARL_U8    ? "uint8"
                  : r->s->x_dtype == CHARL_U16 ? "uint16"
                                               : "uint32");
    if (r->s->columns[0]) {
        CHARL_TRY(charl__rows_warn(
            r,
            "%s has no column names, but %s does; columns are matched by position, which is correct only if "
            "they are in the order of the training data",
            r->path, r->o.model));
    }
    r->rows = f->x.rows;
    if (r->o.targets) {
        CHARL_TRY(charl__npy_open(&f->y, r->o.targets, r->o.y_name, true));
        CHARL_REQUIRE(f->y.rows == f->x.rows && f->y.per_row == charl_shape_count(&r->s->y_shape), CHARL_ERR_DATA,
                      "%s: the file changed while it was being read", r->o.targets);
        r->has_targets = !f->y.text; /* texts are handled by the import */
    }
    return CHARL_OK;
}

static charl_status next_samples(const charl__rows *r, npy_rows *f, int64_t n, void *x)
{
    const charl__element *e = &f->x.element;
    const charl_dtype dtype = r->s->x_dtype;
    const bool native = charl__element_is_native(e, dtype), floats = dtype == CHARL_F32;
    const int64_t count = n * f->x.per_row;
    char text[CHARL__ELEMENT_TEXT];

    CHARL_TRY(charl__npy_read(&f->x, n, native ? x : f->raw));
    if (floats && !native) {
        const int64_t bad = charl__element_convert(e, dtype, f->raw, count, x);

        CHARL_REQUIRE(bad == count, CHARL_ERR_DATA,
                      "%s: %s in row %lld (element %lld) cannot be represented exactly in f32; HINT "
                      "x.astype('float32') if it may be rounded",
                      r->path, charl__element_text(e, f->raw, bad, text), (long long)(r->done + bad / f->x.per_row),
                      (long long)(bad % f->x.per_row));
    }
    for (int64_t i = 0; (floats || !native) && i < count; i++) {
        const double v = floats ? (double)((const float *)x)[i] : charl__element_number(e, f->raw, i);

        CHARL_REQUIRE(charl__put_number(dtype, v, x, i), CHARL_ERR_DATA,
                      "%s: %g in row %lld is no finite %s, which %s takes", r->path, v,
                      (long long)(r->done + i / f->x.per_row), charl_dtype_name(dtype), r->o.model);
    }
    return CHARL_OK;
}

static charl_status next_targets(const charl__rows *r, npy_rows *f, int64_t n, void *y)
{
    const charl__npy *a = &f->y;

    CHARL_TRY(charl__npy_read(&f->y, n, f->raw));
    for (int64_t i = 0; i < n * a->per_row; i++) {
        const double v = charl__element_number(&a->element, f->raw, i);
        const bool counts = r->s->y_dtype == CHARL_F32 || (v >= 0 && v < INT32_MAX) ||
                            (v < 0 && v > INT32_MIN && charl__label_is_ignored(r->s->kind, &a->item, (int64_t)v));

        CHARL_REQUIRE(charl__put_number(r->s->y_dtype, v, y, i) && counts, CHARL_ERR_DATA,
                      "%s: %.15g in row %lld is not a %s", r->o.targets, v, (long long)(r->done + i / a->per_row),
                      r->s->y_dtype == CHARL_F32 ? "finite number" : "class");
    }
    return CHARL_OK;
}

static charl_status next_npy(charl__rows *r, int64_t most, void *x, void *y, int64_t *n)
{
    npy_rows *f = r->self;
    const int64_t left = r->rows - r->done, sample = f->x.per_row * (int64_t)f->x.size,
                  target = r->has_targets ? f->y.per_row * (int64_t)f->y.size : 0;

    *n = left < most ? left : most;
    if (*n > f->capacity) {
        charl_free(f->raw);
        f->raw = NULL;
        CHARL_TRY(charl__alloc_array(*n, (size_t)(sample > target ? sample : target), &f->raw));
        f->capacity = *n;
    }
    if (*n == 0) {
        CHARL_TRY(charl__source_end(f->x.source));
        return r->has_targets ? charl__source_end(f->y.source) : CHARL_OK;
    }
    CHARL_TRY(next_samples(r, f, *n, x));
    return r->has_targets ? next_targets(r, f, *n, y) : CHARL_OK;
}

static void close_npy(charl__rows *r)
{
    npy_rows *f = r->self;

    if (f) {
        charl__npy_close(&f->x);
        charl__npy_close(&f->y);
        charl_free(f->raw);
    }
}

const charl__rows_kind charl__rows_npy = {.open = open_npy, .next = next_npy, .close = close_npy};
