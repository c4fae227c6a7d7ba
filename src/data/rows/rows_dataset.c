/* Rows of a split of a data set, converted for the model. */
#include <string.h>

#include "base/alloc.h"
#include "io/dataset/dataset_read.h"
#include "io/h5_element.h"
#include "data/rows/rows_private.h"
#include "io/schema.h"

typedef struct split_rows {
    charl_dataset *ds;
    charl_dataset_info info;
    charl_split split;
    int64_t capacity; /* number of rows that the buffers hold */
    int64_t *index;
    void *x, *y; /* as the data set provides them, if the model takes another type */
} split_rows;

/* In charl's layout, or with the arrays named in the configuration of the model. */
static charl_status open_file(charl__rows *r, bool divides, charl_dataset **out)
{
    charl_status st = CHARL_OK;
    charl_dataset_options o = r->o.dataset;

    o.struct_size = sizeof o;

    o.weights = o.x && o.y ? o.weights : NULL;
    if (!divides) {
        o.val_split = 0;
        o.fold = o.folds = 0;
    }
    o.window = 1;
    o.unlabelled = true;
    o.moves_channels = true;
    st = charl_dataset_open(r->path, &o, out);
    if (st == CHARL_ERR_DATA && !o.x && r->o.other_x) {
        o.x = r->o.other_x;
        o.y = r->o.other_y;
        o.weights = r->o.dataset.weights;
        st = charl_dataset_open(r->path, &o, out);
    }
    return st;
}

/* The validation split of a file belongs to the training; other data are used whole. */
static charl_status open_whole(charl__rows *r, split_rows *d)
{
    const bool divides = r->o.dataset.val_split > 0 || r->o.dataset.folds > 0;

    CHARL_TRY(open_file(r, divides && !r->o.trained_on, &d->ds));
    charl_dataset_get_info(d->ds, &d->info);
    if (divides && r->o.trained_on && strcmp(d->info.content_id, r->o.trained_on) == 0) {
        charl_dataset_close(d->ds);
        d->ds = NULL;
        CHARL_TRY(open_file(r, true, &d->ds));
        charl_dataset_get_info(d->ds, &d->info);
    }
    return CHARL_OK;
}

static charl_status choose_split(charl__rows *r, split_rows *d)
{
    int found = -1;

    if (!r->o.split) {
        found = d->info.rows[CHARL_SPLIT_VAL] > 0 ? CHARL_SPLIT_VAL : CHARL_SPLIT_TRAIN;
    }
    for (int s = 0; r->o.split && s < CHARL_SPLIT_COUNT; s++) {
        found = strcmp(charl_split_name((charl_split)s), r->o.split) == 0 ? s : found;
    }
    CHARL_REQUIRE(found >= 0, CHARL_ERR_CONFIG, "there is no split %s; there are train, val and test", r->o.split);
    d->split = (charl_split)found;
    CHARL_REQUIRE(d->info.rows[found] > 0, CHARL_ERR_DATA,
                  "%s has no %s split; HINT all rows of a file without splits are training rows: "
                  "use --split train or data.val_split",
                  r->path, charl_split_name(d->split));
    return CHARL_OK;
}

static charl_status open_dataset(charl__rows *r)
{
    split_rows *d = NULL;
    CHARL_SCOPED_FREE char *notes = NULL;

    CHARL_TRY(charl__alloc(sizeof *d, &d));
    r->self = d;
    CHARL_TRY(open_whole(r, d));
    CHARL_TRY(charl__dataset_map(d->ds, r->s, r->o.model, false, &notes));
    if (notes) {
        CHARL_TRY(charl__rows_warn(r, "%s", notes));
    }
    charl_dataset_get_info(d->ds, &d->info);
    CHARL_TRY(choose_split(r, d));
    r->rows = d->info.rows[d->split];
    r->subject = charl_split_name(d->split);
    r->has_targets = d->info.labelled && (d->info.y_dtype == r->s->y_dtype || d->info.y_dtype == CHARL_I32);
    if (d->info.labelled && !r->has_targets) {
        CHARL_TRY(charl__rows_warn(r,
                                   "the targets of %s are numbers, those of %s are classes: they "
                                   "are left out",
                                   r->path, r->o.model));
    }
    return CHARL_OK;
}

static charl_status reserve(const charl__rows *r, split_rows *d, int64_t most)
{
    if (most <= d->capacity) {
        return CHARL_OK;
    }
    d->capacity = 0;
    charl_free(d->index);
    charl_free(d->x);
    charl_free(d->y);
    d->index = NULL;
    d->x = d->y = NULL;
    CHARL_TRY(charl__alloc_array(most, sizeof *d->index, &d->index));
    CHARL_TRY(charl__alloc_array(most * charl_shape_count(&r->s->x_shape), sizeof(uint32_t), &d->x));
    CHARL_TRY(charl__alloc_array(most * charl_shape_count(&r->s->y_shape), sizeof(uint32_t), &d->y));
    d->capacity = most;
    return CHARL_OK;
}

static charl_status convert(const charl__rows *r, const split_rows *d, int64_t n, void *x)
{
    const int64_t per_row = charl_shape_count(&r->s->x_shape);
    const size_t width = charl_dtype_size(d->info.x_dtype);

    for (int64_t i = 0; i < n * per_row; i++) {
        double v;

        charl_dtype_decode(d->info.x_dtype, (const char *)d->x + (size_t)i * width, 1, &v);
        CHARL_REQUIRE(charl__put_number(r->s->x_dtype, v, x, i), CHARL_ERR_DATA,
                      "%s: %g in row %lld is no %s, which %s takes", r->path, v, (long long)(r->done + i / per_row),
                      charl_dtype_name(r->s->x_dtype), r->o.model);
        CHARL_REQUIRE(r->s->x_dtype != CHARL_F32 || (double)(float)v == v, CHARL_ERR_DATA,
                      "%s: %.0f in row %lld (element %lld) cannot be represented exactly in f32; HINT store "
                      "the array as f32 if it may be rounded",
                      r->path, v, (long long)(r->done + i / per_row), (long long)(i % per_row));
    }
    return CHARL_OK;
}

static charl_status next_dataset(charl__rows *r, int64_t most, void *x, void *y, int64_t *n)
{
    split_rows *d = r->self;
    const bool same_x = d->info.x_dtype == r->s->x_dtype, same_y = d->info.y_dtype == r->s->y_dtype;
    const int64_t targets = charl_shape_count(&r->s->y_shape), left = r->rows - r->done;

    *n = left < most ? left : most;
    CHARL_TRY(reserve(r, d, most));
    for (int64_t i = 0; i < *n; i++) {
        d->index[i] = r->done + i;
    }
    CHARL_TRY(charl_dataset_read(d->ds, d->split, d->index, *n, same_x ? x : d->x,
                                 !r->has_targets ? NULL
                                 : same_y        ? y
                                                 : d->y));
    if (*n == left) { /* the last ones */
        CHARL_TRY(charl__dataset_check(d->ds));
    }
    if (!same_x) {
        CHARL_TRY(convert(r, d, *n, x));
    }
    for (int64_t i = 0; r->has_targets && !same_y && i < *n * targets; i++) {
        ((float *)y)[i] = (float)((const int32_t *)d->y)[i];
    }
    return CHARL_OK;
}

static void close_dataset(charl__rows *r)
{
    split_rows *d = r->self;

    if (d) {
        charl_dataset_close(d->ds);
        charl_free(d->index);
        charl_free(d->x);
        charl_free(d->y);
    }
}

const charl__rows_kind charl__rows_dataset = {.open = open_dataset, .next = next_dataset, .close = close_dataset};
