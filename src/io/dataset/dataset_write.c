/* Splits are segments of one long sequence of samples: a put is divided where it crosses from one to
 * the next. Means and deviations are sums of differences to the first sample, in double, so that a
 * large common offset loses no digits. */
#include "io/dataset/dataset_write.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/numeric/hash.h"
#include "base/text/utf8.h"
#include "io/commit.h"
#include "io/dataset/dataset_file.h"
#include "io/dataset/order/split.h"
#include "io/dataset/labels.h"
#include "io/dataset/weights.h"
#include "io/h5_array.h"
#include "io/h5_driver.h"
#include "io/h5_element.h"
#include "io/schema.h"
#include "io/scoped.h"

enum { MOST_STATS = 8192, MAX_TEXT = 60000 }; /* of an attribute */

typedef struct output {
    charl__h5_array array;
    size_t item_bytes;
    uint32_t *crc; /* per block */
    int64_t n_blocks;
} output;

/* The data for means and deviations. */
typedef struct stats {
    int n;                /* channels, columns or targets; 0: none are kept */
    double *shift;        /* [n] values of the first sample */
    double *sum, *square; /* [n] of value - shift over the training samples */
} stats;

struct charl__writer {
    char *path;
    charl__writer_spec spec;
    charl__commit commit;
    charl__h5_io io;
    hid_t h5;
    int64_t segment[CHARL_SPLIT_COUNT]; /* samples per split, in the order in which they arrive */
    output x[CHARL_SPLIT_COUNT];
    output y[CHARL_SPLIT_COUNT];
    int64_t put;       /* samples so far */
    int64_t max_label; /* -1: none yet */
    bool names_classes;
    charl__labels labels; /* of samples */
    stats x_stats, y_stats;
};

static int64_t announced(const charl__writer *w)
{
    return w->spec.rows + w->spec.more + w->spec.test;
}

static charl_status add_output(charl__writer *w, output *o, charl_dtype dtype, const charl_shape *item)
{
    const int64_t count = charl_shape_count(item);

    CHARL_REQUIRE(count > 0 && item->ndim < CHARL_MAX_DIMS &&
                      count <= INT64_MAX / 16 / (o->array.rows ? o->array.rows : 1),
                  CHARL_ERR_DATA, "%s: rows of %s have no or too many elements", w->path, o->array.name);
    o->array.path = w->path;
    o->array.dtype = dtype;
    o->array.item = *item;
    o->item_bytes = (size_t)count * charl_dtype_size(dtype);
    o->n_blocks = (o->array.rows * (int64_t)o->item_bytes + CHARL__BLOCK_BYTES - 1) / CHARL__BLOCK_BYTES;
    CHARL_TRY(charl__alloc_array(o->n_blocks, sizeof *o->crc, &o->crc));
    CHARL_TRY(charl__h5_array_create(&o->array, w->h5));
    return CHARL_OK;
}

static charl_status plan_segments(charl__writer *w, double val_split)
{
    const int64_t n = w->spec.rows;
    int64_t val = 0;

    CHARL_REQUIRE(n >= 1 && w->spec.more >= 0, CHARL_ERR_DATA, "%s: there are no samples", w->path);
    for (int64_t i = 0; w->spec.val && i < n; i++) {
        val += w->spec.val[i];
    }
    if (!w->spec.val) {
        CHARL_TRY(charl__val_split_count(w->path, "samples", n, val_split, &val));
    }
    w->segment[CHARL_SPLIT_TRAIN] = n - val;
    w->segment[CHARL_SPLIT_VAL] = val > 0 ? val : w->spec.more;
    w->segment[CHARL_SPLIT_TEST] = val > 0 ? w->spec.more : w->spec.test;
    return CHARL_OK;
}

static charl_status add_outputs(charl__writer *w)
{
    const charl__writer_spec *spec = &w->spec;
    const bool tokens = spec->kind == CHARL_DATASET_TOKENS;

    for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
        const char *split = charl_split_name((charl_split)s);

        if (w->segment[s] == 0) {
            continue;
        }
        CHARL_REQUIRE(!tokens || w->segment[s] >= 2, CHARL_ERR_DATA,
                      "%s: the %s set has 1 token; at least 2 are needed", w->path,
                      s == CHARL_SPLIT_TRAIN ? "training"
                      : s == CHARL_SPLIT_VAL ? "validation"
                                             : "test");
        snprintf(w->x[s].array.name, sizeof w->x[s].array.name, "/%s/%s", split, tokens ? "tokens" : "x");
        w->x[s].array.rows = w->segment[s];
        w->x[s].array.is_empty = spec->linked;
        CHARL_TRY(add_output(w, &w->x[s], spec->x_dtype, &spec->x_item));
        if (tokens) {
            continue;
        }
        snprintf(w->y[s].array.name, sizeof w->y[s].array.name, "/%s/y", split);
        w->y[s].array.rows = w->segment[s];
        CHARL_TRY(add_output(w, &w->y[s], spec->values ? CHARL_F32 : CHARL_I32, &spec->y_item));
    }
    return CHARL_OK;
}

static charl_status stats_init(stats *t, int64_t n)
{
    t->n = (int)n;
    CHARL_TRY(charl__alloc_array(n, sizeof(double), &t->shift));
    CHARL_TRY(charl__alloc_array(n, sizeof(double), &t->sum));
    CHARL_TRY(charl__alloc_array(n, sizeof(double), &t->square));
    return CHARL_OK;
}

static void stats_fini(stats *t)
{
    charl_free(t->shift);
    charl_free(t->sum);
    charl_free(t->square);
}

static charl_status add_stats(charl__writer *w)
{
    const charl_shape *x = &w->spec.x_item, *y = &w->spec.y_item;
    const int64_t n = x->ndim == 1 || x->ndim >= 3 ? x->dim[0] : 1;

    if (!charl__kind_has_tokens(w->spec.kind)) {
        CHARL_REQUIRE(n <= INT_MAX, CHARL_ERR_DATA, "%s: %lld columns are too many", w->path, (long long)n);
        CHARL_TRY(stats_init(&w->x_stats, n));
    }
    if (w->spec.values && w->spec.scales && y->ndim == 1 && y->dim[0] <= MOST_STATS) { /* lists of numbers */
        CHARL_TRY(stats_init(&w->y_stats, y->dim[0]));
    }
    return CHARL_OK;
}

charl_status charl__writer_may_create(const char *path, bool overwrite)
{
    struct stat info;

    if (lstat(path, &info) != 0) {
        return CHARL_OK;
    }
    CHARL_REQUIRE(!S_ISDIR(info.st_mode), CHARL_ERR_CONFIG, "%s is a folder; HINT name a file, such as data.h5", path);
    CHARL_REQUIRE(overwrite, CHARL_ERR_CONFIG, "%s: exists already; HINT remove it or use --overwrite", path);
    return CHARL_OK;
}

static charl_status open_file(charl__writer *w, bool overwrite)
{
    CHARL_H5_SCOPE;
    CHARL_SCOPED(charl__h5_close) hid_t fapl = H5I_INVALID_HID;
    const charl__h5_site site = {CHARL_ERR_DISK, w->path};

    CHARL_TRY(charl__writer_may_create(w->path, overwrite));
    CHARL_TRY(charl__commit_begin(w->path, &w->commit));
    w->io.fd = w->commit.fd;
    CHARL_TRY(charl__h5_driver_fapl(&w->io, &fapl));
    CHARL_H5_OPEN(CHARL_ERR_DISK, w->h5, H5Fcreate(w->commit.temp, H5F_ACC_TRUNC, H5P_DEFAULT, fapl),
                  "%s: cannot be created", w->path);
    CHARL_TRY(charl__h5_set_text(&site, w->h5, "charl_format", "dataset"));
    CHARL_TRY(charl__h5_set_i64(&site, w->h5, "charl_version", 1));
    CHARL_TRY(charl__h5_set_text(&site, w->h5, "kind", charl_dataset_kind_name(w->spec.kind)));
    return CHARL_OK;
}

charl_status charl__writer_create(const char *path, const charl__writer_spec *spec, const charl_import_options *opt,
                                  charl__writer **out)
{
    const charl_import_options none = {sizeof none};
    CHARL_SCOPED(charl__writer_left) charl__writer *w = NULL;

    *out = NULL;
    opt = opt ? opt : &none;
    CHARL_TRY(charl__alloc(sizeof *w, &w));
    w->spec = *spec;
    w->h5 = H5I_INVALID_HID;
    w->commit.fd = -1;
    w->max_label = -1;
    for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
        w->x[s].array.dataset = w->y[s].array.dataset = H5I_INVALID_HID;
    }
    CHARL_TRY(charl__strdup(path, &w->path));
    CHARL_TRY(plan_segments(w, opt->val_split));
    CHARL_TRY(add_stats(w));
    CHARL_TRY(open_file(w, opt->overwrite));
    CHARL_TRY(add_outputs(w));
    *out = w;
    w = NULL;
    return CHARL_OK;
}

const char *charl__name_fault(const char *name)
{
    static _Thread_local char text[96];
    const size_t bytes = strlen(name);
    uint32_t point;

    if (strchr(name, '\n')) {
        return "with a line end";
    }
    if (charl__utf8_valid(name, bytes) < bytes) {
        return "that is not UTF-8; HINT convert it with iconv";
    }
    if (strchr(name, '\t')) {
        return "with a tab";
    }
    if (charl__utf8_find_hidden(name, bytes, &point)) {
        snprintf(text, sizeof text, "with the control or invisible character U+%04X", point);
        return text;
    }
    return NULL;
}

charl_status charl__writer_number(charl__writer *w, const char *name, int64_t value)
{
    const charl__h5_site site = {CHARL_ERR_DISK, w->path};

    return charl__h5_set_i64(&site, w->h5, name, value);
}

charl_status charl__writer_text(charl__writer *w, const char *name, const char *text)
{
    const charl__h5_site site = {CHARL_ERR_DISK, w->path};
    const size_t bytes = strlen(text);
    const charl_shape one = {0, {0}};
    char array[CHARL__ARRAY_NAME];

    if (bytes == 0) {
        return CHARL_OK;
    }
    w->names_classes = w->names_classes || strcmp(name, "class_names") == 0;
    if (bytes <= MAX_TEXT) {
        return charl__h5_set_text(&site, w->h5, name, text);
    }
    snprintf(array, sizeof array, "/names/%s", name);
    return charl__writer_array(w, array, CHARL_U8, &one, (int64_t)bytes, text);
}

/* Checksums of the next `bytes` bytes of the array. */
static void fold_crc(output *o, const unsigned char *p, int64_t bytes)
{
    int64_t at = o->array.done * (int64_t)o->item_bytes;

    while (bytes > 0) {
        const int64_t block = at / CHARL__BLOCK_BYTES;
        const int64_t room = (block + 1) * CHARL__BLOCK_BYTES - at;
        const int64_t part = room < bytes ? room : bytes;

        o->crc[block] = charl__crc32c(o->crc[block], p, (size_t)part);
        p += part;
        at += part;
        bytes -= part;
    }
}

static charl_status append(charl__writer *w, output *o, const void *data, int64_t n)
{
    fold_crc(o, data, n * (int64_t)o->item_bytes);
    CHARL_TRY(charl__h5_array_append(&o->array, data, n));
    CHARL_TRY(charl__h5_io_check(&w->io, w->path, -1));
    return CHARL_OK;
}

/* Element i of `data`. */
static double number_at(charl_dtype dtype, const void *data, int64_t i)
{
    double v;

    charl_dtype_decode(dtype, (const char *)data + (size_t)i * charl_dtype_size(dtype), 1, &v);
    return v;
}

/* Accumulate n training samples or their targets; the very first gives the shift. */
static void stats_add(stats *t, charl_dtype dtype, int64_t per_item, const void *data, int64_t n, bool first)
{
    const int64_t inner = t->n ? per_item / t->n : 0;

    for (int c = 0; first && c < t->n; c++) {
        t->shift[c] = number_at(dtype, data, c * inner);
    }
    for (int64_t i = 0; i < n; i++) {
        for (int c = 0; c < t->n; c++) {
            double sum = 0;
            double square = 0;

            for (int64_t j = 0; j < inner; j++) {
                const double d = number_at(dtype, data, i * per_item + c * inner + j) - t->shift[c];

                sum += d;
                square += d * d;
            }
            t->sum[c] += sum;
            t->square[c] += square;
        }
    }
}

static charl_status check_put(charl__writer *w, const void *x, const void *y, int64_t n)
{
    const int64_t x_count = charl_shape_count(&w->spec.x_item);
    const int64_t y_count = charl_shape_count(&w->spec.y_item);

    CHARL_REQUIRE(n >= 0 && n <= announced(w) - w->put, CHARL_ERR_DATA, "%s: more samples than declared", w->path);
    for (int64_t i = 0; w->spec.x_dtype == CHARL_F32 && i < n * x_count; i++) {
        CHARL_REQUIRE(isfinite(((const float *)x)[i]), CHARL_ERR_DATA, "%s: sample %lld holds a NaN or an infinity",
                      w->path, (long long)(w->put + i / x_count));
    }
    for (int64_t i = 0; y && i < n * y_count; i++) {
        if (w->spec.values) {
            CHARL_REQUIRE(isfinite(((const float *)y)[i]), CHARL_ERR_DATA,
                          "%s: the target of sample %lld is not finite", w->path, (long long)(w->put + i / y_count));
        } else {
            const int32_t label = ((const int32_t *)y)[i];

            CHARL_REQUIRE(
                (label >= 0 && label < INT32_MAX) || charl__label_is_ignored(w->spec.kind, &w->spec.y_item, label),
                CHARL_ERR_DATA, "%s: sample %lld has label %d", w->path, (long long)(w->put + i / y_count), label);
            w->max_label = label > w->max_label ? label : w->max_label;
            if (label >= 0 && w->spec.y_item.ndim == 0) {
                CHARL_TRY(charl__labels_add(&w->labels, label));
            }
        }
    }
    return CHARL_OK;
}

charl_status charl__writer_documents(charl__writer *w, const int64_t *starts, int64_t n)
{
    const charl_shape one = {0, {0}};
    CHARL_SCOPED_FREE int64_t *own = NULL;
    int64_t base = 0;
    char name[CHARL__ARRAY_NAME];

    CHARL_TRY(charl__alloc_array(n + 1, sizeof *own, &own));
    for (int s = 0; s < CHARL_SPLIT_COUNT; base += w->segment[s], s++) {
        int64_t k = 0;

        for (; n > 0 && *starts < base + w->segment[s]; starts++, n--) {
            own[k++] = *starts - base;
        }
        if (k > 0) {
            snprintf(name, sizeof name, "/%s/doc_start", charl_split_name((charl_split)s));
            CHARL_TRY(charl__writer_array(w, name, CHARL_I64, &one, k, own));
        }
    }
    return CHARL_OK;
}

charl_status charl__writer_files(charl__writer *w, const unsigned char *records, int64_t width)
{
    const charl_shape record = {1, {width}};
    char name[CHARL__ARRAY_NAME];

    for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
        if (w->segment[s] > 0) {
            snprintf(name, sizeof name, "/files%s", w->x[s].array.name);
            CHARL_TRY(charl__writer_array(w, name, CHARL_U8, &record, w->segment[s], records));
            records += w->segment[s] * width;
        }
    }
    return CHARL_OK;
}

/* The destination of the next of n samples, and how many of the following have the same. */
static charl_split next_split(const charl__writer *w, int64_t n, int64_t *run)
{
    const uint8_t *val = w->spec.val;
    int s = 0;

    if (val && w->put < w->spec.rows) {
        for (*run = 1; *run < n && w->put + *run < w->spec.rows && val[w->put + *run] == val[w->put];) {
            ++*run;
        }
        return val[w->put] ? CHARL_SPLIT_VAL : CHARL_SPLIT_TRAIN;
    }
    while (w->segment[s] == w->x[s].array.done) {
        s++;
    }
    *run = w->segment[s] - w->x[s].array.done < n ? w->segment[s] - w->x[s].array.done : n;
    return (charl_split)s;
}

charl_status charl__writer_put(charl__writer *w, const void *x, const void *y, int64_t n)
{
    const unsigned char *px = x;
    const unsigned char *py = y;

    CHARL_TRY(check_put(w, x, y, n));
    while (n > 0) {
        int64_t k;
        const charl_split s = next_split(w, n, &k);

        if (s == CHARL_SPLIT_TRAIN) {
            stats_add(&w->x_stats, w->spec.x_dtype, charl_shape_count(&w->spec.x_item), px, k, w->x[s].array.done == 0);
            stats_add(&w->y_stats, CHARL_F32, charl_shape_count(&w->spec.y_item), py, k, w->x[s].array.done == 0);
        }
        CHARL_TRY(append(w, &w->x[s], px, k));
        px += (size_t)k * w->x[s].item_bytes;
        if (py) {
            CHARL_TRY(append(w, &w->y[s], py, k));
            py += (size_t)k * w->y[s].item_bytes;
        }
        w->put += k;
        n -= k;
    }
    return CHARL_OK;
}

static charl_status write_floats(charl__writer *w, hid_t object, const char *name, const float *values, int n)
{
    const hsize_t dims[1] = {(hsize_t)n};
    CHARL_SCOPED(charl__h5_close) hid_t space = H5I_INVALID_HID;
    CHARL_SCOPED(charl__h5_close) hid_t attr = H5I_INVALID_HID;

    CHARL_H5_OPEN(CHARL_ERR_DISK, space, H5Screate_simple(1, dims, NULL), "%s", w->path);
    CHARL_H5_OPEN(CHARL_ERR_DISK, attr, H5Acreate2(object, name, H5T_NATIVE_FLOAT, space, H5P_DEFAULT, H5P_DEFAULT),
                  "%s: attribute %s", w->path, name);
    CHARL_H5(CHARL_ERR_DISK, H5Awrite(attr, H5T_NATIVE_FLOAT, values), "%s: attribute %s", w->path, name);
    return CHARL_OK;
}

/* [2 t->n] means and deviations; `values` of each were added. */
static charl_status stats_finish(const stats *t, double values, float **out)
{
    CHARL_TRY(charl__alloc_array(t->n, 2 * sizeof **out, out));
    for (int c = 0; c < t->n; c++) {
        const double mean = t->sum[c] / values;
        const double variance = t->square[c] / values - mean * mean;
        const float std = (float)sqrt(variance > 0 ? variance : 0);

        (*out)[c] = (float)(t->shift[c] + mean);
        (*out)[t->n + c] = std > 0 ? std : 1.0F; /* a constant column is not scaled */
    }
    return CHARL_OK;
}

static charl_status write_stats(charl__writer *w)
{
    const charl__h5_site site = {CHARL_ERR_DISK, w->path};
    const output *x = &w->x[CHARL_SPLIT_TRAIN];
    const char *layout = charl__kind_has_tokens(w->spec.kind) ? "tokens" : x->array.item.ndim == 3 ? "NCHW" : "rows";
    const double rows = (double)x->array.rows;
    const int n = w->x_stats.n, m = w->y_stats.n;
    CHARL_SCOPED_FREE float *values = NULL, *targets = NULL;

    CHARL_TRY(charl__h5_set_text(&site, x->array.dataset, "layout", layout));
    if (n > 0) {
        CHARL_TRY(stats_finish(&w->x_stats, rows * (double)(charl_shape_count(&x->array.item) / n), &values));
    }
    if (n > MOST_STATS) {
        CHARL_TRY(charl__writer_array(w, "/stats/mean", CHARL_F32, &(charl_shape){0}, n, values));
        CHARL_TRY(charl__writer_array(w, "/stats/std", CHARL_F32, &(charl_shape){0}, n, values + n));
    } else if (n > 0) {
        CHARL_TRY(write_floats(w, x->array.dataset, "mean", values, n));
        CHARL_TRY(write_floats(w, x->array.dataset, "std", values + n, n));
    }
    if (m > 0) {
        CHARL_TRY(stats_finish(&w->y_stats, rows, &targets));
        CHARL_TRY(write_floats(w, w->h5, "target_mean", targets, m));
        CHARL_TRY(write_floats(w, w->h5, "target_std", targets + m, m));
    }
    return CHARL_OK;
}

static charl_status write_checksums(charl__writer *w, const output *o)
{
    charl_status st = CHARL_OK;
    charl__h5_array crc = {.path = w->path, .dtype = CHARL_U32, .rows = o->n_blocks, .dataset = H5I_INVALID_HID};

    if (o->array.dataset < 0) {
        goto cleanup;
    }
    snprintf(crc.name, sizeof crc.name, "/crc%.70s", o->array.name);
    CHARL_TRY_CLEANUP(charl__h5_array_create(&crc, w->h5));
    CHARL_TRY_CLEANUP(charl__h5_array_append(&crc, o->crc, o->n_blocks));
cleanup:
    charl__h5_close(&crc.dataset);
    return st;
}

/* Linked samples have only just been decoded; opening reads and checks everything in the file. */
static charl_status verify_written(const char *temp, void *user)
{
    const charl__writer *w = user;
    const charl_dataset_options opt = {sizeof opt, .window = 1};
    CHARL_SCOPED(charl__dataset_left) charl_dataset *ds = NULL;

    CHARL_TRY(charl_dataset_open(temp, &opt, &ds));
    if (!w->spec.linked) {
        CHARL_TRY(charl_dataset_verify(ds));
    }
    return CHARL_OK;
}

charl_status charl__writer_array(charl__writer *w, const char *name, charl_dtype dtype, const charl_shape *item,
                                 int64_t rows, const void *data)
{
    charl_status st = CHARL_OK;
    output o = {.array = {.dataset = H5I_INVALID_HID, .rows = rows}};

    snprintf(o.array.name, sizeof o.array.name, "%s", name);
    CHARL_TRY_CLEANUP(add_output(w, &o, dtype, item));
    CHARL_TRY_CLEANUP(append(w, &o, data, rows));
    CHARL_TRY_CLEANUP(write_checksums(w, &o));
cleanup:
    charl__h5_close(&o.array.dataset);
    charl_free(o.crc);
    return st;
}

static void close_handles(charl__writer *w)
{
    CHARL_H5_SCOPE;

    for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
        charl__h5_close(&w->x[s].array.dataset);
        charl__h5_close(&w->y[s].array.dataset);
    }
    charl__h5_close(&w->h5);
}

charl_status charl__writer_finish(charl__writer *w)
{
    CHARL_H5_SCOPE;
    const charl__h5_site site = {CHARL_ERR_DISK, w->path};
    const bool tokens = w->spec.kind == CHARL_DATASET_TOKENS;
    const int64_t labels = w->max_label + 1;

    CHARL_REQUIRE(w->put == announced(w), CHARL_ERR_DATA, "%s: %lld samples were declared, but %lld were written",
                  w->path, (long long)announced(w), (long long)w->put);
    CHARL_TRY(charl__labels_decide(&w->labels));
    if (w->spec.classes == 0 && !w->names_classes) {
        CHARL_TRY(charl__labels_check(&w->labels, w->path, "the target"));
    }
    /* Without a count, the labels are inspected when the file is opened, and may be names. */
    if (tokens || w->spec.classes > 0 || w->names_classes || (!w->spec.values && !w->labels.are_names)) {
        CHARL_TRY(charl__h5_set_i64(&site, w->h5, tokens ? "vocab" : "classes",
                                    w->spec.classes > labels ? w->spec.classes : labels));
    }
    CHARL_TRY(write_stats(w));
    for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
        CHARL_TRY(write_checksums(w, &w->x[s]));
        CHARL_TRY(write_checksums(w, &w->y[s]));
    }
    close_handles(w);
    CHARL_TRY(charl__h5_io_check(&w->io, w->path, -1));
    CHARL_TRY(charl__commit_end(&w->commit, verify_written, w));
    return CHARL_OK;
}

void charl__writer_destroy(charl__writer *w)
{
    if (!w) {
        return;
    }
    close_handles(w);
    if (w->path) {
        charl__commit_fini(&w->commit);
    }
    for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
        charl_free(w->x[s].crc);
        charl_free(w->y[s].crc);
    }
    stats_fini(&w->x_stats);
    stats_fini(&w->y_stats);
    charl__labels_fini(&w->labels);
    charl_free(w->path);
    charl_free(w);
}
