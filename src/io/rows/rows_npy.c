/* Rows of a NumPy array [n, ...]. */
#include <string.h>

#include "base/alloc.h"
#include "io/image_layout.h"
#include "io/import/import_npy.h"
#include "io/rows/rows_private.h"

typedef struct npy_rows {
    charl__npy array;
    unsigned char *raw; /* [capacity, row] */
    int64_t capacity;
} npy_rows;

/* Shapes of one sample that mean the same: an image of one channel, or one number, may leave that extent out. */
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
    CHARL_TRY(charl__npy_open(&f->array, r->path, NULL, false));
    CHARL_REQUIRE(f->array.type != 'S' && f->array.type != 'U', CHARL_ERR_DATA, "%s holds text, %s takes samples of %s",
                  r->path, r->o.model, charl__rows_sample_text(r->s));
    item = &f->array.item;
    whole = (charl_shape){item->ndim + 1, {f->array.rows}};
    for (int i = 0; i < item->ndim; i++) {
        whole.dim[i + 1] = item->dim[i];
    }
    if (!fits(item, &r->s->x_shape) && fits(&whole, &r->s->x_shape)) { /* one sample */
        charl__npy_take_as_row(&f->array);
    }
    channels_first = charl__channels_first(item);
    if (!fits(item, &r->s->x_shape) && item->ndim == 3 && charl_shape_equal(&channels_first, &r->s->x_shape)) {
        charl__npy_move_channels(&f->array);
    }
    CHARL_REQUIRE(fits(item, &r->s->x_shape), CHARL_ERR_DATA,
                  "%s is an array of %s, %s takes samples of %s, [rows, ...] of them", r->path,
                  charl_shape_format(&whole, have), r->o.model, charl__rows_sample_text(r->s));
    CHARL_REQUIRE(f->array.type != 'f' || r->s->x_dtype == CHARL_F32, CHARL_ERR_DATA,
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
    r->rows = f->array.rows;
    return CHARL_OK;
}

static charl_status next_npy(charl__rows *r, int64_t most, void *x, void *y, int64_t *n)
{
    npy_rows *f = r->self;
    const int64_t left = r->rows - r->done;

    (void)y;
    *n = left < most ? left : most;
    if (*n > f->capacity) {
        charl_free(f->raw);
        f->raw = NULL;
        CHARL_TRY(charl__alloc_array(*n * f->array.per_row, f->array.size, &f->raw));
        f->capacity = *n;
    }
    if (*n == 0) {
        CHARL_TRY(charl__source_end(f->array.source));
        return CHARL_OK;
    }
    CHARL_TRY(charl__npy_read(&f->array, *n, f->raw));
    if (r->s->x_dtype == CHARL_F32) {
        CHARL_TRY(charl__npy_check_exact(&f->array, f->raw, *n));
    }
    for (int64_t i = 0; i < *n * f->array.per_row; i++) {
        const double v = charl__npy_number(&f->array, f->raw + (size_t)i * f->array.size);

        CHARL_REQUIRE(charl__put_number(r->s->x_dtype, v, x, i), CHARL_ERR_DATA,
                      "%s: %g in row %lld is no finite %s, which %s takes", r->path, v,
                      (long long)(r->done + i / f->array.per_row), charl_dtype_name(r->s->x_dtype), r->o.model);
    }
    return CHARL_OK;
}

static void close_npy(charl__rows *r)
{
    npy_rows *f = r->self;

    if (f) {
        charl__npy_close(&f->array);
        charl_free(f->raw);
    }
}

const charl__rows_kind charl__rows_npy = {.open = open_npy, .next = next_npy, .close = close_npy};
