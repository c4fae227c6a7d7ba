#ifndef CHARL_IO_DATASET_DATASET_HINT_H
#define CHARL_IO_DATASET_DATASET_HINT_H
/** What a user can do with a file or folder that is no dataset of charl's. Empty where nothing is known; never fails. */
#include "io/h5.h"

enum { CHARL__DATASET_HINT = 1024 };

/** The command that imports `path`, which is a folder or no HDF5 file: "; HINT convert it: ...". Returns text. */
const char *charl__dataset_hint_import(const char *path, char text[CHARL__DATASET_HINT]);

/** The arrays of an HDF5 file, to choose from: "; HINT it has /images u8 [60000, 784], ...: name them with data.x and data.y". Returns text. */
const char *charl__dataset_hint_arrays(hid_t file, char text[CHARL__DATASET_HINT]);

#endif
