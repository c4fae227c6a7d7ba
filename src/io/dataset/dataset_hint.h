#ifndef CHARL_IO_DATASET_DATASET_HINT_H
#define CHARL_IO_DATASET_DATASET_HINT_H
/** Suggestions for an HDF5 file of another program. Never fails. */
#include "io/h5.h"

enum { CHARL__DATASET_HINT = 1024 };

/** The arrays of an HDF5 file, to choose from: "; HINT it has /images u8 [60000, 784], ...: name them with data.x and data.y". Returns text. */
const char *charl__dataset_hint_arrays(hid_t file, char text[CHARL__DATASET_HINT]);

#endif
