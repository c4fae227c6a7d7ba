/* HDF5 files of any kind to one in charl's layout: contiguous, with checksums, statistics and splits. Files in that layout are merged. */
#include <stdio.h>

#include "base/alloc.h"
#include "io/dataset/dataset_private.h"
#include "io/dataset/dataset_write.h"
#include "io/import/import_paths.h"
#include "io/import/importer.h"

enum { PART_BYTES = 4 << 20 };

/* Open all files as one set. */
static charl_status open_files(const char *const *files, int n, const charl_hdf5_options *o, charl_dataset **out)
{
    charl_status st = CHARL_OK;
    const charl_dataset_options opt = {.x = o->x, .y = o->y, .window = 1};
    charl__paths paths = {0};

    *out = NULL;
    for (int i = 0; i < n; i++) {
        CHARL_TRY_CLEANUP(charl__paths_add(&paths, files[i], ".h5|.hdf5"));
    }
    if (paths.n == 1) {
        CHARL_TRY_CLEANUP(charl_dataset_open(paths.path[0], &opt, out));
    } else {
        CHARL_TRY_CLEANUP(charl__dataset_open_joined(files[0], paths.path, (int)paths.n, &opt, out));
    }
cleanup:
    charl__paths_fini(&paths);
    return st;
}

/* What the new file holds; what would be lost on the way is refused. */
static charl_status plan(const charl_dataset *ds, const charl_dataset_info *info, double val_split,
                         charl__writer_spec *spec)
{
    const bool has_val = info->rows[CHARL_SPLIT_VAL] > 0, has_test = info->rows[CHARL_SPLIT_TEST] > 0;

    CHARL_REQUIRE(info->kind != CHARL_DATASET_TOKENS, CHARL_ERR_DATA,
                  "%s holds tokens, which are not merged; HINT data.mix trains on several sets of tokens", info->path);
    for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
        CHARL_REQUIRE(!ds->views[s].w, CHARL_ERR_DATA, "%s has weights of targets, which are not imported", info->path);
    }
    CHARL_REQUIRE(!has_test, CHARL_ERR_DATA,
                  "%s has a test split, which is not imported; HINT data.path names several files too", info->path);
    CHARL_REQUIRE(!has_val || val_split <= 0, CHARL_ERR_CONFIG,
                  "%s has a validation set; --val-split is for sets without one", info->path);
    *spec = (charl__writer_spec){.kind = info->kind,
                                 .x_dtype = info->x_dtype,
                                 .x_item = info->x_shape,
                                 .values = ds->values,
                                 .y_item = info->y_shape,
                                 .rows = info->rows[CHARL_SPLIT_TRAIN],
                                 .more = info->rows[CHARL_SPLIT_VAL],
                                 .classes = info->classes};
    if (spec->values && spec->y_item.ndim == 0) {
        spec->y_item = (charl_shape){1, {1}}; /* the shape of a network's single output */
    }
    return CHARL_OK;
}

static charl_status copy(charl_dataset *ds, const charl_dataset_info *info, charl__writer *w)
{
    charl_status st = CHARL_OK;
    const int64_t x_bytes = charl_shape_count(&info->x_shape) * (int64_t)charl_dtype_size(info->x_dtype);
    const int64_t y_bytes = charl_shape_count(&info->y_shape) * (int64_t)charl_dtype_size(info->y_dtype);
    const int64_t most = x_bytes < PART_BYTES ? PART_BYTES / x_bytes : 1;
    int64_t *rows = NULL;
    void *x = NULL, *y = NULL;

    CHARL_TRY_CLEANUP(charl__alloc_array(most, sizeof *rows, &rows));
    CHARL_TRY_CLEANUP(charl__alloc_array(most, (size_t)x_bytes, &x));
    CHARL_TRY_CLEANUP(charl__alloc_array(most, (size_t)y_bytes, &y));
    for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
        for (int64_t first = 0; first < info->rows[s]; first += most) {
            const int64_t n = info->rows[s] - first < most ? info->rows[s] - first : most;

            for (int64_t i = 0; i < n; i++) {
                rows[i] = first + i;
            }
            CHARL_TRY_CLEANUP(charl_dataset_read(ds, (charl_split)s, rows, n, x, y));
            CHARL_TRY_CLEANUP(charl__writer_put(w, x, y, n));
        }
    }
cleanup:
    charl_free(y);
    charl_free(x);
    charl_free(rows);
    return st;
}

charl_status charl_import_hdf5(const char *const *files, int n, const charl_hdf5_options *hdf5, const char *out,
                               const charl_import_options *opt)
{
    charl_status st = CHARL_OK;
    const charl_hdf5_options none = {0};
    charl_dataset *ds = NULL;
    charl_dataset_info info;
    charl__writer_spec spec;
    charl__writer *w = NULL;

    CHARL_TRY_CLEANUP(open_files(files, n, hdf5 ? hdf5 : &none, &ds));
    charl_dataset_get_info(ds, &info);
    CHARL_TRY_CLEANUP(plan(ds, &info, opt ? opt->val_split : 0, &spec));
    CHARL_TRY_CLEANUP(charl__writer_create(out, &spec, opt, &w));
    CHARL_TRY_CLEANUP(charl__writer_text(w, "fit", info.fit));
    CHARL_TRY_CLEANUP(charl__writer_text(w, "class_names", info.class_names));
    CHARL_TRY_CLEANUP(charl__writer_text(w, "columns", info.columns));
    CHARL_TRY_CLEANUP(charl__writer_text(w, "targets", info.targets));
    CHARL_TRY_CLEANUP(charl__writer_text(w, "recipe", info.recipe));
    CHARL_TRY_CLEANUP(copy(ds, &info, w));
    CHARL_TRY_CLEANUP(charl__writer_finish(w));
cleanup:
    charl__writer_destroy(w);
    charl_dataset_close(ds);
    return st;
}

static charl_status run_hdf5(const void *settings, const char *const *files, int n, const char *out,
                             const charl_import_options *opt)
{
    return charl_import_hdf5(files, n, settings, out, opt);
}

static bool check_hdf5(const void *settings, const char **key, char *reason)
{
    const charl_hdf5_options *o = settings;

    if (!o->x == !o->y) {
        return true;
    }
    *key = o->x ? "x" : "y";
    snprintf(reason, CHARL_REASON_BYTES, "also needs --%s", o->x ? "y" : "x");
    return false;
}

static const charl_key keys[] = {
    {"x", CHARL_KEY_TEXT, offsetof(charl_hdf5_options, x), NULL, false,
     "name of the input array in files that charl did not write, e.g. /images", NULL},
    {"y", CHARL_KEY_TEXT, offsetof(charl_hdf5_options, y), NULL, false, "name of the target array, e.g. /labels", NULL},
};
static const charl_hdf5_options defaults = {0};

const charl_importer charl__importer_hdf5 = {
    .row.name = "hdf5",
    .row.help = "HDF5 files, into one that is read fastest: uncompressed, with checksums",
    CHARL_KEYS(keys),
    CHARL_DEFAULTS(defaults),
    .row.check = check_hdf5,
    .files = "FILE...",
    .group = 1,
    .note = "FILE is a file, a folder or a pattern such as 'part-*.h5'. The rows of all files follow one another. "
            "Files that charl wrote keep "
            "their splits, and need neither --x nor --y.",
    .run = run_hdf5,
};
