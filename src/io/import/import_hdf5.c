/* HDF5 files of any kind to one in charl's layout: contiguous, with checksums, statistics and splits. Files in that layout are merged. */
#include <stdio.h>

#include "io/dataset/dataset_private.h"
#include "io/import/import_paths.h"
#include "io/import/importer.h"

/* Open all files as one set. */
static charl_status open_files(const char *const *files, int n, const charl_hdf5_options *o, charl_dataset **out)
{
    charl_status st = CHARL_OK;
    const charl_dataset_options opt = {.x = o->x, .y = o->y, .weights = o->weights, .window = 1};
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

charl_status charl_import_hdf5(const char *const *files, int n, const charl_hdf5_options *hdf5, const char *out,
                               const charl_import_options *opt)
{
    charl_status st = CHARL_OK;
    const charl_hdf5_options none = {0};
    charl_import_options in_order = opt ? *opt : (charl_import_options){0};
    charl_dataset *ds = NULL;

    in_order.in_order = true;
    CHARL_TRY_CLEANUP(open_files(files, n, hdf5 ? hdf5 : &none, &ds));
    CHARL_TRY_CLEANUP(charl_dataset_sample(ds, 0, out, &in_order));
cleanup:
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

    if (!o->x == !o->y && (o->x || !o->weights)) {
        return true;
    }
    *key = o->x ? "x" : o->y ? "y" : "weights";
    snprintf(reason, CHARL_REASON_BYTES, "also needs --%s", o->x ? "y" : "x");
    return false;
}

static const charl_key keys[] = {
    {"x", CHARL_KEY_TEXT, offsetof(charl_hdf5_options, x), NULL, false,
     "name of the input array in files that charl did not write, e.g. /images", NULL},
    {"y", CHARL_KEY_TEXT, offsetof(charl_hdf5_options, y), NULL, false, "name of the target array, e.g. /labels", NULL},
    {"weights", CHARL_KEY_TEXT, offsetof(charl_hdf5_options, weights), NULL, false,
     "name of an array that says how much each row counts, e.g. /weights", NULL},
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
