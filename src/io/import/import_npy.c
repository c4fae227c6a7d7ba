/* NumPy arrays, and pairs of them to a dataset. */
#include "io/import/import_npy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "base/text/utf8.h"
#include "charl/dataset.h"
#include "io/commit.h"
#include "io/dataset/dataset_write.h"
#include "io/dataset/text_labels.h"
#include "io/dataset/weights.h"
#include "io/h5_element.h"
#include "io/image_layout.h"
#include "io/import/importer.h"
#include "io/kind.h"

enum { MOST_TEXT = 1000, MAX_HEADER = 65536, BLOCK_BYTES = 1 << 20, MAX_ROW = 1 << 28 };

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

    if (p && p[0] == '\'' && p[1] && p[1] != '>' && (p[2] == 'U' || p[2] == 'S')) {
        const long n = strtol(p + 3, NULL, 10);

        CHARL_REQUIRE(n > 0 && n <= MOST_TEXT, CHARL_ERR_DATA, "%s: texts of %ld characters; there must be 1 to %d",
                      path, n, MOST_TEXT);
        a->type = p[2];
        a->size = (size_t)n * (p[2] == 'U' ? 4 : 1);
        return CHARL_OK;
    }
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

/* The array of an archive that is meant. */
static charl_status choose_member(const char *path, const charl__zip_member *members, int64_t n, const char *name,
                                  bool targets, const charl__zip_member **out)
{
    static const char *const usual[][2] = {{"x", "y"},
                                           {"X", "y"},
                                           {"X", "Y"},
                                           {"x_train", "y_train"},
                                           {"X_train", "y_train"},
                                           {"train_images", "train_labels"},
                                           {"images", "labels"},
                                           {"data", "labels"},
                                           {"data", "targets"},
                                           {"data", "target"},
                                           {"features", "labels"},
                                           {"arr_0", "arr_1"}};
    char list[512] = "";

    *out = NULL;
    for (size_t k = 0; !*out && k < (name ? 1 : sizeof usual / sizeof *usual); k++) {
        const charl__zip_member *found[2] = {NULL, NULL};

        for (int64_t i = 0; i < n; i++) {
            const size_t length = strlen(members[i].name) - (charl__ends_in(members[i].name, ".npy") ? 4 : 0);

            for (int j = 0; j < 2; j++) {
                const char *want = name ? name : usual[k][j];

                found[j] =
                    strlen(want) == length && memcmp(want, members[i].name, length) == 0 ? &members[i] : found[j];
            }
        }
        *out = found[0] && (found[1] || !targets) ? found[name ? 0 : targets] : NULL;
    }
    for (int64_t i = 0; i < n && strlen(list) + sizeof members->name < sizeof list; i++) {
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%.*s", i > 0 ? ", " : "",
                 (int)(strlen(members[i].name) - (charl__ends_in(members[i].name, ".npy") ? 4 : 0)), members[i].name);
    }
    CHARL_REQUIRE(*out, CHARL_ERR_DATA,
                  "%s: which arrays are samples and targets is not known; it has %s; HINT --x NAME --y NAME", path,
                  list);
    return CHARL_OK;
}

static charl_status open_source(charl__npy *a, const char *path, const char *name, bool targets)
{
    charl_status st = CHARL_OK;
    const charl__kind *kind = charl__kind_of(path);
    const charl__zip_member *member = NULL;
    charl__zip_member *members = NULL;
    int64_t n = 0;

    CHARL_TRY_CLEANUP(
        charl__kind_expect(path, CHARL__KIND_NPY | CHARL__KIND_NPZ, "a NumPy array (.npy or .npz)", CHARL_ERR_DATA));
    if (kind && !(kind->as & CHARL__KIND_NPY) && (kind->as & CHARL__KIND_NPZ) && kind->as != ~0U) {
        CHARL_TRY_CLEANUP(charl__zip_list(path, &members, &n));
        CHARL_TRY_CLEANUP(choose_member(path, members, n, name, targets, &member));
        CHARL_TRY_CLEANUP(charl__source_open_member(path, member, &a->source));
    } else {
        CHARL_TRY_CLEANUP(charl__source_open(path, &a->source));
    }
cleanup:
    charl_free(members);
    return st;
}

charl_status charl__npy_open(charl__npy *a, const char *path, const char *name, bool targets)
{
    charl_status st = CHARL_OK;
    unsigned char head[8];
    unsigned char length[4] = {0};
    char *header = NULL;
    const char *order;
    size_t bytes;

    CHARL_TRY_CLEANUP(open_source(a, path, name, targets));
    CHARL_TRY_CLEANUP(charl__source_exact(a->source, head, sizeof head, "the .npy header"));
    CHARL_REQUIRE_CLEANUP(memcmp(head, "\x93NUMPY", 6) == 0, CHARL_ERR_DATA, "%s: not an array of NumPy", path);
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

/* A text of a row as UTF-8; rows are padded with NUL. */
static charl_status text_at(const charl__npy *a, const unsigned char *p, charl__text *out)
{
    charl__text_clear(out);
    for (size_t i = 0; i + 1 <= a->size / (a->type == 'U' ? 4 : 1); i++) {
        const uint32_t point = a->type == 'U' ? (uint32_t)p[4 * i] | (uint32_t)p[4 * i + 1] << 8 |
                                                    (uint32_t)p[4 * i + 2] << 16 | (uint32_t)p[4 * i + 3] << 24
                                              : p[i];
        unsigned char bytes[4] = {(unsigned char)point};
        const size_t n = a->type == 'U' ? charl__utf8_put(point, bytes) : 1;

        if (point == 0) {
            break;
        }
        CHARL_TRY(charl__text_append(out, bytes, n));
    }
    return CHARL_OK;
}

/* Texts as classes. */
static charl_status read_texts(charl__npy *y, charl__text_labels *labels, charl__text *class_names)
{
    charl_status st = CHARL_OK;
    charl__text text = {0};
    unsigned char *raw = NULL;

    CHARL_TRY_CLEANUP(charl__alloc(y->size, &raw));
    for (int64_t i = 0; i < y->rows; i++) {
        CHARL_TRY_CLEANUP(charl__npy_read(y, 1, raw));
        CHARL_TRY_CLEANUP(text_at(y, raw, &text));
        st = charl__text_labels_add(labels, charl__text_string(&text));
        if (st == CHARL_ERR_DATA) {
            charl__error_prefix("%s: row %lld: ", charl__source_path(y->source), (long long)i);
        }
        CHARL_TRY_CLEANUP(st);
    }
    CHARL_TRY_CLEANUP(charl__text_labels_decide(labels, class_names));
cleanup:
    charl__text_fini(&text);
    charl_free(raw);
    return st;
}

static charl_status copy(charl__npy *x, charl__npy *y, const int32_t *labels, const charl__writer_spec *spec,
                         charl__writer *w)
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
        if (!labels) {
            CHARL_TRY_CLEANUP(next_rows(y, n, spec->kind, !spec->values, raw, ys));
        }
        CHARL_TRY_CLEANUP(charl__writer_put(w, xs, labels ? (const void *)(labels + i) : ys, n));
    }
    CHARL_TRY_CLEANUP(charl__source_end(x->source));
    CHARL_TRY_CLEANUP(charl__source_end(y->source));
cleanup:
    charl_free(ys);
    charl_free(xs);
    charl_free(raw);
    return st;
}

static bool is_text(const charl__npy *a)
{
    return a->type == 'U' || a->type == 'S';
}

static charl_status plan(charl__npy *x, const charl__npy *y, const charl_import_options *opt, charl__writer_spec *spec)
{
    const int64_t *dim = x->item.dim;

    CHARL_REQUIRE(x->rows == y->rows, CHARL_ERR_DATA, "%s has %lld rows but %s has %lld", charl__source_path(x->source),
                  (long long)x->rows, charl__source_path(y->source), (long long)y->rows);
    CHARL_REQUIRE(!is_text(x), CHARL_ERR_DATA,
                  "%s holds text, samples are numbers; HINT write a table (.csv), in which words are columns "
                  "of their own: `charl data import csv`",
                  charl__source_path(x->source));
    CHARL_REQUIRE(!is_text(y) || y->item.ndim == 0 || (y->item.ndim == 1 && y->item.dim[0] == 1), CHARL_ERR_DATA,
                  "%s holds several texts in a row; a sample has one class", charl__source_path(y->source));
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
    spec->y_item = is_text(y) ? (charl_shape){0} : y->item;
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

/* The array `x_name` of the file x, and y_name of y; NULL: the usual ones. */
static charl_status import(const char *const path[2], const char *x_name, const char *y_name, const char *out,
                           const charl_import_options *opt)
{
    charl_status st = CHARL_OK;
    charl__npy a[2] = {{0}, {0}};
    charl__writer_spec spec = {0};
    charl__writer *w = NULL;
    charl__text names = {0};
    charl__text_labels labels = {0};

    CHARL_TRY_CLEANUP(charl__commit_check_inputs(out, path, 2));
    CHARL_TRY_CLEANUP(charl__npy_open(&a[0], path[0], x_name, false));
    CHARL_TRY_CLEANUP(charl__npy_open(&a[1], path[1], y_name, true));
    CHARL_TRY_CLEANUP(plan(&a[0], &a[1], opt, &spec));
    if (is_text(&a[1])) {
        CHARL_TRY_CLEANUP(read_texts(&a[1], &labels, &names));
        spec.classes = labels.set.n;
    }
    CHARL_TRY_CLEANUP(charl__writer_create(out, &spec, opt, &w));
    if (labels.n > 0) {
        CHARL_TRY_CLEANUP(charl__writer_text(w, "class_names", charl__text_string(&names)));
    }
    CHARL_TRY_CLEANUP(copy(&a[0], &a[1], labels.label, &spec, w));
    CHARL_TRY_CLEANUP(charl__writer_finish(w));
cleanup:
    charl__writer_destroy(w);
    charl__npy_close(&a[0]);
    charl__npy_close(&a[1]);
    charl__text_fini(&names);
    charl__text_labels_fini(&labels);
    return st;
}

charl_status charl_import_npy(const char *x, const char *y, const char *out, const charl_import_options *opt)
{
    CHARL_GIVEN(x, out);
    return import((const char *const[2]){x, y ? y : x}, NULL, NULL, out, opt);
}

typedef struct npy_settings {
    const char *x, *y;
} npy_settings;

static charl_status run_npy(const void *settings, const char *const *files, int n, const char *out,
                            const charl_import_options *opt)
{
    const npy_settings *s = settings;

    if (n == 1) {
        CHARL_TRY(
            charl__kind_expect(files[0], CHARL__KIND_NPZ, "an archive (.npz) of samples and targets", CHARL_ERR_DATA));
    }
    return import((const char *const[2]){files[0], files[n - 1]}, s->x, s->y, out, opt);
}

static const charl_key keys[] = {
    {"x", CHARL_KEY_TEXT, offsetof(npy_settings, x), NULL, false,
     "name of the samples in an archive (default: x, X, x_train, images, data, ... whichever it has)", NULL},
    {"y", CHARL_KEY_TEXT, offsetof(npy_settings, y), NULL, false,
     "name of the targets in an archive (default: those that belong to the samples)", NULL},
};
static const npy_settings defaults = {NULL};

const charl_importer charl__importer_npy = {
    .row.name = "npy",
    .row.help = "NumPy arrays, or an archive of them (.npz)",
    CHARL_KEYS(keys),
    CHARL_DEFAULTS(defaults),
    .files = "X Y | ARCHIVE.npz",
    .group = 1,
    .most = 2,
    .note = "Integers as targets are classes, floats are values, and texts are classes with these names.",
    .run = run_npy,
};
