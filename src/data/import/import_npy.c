/* NumPy arrays and IDX files, pairs of samples and targets, to a dataset. */
#include <string.h>

#include "base/alloc.h"
#include "io/commit.h"
#include "io/dataset/text_labels.h"
#include "io/image_layout.h"
#include "data/import/import_rows.h"
#include "data/import/importer.h"
#include "io/kind.h"
#include "data/rows/npy.h"
#include "charl/import.h"

/* Texts as classes. */
static charl_status read_texts(charl__npy *y, charl__text_labels *labels, charl__text *class_names)
{
    CHARL_SCOPED(charl__text_fini) charl__text text = {0};
    CHARL_SCOPED_FREE unsigned char *raw = NULL;

    CHARL_TRY(charl__alloc(y->size, &raw));
    for (int64_t i = 0; i < y->rows; i++) {
        CHARL_TRY(charl__npy_read(y, 1, raw));
        CHARL_TRY(charl__npy_text(y, raw, &text));
        CHARL_TRY(charl__error_in(charl__text_labels_add(labels, charl__text_string(&text)), CHARL_ERR_DATA,
                                  "%s: row %lld: ", charl__source_path(y->source), (long long)i));
    }
    CHARL_TRY(charl__text_labels_decide(labels, class_names));
    return CHARL_OK;
}

/* Samples are stored unchanged if they are u8, u16, u32 or f32. Integer targets are classes, float targets are values, text targets are classes
 * with these names. */
static charl_status decide(const charl__npy *x, const charl__npy *y, const charl_import_options *opt,
                           charl_data_schema *s)
{
    const int64_t *dim = x->item.dim;
    const bool values = y->element.kind == CHARL__ELEMENT_FLOAT && !y->text, images = !values && x->item.ndim >= 2;

    CHARL_REQUIRE(x->rows == y->rows, CHARL_ERR_DATA, "%s has %lld rows but %s has %lld", charl__source_path(x->source),
                  (long long)x->rows, charl__source_path(y->source), (long long)y->rows);
    CHARL_REQUIRE(!x->text, CHARL_ERR_DATA,
                  "%s holds text, samples are numbers; HINT write a table (.csv), whose categories become columns: "
                  "`charl data import csv`",
                  charl__source_path(x->source));
    CHARL_REQUIRE(!y->text || y->item.ndim == 0 || (y->item.ndim == 1 && y->item.dim[0] == 1), CHARL_ERR_DATA,
                  "%s holds several texts in a row; a sample has one class", charl__source_path(y->source));
    *s = charl__import_schema(values ? CHARL_DATASET_REGRESSION : images ? CHARL_DATASET_IMAGES : CHARL_DATASET_TABLE);
    s->x_dtype = charl__element_dtype(&x->element, false);
    s->x_shape = x->item;
    s->y_dtype = values ? CHARL_F32 : CHARL_I32;
    s->y_shape = y->text ? (charl_shape){0} : values && y->item.ndim == 0 ? (charl_shape){1, {1}} : y->item;
    if (charl__is_channels_last(&x->item)) {
        charl__import_note(
            opt,
            "%s: images of [%lld, %lld, %lld] have the channels last, and are written as [channels, height, width]",
            charl__source_path(x->source), (long long)dim[0], (long long)dim[1], (long long)dim[2]);
        s->x_shape = charl__channels_first(&x->item);
    } else if (images && x->item.ndim == 2) {
        s->x_shape = (charl_shape){3, {1, dim[0], dim[1]}}; /* one channel */
    }
    return CHARL_OK;
}

/* Pairs of samples and targets. x_name, y_name: the arrays of an archive; NULL: the usual ones. */
typedef struct pairs {
    const char *x[2], *y[2]; /* the second: for validation, or NULL */
    const char *x_name, *y_name;
    bool images; /* and a label each */
} pairs;

/* The contents of pair k, and the classes of its texts. */
static charl_status look(const pairs *p, int k, const charl_import_options *opt, charl_data_schema *s, int64_t *rows,
                         charl__text_labels *labels, charl__text *names)
{
    CHARL_SCOPED(charl__npy_close) charl__npy y = {0}, x = {0};

    if (p->images) {
        CHARL_TRY(charl__kind_expect(p->x[k], CHARL__KIND_IDX, "an IDX file", CHARL_ERR_DATA));
        CHARL_TRY(charl__kind_expect(p->y[k], CHARL__KIND_IDX, "an IDX file", CHARL_ERR_DATA));
    }
    CHARL_TRY(charl__npy_open(&x, p->x[k], p->x_name, false));
    CHARL_TRY(charl__npy_open(&y, p->y[k], p->y_name, true));
    CHARL_REQUIRE(!p->images || (x.item.ndim >= 2 && x.item.ndim <= 3 && y.item.ndim == 0), CHARL_ERR_DATA,
                  "%s is %d-dimensional and %s %d-dimensional; images are [n, h, w] or [n, c, h, w], labels [n]%s",
                  p->x[k], x.item.ndim + 1, p->y[k], y.item.ndim + 1,
                  x.item.ndim == 0 ? " (are labels and images exchanged?)" : "");
    CHARL_TRY(decide(&x, &y, opt, s));
    *rows = x.rows;
    if (y.text) {
        CHARL_TRY(read_texts(&y, labels, names));
    }
    return CHARL_OK;
}

static charl_status import(const pairs *p, const char *out, const charl_import_options *opt)
{
    charl_data_schema schema[2];
    charl__import_plan plan = {.schema = &schema[0]};
    CHARL_SCOPED(charl__text_fini) charl__text names = {0};
    CHARL_SCOPED(charl__text_labels_fini) charl__text_labels labels = {0};

    CHARL_TRY(charl__commit_check_inputs(out, p->x, 2));
    CHARL_TRY(charl__commit_check_inputs(out, p->y, 2));
    for (int k = 0; k < 2 && p->x[k]; k++) {
        CHARL_TRY(look(p, k, opt, &schema[k], &plan.rows[k], &labels, &names));
        CHARL_REQUIRE(charl_shape_equal(&schema[k].x_shape, &schema[0].x_shape) &&
                          charl_shape_equal(&schema[k].y_shape, &schema[0].y_shape) &&
                          schema[k].x_dtype == schema[0].x_dtype && schema[k].y_dtype == schema[0].y_dtype,
                      CHARL_ERR_DATA, "samples or targets of %s and %s differ in type or size", p->x[0], p->x[k]);
        plan.source[k] = (charl__rows_options){.schema = plan.schema,
                                               .imports = true,
                                               .model = "a dataset",
                                               .paths = &p->x[k],
                                               .n_paths = 1,
                                               .targets = p->y[k],
                                               .x_name = p->x_name,
                                               .y_name = p->y_name};
    }
    schema[0].class_names = names.length > 0 ? names.data : schema[0].class_names;
    plan.scales = schema[0].y_shape.ndim == 1; /* several dimensions have no mean of each */
    plan.classes = labels.set.n;
    plan.labels = labels.label;
    CHARL_TRY(charl__import_rows(&plan, out, opt));
    return CHARL_OK;
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
    return import(&(pairs){.x = {files[0]}, .y = {files[n - 1]}, .x_name = s->x, .y_name = s->y}, out, opt);
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

static charl_status run_idx(const void *settings, const char *const *files, int n, const char *out,
                            const charl_import_options *opt)
{
    (void)settings;
    return import(
        &(pairs){.x = {files[0], n == 4 ? files[2] : NULL}, .y = {files[1], n == 4 ? files[3] : NULL}, .images = true},
        out, opt);
}

const charl_importer charl__importer_idx = {
    .row.name = "idx",
    .row.help = "MNIST's format, plain or .gz",
    .files = "IMAGES LABELS [IMAGES LABELS]",
    .group = 2,
    .most = 4,
    .note = "The second pair becomes the validation set, with --val-split the test set.",
    .run = run_idx,
};
