#ifndef CHARL_DATA_IMPORT_IMPORT_HDF5_GROUPS_H
#define CHARL_DATA_IMPORT_IMPORT_HDF5_GROUPS_H
/** HDF5 files in which targets are attributes. */
#include "charl/dataset.h"
#include "charl/import.h"
#include "io/paths.h"

/** The importer's settings; NULL: not given. */
typedef struct charl__hdf5_settings {
    const char *x, *y, *weights;
    bool stacked; /* rows of each array are samples */
} charl__hdf5_settings;

/** Import if hdf5->y begins with @. Arrays follow one another in byte order of their paths. */
charl_status charl__import_hdf5_groups(const charl__paths *files, const charl__hdf5_settings *hdf5, const char *out,
                                       const charl_import_options *opt) CHARL_MUST_CHECK;

#endif
