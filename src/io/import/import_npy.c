/* NumPy arrays, and pairs of them to a dataset. */
#include "io/import/import_npy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "charl/dataset.h"
#include "io/commit.h"
#include "io/dataset/dataset_write.h"
#include "io/dataset/weights.h"
#include "io/h5_element.h"
#include "io/image_layout.h"
#include "io/import/importer.h"
#include "io/kind.h"

enum { MAX_HEADER = 65536, BLOCK_BYTES = 1 << 20, MAX_ROW = 1 << 28 };

/* What follows 'key': in the header. */
static const char *value_of(const char *header, const char *key)
{
    char quoted[32];
    const char *p;

    snprintf(quoted, sizeof quoted, "'%s':", key);
    p = strstr(header, quoted);
    if (!p) {
        return NULL;
    }
    p += strlen(quoted);
    return p + strspn(p, " ");
}

static charl_status parse_type(charl__npy *a, const char *path, const char *p)
{
    static const char *const known[] = {"u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f4", "f8", "b1"};
    bool ok = false;

    CHARL_REQUIRE(p && p[0] == '\'' && strlen(p) >= 5 && p[4] == '\'', CHARL_ERR_DATA,
                  "%s: element type not understood (structured or object arrays are not imported)", path);
    CHARL_REQUIRE(p[1] != '>', CHARL_ERR_DATA, "%s: big-endian elements; HINT x.astype(x.dtype.newbyteorder('<'))",
                  path);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        ok = ok || (p[2] == known[i][0] && p[3] == known[i][1]);
    }
    CHARL_REQUIRE(ok && (p[1] == '<' || p[1] == '|' || p[1] == '='), CHARL_ERR_DATA,
                  "%s: element type %.5s is not imported; HINT x.astype('float32')", path, p);
    a->type = p[2] == 'b' ? 'u' : p[2];
    a->size = (size_t)(p[3] - '0');
    return CHARL_OK;
}

static charl_status parse_shape(charl__npy *a, const char *path, const char *p)
{
    int64_t bytes = (int64_t)a->size;
    int n = 0;

    CHARL_REQUIRE(p && *p == '(', CHARL_ERR_DATA, "%s: the shape is not understood", path);
    p++;
    while (*p && *p != ')') {
        char *end;
        const long long extent = strtoll(p, &end, 10);

        CHARL_REQUIRE(end > p && extent > 0 && n < CHARL_MAX_DIMS, CHARL_ERR_DATA,
                      "%s: the shape must have 1 to %d positive extents", path, CHARL_MAX_DIMS);
        if (n == 0) {
            a->rows = extent;
        } else {
            CHARL_REQUIRE(extent <= MAX_ROW / bytes, CHARL_ERR_DATA, "%s: rows of more than %d bytes", path, MAX_ROW);
            a->item.dim[n - 1] = extent;
            bytes *= extent;
        }
        n++;
        p = end + strspn(end, ", ");
    }
    CHARL_REQUIRE(n >= 1 && *p == ')', CHARL_ERR_DATA, "%s: an array without dimensions", path);
    a->item.ndim = n - 1;
    a->per_row = charl_shape_count(&a->item);
    CHARL_REQUIRE(a->rows <= INT64_MAX / bytes, CHARL_ERR_DATA, "%s: the extents overflow", path);
    return CHARL_OK;
}

charl_status charl__npy_open(charl__npy *a, const char *path)
{
    charl_status st = CHARL_OK;
    unsigned char head[8];
    unsigned char length[4] = {0};
    char *header = NULL;
    const char *order;
    size_t bytes;

    CHARL_TRY_CLEANUP(charl__kind_expect(path, CHARL__KIND_NPY, "a NumPy array (.npy)", CHARL_ERR_DATA));
    CHARL_TRY_CLEANUP(charl__source_open(path, &a->source));
    CHARL_TRY_CLEANUP(charl__source_exact(a->source, head, sizeof head, "the .npy header"));
    CHARL_REQUIRE_CLEANUP(head[6] >= 1 && head[6] <= 3, CHARL_ERR_DATA, "%s: .npy version %d", path, head[6]);
    CHARL_TRY_CLEANUP(charl__source_exact(a->source, length, head[6] == 1 ? 2 : 4, "the .npy header"));
    bytes = length[0] | (size_t)length[1] << 8 | (size_t)length[2] << 16 | (size_t)length[3] << 24;
    CHARL_REQUIRE_CLEANUP(bytes < MAX_HEADER, CHARL_ERR_DATA, "%s: header of %zu bytes", path, bytes);
    CHARL_TRY_CLEANUP(charl__alloc(bytes + 1, &header));
    CHARL_TRY_CLEANUP(charl__source_exact(a->source, header, bytes, "the .npy header"));
    CHARL_TRY_CLEANUP(parse_type(a, path, value_of(header, "descr")));
    order = value_of(header, "fortran_order");
    CHARL_REQUIRE_CLEANUP(order && strncmp(order, "False", 5) == 0, CHARL_ERR_DATA,
                          "%s: Fortran order; HINT numpy.ascontiguousarray(x)", path);
    CHARL_TRY_CLEANUP(parse_shape(a, path, value_of(header, "shape")));
    CHARL_TRY_CLEANUP(charl__source_holds(a->source, a->rows * a->per_row * (int64_t)a->size, "the elements"));
cleanup:
    charl_free(header);
    return st;
}

/* Of type 'u' or 'i'; beyond int64 the largest one. */
static int64_t integer_at(const charl__npy *a, const unsigned char *p)
{
    uint64_t u = 0;

    for (size_t i = 0; i < a->size; i++) {
        u |= (uint64_t)p[i] << (8 * i);
    }
    if (a->type == 'i' && a->size < 8 && (u >> (8 * a->size - 1)) != 0) {
        return (int64_t)(u | ~UINT64_C(0) << (8 * a->size));
    }
    if (a->type == 'u' && u > INT64_MAX) {
        return INT64_MAX;
    }
    return (int64_t)u;
}

double charl__npy_number(const charl__npy *a, const unsigned char *p)
{
    float f;
    double d;

    if (a->type != 'f') {
        return (double)integer_at(a, p);
    }
    if (a->size == sizeof f) {
        memcpy(&f, p, sizeof f);
        return (double)f;
    }
    memcpy(&d, p, sizeof d);
    return d;
}

charl_status charl__npy_check_exact(const charl__npy *a, const unsigned char *raw, int64_t n)
{
    const charl__element e = {a->type == 'i' ? CHARL__ELEMENT_SIGNED : CHARL__ELEMENT_UNSIGNED, (int)a->size, false};
    char text[CHARL__ELEMENT_TEXT];
    float f;

    for (int64_t i = 0; a->type != 'f' && a->size >= sizeof f && i < n * a->per_row; i++) {
        CHARL_REQUIRE(charl__element_convert(&e, CHARL_F32, raw + (size_t)i * a->size, 1, &f) == 1, CHARL_ERR_DATA,
                      "%s: %s in row %lld (element %lld) is not exact in f32, which charl calculates with; HINT "
                      "x.astype('float32') if it may be rounded",
                      charl__source_path(a->source), charl__element_text(&e, raw, i, text),
                      (long long)(a->done - n + i / a->per_row), (long long)(i % a->per_row));
    }
    return CHARL_OK;
}

static float float_at(const charl__npy *a, const unsigned char *p)
{
    const double d = charl__npy_number(a, p);

    return fabs(d) <= (double)3.4028234e38F || isnan(d) ? (float)d : INFINITY;
}

void charl__npy_close(charl__npy *a)
{
    charl__source_close(a->source);
    a->source = NULL;
}

void charl__npy_take_as_row(charl__npy *a)
{
    for (int i = a->item.ndim; i > 0; i--) {
        a->item.dim[i] = a->item.dim[i - 1];
    }
    a->item.dim[0] = a->rows;
    a->item.ndim++;
    a->per_row *= a->rows;
    a->rows = 1;
}

void charl__npy_move_channels(charl__npy *a)
{
    a->item = charl__channels_first(&a->item);
    a->interleaved = true;
}

charl_status charl__npy_read(charl__npy *a, int64_t n, void *raw)
{
    charl_status st = CHARL_OK;
    const size_t bytes = (size_t)(n * a->per_row) * a->size;
    void *stored = NULL;

    if (a->interleaved) {
        CHARL_TRY_CLEANUP(charl__alloc(bytes, &stored));
    }
    CHARL_TRY_CLEANUP(charl__source_exact(a->source, stored ? stored : raw, bytes, "the elements"));
    if (stored) {
        charl__move_channels(&a->item, a->size, stored, n, raw);
    }
    a->done += n;
cleanup:
    charl_free(stored);
    return st;
}

/* The type that samples are stored in. */
static charl_dtype sample_dtype(const charl__npy *a)
{
    if (a->type == 'u' && a->size <= 4) {
        return a->size == 1 ? CHARL_U8 : a->size == 2 ? CHARL_U16 : CHARL_U32;
    }
    return CHARL_F32;
}

/* n rows as stored elements: raw when the stored type is the source's, else converted to f32, or to
 * i32 for classes. */
static charl_status next_rows(charl__npy *a, int64_t n, charl_dataset_kind kind, bool classes, unsigned char *raw,
                              void *out)
{
    const int64_t count = n * a->per_row;

    CHARL_TRY(charl__npy_read(a, n, raw));
    if (!classes) {
        CHARL_TRY(charl__npy_check_exact(a, raw, n));
    }
    for (int64_t i = 0; i < count; i++) {
        const unsigned char *p = raw + (size_t)i * a->size;

        if (classes) {
            const int64_t v = integer_at(a, p);

            CHARL_REQUIRE((v >= 0 && v < INT32_MAX) || charl__label_is_ignored(kind, &a->item, v), CHARL_ERR_DATA,
                          "%s: %lld in row %lld is not a class", charl__source_path(a->source), (long long)v,
                          (long long)(a->done - n + i / a->per_row));
            ((int32_t *)out)[i] = (int32_t)v;
        } else {
            ((float *)out)[i] = float_at(a, p);
        }
    }
    return CHARL_OK;
}

static charl_status copy(charl__npy *x, charl__npy *y, const charl__writer_spec *spec, charl__writer *w)
{
    charl_status st = CHARL_OK;
    const int64_t x_bytes = x->per_row * (int64_t)(x->size > 4 ? x->size : 4);
    const int64_t y_bytes = y->per_row * (int64_t)(y->size > 4 ? y->size : 4);
    const int64_t largest = x_bytes > y_bytes ? x_bytes : y_bytes;
    const int64_t block = largest < BLOCK_BYTES ? BLOCK_BYTES / largest : 1;
    unsigned char *raw = NULL;
    unsigned char *xs = NULL;
    unsigned char *ys = NULL;

    CHARL_TRY_CLEANUP(charl__alloc_array(block, (size_t)largest, &raw));
    CHARL_TRY_CLEANUP(charl__alloc_array(block, (size_t)x_bytes, &xs));
    CHARL_TRY_CLEANUP(charl__alloc_array(block, (size_t)y_bytes, &ys));
    for (int64_t i = 0; i < spec->rows; i += block) {
        const int64_t n = spec->rows - i < block ? spec->rows - i : block;

        if (spec->x_dtype == CHARL_F32) {
            CHARL_TRY_CLEANUP(next_rows(x, n, spec->kind, false, raw, xs));
        } else {
            CHARL_TRY_CLEANUP(charl__npy_read(x, n, xs));
        }
        CHARL_TRY_CLEANUP(next_rows(y, n, spec->kind, !spec->values, raw, ys));
        CHARL_TRY_CLEANUP(charl__writer_put(w, xs, ys, n));
    }
    CHARL_TRY_CLEANUP(charl__source_end(x->source));
    CHARL_TRY_CLEANUP(charl__source_end(y->source));
cleanup:
    charl_free(ys);
    charl_free(xs);
    charl_free(raw);
    return st;
}

static charl_status plan(charl__npy *x, const charl__npy *y, const charl_import_options *opt, charl__writer_spec *spec)
{
    const int64_t *dim = x->item.dim;

    CHARL_REQUIRE(x->rows == y->rows, CHARL_ERR_DATA, "%s has %lld rows but %s has %lld", charl__source_path(x->source),
                  (long long)x->rows, charl__source_path(y->source), (long long)y->rows);
    if (charl__is_channels_last(&x->item)) {
        charl__import_note(
            opt,
            "%s: images of [%lld, %lld, %lld] have the channels last, and are written as [channels, height, width]",
            charl__source_path(x->source), (long long)dim[0], (long long)dim[1], (long long)dim[2]);
        charl__npy_move_channels(x);
    }
    spec->rows = x->rows;
    spec->x_dtype = sample_dtype(x);
    spec->x_item = x->item;
    spec->y_item = y->item;
    spec->values = y->type == 'f';
    spec->kind = spec->values ? CHARL_DATASET_REGRESSION : CHARL_DATASET_TABLE;
    if (!spec->values && x->item.ndim >= 2) {
        spec->kind = CHARL_DATASET_IMAGES;
    }
    if (spec->kind == CHARL_DATASET_IMAGES && x->item.ndim == 2) {
        spec->x_item = (charl_shape){3, {1, dim[0], dim[1]}}; /* one channel */
    }
    if (spec->values && y->item.ndim == 0) {
        spec->y_item = (charl_shape){1, {1}}; /* the shape of a network's single output */
    }
    return CHARL_OK;
}

charl_status charl_import_npy(const char *x, const char *y, const char *out, const charl_import_options *opt)
{
    CHARL_GIVEN(x, out);
    charl_status st = CHARL_OK;
    charl__npy a[2] = {{0}, {0}};
    charl__writer_spec spec = {0};
    charl__writer *w = NULL;

    CHARL_TRY_CLEANUP(charl__commit_check_inputs(out, (const char *const[]){x, y}, 2));
    CHARL_TRY_CLEANUP(charl__npy_open(&a[0], x));
    CHARL_TRY_CLEANUP(charl__npy_open(&a[1], y));
    CHARL_TRY_CLEANUP(plan(&a[0], &a[1], opt, &spec));
    CHARL_TRY_CLEANUP(charl__writer_create(out, &spec, opt, &w));
    CHARL_TRY_CLEANUP(copy(&a[0], &a[1], &spec, w));
    CHARL_TRY_CLEANUP(charl__writer_finish(w));
cleanup:
    charl__writer_destroy(w);
    charl__npy_close(&a[0]);
    charl__npy_close(&a[1]);
    return st;
}

static charl_status run_npy(const void *settings, const char *const *files, int n, const char *out,
                            const charl_import_options *opt)
{
    (void)settings;
    (void)n;
    return charl_import_npy(files[0], files[1], out, opt);
}

const charl_importer charl__importer_npy = {
    .row.name = "npy",
    .row.help = "NumPy arrays",
    .files = "X Y",
    .group = 2,
    .most = 2,
    .run = run_npy,
};
