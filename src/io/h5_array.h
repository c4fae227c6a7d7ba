#ifndef CHARL_IO_H5_ARRAY_H
#define CHARL_IO_H5_ARRAY_H
/** An array [rows, item] that is written sequentially: contiguous, allocated at the
 *  beginning and never filled twice. */
#include "charl/shape.h"
#include "io/h5.h"

typedef struct charl__h5_array {
    const char *path; /* of the file, borrowed: for messages */
    char name[80];    /* "/train/x" */
    charl_dtype dtype;
    charl_shape item;
    int64_t rows, done;
    bool is_empty; /* its space is never allocated, and nothing is written: it reads as zeros */
    hid_t dataset; /* H5I_INVALID_HID: there is none */
} charl__h5_array;

/** HDF5's type of elements of `dtype` in memory: u8, u16, u32, i32, i64 or f32. */
hid_t charl__h5_memory_type(charl_dtype dtype);

/** Create the array, and the groups of its name. path, name, dtype, item and rows are set, dataset
 *  is H5I_INVALID_HID. Errors: ERR_DISK. */
charl_status charl__h5_array_create(charl__h5_array *a, hid_t file) CHARL_MUST_CHECK;

/** The next n rows. Errors: ERR_DISK. */
charl_status charl__h5_array_append(charl__h5_array *a, const void *data, int64_t n) CHARL_MUST_CHECK;

#endif
