#ifndef CHARL_DATA_ROWS_NPY_H
#define CHARL_DATA_ROWS_NPY_H
/** Files of one array, read row by row: NumPy's .npy format, alone or in an archive (.npz), and MNIST's (IDX). */
#include "base/text/text.h"
#include "charl/shape.h"
#include "io/h5_element.h"
#include "data/import/import_source.h"

/** An array [rows, item], in a file or an archive (.npz), that is read sequentially. */
typedef struct charl__npy {
    charl__source *source;
    char text;              /* 'S': bytes, 'U': UCS-4; 0: numbers */
    charl__element element; /* of numbers */
    size_t size;            /* bytes per element */
    charl_shape item;       /* one row */
    int64_t rows, done;     /* in total, and read so far */
    int64_t per_row;        /* elements */
    bool interleaved;       /* rows of the file are [h, w, c], and are converted to [c, h, w] */
} charl__npy;

/** Names of samples and of their targets in files of other programs, the most usual first; {NULL, NULL} at the end. */
extern const char *const charl__usual_arrays[][2];

/** Open `path` and read the header; `a` must be zeroed. Needs close on every path. In an archive, the array `name`; NULL: the array with the
 *  usual name of samples (x, X, x_train, images, data, ...), or with `targets`, of targets. Errors: ERR_DATA for an archive without it,
 *  naming its arrays, and for a file that is not an array, in Fortran order, or of another type. */
charl_status charl__npy_open(charl__npy *a, const char *path, const char *name, bool targets) CHARL_MUST_CHECK;
void charl__npy_close(charl__npy *a);
/** Treat the whole array as one row. Before the first read. */
void charl__npy_set_single_row(charl__npy *a);
/** Read rows of [h, w, c] as [c, h, w]. Before the first read. */
void charl__npy_move_channels(charl__npy *a);
/** The next n rows as stored, [n, per_row] of `size` bytes. Errors: ERR_DATA for a truncated file.
 */
charl_status charl__npy_read(charl__npy *a, int64_t n, void *raw) CHARL_MUST_CHECK;
/** A stored text as UTF-8; rows are padded with NUL. Errors: ERR_NOMEM. */
charl_status charl__npy_text(const charl__npy *a, const unsigned char *p, charl__text *out) CHARL_MUST_CHECK;

#endif
