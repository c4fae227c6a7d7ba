#ifndef CHARL_DATA_IMPORT_IMPORT_HDF5_GROUPS_H
#define CHARL_DATA_IMPORT_IMPORT_HDF5_GROUPS_H
/** HDF5 files in which targets are attributes. */
#include "charl/dataset.h"
#include "charl/import.h"
#include "io/paths.h"

/** What the importer's keys say; NULL: nothing. */
typedef struct charl__hdf5_settings {
    const char *x, *y, *weights;
    bool stacked; /* rows of each array are samples */
} charl__hdf5_settings;

/** The import where hdf5->y begins with @. Arrays follow one another in the order of the bytes of their paths. */
charl_status charl__import_hdf5_groups(const charl__paths *files, const charl__hdf5_settings *hdf5, const char *out,
                                       const charl_import_options *opt) CHARL_MUST_CHECK;

#endif
