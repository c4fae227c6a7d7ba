/* Converts HDF5 files of any kind to one file in charl's layout: contiguous, with checksums, statistics and splits. Files already in that layout are merged. */
#include <stdio.h>
#include <string.h>

#include "charl/dataset.h"
#include "data/import/import_hdf5_groups.h"
#include "io/commit.h"
#include "data/import/importer.h"
#include "data/rows/npy.h"
#include "io/dataset/dataset_hint.h"
#include "io/dataset/dataset_read.h"
#include "io/paths.h"
#include "io/scoped.h"

/* The rows of all files, as one set. */
static charl_status import_rows(const char *name, const charl__paths *paths, const charl__hdf5_settings *o,
                                const char *out, const charl_import_options *opt)
{
    const charl_dataset_options open = {sizeof open,           .x = o->x,   .y = o->y,
                                        .weights = o->weights, .window = 1, .moves_channels = true};
    CHARL_SCOPED(charl__dataset_left) charl_dataset *ds = NULL;

    CHARL_TRY(paths->n == 1 ? charl_dataset_open(paths->path[0], &open, &ds)
                            : charl__dataset_open_joined(name, paths->path, (int)paths->n, &open, &ds));
    if (o->x && charl__dataset_note(ds)[0]) {
        charl__import_note(opt, "%s", charl__dataset_note(ds));
    }
    CHARL_TRY(charl_dataset_sample(ds, 0, out, opt));
    return CHARL_OK;
}

static charl_status run_hdf5(const void *settings, const char *const *files, int n, const char *out,
                             const charl_import_options *opt)
{
    const charl__hdf5_settings *o = settings;
    CHARL_SCOPED(charl__paths_fini) charl__paths paths = {0};

    for (int i = 0; i < n; i++) {
        CHARL_TRY(charl__paths_add(&paths, files[i], ".h5|.hdf5"));
    }
    CHARL_TRY(charl__commit_check_inputs(out, (const char *const *)paths.path, paths.n));
    CHARL_TRY(o->y && o->y[0] == '@' ? charl__import_hdf5_groups(&paths, o, out, opt)
                                     : import_rows(files[0], &paths, o, out, opt));
    return CHARL_OK;
}

static bool check_hdf5(const void *settings, const char **key, char *reason)
{
    const charl__hdf5_settings *o = settings;
    const bool by_attribute = o->y && o->y[0] == '@';

    if (by_attribute && !o->y[1]) {
        *key = "y";
        snprintf(reason, CHARL_REASON_BYTES, "names no attribute; write @NAME");
        return false;
    }
    if (by_attribute && o->weights) {
        *key = "weights";
        snprintf(reason, CHARL_REASON_BYTES, "goes without --y @NAME");
        return false;
    }
    if (!by_attribute && (o->stacked || (o->x && strpbrk(o->x, "*?[")))) {
        *key = o->stacked ? "stacked" : "x";
        snprintf(reason, CHARL_REASON_BYTES, o->stacked ? "needs --y @NAME" : "of several arrays needs --y @NAME");
        return false;
    }
    if (!o->x == !o->y && (o->x || !o->weights)) {
        return true;
    }
    *key = o->x ? "x" : o->y ? "y" : "weights";
    snprintf(reason, CHARL_REASON_BYTES, "also needs --%s", o->x ? "y" : "x");
    return false;
}

/* The arrays that have the usual names of samples and targets. */
static charl_status suggest_hdf5(const char *path, const charl_suggest_options *opt, char **out)
{
    CHARL_H5_SCOPE;
    CHARL_SCOPED(charl__text_fini) charl__text settings = {0};
    char hint[CHARL__DATASET_HINT] = "";
    const hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    int k = 0;

    CHARL_REQUIRE(file >= 0, CHARL_ERR_DATA, "%s: cannot be opened by HDF5", path);
    while (charl__usual_arrays[k][0] && (H5Lexists(file, charl__usual_arrays[k][0], H5P_DEFAULT) <= 0 ||
                                         H5Lexists(file, charl__usual_arrays[k][1], H5P_DEFAULT) <= 0)) {
        k++;
    }
    charl__dataset_hint_arrays(file, hint);
    H5Fclose(file);
    CHARL_REQUIRE(charl__usual_arrays[k][0], CHARL_ERR_DATA,
                  "%s: which arrays are samples and targets is not known%s of `charl data import hdf5`", path, hint);
    charl__suggest_note(opt, "samples are the array /%s, targets the array /%s", charl__usual_arrays[k][0],
                        charl__usual_arrays[k][1]);
    CHARL_TRY(charl__text_printf(&settings, "x=/%s\ny=/%s", charl__usual_arrays[k][0], charl__usual_arrays[k][1]));
    *out = charl__text_steal(&settings);
    return CHARL_OK;
}

static const charl_key keys[] = {
    {"x", CHARL_KEY_TEXT, offsetof(charl__hdf5_settings, x), NULL, false,
     "name of the input array in files that charl did not write, e.g. /images; with --y @NAME a pattern such as "
     "'/*/image', and every array that matches is a sample",
     NULL},
    {"y", CHARL_KEY_TEXT, offsetof(charl__hdf5_settings, y), NULL, false,
     "name of the target array, e.g. /labels; @NAME: an attribute of the array or of a group that it is in", NULL},
    {"stacked", CHARL_KEY_BOOL, offsetof(charl__hdf5_settings, stacked), NULL, false,
     "with --y @NAME: the rows of each array are samples, instead of the array", NULL},
    {"weights", CHARL_KEY_TEXT, offsetof(charl__hdf5_settings, weights), NULL, false,
     "name of an array that says how much each row counts, e.g. /weights", NULL},
};
static const charl__hdf5_settings defaults = {0};

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
    .shuffles = true,
    .run = run_hdf5,
    .suggest = suggest_hdf5,
};
