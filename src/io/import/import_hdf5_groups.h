#ifndef CHARL_IO_IMPORT_IMPORT_HDF5_GROUPS_H
#define CHARL_IO_IMPORT_IMPORT_HDF5_GROUPS_H
/** HDF5 files in which targets are attributes. */
#include "charl/dataset.h"
#include "io/import/import_paths.h"

/** charl_import_hdf5 where hdf5->y begins with @. */
charl_status charl__import_hdf5_groups(const charl__paths *files, const charl_hdf5_options *hdf5, const char *out,
                                       const charl_import_options *opt) CHARL_MUST_CHECK;

#endif
