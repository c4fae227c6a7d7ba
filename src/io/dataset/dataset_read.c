/* Reads samples and targets of an open dataset. Consecutive rows are read at once; stored targets
 * (u8, i32, i64, f32) are converted to the types of the losses (i32 classes, f32 values) and checked in
 * the process. */
#include <limits.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/numeric/hash.h"
#include "io/dataset/dataset_mix.h"
#include "io/dataset/dataset_private.h"
#include "io/dataset/dataset_read.h"
#include "io/dataset/order/split.h"
#include "io/tokenizer.h"

enum { SCAN_BYTES = 1 << 18 };

/* Element i of stored integers as i64. */
static int64_t stored_integer(charl_dtype dtype, const void *data, int64_t i)
{
    const unsigned char *p = (const unsigned char *)data + (size_t)i * charl_dtype_size(dtype);
    uint16_t u16;
    uint32_t u32;
    int32_t i32;
    int64_t i64;

    switch (dtype) {
    case CHARL_U8:
        return *p;
    case CHARL_U16:
        memcpy(&u16, p, sizeof u16);
        return u16;
    case CHARL_U32:
        memcpy(&u32, p, sizeof u32);
        return u32;
    case CHARL_I32:
        memcpy(&i32, p, sizeof i32);
        return i32;
    default:
        memcpy(&i64, p, sizeof i64);
        return i64;
    }
}

/* Reorder the elements of every row by `from`, which gives the index in the row for each. `row`
 * has room for one row. */
static void permute(void *data, int64_t rows, int64_t per_row, size_t size, const int64_t *from, unsigned char *row)
{
    unsigned char *p = data;
    const size_t bytes = (size_t)per_row * size;

    for (int64_t r = 0; r < rows; r++, p += bytes) {
        memcpy(row, p, bytes);
        for (int64_t i = 0; i < per_row; i++) {
            memcpy(p + (size_t)i * size, row + (size_t)from[i] * size, size);
        }
    }
}

/* n integers of `a`, from row `first` on, each a class, as i32; out NULL: only checked. */
static charl_status to_classes(const charl_dataset *ds, const charl__array *a, int64_t first, int64_t n,
                               const void *stored, int32_t *out)
{
    const int64_t per_row = charl_shape_count(&a->item);
    const bool named = ds->labels && ds->labels->are_names;

    for (int64_t i = 0; i < n; i++) {
        const int64_t v = stored_integer(a->dtype, stored, i);
        const bool counts = !charl__label_is_ignored(ds->kind, &a->item, v);
        const int64_t class = named && counts ? charl__labels_find(ds->labels, v) : v;

        CHARL_REQUIRE(!counts || (class >= 0 && class < ds->stored_classes), CHARL_ERR_DATA,
                      "%s: %s: %lld in row %lld is not in [0, %lld)", ds->file.path, a->name, (long long)v,
                      (long long)(first + i / per_row), (long long)ds->stored_classes);
        if (out) {
            out[i] = !counts ? -1 : (int32_t)(ds->class_map ? ds->class_map[class] : class);
        }
    }
    return CHARL_OK;
}

/* n tokens of padded sequences, from row `first` on. */
static charl_status check_tokens(charl_dataset *ds, const charl__array *a, int64_t first, int64_t n, const void *stored,
                                 void *user)
{
    const int64_t padding = a->dtype == CHARL_U8 ? UINT8_MAX : a->dtype == CHARL_U16 ? UINT16_MAX : UINT32_MAX;

    (void)user;
    for (int64_t i = 0; ds->vocab > 0 && i < n; i++) {
        const int64_t v = stored_integer(a->dtype, stored, i);

        CHARL_REQUIRE(v < ds->vocab || v == padding, CHARL_ERR_DATA,
                      "%s: %s: token %lld in row %lld is not in [0, %lld)", ds->file.path, a->name, (long long)v,
                      (long long)(first + i / charl_shape_count(&a->item)), (long long)ds->vocab);
    }
    return CHARL_OK;
}

/* Targets of rows [first, first + n) of the array, converted into y. `stored` has room for them in
 * their stored form. */
static charl_status read_targets(charl_dataset *ds, charl__array *a, int64_t first, int64_t n, void *stored, void *y)
{
    const int64_t count = n * charl_shape_count(&a->item);

    if (a->dtype == CHARL_F32) {
        CHARL_TRY(charl__array_read(&ds->file, a, first, n, y));
        return CHARL_OK;
    }
    CHARL_TRY(charl__array_read(&ds->file, a, first, n, stored));
    if (!ds->values) {
        CHARL_TRY(to_classes(ds, a, first, count, stored, y));
        return CHARL_OK;
    }
    for (int64_t i = 0; i < count; i++) {
        ((float *)y)[i] = (float)stored_integer(a->dtype, stored, i);
    }
    return CHARL_OK;
}

static charl_status check_rows(const charl_dataset *ds, charl_split split, const int64_t *rows, int64_t n,
                               int64_t limit)
{
    for (int64_t i = 0; i < n; i++) {
        CHARL_REQUIRE(rows[i] >= 0 && rows[i] < limit, CHARL_ERR_INVALID,
                      "%s: there is no row %lld among the %lld of split %s", ds->file.path, (long long)rows[i],
                      (long long)limit, charl_split_name(split));
    }
    return CHARL_OK;
}

int64_t charl__view_place(const charl__view *v, int64_t row)
{
    return v->place ? v->place[row] : v->first + row;
}

/* Length of the run of consecutive rows that begins at rows[0]. */
static int64_t run_length(const int64_t *rows, int64_t n)
{
    int64_t k = 1;

    while (k < n && rows[k] == rows[0] + k) {
        k++;
    }
    return k;
}

int64_t charl__view_run(const charl__view *v, int64_t row, int64_t n)
{
    return v->place ? run_length(v->place + row, n) : n;
}

/* The set of a mix that contains a token, and where it begins. */
static charl_status find_part(const charl_dataset *ds, charl_split split, int64_t token, charl_dataset **out,
                              int64_t *first)
{
    *out = charl__mix_find(ds, split, token, first);
    CHARL_REQUIRE(*out, CHARL_ERR_INVALID, "%s: there is no token %lld among the %lld of split %s", ds->file.path,
                  (long long)token, (long long)*first, charl_split_name(split));
    return CHARL_OK;
}

static charl_status check_range(const charl_dataset *ds, charl_split split, int64_t first, int64_t n)
{
    const int64_t items = ds->views[split].items;

    CHARL_REQUIRE(first >= 0 && n >= 0 && n <= items && first <= items - n, CHARL_ERR_INVALID,
                  "%s: tokens %lld to %lld are not among the %lld of split %s", ds->file.path, (long long)first,
                  (long long)(first + n), (long long)items, charl_split_name(split));
    return CHARL_OK;
}

/* Windows of a mix: each is inside one of its sets. */
static charl_status read_mixed(charl_dataset *ds, charl_split split, const int64_t *starts, int64_t n, int32_t *x,
                               int32_t *y)
{
    for (int64_t i = 0; i < n; i++) {
        charl_dataset *d;
        int64_t first, start;

        CHARL_TRY(find_part(ds, split, starts[i], &d, &first));
        start = starts[i] - first;
        CHARL_TRY(
            charl__dataset_read_at(d, split, &start, 1, x ? x + i * ds->window : NULL, y ? y + i * ds->window : NULL));
    }
    return CHARL_OK;
}

charl_status charl__dataset_read_at(charl_dataset *ds, charl_split split, const int64_t *starts, int64_t n, void *x,
                                    void *y)
{
    CHARL_GIVEN(ds, starts || n == 0);
    const charl__view *v = NULL;
    CHARL_SCOPED_FREE void *stored = NULL;
    CHARL_SCOPED_FREE int32_t *tokens = NULL;
    const int64_t t = ds->window;

    CHARL_REQUIRE((unsigned)split < CHARL_SPLIT_COUNT && ds->kind == CHARL_DATASET_TOKENS, CHARL_ERR_INVALID,
                  "%s: windows exist only in sets of tokens", ds->file.path);
    if (ds->n_parts > 0) {
        CHARL_TRY(read_mixed(ds, split, starts, n, x, y));
        return CHARL_OK;
    }
    v = &ds->views[split];
    CHARL_TRY(check_rows(ds, split, starts, n, v->items - t));
    CHARL_TRY(charl__alloc_array(t + 1, sizeof(int64_t), &stored));
    CHARL_TRY(charl__alloc_array(t + 1, sizeof *tokens, &tokens));
    for (int64_t i = 0; i < n; i++) {
        CHARL_TRY(charl__array_read(&ds->file, v->x, v->first + starts[i], t + 1, stored));
        CHARL_TRY(to_classes(ds, v->x, v->first + starts[i], t + 1, stored, tokens));
        if (x) {
            memcpy((int32_t *)x + i * t, tokens, (size_t)t * sizeof *tokens);
        }
        if (y) {
            memcpy((int32_t *)y + i * t, tokens + 1, (size_t)t * sizeof *tokens);
        }
    }
    return CHARL_OK;
}

charl_status charl_dataset_read_tokens(charl_dataset *ds, charl_split split, int64_t first, int64_t n, void *out)
{
    CHARL_GIVEN(ds, out || n == 0);
    const charl__view *v = NULL;

    CHARL_REQUIRE((unsigned)split < CHARL_SPLIT_COUNT && ds->kind == CHARL_DATASET_TOKENS, CHARL_ERR_INVALID,
                  "%s: tokens exist only in sets of tokens", ds->file.path);
    for (int64_t end = first + n; ds->n_parts > 0 && first < end;) {
        charl_dataset *d;
        int64_t base, k;

        CHARL_TRY(find_part(ds, split, first, &d, &base));
        k = base + d->views[split].items < end ? base + d->views[split].items - first : end - first;
        CHARL_TRY(charl_dataset_read_tokens(d, split, first - base, k, out));
        out = (unsigned char *)out + (size_t)k * d->views[split].x->item_bytes;
        first += k;
    }
    if (ds->n_parts > 0) {
        return CHARL_OK;
    }
    v = &ds->views[split];
    CHARL_TRY(check_range(ds, split, first, n));
    if (n > 0) {
        CHARL_TRY(charl__array_read(&ds->file, v->x, v->first + first, n, out));
        CHARL_TRY(to_classes(ds, v->x, v->first + first, n, out, NULL));
    }
    return CHARL_OK;
}

/* Rows of tokens: windows that tile a split, or a mix set after set. */
static charl_status read_windows(charl_dataset *ds, charl_split split, const int64_t *rows, int64_t n, void *x, void *y)
{
    charl__stream tiles;
    CHARL_SCOPED_FREE int64_t *starts = NULL;

    charl__stream_init(&tiles, ds, split, false, 0);
    tiles.trains = false;
    CHARL_TRY(check_rows(ds, split, rows, n, tiles.n));
    CHARL_TRY(charl__alloc_array(n, sizeof *starts, &starts));
    for (int64_t i = 0; i < n; i++) {
        charl__stream_places(&tiles, rows[i], 1, &starts[i]);
    }
    CHARL_TRY(charl__dataset_read_at(ds, split, starts, n, x, y));
    return CHARL_OK;
}

static charl_status read_rows(charl_dataset *ds, charl_split split, const int64_t *rows, int64_t n, void *x, void *y)
{
    const charl__view *v = NULL;
    unsigned char *px = x;
    unsigned char *py = y;
    CHARL_SCOPED_FREE void *stored = NULL;
    CHARL_SCOPED_FREE unsigned char *row = NULL; /* one, while its elements change places */
    CHARL_SCOPED_FREE int64_t *places = NULL;
    size_t y_bytes = 0;

    CHARL_REQUIRE((unsigned)split < CHARL_SPLIT_COUNT && n >= 0, CHARL_ERR_INVALID,
                  "%s: no such split or a negative count", ds->file.path);
    v = &ds->views[split];
    if (ds->kind == CHARL_DATASET_TOKENS) {
        CHARL_TRY(read_windows(ds, split, rows, n, x, y));
        return CHARL_OK;
    }
    CHARL_TRY(check_rows(ds, split, rows, n, v->rows));
    if (v->place) {
        CHARL_TRY(charl__alloc_array(n, sizeof *places, &places));
        for (int64_t i = 0; i < n; i++) {
            places[i] = v->place[rows[i]];
        }
        rows = places;
    }
    if (y && n > 0) {
        y_bytes = (size_t)charl_shape_count(&v->y->item) * sizeof(int32_t);
        if (v->y->dtype != CHARL_F32) {
            CHARL_TRY(charl__alloc_array(n, v->y->item_bytes, &stored));
        }
    }
    if (ds->column_map || ds->target_map) {
        CHARL_TRY(charl__alloc(v->x->item_bytes + (v->y ? v->y->item_bytes : 0) + y_bytes, &row));
    }
    for (int64_t i = 0, ready = 0; i < n;) {
        int64_t k = n - i;

        if (i == ready && px) {
            CHARL_TRY(charl__array_prepare(v->x, rows + i, v->first, k, &k));
        }
        if (i == ready && py) {
            CHARL_TRY(charl__array_prepare(v->y, rows + i, v->first, k, &k));
        }
        ready = i == ready ? i + k : ready;
        k = run_length(rows + i, ready - i);

        if (px) {
            CHARL_TRY(charl__array_read(&ds->file, v->x, v->first + rows[i], k, px));
            CHARL_TRY(check_tokens(ds, v->x, v->first + rows[i], k * charl_shape_count(&v->x->item), px, NULL));
            if (ds->column_map) {
                permute(px, k, charl_shape_count(&v->x->item), charl_dtype_size(v->x->dtype), ds->column_map, row);
            }
            px += (size_t)k * v->x->item_bytes;
        }
        if (py) {
            CHARL_TRY(read_targets(ds, v->y, v->first + rows[i], k, stored, py));
            if (ds->target_map) {
                permute(py, k, charl_shape_count(&v->y->item), sizeof(int32_t), ds->target_map, row);
            }
            py += (size_t)k * y_bytes;
        }
        i += k;
    }
    return CHARL_OK;
}

/* The elements of n samples x that come from other rows. */
static charl_status permute_elements(charl_dataset *ds, const charl__permuted *s, const int64_t *rows, int64_t n,
                                     unsigned char *x)
{
    const charl__view *v = &ds->views[s->split];
    const size_t element = charl_dtype_size(v->x->dtype), row = v->x->item_bytes;
    CHARL_SCOPED_FREE int64_t *others = NULL;
    CHARL_SCOPED_FREE unsigned char *from = NULL;

    CHARL_TRY(charl__alloc_array(n, sizeof *others, &others));
    CHARL_TRY(charl__alloc_array(n, row, &from));
    for (int64_t i = 0; i < n; i++) {
        others[i] = charl_order_row(s->seed, v->rows, true, rows[i]);
    }
    CHARL_TRY(read_rows(ds, s->split, others, n, from, NULL));
    for (int64_t i = 0; i < n; i++) {
        const size_t at = (size_t)i * row + (size_t)s->first * element;

        memcpy(x + at, from + at, (size_t)s->count * element);
    }
    return CHARL_OK;
}

charl_status charl_dataset_read(charl_dataset *ds, charl_split split, const int64_t *rows, int64_t n, void *x, void *y)
{
    CHARL_GIVEN(ds, rows || n == 0);
    const charl__permuted *s = ds->permuted;

    CHARL_TRY(read_rows(ds, split, rows, n, x, y));
    return s && x && s->count > 0 && s->split == split ? permute_elements(ds, s, rows, n, x) : CHARL_OK;
}

charl_status charl_dataset_permute(charl_dataset *ds, charl_split split, int64_t first, int64_t count, uint64_t seed)
{
    CHARL_GIVEN(ds);
    charl__permuted *new = NULL;

    CHARL_REQUIRE((unsigned)split < CHARL_SPLIT_COUNT && ds->kind != CHARL_DATASET_TOKENS && ds->views[split].x,
                  CHARL_ERR_INVALID, "%s: no such split, or one of tokens", ds->file.path);
    CHARL_REQUIRE(first >= 0 && count >= 0 && count <= charl_shape_count(&ds->views[split].x->item) - first,
                  CHARL_ERR_INVALID, "%s: elements %lld to %lld are not among the %lld of a sample", ds->file.path,
                  (long long)first, (long long)(first + count),
                  (long long)charl_shape_count(&ds->views[split].x->item));
    CHARL_REQUIRE(!charl__fault("data.permute"), CHARL_ERR_NOMEM, "data.permute: out of memory");
    CHARL_TRY(charl__alloc(sizeof *new, &new));
    *new = (charl__permuted){split, first, count, seed, ds->permuted};
    ds->permuted = new;
    return CHARL_OK;
}

/* n stored weights from row `first` of the view on. */
static charl_status read_stored_weights(charl_dataset *ds, const charl__view *v, int64_t first, int64_t n, float *out)
{
    charl__array *a = v->w;

    if (!a) {
        for (int64_t i = 0; i < n; i++) {
            out[i] = 1.0F;
        }
        return CHARL_OK;
    }
    for (int64_t at = 0, k; at < n; at += k) {
        float *part = out + at;

        k = charl__view_run(v, first + at, n - at);
        CHARL_TRY(charl__array_read(&ds->file, a, charl__view_place(v, first + at), k, part));
        for (int64_t i = k - 1; a->dtype == CHARL_U8 && i >= 0; i--) { /* in place, from the end */
            part[i] = (float)((const unsigned char *)part)[i];
        }
    }
    for (int64_t i = 0; i < n; i++) {
        CHARL_REQUIRE(out[i] >= 0.0F, CHARL_ERR_DATA, "%s: %s: %g in row %lld is not a weight", ds->file.path, a->name,
                      (double)out[i], (long long)charl__view_place(v, first + i));
    }
    return CHARL_OK;
}

/* The last document of a view that begins at or before `token` of the array; -1: none. */
static int64_t document_of(const charl__view *v, int64_t token)
{
    int64_t low = -1, high = v->n_starts;

    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;

        if (v->starts[middle] <= token) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

charl_status charl__dataset_starts(const charl_dataset *ds, charl_split split, int32_t **out, int64_t *n)
{
    const int parts = ds->n_parts > 0 ? ds->n_parts : 1;
    int64_t base = 0, count = 0;
    CHARL_SCOPED_FREE int32_t *starts = NULL;

    *out = NULL;
    *n = 0;
    for (int j = 0; j < parts; j++) {
        count += (ds->n_parts > 0 ? ds->part[j] : ds)->views[split].n_starts;
    }
    CHARL_TRY(charl__alloc_array(count + parts, sizeof *starts, &starts));
    count = 0;
    for (int j = 0; j < parts; j++) {
        const charl__view *v = &(ds->n_parts > 0 ? ds->part[j] : ds)->views[split];

        CHARL_REQUIRE(base + v->items <= INT32_MAX, CHARL_ERR_DATA,
                      "%s: too many tokens for separate documents on the device; HINT keep the data in host "
                      "memory",
                      ds->file.path);
        starts[count++] = (int32_t)base; /* a split begins with a document, or the rest of one */
        for (int64_t i = document_of(v, v->first) + 1; i < v->n_starts && v->starts[i] < v->first + v->items; i++) {
            starts[count++] = (int32_t)(base + v->starts[i] - v->first);
        }
        base += v->items;
    }
    *out = starts;
    *n = count;
    starts = NULL;
    return CHARL_OK;
}

void charl__dataset_window_starts(const charl_dataset *ds, charl_split split, int64_t first, int64_t n, int32_t *out)
{
    const charl__view *v = &ds->views[split];
    int64_t base = 0, at;

    if (ds->n_parts > 0) { /* a window lies in one set */
        const charl_dataset *d = charl__mix_find(ds, split, first, &base);

        v = d ? &d->views[split] : v;
    }
    first += v->first - base;
    at = document_of(v, first);
    for (int64_t i = 0; i < n; i++) {
        at += at + 1 < v->n_starts && v->starts[at + 1] == first + i;
        out[i] = at >= 0 && v->starts[at] > first ? (int32_t)(v->starts[at] - first) : 0;
    }
}

charl_dtype charl__dataset_weights_dtype(const charl_dataset *ds)
{
    for (int j = 0; j < ds->n_parts; j++) {
        if (charl__dataset_weights_dtype(ds->part[j]) == CHARL_F32) {
            return CHARL_F32;
        }
    }
    for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
        if (ds->views[s].w && ds->views[s].w->dtype == CHARL_F32) {
            return CHARL_F32;
        }
    }
    return CHARL_U8;
}

charl_status charl__dataset_token_weights(charl_dataset *ds, charl_split split, int64_t first, int64_t n, float *out)
{
    const charl__view *v = &ds->views[split];

    for (int64_t end = first + n; ds->n_parts > 0 && first < end;) {
        charl_dataset *d;
        int64_t base, k;

        CHARL_TRY(find_part(ds, split, first, &d, &base));
        k = base + d->views[split].items < end ? base + d->views[split].items - first : end - first;
        CHARL_TRY(charl__dataset_token_weights(d, split, first - base, k, out));
        out += k;
        first += k;
    }
    if (ds->n_parts > 0) {
        return CHARL_OK;
    }
    CHARL_TRY(check_range(ds, split, first, n));
    CHARL_TRY(read_stored_weights(ds, v, first, n, out));
    for (int64_t i = document_of(v, v->first + first - 1) + 1; i < v->n_starts && v->starts[i] < v->first + first + n;
         i++) {
        out[v->starts[i] - v->first - first] = 0.0F; /* earlier tokens do not predict it */
    }
    return CHARL_OK;
}

/* Stored weights, one number for each sample. */
static charl_status read_weights_of_rows(charl_dataset *ds, charl_split split, const int64_t *rows, int64_t n, float *w)
{
    const charl__view *v = &ds->views[split];

    CHARL_TRY(check_rows(ds, split, rows, n, v->rows));
    for (int64_t i = 0; i < n;) {
        const int64_t k = run_length(rows + i, n - i);

        CHARL_TRY(read_stored_weights(ds, v, rows[i], k, w + i));
        i += k;
    }
    for (int64_t i = 0; i < n && split == CHARL_SPLIT_TRAIN; i++) {
        w[i] = charl__rows_have(ds->forgotten, ds->n_forgotten, rows[i]) ? 0.0F : w[i];
    }
    return CHARL_OK;
}

/* Weights of samples: 0 if the label does not count, else the stored weight times the weight of the class. */
static charl_status read_sample_weights(charl_dataset *ds, charl_split split, const int64_t *rows, int64_t n, float *w)
{
    const charl__view *v = &ds->views[split];
    const float *of_class = split == CHARL_SPLIT_TRAIN ? ds->class_weights : NULL;
    const bool one_label = v->y && v->y->item.ndim == 0;
    CHARL_SCOPED_FREE int32_t *labels = NULL;

    CHARL_TRY(read_weights_of_rows(ds, split, rows, n, w));
    if (one_label && (v->ignored > 0 || of_class)) {
        CHARL_TRY(charl__alloc_array(n, sizeof *labels, &labels));
        CHARL_TRY(charl_dataset_read(ds, split, rows, n, NULL, labels));
        for (int64_t i = 0; i < n; i++) {
            w[i] = labels[i] < 0 ? 0.0F : of_class ? w[i] * of_class[labels[i]] : w[i];
        }
    }
    return CHARL_OK;
}

charl_status charl__dataset_weigh_pixels(charl_dataset *ds, charl_split split, const int64_t *rows, int64_t n,
                                         const int32_t *y, float *out)
{
    const float *of_class = split == CHARL_SPLIT_TRAIN ? ds->class_weights : NULL;
    const int64_t pixels = charl_shape_count(&ds->views[split].y->item);
    CHARL_SCOPED_FREE float *of_row = NULL;

    CHARL_TRY(charl__alloc_array(n, sizeof *of_row, &of_row));
    CHARL_TRY(read_weights_of_rows(ds, split, rows, n, of_row));
    for (int64_t i = 0; i < n * pixels; i++) {
        out[i] = y[i] < 0 ? 0.0F : of_row[i / pixels] * (of_class ? of_class[y[i]] : 1.0F);
    }
    return CHARL_OK;
}

charl_status charl__dataset_read_weights(charl_dataset *ds, charl_split split, const int64_t *places, int64_t n,
                                         float *w)
{
    CHARL_GIVEN(ds, places || n == 0, w || n == 0);
    CHARL_REQUIRE((unsigned)split < CHARL_SPLIT_COUNT && n >= 0, CHARL_ERR_INVALID,
                  "%s: no such split or a negative count", ds->file.path);
    if (ds->kind != CHARL_DATASET_TOKENS) {
        return read_sample_weights(ds, split, places, n, w);
    }
    for (int64_t i = 0; i < n; i++) {
        CHARL_TRY(charl__dataset_token_weights(ds, split, places[i] + 1, ds->window, w + i * ds->window));
    }
    return CHARL_OK;
}

charl_status charl__dataset_weigh(charl_dataset *ds, const float *weights, const int64_t *rows, int64_t n)
{
    const size_t bytes = (size_t)ds->classes * sizeof *weights;

    if (rows) {
        ds->forgotten = rows;
        ds->n_forgotten = n;
    }
    if (weights) {
        charl_free(ds->class_weights);
        ds->class_weights = NULL;
        CHARL_TRY(charl__alloc(bytes, &ds->class_weights));
        memcpy(ds->class_weights, weights, bytes);
    }
    return CHARL_OK;
}

/* Call `each` for blocks of the stored rows of a view's array. */
static charl_status scan(charl_dataset *ds, const charl__view *v, charl__array *a,
                         charl_status (*each)(charl_dataset *ds, const charl__array *a, int64_t first, int64_t n,
                                              const void *stored, void *user),
                         void *user)
{
    const int64_t bytes = (int64_t)a->item_bytes;
    const int64_t step = bytes < SCAN_BYTES ? SCAN_BYTES / bytes : 1;
    CHARL_SCOPED_FREE void *buffer = NULL;

    CHARL_TRY(charl__alloc_array(step, a->item_bytes, &buffer));
    for (int64_t i = 0, n; i < v->items; i += n) {
        n = charl__view_run(v, i, v->items - i < step ? v->items - i : step);
        CHARL_TRY(charl__array_read(&ds->file, a, charl__view_place(v, i), n, buffer));
        CHARL_TRY(each(ds, a, charl__view_place(v, i), n * charl_shape_count(&a->item), buffer, user));
    }
    return CHARL_OK;
}

/* The array to be predicted: the targets, or the tokens themselves. */
static charl__array *targets_of(const charl__view *v)
{
    return v->y ? v->y : v->x;
}

/* Findings of a scan of labels. */
typedef struct labels_seen {
    int64_t most;    /* the largest plus one */
    int64_t ignored; /* number that do not count */
    bool minus_100, zero;
} labels_seen;

static charl_status note_labels(charl_dataset *ds, const charl__array *a, int64_t first, int64_t n, const void *stored,
                                void *user)
{
    labels_seen *seen = user;

    for (int64_t i = 0; i < n; i++) {
        const int64_t v = stored_integer(a->dtype, stored, i);

        if (charl__label_is_ignored(ds->kind, &a->item, v)) {
            seen->ignored++;
            seen->minus_100 = seen->minus_100 || v == -100;
            continue;
        }
        CHARL_REQUIRE(v >= 0 && v < INT32_MAX, CHARL_ERR_DATA, "%s: %s: %lld in row %lld is not a class (0 to %d)",
                      ds->file.path, a->name, (long long)v, (long long)(first + i / charl_shape_count(&a->item)),
                      INT32_MAX - 1);
        seen->most = v >= seen->most ? v + 1 : seen->most;
        seen->zero = seen->zero || v == 0;
        CHARL_TRY(ds->labels ? charl__labels_add(ds->labels, v) : CHARL_OK);
    }
    return CHARL_OK;
}

charl_status charl__dataset_count_classes(charl_dataset *ds, int64_t *out)
{
    labels_seen seen = {0};

    for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
        const int64_t before = seen.ignored;

        if (ds->views[s].x) {
            CHARL_TRY(scan(ds, &ds->views[s], targets_of(&ds->views[s]), note_labels, &seen));
            ds->views[s].ignored = seen.ignored - before;
        }
    }
    /* Two classes written as -1 and 1 would lose one of them silently. */
    CHARL_REQUIRE(seen.ignored == 0 || seen.minus_100 || seen.zero || seen.most != 2, CHARL_ERR_DATA,
                  "%s: the labels in %s are -1 and 1, but -1 marks %s that do not count; HINT number the "
                  "classes 0 and 1",
                  ds->file.path, ds->views[CHARL_SPLIT_TRAIN].y->name,
                  ds->views[CHARL_SPLIT_TRAIN].y->item.ndim == 0 ? "samples" : "pixels");
    *out = seen.most;
    return CHARL_OK;
}

/* Class labels of all training rows, as far as they fit; NULL: there are none. Those that do not count are a class too. */
static charl_status read_labels(charl_dataset *ds, int32_t **out)
{
    const charl__view *v = &ds->views[CHARL_SPLIT_TRAIN];
    CHARL_SCOPED_FREE void *stored = NULL;

    *out = NULL;
    if (!v->y || ds->values || v->y->dtype == CHARL_F32 || v->y->item.ndim > 0) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__alloc_array(v->items, v->y->item_bytes, &stored));
    CHARL_TRY(charl__array_read(&ds->file, v->y, 0, v->items, stored));
    CHARL_TRY(charl__alloc_array(v->items, sizeof **out, out));
    for (int64_t i = 0; i < v->items; i++) {
        (*out)[i] = (int32_t)(stored_integer(v->y->dtype, stored, i) & INT32_MAX);
    }
    return CHARL_OK;
}

charl_status charl__dataset_fold(charl_dataset *ds, const charl_dataset_options *opt)
{
    charl__view *train = &ds->views[CHARL_SPLIT_TRAIN], *val = &ds->views[CHARL_SPLIT_VAL];
    const int64_t rows = train->items;
    CHARL_SCOPED_FREE int32_t *labels = NULL;
    CHARL_SCOPED_FREE uint8_t *chosen = NULL;
    int64_t n = 0;

    CHARL_REQUIRE(ds->kind != CHARL_DATASET_TOKENS, CHARL_ERR_CONFIG,
                  "%s holds tokens, of which there are no folds; HINT leave data.fold out", ds->file.path);
    CHARL_REQUIRE(!val->x, CHARL_ERR_CONFIG,
                  "%s has a validation set, and a fold would be another one; HINT import the data without a validation "
                  "set, or leave data.fold out",
                  ds->file.path);
    CHARL_REQUIRE(opt->folds <= rows, CHARL_ERR_CONFIG, "%s has %lld training rows, which are too few for %lld folds",
                  ds->file.path, (long long)rows, (long long)opt->folds);
    CHARL_TRY(read_labels(ds, &labels));
    CHARL_TRY(charl__split_fold(labels, rows, opt->fold, opt->folds, &chosen));
    CHARL_TRY(charl__alloc_array(rows, sizeof *ds->folded, &ds->folded));
    for (int64_t r = 0; r < rows; r++) {
        n += !chosen[r];
    }
    *val = *train;
    train->place = ds->folded;
    val->place = ds->folded + n;
    train->items = train->rows = n;
    val->items = val->rows = rows - n;
    for (int64_t r = 0, in = 0, out = n; r < rows; r++) {
        ds->folded[chosen[r] ? out++ : in++] = r;
    }
    return CHARL_OK;
}

static charl_status check_classes(charl_dataset *ds, const charl__array *a, int64_t first, int64_t n,
                                  const void *stored, void *user)
{
    (void)user;
    return to_classes(ds, a, first, n, stored, NULL);
}

/* Documents begin one after another, inside their split. */
charl_status charl__dataset_check_documents(charl_dataset *ds, charl_split split)
{
    charl__array *a = &ds->arrays[CHARL__DOC_START + split];
    const int64_t step = SCAN_BYTES / (int64_t)sizeof(int64_t);
    const int64_t tokens = ds->arrays[2 * split].rows;
    CHARL_SCOPED_FREE int64_t *starts = NULL;
    int64_t last = -1;

    CHARL_TRY(charl__alloc_array(step, sizeof *starts, &starts));
    for (int64_t i = 0; i < a->rows; i += step) {
        const int64_t n = a->rows - i < step ? a->rows - i : step;

        CHARL_TRY(charl__array_read(&ds->file, a, i, n, starts));
        for (int64_t k = 0; k < n; last = starts[k++]) {
            CHARL_REQUIRE(starts[k] > last && starts[k] < tokens, CHARL_ERR_DATA,
                          "%s: %s: document %lld begins at token %lld, after one at %lld of "
                          "%lld tokens",
                          ds->file.path, a->name, (long long)(i + k), (long long)starts[k], (long long)last,
                          (long long)tokens);
        }
    }
    return CHARL_OK;
}

static charl_status check_weights(charl_dataset *ds, const charl__view *v)
{
    const int64_t step = SCAN_BYTES / (int64_t)sizeof(float);
    CHARL_SCOPED_FREE float *w = NULL;

    CHARL_TRY(charl__alloc_array(step, sizeof *w, &w));
    for (int64_t i = 0; v->w && i < v->items; i += step) {
        CHARL_TRY(read_stored_weights(ds, v, i, v->items - i < step ? v->items - i : step, w));
    }
    return CHARL_OK;
}

charl_status charl_dataset_verify(charl_dataset *ds)
{
    CHARL_GIVEN(ds);
    CHARL_SCOPED(charl__tokenizer_left) charl_tokenizer *tokenizer = NULL;

    for (int j = 0; j < ds->n_parts; j++) {
        CHARL_TRY(charl_dataset_verify(ds->part[j]));
    }
    for (int i = 0; i < CHARL__ARRAYS; i++) {
        if (ds->arrays[i].rows > 0 && !(ds->arrays[i].packed && i < CHARL__FIELD_ARRAYS)) {
            CHARL_TRY(charl__array_verify(&ds->file, &ds->arrays[i]));
        }
    }
    for (int s = 0; !ds->values && s < CHARL_SPLIT_COUNT; s++) {
        if (ds->views[s].x) {
            CHARL_TRY(scan(ds, &ds->views[s], targets_of(&ds->views[s]), check_classes, NULL));
        }
        if (ds->arrays[CHARL__DOC_START + s].rows > 0) {
            CHARL_TRY(charl__dataset_check_documents(ds, (charl_split)s));
        }
    }
    for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
        if (ds->vocab > 0 && ds->views[s].x) {
            CHARL_TRY(scan(ds, &ds->views[s], ds->views[s].x, check_tokens, NULL));
        }
        CHARL_TRY(check_weights(ds, &ds->views[s]));
    }
    if (ds->stored->tokenizer_kind[0] && ds->n_parts == 0) {
        CHARL_TRY(charl__tokenizer_of_dataset(ds->file.path, &tokenizer));
    }
    return CHARL_OK;
}

charl_status charl__dataset_identify(charl_dataset *ds)
{
    CHARL_SCOPED(charl__text_fini) charl__text text = {0};

    CHARL_TRY(charl__text_printf(&text, "kind %s\n", charl_dataset_kind_name(ds->kind)));
    for (int i = 0; i < CHARL__ARRAYS; i++) {
        charl__array *a = &ds->arrays[i];
        char shape[CHARL_SHAPE_TEXT];
        uint32_t crc = 0;

        if (a->rows == 0 || (a->packed && i < CHARL__FIELD_ARRAYS)) {
            continue; /* packed: its parts are in the list too */
        }
        CHARL_TRY(charl__array_sum(&ds->file, a, &crc));
        CHARL_TRY(charl__text_printf(&text, "%s %s %lld %s %08x\n", a->name, charl_dtype_name(a->dtype),
                                     (long long)a->rows, charl_shape_format(&a->item, shape), crc));
    }
    charl__sha256_text(text.data, text.length, ds->content_id);
    return CHARL_OK;
}
