#ifndef CHARL_DATA_PREDICTION_FILE_H
#define CHARL_DATA_PREDICTION_FILE_H
/** Predictions as an HDF5 file, which is created completely or not at all:
 *    /output       f32 [n, outputs]    probabilities of classes or labels, or values
 *    /deviation    f32 [n, outputs]    theirs over the models of an ensemble
 *    /predicted    i32 [n(, pixels)]   the class, if there are classes
 *    /label        i32 [n(, targets)]  or /target f32 [n, targets]: from the data, if they have targets; -1 or NaN
 *                                      if a row has none
 *    /file         strings [n]         if the samples are files
 *    /class_names  strings [classes]   if classes have names
 *    /targets      strings [outputs]   if targets have names
 *    /targets      strings [outputs]   where targets have names
 */
#include "charl/data_schema.h"
#include "charl/image.h"

typedef struct charl__prediction_file charl__prediction_file;

typedef struct charl__prediction_spec {
    int64_t rows, outputs, targets;         /* targets 0: unknown */
    int64_t deviations;                     /* outputs; 0: no ensemble */
    int64_t predicted;                      /* classes of a row: 1, or one for each pixel; 0: none */
    bool labels;                            /* targets are i32, else f32 */
    int64_t step;                           /* of the checkpoint, an attribute */
    const charl_image_files *files;         /* or NULL; borrowed for create, as the lists of names */
    const char *class_names, *target_names; /* NULL: none */
} charl__prediction_spec;

/** Start writing `path`; replaces a file of that name when committed. Owned. Errors: ERR_DISK,
 *  ERR_NOMEM.
 */
charl_status charl__prediction_file_create(const char *path, const charl__prediction_spec *spec,
                                           charl__prediction_file **out) CHARL_MUST_CHECK;

/** The next row: output [outputs], deviation [deviations], predicted [spec.predicted], target [targets] of i32 or
 *  f32. Errors: ERR_DISK. */
charl_status charl__prediction_file_put(charl__prediction_file *f, const float *output, const float *deviation,
                                        const int32_t *predicted, const void *target) CHARL_MUST_CHECK;

/** Commit, after `rows` rows. Errors: ERR_DISK. */
charl_status charl__prediction_file_finish(charl__prediction_file *f) CHARL_MUST_CHECK;

/** Discards an uncommitted file. NULL is a no-op. */
void charl__prediction_file_destroy(charl__prediction_file *f);

/** Write an HDF5 file with one array: /NAME, f32 [rows, item]. Errors: ERR_DISK, ERR_NOMEM. */
charl_status charl__samples_write(const char *path, const char *name, const charl_shape *item, const float *data,
                                  int64_t rows) CHARL_MUST_CHECK;

#endif
