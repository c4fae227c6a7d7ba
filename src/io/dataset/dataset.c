/* Opening a dataset: finds its arrays and their meaning, and creates the splits as views of them. */
#include "charl/dataset.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/options.h"
#include "io/dataset/order/split.h"
#include "io/dataset/dataset_read.h"
#include "io/dataset/schema/data_schema.h"
#include "io/dataset/dataset_hint.h"
#include "io/dataset/dataset_mix.h"
#include "io/dataset/dataset_private.h"
#include "io/dataset/pictures/pictures.h"
#include "io/h5.h"
#include "io/image_layout.h"
#include "io/kind.h"
#include "io/paths.h"
#include "io/schema.h"

const char *charl_dataset_kind_name(charl_dataset_kind kind)
{
    static const char *const names[] = {"images", "tokens", "table", "regression", "sequences"};

    return (unsigned)kind < CHARL_DATASET_KIND_COUNT ? names[kind] : "?";
}

const char *charl_split_name(charl_split split)
{
    static const char *const names[] = {"train", "val", "test"};

    return (unsigned)split < CHARL_SPLIT_COUNT ? names[split] : "?";
}

static charl_status read_kind(charl_dataset *ds, hid_t root)
{
    const charl__h5_site site = {CHARL_ERR_DATA, ds->file.path};
    char text[32], hint[CHARL__DATASET_HINT];
    int64_t version = 0;

    if (!charl__h5_has(root, "charl_format")) {
        const charl__kind *kind = charl__kind_of(site.path);

        CHARL_FAIL(CHARL_ERR_DATA, "%s is %s%s", site.path, kind ? kind->name : "an HDF5 file",
                   charl__dataset_hint_arrays(ds->file.h5, hint));
    }
    CHARL_TRY(charl__h5_get_text(&site, root, "charl_format", text, sizeof text));
    CHARL_REQUIRE(strcmp(text, "dataset") == 0, CHARL_ERR_DATA, "%s: not a dataset: its charl_format is '%s'",
                  site.path, text);
    CHARL_TRY(charl__h5_get_i64(&site, root, "charl_version", &version));
    CHARL_REQUIRE(version == 1, CHARL_ERR_DATA, "%s: dataset format version %lld; this charl reads version 1",
                  site.path, (long long)version);
    CHARL_TRY(charl__h5_get_text(&site, root, "kind", text, sizeof text));
    ds->kind = charl__dataset_kind_of(text);
    CHARL_REQUIRE(ds->kind < CHARL_DATASET_KIND_COUNT, CHARL_ERR_DATA,
                  "%s: unknown kind \"%s\" (images, tokens, table, regression or sequences)", site.path, text);
    return CHARL_OK;
}

static charl_status read_attributes(charl_dataset *ds)
{
    CHARL_H5_SCOPE;
    const charl__h5_site site = {CHARL_ERR_DATA, ds->file.path};
    const char *count = NULL;
    CHARL_SCOPED(charl__h5_close) hid_t root = H5I_INVALID_HID;

    CHARL_H5_OPEN(CHARL_ERR_DATA, root, H5Gopen2(ds->file.h5, "/", H5P_DEFAULT), "%s", site.path);
    CHARL_TRY(read_kind(ds, root));
    count = ds->kind == CHARL_DATASET_TOKENS ? "vocab" : "classes";
    if (charl__h5_has(root, count)) {
        CHARL_TRY(charl__h5_get_i64(&site, root, count, &ds->classes));
        CHARL_REQUIRE(ds->classes >= 0 && ds->classes <= INT32_MAX, CHARL_ERR_DATA,
                      "%s: attribute %s is %lld; it must be 0 to %d", site.path, count, (long long)ds->classes,
                      INT32_MAX);
    }
    if (ds->kind == CHARL_DATASET_SEQUENCES && charl__h5_has(root, "vocab")) {
        CHARL_TRY(charl__h5_get_i64(&site, root, "vocab", &ds->vocab));
        CHARL_REQUIRE(ds->vocab > 0 && ds->vocab <= INT32_MAX, CHARL_ERR_DATA,
                      "%s: attribute vocab is %lld; it must be 1 to %d", site.path, (long long)ds->vocab, INT32_MAX);
    }
    if (ds->kind == CHARL_DATASET_TOKENS && charl__h5_has(root, "window")) {
        CHARL_TRY(charl__h5_get_i64(&site, root, "window", &ds->packed));
        CHARL_REQUIRE(ds->packed > 0, CHARL_ERR_DATA, "%s: attribute window is %lld; it must be 1 or more", site.path,
                      (long long)ds->packed);
    }
    CHARL_TRY(charl__file_text(&ds->file, "/", "fit", &ds->stored->fit));
    CHARL_TRY(charl__file_names(&ds->file, "class_names", &ds->stored->class_names));
    CHARL_TRY(charl__file_names(&ds->file, "columns", &ds->stored->columns));
    CHARL_TRY(charl__file_names(&ds->file, "targets", &ds->stored->targets));
    CHARL_TRY(charl__file_names(&ds->file, "recipe", &ds->stored->recipe));
    CHARL_TRY(charl__file_text(&ds->file, "/", "tokenizer", &ds->stored->tokenizer_kind));
    return CHARL_OK;
}

/* The pair of arrays of one split; x must exist if `must`, and y unless `unlabelled`.
 */
static charl_status open_pair(charl_dataset *ds, charl_split split, const char *x, const char *y, bool must,
                              bool unlabelled)
{
    charl__array *pair = &ds->arrays[2 * split];
    charl__view *v = &ds->views[split];
    bool found = false;

    CHARL_TRY(charl__file_find(&ds->file, x, &found));
    if (!found && !must) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__array_init(&pair[0], &ds->file, x, CHARL__ROLE_SAMPLES));
    v->x = &pair[0];
    v->items = v->rows = v->x->rows;
    if (y && unlabelled) {
        CHARL_TRY(charl__file_find(&ds->file, y, &found));
        y = found ? y : NULL;
    }
    if (!y) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__array_init(&pair[1], &ds->file, y, CHARL__ROLE_TARGETS));
    v->y = &pair[1];
    CHARL_REQUIRE(v->y->rows == v->x->rows, CHARL_ERR_DATA, "%s: %s has %lld rows but %s has %lld", ds->file.path, x,
                  (long long)v->x->rows, y, (long long)v->y->rows);
    /* [n,1] labels are labels, not vectors of one. */
    if (v->y->item.ndim == 1 && v->y->item.dim[0] == 1 && v->y->dtype != CHARL_F32) {
        v->y->item.ndim = 0;
    }
    return CHARL_OK;
}

/* The files that images come from, if recorded. */
static charl_status open_files(charl_dataset *ds, charl_split split)
{
    charl__array *a = &ds->arrays[CHARL__FILES + split];
    char name[32];
    bool found = false;

    snprintf(name, sizeof name, "/files/%s/x", charl_split_name(split));
    CHARL_TRY(charl__file_find(&ds->file, name, &found));
    if (found && ds->views[split].x) {
        CHARL_TRY(charl__array_init(a, &ds->file, name, CHARL__ROLE_SAMPLES));
        CHARL_REQUIRE(a->dtype == CHARL_U8 && a->item.ndim == 1 && a->item.dim[0] > CHARL__PICTURE_PATH &&
                          a->rows == ds->views[split].x->rows,
                      CHARL_ERR_DATA, "%s: %s does not list a file for each of %lld samples", ds->file.path, name,
                      (long long)ds->views[split].x->rows);
    }
    return CHARL_OK;
}

const char *charl__dataset_note(const charl_dataset *ds)
{
    return charl__text_string(&ds->file.note);
}

charl_status charl__dataset_file_of(charl_dataset *ds, charl_split split, int64_t row, char **out)
{
    const charl__view *v = &ds->views[split];
    char *record = NULL;

    *out = NULL;
    for (int s = 0; s < CHARL_SPLIT_COUNT; s++) { /* the validation set may be part of the training set */
        charl__array *a = &ds->arrays[CHARL__FILES + s];

        if (v->x == &ds->arrays[2 * s] && a->rows > 0) {
            CHARL_TRY(charl__alloc(a->item_bytes + 1, &record));
            *out = record;
            CHARL_TRY(charl__array_read(&ds->file, a, charl__view_place(v, row), 1, record));
            memmove(record, record + CHARL__PICTURE_PATH, a->item_bytes - CHARL__PICTURE_PATH + 1);
            return CHARL_OK;
        }
    }
    return CHARL_OK;
}

/* Weights of targets, if stored: one number for each, or for each token. */
static charl_status open_weights(charl_dataset *ds, charl_split split, const char *name)
{
    charl__array *a = &ds->arrays[CHARL__WEIGHTS + split];
    charl__view *v = &ds->views[split];
    const bool tokens = ds->kind == CHARL_DATASET_TOKENS;

    CHARL_REQUIRE(tokens || v->y, CHARL_ERR_DATA, "%s: %s weighs targets, but there are none", ds->file.path, name);
    CHARL_TRY(charl__array_init(a, &ds->file, name, CHARL__ROLE_SAMPLES));
    if (a->item.ndim == 1 && a->item.dim[0] == 1) {
        a->item.ndim = 0;
    }
    CHARL_REQUIRE(a->item.ndim == 0 && (a->dtype == CHARL_F32 || a->dtype == CHARL_U8), CHARL_ERR_DATA,
                  "%s: %s must be a list of f32 or u8, one for each %s", ds->file.path, name,
                  tokens ? "token" : "sample");
    CHARL_REQUIRE(a->rows == v->x->rows, CHARL_ERR_DATA, "%s: %s has %lld weights for %lld %s", ds->file.path, name,
                  (long long)a->rows, (long long)v->x->rows, tokens ? "tokens" : "samples");
    v->w = a;
    return CHARL_OK;
}

static charl_status find_weights(charl_dataset *ds, charl_split split, bool unlabelled)
{
    char name[32];
    bool found = false;

    snprintf(name, sizeof name, "/%s/weights", charl_split_name(split));
    CHARL_TRY(charl__file_find(&ds->file, name, &found));
    if (found && ds->views[split].x && !(unlabelled && !ds->views[split].y)) {
        CHARL_TRY(open_weights(ds, split, name));
    }
    return CHARL_OK;
}

/* The beginnings of documents, if stored. */
static charl_status open_documents(charl_dataset *ds, charl_split split)
{
    charl__array *a = &ds->arrays[CHARL__DOC_START + split];
    char name[32];
    bool found = false;

    snprintf(name, sizeof name, "/%s/doc_start", charl_split_name(split));
    CHARL_TRY(charl__file_find(&ds->file, name, &found));
    if (found) {
        CHARL_TRY(charl__array_init(a, &ds->file, name, CHARL__ROLE_TARGETS));
        CHARL_REQUIRE(a->dtype == CHARL_I64 && a->item.ndim == 0, CHARL_ERR_DATA, "%s: %s is not a list of i64",
                      ds->file.path, name);
    }
    return CHARL_OK;
}

/* The beginnings of documents, if they are to be separate. A split may be part of one. */
static charl_status read_starts(charl_dataset *ds)
{
    int64_t known = 0;

    for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
        charl__array *a = &ds->arrays[CHARL__DOC_START + s];

        if (a->rows > 0) {
            CHARL_TRY(charl__dataset_check_documents(ds, (charl_split)s));
            CHARL_TRY(charl__alloc_array(a->rows, sizeof *ds->starts[s], &ds->starts[s]));
            CHARL_TRY(charl__array_read(&ds->file, a, 0, a->rows, ds->starts[s]));
            ds->views[s].starts = ds->starts[s];
            ds->views[s].n_starts = a->rows;
            known += a->rows;
        }
    }
    CHARL_REQUIRE(known > 0, CHARL_ERR_CONFIG,
                  "documents = separate, but %s does not say where documents begin; HINT import several files, "
                  "lines of .jsonl, or tokens with --end-of-text",
                  ds->file.path);
    return CHARL_OK;
}

static charl_status open_own(charl_dataset *ds, bool unlabelled)
{
    CHARL_TRY(read_attributes(ds));
    for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
        const char *split = charl_split_name((charl_split)s);
        const bool tokens = ds->kind == CHARL_DATASET_TOKENS;
        char x[32];
        char y[32];

        snprintf(x, sizeof x, "/%s/%s", split, tokens ? "tokens" : "x");
        snprintf(y, sizeof y, "/%s/y", split);
        CHARL_TRY(open_pair(ds, (charl_split)s, x, tokens ? NULL : y, s == CHARL_SPLIT_TRAIN, unlabelled));
        if (tokens) {
            CHARL_TRY(open_documents(ds, (charl_split)s));
        }
        if (ds->kind == CHARL_DATASET_IMAGES) {
            CHARL_TRY(open_files(ds, (charl_split)s));
        }
        CHARL_TRY(find_weights(ds, (charl_split)s, unlabelled && !tokens));
    }
    return CHARL_OK;
}

static charl_status check_given(const charl_dataset *ds, const charl_dataset_options *opt)
{
    CHARL_REQUIRE(opt->y || opt->unlabelled, CHARL_ERR_CONFIG, "x is set but y is not; HINT y names the targets of %s",
                  ds->file.path);
    CHARL_REQUIRE(opt->y || !opt->weights, CHARL_ERR_CONFIG,
                  "weights is set but y is not; HINT y names the targets of %s", ds->file.path);
    return CHARL_OK;
}

/* The array that `weights` names; data without targets may lack it. */
static charl_status open_given_weights(charl_dataset *ds, const charl_dataset_options *opt)
{
    char name[CHARL__ARRAY_NAME];
    bool found = true;

    if (!opt->weights || !ds->views[CHARL_SPLIT_TRAIN].y) {
        return CHARL_OK;
    }
    CHARL_REQUIRE((size_t)snprintf(name, sizeof name, "%s%s", opt->weights[0] == '/' ? "" : "/", opt->weights) <
                      sizeof name,
                  CHARL_ERR_CONFIG, "%s: \"%s\" is not the name of an array", ds->file.path, opt->weights);
    CHARL_TRY(opt->unlabelled ? charl__file_find(&ds->file, name, &found) : CHARL_OK);
    return found ? open_weights(ds, CHARL_SPLIT_TRAIN, name) : CHARL_OK;
}

static charl_status open_fields(charl_dataset *ds, const charl_dataset_options *opt)
{
    CHARL_TRY(check_given(ds, opt));
    CHARL_TRY(charl__dataset_open_fields(ds, opt));
    return open_given_weights(ds, opt);
}

static charl_status open_foreign(charl_dataset *ds, const charl_dataset_options *opt)
{
    const charl__array *x = &ds->arrays[0];
    char names[2][CHARL__ARRAY_NAME];
    const char *given[2] = {opt->x, opt->y};

    CHARL_TRY(check_given(ds, opt));
    for (int i = 0; i < 2 && given[i]; i++) {
        const int len = snprintf(names[i], sizeof names[i], "%s%s", given[i][0] == '/' ? "" : "/", given[i]);

        CHARL_REQUIRE(len > 1 && len < CHARL__ARRAY_NAME, CHARL_ERR_CONFIG, "%s: \"%s\" is not the name of an array",
                      ds->file.path, given[i]);
    }
    CHARL_TRY(open_pair(ds, CHARL_SPLIT_TRAIN, names[0], opt->y ? names[1] : NULL, true, false));
    CHARL_TRY(open_given_weights(ds, opt));
    CHARL_TRY(charl__schema_set(&ds->stored->class_names, ds->arrays[1].class_names ? ds->arrays[1].class_names : ""));
    ds->classes = charl_names_count(ds->stored->class_names);
    ds->kind = opt->y && ds->arrays[1].dtype == CHARL_F32 ? CHARL_DATASET_REGRESSION
               : x->item.ndim >= 2                        ? CHARL_DATASET_IMAGES
                                                          : CHARL_DATASET_TABLE;
    CHARL_REQUIRE(!x->meaning.is_one_image, CHARL_ERR_DATA,
                  "%s: %s is one image (attribute CLASS), not a list of samples; HINT `charl data import hdf5 %s --x "
                  "'PATTERN' --y @ATTRIBUTE -o FILE.h5` takes each image as a sample",
                  ds->file.path, x->name, ds->file.path);
    if (charl__array_is_channels_last(x, &x->item)) {
        CHARL_REQUIRE(
            opt->moves_channels, CHARL_ERR_DATA,
            "%s: rows of %s are [%lld, %lld, %lld], with the channels last; charl reads images as [channels, height, "
            "width]; HINT `charl data import hdf5 %s --x %s --y %s -o FILE.h5` writes them so",
            ds->file.path, x->name, (long long)x->item.dim[0], (long long)x->item.dim[1], (long long)x->item.dim[2],
            ds->file.path, names[0], opt->y ? names[1] : "NAME");
        CHARL_TRY(charl__text_printf(
            &ds->file.note,
            "%srows of %s are [%lld, %lld, %lld], with the channels last, and are read as [channels, "
            "height, width]",
            ds->file.note.length ? "\n" : "", x->name, (long long)x->item.dim[0], (long long)x->item.dim[1],
            (long long)x->item.dim[2]));
        charl__array_move_channels(&ds->arrays[0]);
    }
    return CHARL_OK;
}

/* One for each number of a target. */
static charl_status read_target_stats(charl_dataset *ds)
{
    const charl__array *y = ds->views[CHARL_SPLIT_TRAIN].y;
    int64_t n_std = 0;

    CHARL_TRY(charl__file_stats(&ds->file, "/", "target_mean", &ds->stored->target_mean, &ds->stored->n_target_stats));
    CHARL_TRY(charl__file_stats(&ds->file, "/", "target_std", &ds->stored->target_std, &n_std));
    CHARL_REQUIRE(ds->stored->n_target_stats == n_std &&
                      (n_std == 0 || !y || (y->dtype == CHARL_F32 && y->item.ndim == 1 && n_std == y->item.dim[0])),
                  CHARL_ERR_DATA, "%s: %lld means and %lld deviations of targets do not fit the targets", ds->file.path,
                  (long long)ds->stored->n_target_stats, (long long)n_std);
    for (int i = 0; i < n_std; i++) {
        CHARL_REQUIRE(isfinite(ds->stored->target_mean[i]) && isfinite(ds->stored->target_std[i]) &&
                          ds->stored->target_std[i] > 0,
                      CHARL_ERR_DATA, "%s: mean or std of target %d is not usable", ds->file.path, i);
    }
    return CHARL_OK;
}

static charl_status read_stats(charl_dataset *ds)
{
    const charl__array *x = ds->views[CHARL_SPLIT_TRAIN].x;
    int64_t n_std = 0;

    CHARL_TRY(charl__file_text(&ds->file, x->name, "layout", &ds->stored->layout));
    CHARL_TRY(charl__file_stats(&ds->file, x->name, "mean", &ds->stored->mean, &ds->stored->n_stats));
    CHARL_TRY(charl__file_stats(&ds->file, x->name, "std", &ds->stored->std, &n_std));
    CHARL_REQUIRE(ds->stored->n_stats == n_std, CHARL_ERR_DATA, "%s: %s: %lld means but %lld deviations", ds->file.path,
                  x->name, (long long)ds->stored->n_stats, (long long)n_std);
    CHARL_REQUIRE(n_std == 0 || n_std == 1 || (x->item.ndim >= 1 && n_std == x->item.dim[0]), CHARL_ERR_DATA,
                  "%s: %s: %lld means do not fit the rows", ds->file.path, x->name, (long long)n_std);
    for (int i = 0; i < n_std; i++) {
        CHARL_REQUIRE(isfinite(ds->stored->mean[i]) && isfinite(ds->stored->std[i]) && ds->stored->std[i] > 0,
                      CHARL_ERR_DATA, "%s: %s: mean or std of channel %d is not usable", ds->file.path, x->name, i);
    }
    return ds->kind == CHARL_DATASET_TOKENS ? CHARL_OK : read_target_stats(ds);
}

/* The splits must have the same form; without a validation set, one is taken from the end of the training
 * rows. */
static charl_status make_views(charl_dataset *ds, const charl_dataset_options *opt)
{
    charl__view *train = &ds->views[CHARL_SPLIT_TRAIN];
    charl__view *val = &ds->views[CHARL_SPLIT_VAL];

    for (int s = 0; s < CHARL_SPLIT_COUNT && ds->kind != CHARL_DATASET_TOKENS; s++) {
        if (ds->views[s].x && ds->views[s].x->item.ndim == 0) { /* one number for each sample */
            ds->views[s].x->item = (charl_shape){1, {1}};
        }
    }
    for (int s = 1; s < CHARL_SPLIT_COUNT; s++) {
        const charl__view *v = &ds->views[s];

        CHARL_REQUIRE(!v->x || (v->x->dtype == train->x->dtype && charl_shape_equal(&v->x->item, &train->x->item)),
                      CHARL_ERR_DATA, "%s: rows of %s and %s differ in type or shape", ds->file.path, v->x->name,
                      train->x->name);
        CHARL_REQUIRE(!v->x || !v->y == !train->y, CHARL_ERR_DATA, "%s: %s has targets, %s has none", ds->file.path,
                      charl_split_name(v->y ? (charl_split)s : CHARL_SPLIT_TRAIN),
                      charl_split_name(v->y ? CHARL_SPLIT_TRAIN : (charl_split)s));
        CHARL_REQUIRE(!v->y || ((v->y->dtype == CHARL_F32) == (train->y->dtype == CHARL_F32) &&
                                charl_shape_equal(&v->y->item, &train->y->item)),
                      CHARL_ERR_DATA, "%s: rows of %s and %s differ in type or shape", ds->file.path, v->y->name,
                      train->y->name);
    }
    if (!val->x && opt->val_split > 0) {
        CHARL_REQUIRE(!ds->packed, CHARL_ERR_CONFIG,
                      "val_split would cut the windows of %s, into which documents were packed; HINT import again with "
                      "`charl data import chat --val-split`",
                      ds->file.path);
        int64_t n;

        CHARL_TRY(charl__val_split_count(ds->file.path, "rows", train->items, opt->val_split, &n));
        *val = *train;
        val->first = train->items - n;
        val->items = val->rows = n;
        train->items = train->rows = train->items - n;
    }
    return opt->folds > 0 ? charl__dataset_fold(ds, opt) : CHARL_OK;
}

/* Rows of tokens. */
static charl_status check_sequences(const charl_dataset *ds)
{
    const charl__array *x = ds->views[CHARL_SPLIT_TRAIN].x;

    CHARL_REQUIRE(x->item.ndim == 1 && x->item.dim[0] > 0 && x->dtype != CHARL_F32, CHARL_ERR_DATA,
                  "%s: %s must be rows of u8, u16 or u32", ds->file.path, x->name);
    return CHARL_OK;
}

/* Windows that fit for any shift of an epoch (training), or that tile the tokens (evaluation). */
static charl_status count_windows(charl_dataset *ds)
{
    CHARL_REQUIRE(ds->window >= 1, CHARL_ERR_CONFIG, "%s: tokens need a window (got %lld)", ds->file.path,
                  (long long)ds->window);
    CHARL_REQUIRE(ds->packed == 0 || ds->packed == ds->window || ds->window == 1, CHARL_ERR_CONFIG,
                  "%s: documents were packed into windows of %lld tokens, but the window (of a gpt: block_size) is "
                  "%lld; HINT set it to %lld, or import again with --window %lld",
                  ds->file.path, (long long)ds->packed, (long long)ds->window, (long long)ds->packed,
                  (long long)ds->window);
    for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
        charl__view *v = &ds->views[s];

        if (!v->x) {
            continue;
        }
        CHARL_REQUIRE(v->x->item.ndim == 0 && v->x->dtype != CHARL_F32, CHARL_ERR_DATA,
                      "%s: %s must be a list of u8, u16 or u32", ds->file.path, v->x->name);
        v->rows = s == CHARL_SPLIT_TRAIN && !ds->packed ? v->items / ds->window - 1 : (v->items - 1) / ds->window;
        CHARL_REQUIRE(v->rows >= 1, CHARL_ERR_DATA, "%s: %s: %lld tokens are too few for windows of %lld",
                      ds->file.path, charl_split_name((charl_split)s), (long long)v->items, (long long)ds->window);
    }
    return CHARL_OK;
}

/* The chunks that contain samples; NULL: none. */
static const charl__chunks *chunks_of(const charl__array *x)
{
    return x->n_parts > 0 ? x->part[0].array->chunks : x->chunks;
}

/* Which rows are stored together, and how many rows are shuffled at a time if blocks are. Small chunks are combined: finding each has
 * a cost. */
static void plan_blocks(charl_dataset *ds, const charl_dataset_options *opt)
{
    enum { BLOCK_BYTES = 1 << 18, WINDOW_BYTES = 64 << 20, BLOCKS = 8 };
    const charl__array *x = ds->views[CHARL_SPLIT_TRAIN].x;
    const int64_t tokens = ds->kind == CHARL_DATASET_TOKENS ? ds->window : 1;
    const int64_t row = (int64_t)x->item_bytes * tokens,
                  together = row < BLOCK_BYTES ? (BLOCK_BYTES + row - 1) / row : 1;
    const int64_t wanted = opt->shuffle_window > 0 ? opt->shuffle_window : row < WINDOW_BYTES ? WINDOW_BYTES / row : 1;
    const charl__chunks *chunks = chunks_of(x);
    int64_t block = wanted / BLOCKS < together ? wanted / BLOCKS : together;

    if (chunks && chunks->dim[0] > tokens) {
        const int64_t chunk = chunks->dim[0] / tokens;

        block = block > chunk ? block / chunk * chunk : chunk;
    }
    ds->block_rows = block > 1 ? block : 1;
    ds->shuffle_window = wanted / ds->block_rows > 2 ? wanted / ds->block_rows * ds->block_rows : 2 * ds->block_rows;
}

/* Room for the rows that are shuffled at a time, the next ones, and a margin. */
static int64_t default_cache_bytes(const charl_dataset *ds)
{
    const charl__array *x = ds->views[CHARL_SPLIT_TRAIN].x;
    const int64_t tokens = ds->kind == CHARL_DATASET_TOKENS ? ds->window : 1;
    const int64_t bytes = 3 * ds->shuffle_window * tokens * (int64_t)x->item_bytes;

    return bytes > CHARL_DATASET_CACHE_BYTES ? bytes : CHARL_DATASET_CACHE_BYTES;
}

/* Random order is slow if decoded chunks are evicted before their next row is needed. */
static charl_status note_rows(charl_dataset *ds, int64_t cache_bytes)
{
    const charl__array *x = ds->views[CHARL_SPLIT_TRAIN].x;
    const charl__chunks *chunks = chunks_of(x);
    const double bytes = (double)x->rows * (double)x->item_bytes;

    if (!chunks || chunks->dim[0] == 1 || bytes <= (double)cache_bytes) {
        return CHARL_OK;
    }
    return charl__text_printf(
        &ds->rows_note,
        "%s is chunked and larger (%.3g GB) than the memory for its chunks (%.3g GB), so nearly every shuffled row "
        "costs a chunk; with shuffle = blocks each chunk is needed once",
        x->name, bytes * 1e-9, (double)cache_bytes * 1e-9);
}

/* Labels that may be negative: reads all of them to find those that do not count. */
static bool is_signed_label(const charl_dataset *ds, const charl__array *y)
{
    return y && charl__label_is_ignored(ds->kind, &y->item, -1) && (y->dtype == CHARL_I32 || y->dtype == CHARL_I64);
}

static charl_status find_classes(charl_dataset *ds, const charl_dataset_options *opt)
{
    const charl__view *train = &ds->views[CHARL_SPLIT_TRAIN];
    int64_t most = 0;

    ds->values = train->y && (train->y->dtype == CHARL_F32 || ds->kind == CHARL_DATASET_REGRESSION);
    if (ds->values || (!train->y && ds->kind != CHARL_DATASET_TOKENS)) {
        ds->classes = ds->stored_classes = 0;
        return CHARL_OK;
    }
    ds->classes = opt->classes > 0 ? opt->classes : ds->classes;
    CHARL_REQUIRE(ds->classes <= INT32_MAX, CHARL_ERR_CONFIG, "%s: too many classes", ds->file.path);
    if (ds->classes == 0 && train->y && train->y->item.ndim == 0 && !ds->stored->class_names[0]) {
        CHARL_TRY(charl__alloc(sizeof *ds->labels, &ds->labels));
    }
    if (ds->classes == 0 || is_signed_label(ds, train->y)) {
        CHARL_TRY(charl__dataset_count_classes(ds, &most));
    }
    if (ds->classes == 0) { /* otherwise labels are compared with it whenever they are read */
        ds->classes = most;
    }
    ds->stored_classes = ds->classes;
    if (ds->labels) {
        CHARL_TRY(charl__labels_decide(ds->labels));
        CHARL_TRY(charl__labels_check(ds->labels, ds->file.path, train->y->name));
        CHARL_TRY(charl__dataset_name_labels(ds, ds->labels->are_names));
    }
    return CHARL_OK;
}

charl_status charl__dataset_name_labels(charl_dataset *ds, bool are_names)
{
    CHARL_SCOPED(charl__text_fini) charl__text names = {0};

    CHARL_TRY(charl__text_printf(&names, "%s", ""));
    if (are_names) {
        CHARL_TRY(charl__labels_list(ds->labels, &names));
    }
    charl_free(ds->stored->class_names);
    ds->stored->class_names = charl__text_steal(&names);
    ds->labels->are_names = are_names;
    ds->classes = ds->stored_classes = are_names ? ds->labels->n : ds->labels->most;
    return CHARL_OK;
}

static charl_status seal(charl_dataset *ds, const charl_dataset_options *opt, int64_t cache_bytes)
{
    const int usual = ds->views[CHARL_SPLIT_TRAIN].x->pictures ? CHARL_DATASET_PICTURE_THREADS : CHARL_DATASET_THREADS;

    CHARL_TRY(charl__chunk_cache_create(cache_bytes, opt->threads > 0 ? opt->threads : usual, &ds->cache));
    CHARL_TRY(charl__file_seal(&ds->file, ds->arrays, CHARL__ARRAYS, ds->cache));
    return CHARL_OK;
}

charl_status charl__dataset_complete(charl_dataset *ds, const charl_dataset_options *opt)
{
    int64_t cache_bytes;

    CHARL_TRY(make_views(ds, opt));
    if (ds->kind == CHARL_DATASET_TOKENS) {
        CHARL_TRY(count_windows(ds));
    } else if (ds->kind == CHARL_DATASET_SEQUENCES) {
        CHARL_TRY(check_sequences(ds));
    }
    for (int s = 0; s < CHARL_SPLIT_COUNT && opt->fractions; s++) {
        if (ds->views[s].y) {
            ds->views[s].y->fractions = ds->views[s].y->dtype == CHARL_F32;
        }
    }
    plan_blocks(ds, opt);
    cache_bytes = opt->cache_bytes > 0 ? opt->cache_bytes : default_cache_bytes(ds);
    CHARL_TRY(note_rows(ds, cache_bytes));
    if (ds->n_joined == 0) {
        CHARL_TRY(seal(ds, opt, cache_bytes));
    }
    CHARL_TRY(find_classes(ds, opt));
    CHARL_TRY(charl__dataset_identify(ds));
    return charl__dataset_draw(ds, opt->sampling);
}

/* Whether x or y names its arrays: NAME:/ARRAY. */
static bool has_names(const charl_dataset_options *opt)
{
    charl__field_spec x[CHARL__MAX_FIELDS], y[CHARL__MAX_FIELDS];
    char why[256];
    const int n = charl__field_specs(opt->x, x, why, sizeof why);
    const int m = opt->y ? charl__field_specs(opt->y, y, why, sizeof why) : 0;

    return n != 1 || m < 0 || m > 1 || x[0].name[0] || (m == 1 && y[0].name[0]);
}

static charl_status open_all(charl_dataset *ds, const char *path, const charl_dataset_options *opt)
{
    CHARL_TRY(charl__file_init(&ds->file, path));
    if (opt->x && has_names(opt)) {
        CHARL_TRY(open_fields(ds, opt));
    } else if (opt->x) {
        CHARL_TRY(open_foreign(ds, opt));
    } else {
        CHARL_REQUIRE(!opt->y && !opt->weights, CHARL_ERR_CONFIG,
                      "%s is set but x is not; HINT x names the samples of %s", opt->y ? "y" : "weights", path);
        CHARL_TRY(open_own(ds, opt->unlabelled));
    }
    if (!ds->stored->fields[0]) { /* fields bring their own */
        CHARL_TRY(read_stats(ds));
    }
    if (opt->separate && ds->kind == CHARL_DATASET_TOKENS) {
        CHARL_TRY(read_starts(ds));
    }
    CHARL_TRY(charl__dataset_complete(ds, opt));
    return CHARL_OK;
}

charl_status charl__dataset_create(charl_dataset **out)
{
    charl_dataset *ds;

    CHARL_TRY(charl__alloc(sizeof *ds, out));
    ds = *out;
    ds->file.fd = -1;
    ds->file.h5 = H5I_INVALID_HID;
    for (int i = 0; i < CHARL__ARRAYS; i++) {
        ds->arrays[i].dataset = ds->arrays[i].type = H5I_INVALID_HID;
    }
    return charl__schema_new(&ds->stored);
}

charl_status charl_dataset_open(const char *path, const charl_dataset_options *opt, charl_dataset **out)
{
    CHARL_GIVEN(path, out);
    CHARL__OPTIONS(charl_dataset_options, opt);
    charl_status st = CHARL_OK;
    const charl_dataset_options none = {sizeof none};
    charl_dataset *ds = NULL;
    charl__paths paths = {0};

    *out = NULL;
    opt = opt ? opt : &none;
    CHARL_TRY_CLEANUP(charl__val_split_check(opt->val_split));
    CHARL_REQUIRE_CLEANUP(opt->classes >= 0, CHARL_ERR_CONFIG, "classes must not be negative");
    if (strpbrk(path, "*?[") && access(path, F_OK) != 0) {
        CHARL_TRY_CLEANUP(charl__paths_add(&paths, path, ".h5|.hdf5"));
        CHARL_REQUIRE_CLEANUP(paths.n <= INT32_MAX, CHARL_ERR_DATA, "%s: too many files", path);
        CHARL_TRY_CLEANUP(charl__dataset_open_joined(path, paths.path, (int)paths.n, opt, out));
        goto cleanup;
    }
    CHARL_TRY_CLEANUP(charl__dataset_create(&ds));
    ds->window = opt->window;
    st = open_all(ds, path, opt);
    CHARL_TRY_CLEANUP(opt->x ? st : charl__kind_explain(st, path, CHARL__KIND_DATASET, "a dataset", CHARL_ERR_DATA));
    *out = ds;
    ds = NULL;
cleanup:
    charl__paths_fini(&paths);
    charl_dataset_close(ds);
    return st;
}

charl_status charl__dataset_check(charl_dataset *ds)
{
    CHARL_GIVEN(ds);
    for (int j = 0; j < ds->n_parts; j++) {
        CHARL_TRY(charl__dataset_check(ds->part[j]));
    }
    for (int j = 0; j < ds->n_joined; j++) {
        CHARL_TRY(charl__dataset_check(ds->joined[j]));
    }
    return ds->n_parts > 0 || ds->n_joined > 0 ? CHARL_OK : charl__file_look(&ds->file, true);
}

bool charl_dataset_is_thread_safe(void)
{
    return charl__h5_is_thread_safe();
}

void charl_dataset_close(charl_dataset *ds)
{
    if (!ds) {
        return;
    }
    charl_free(ds->folded);
    while (ds->permuted) {
        const charl__permuted *const last = ds->permuted;

        ds->permuted = last->before;
        charl_free((void *)(uintptr_t)last);
    }
    if (ds->part) {
        charl__mix_fini(ds);
    } else {
        for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
            charl_free(ds->starts[s]);
        }
        for (int i = 0; i < CHARL__ARRAYS; i++) {
            charl__array_fini(&ds->arrays[i]);
        }
        charl__file_fini(&ds->file);
        charl__chunk_cache_destroy(ds->cache);
        for (int j = 0; j < ds->n_joined; j++) {
            charl_dataset_close(ds->joined[j]);
        }
        charl_free(ds->joined);
    }
    charl__text_fini(&ds->rows_note);
    charl_data_schema_destroy(ds->stored);
    if (ds->labels) {
        charl__labels_fini(ds->labels);
    }
    charl_free(ds->labels);
    charl_free(ds->class_map);
    charl_free(ds->column_map);
    charl_free(ds->target_map);
    charl_free(ds->class_weights);
    charl_free(ds->draws);
    charl_free(ds);
}

/* Whether the file, or every file of its parts, stores checksums of the array. */
static bool has_checksums(const charl__array *a)
{
    bool all = true;

    for (int i = 0; i < a->n_parts; i++) {
        all = all && has_checksums(a->part[i].array);
    }
    return a->n_parts > 0 ? all : a->n_blocks > 0 && !a->is_summed;
}

/* Whether several threads read it. */
static bool is_native(const charl__array *a)
{
    bool all = true;

    for (int i = 0; i < a->n_parts; i++) {
        all = all && is_native(a->part[i].array);
    }
    return a->n_parts > 0 ? all : a->offset >= 0 || (a->chunks && !a->chunks->by_hdf5);
}

bool charl__dataset_is_weighted(const charl_dataset *ds, charl_split split)
{
    const charl__view *v = &ds->views[split];

    return (split == CHARL_SPLIT_TRAIN && (ds->class_weights || ds->forgotten)) || v->ignored > 0 || v->w || v->starts;
}

void charl_dataset_get_info(const charl_dataset *ds, charl_dataset_info *out)
{
    if (!out) {
        return;
    }
    *out = (charl_dataset_info){0};
    if (!ds) {
        return;
    }
    const charl__view *train = &ds->views[CHARL_SPLIT_TRAIN];
    const bool tokens = ds->kind == CHARL_DATASET_TOKENS;
    const charl_shape window = {1, {ds->window}};

    if (ds->n_parts > 0) {
        charl__mix_info(ds, out);
        return;
    }
    charl__data_schema_get_info(ds->stored, ds->file.path, out);
    out->kind = ds->kind;
    out->x_dtype = tokens ? CHARL_I32 : train->x->dtype;
    out->x_shape = tokens ? window : train->x->item;
    out->stored_dtype = train->x->dtype;
    out->y_dtype = ds->values ? CHARL_F32 : CHARL_I32;
    out->labelled = tokens || train->y;
    out->val_is_cut = ds->views[CHARL_SPLIT_VAL].x == train->x && !train->place;
    out->y_shape = tokens ? window : train->y ? train->y->item : (charl_shape){0};
    out->classes = ds->classes;
    out->block_rows = ds->block_rows;
    out->shuffle_window = ds->shuffle_window;
    out->checksums = out->native = true;
    out->note = charl__text_string(&ds->file.note);
    out->sampling = ds->sampling;
    out->rows_note = charl__text_string(&ds->rows_note);
    for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
        const charl__view *v = &ds->views[s];

        out->rows[s] = v->rows;
        out->items[s] = v->items;
        out->documents[s] = ds->arrays[CHARL__DOC_START + s].rows;
        out->ignored[s] = v->ignored;
        out->weighted = out->weighted || charl__dataset_is_weighted(ds, (charl_split)s);
        for (int i = 0; i < 2; i++) {
            const charl__array *a = i == 0 ? v->x : v->y;

            out->checksums = out->checksums && (!a || has_checksums(a));
            out->native = out->native && (!a || is_native(a));
        }
    }
    for (int j = 0; j < ds->n_joined; j++) {
        charl_dataset_info part;

        charl_dataset_get_info(ds->joined[j], &part);
        out->note = out->note[0] ? out->note : part.note;
    }
    memcpy(out->content_id, ds->content_id, sizeof out->content_id);
}
