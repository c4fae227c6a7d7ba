#ifndef CHARL_IO_DATASET_DATASET_WRITE_H
#define CHARL_IO_DATASET_DATASET_WRITE_H
/** Writing a dataset in charl's layout: samples are appended in blocks and stored in
 *  their split.
 *
 *  The caller declares the number of samples in advance: first those for training (whose last part
 *  may become the validation set), then those of a second source, if any. The file gets its
 *  name only after finish has written it all, read it back and verified it.
 */
#include "base/error.h"
#include "charl/dataset.h"

typedef struct charl__writer charl__writer;

typedef struct charl__writer_spec {
    charl_dataset_kind kind;
    charl_dtype x_dtype; /* u8, u16, u32 or f32 */
    charl_shape x_item;  /* one sample; scalar for tokens */
    bool values;         /* targets are f32, else i32 classes; tokens have none */
    charl_shape y_item;  /* one target */
    int64_t rows;        /* of the first source */
    int64_t more;        /* of the second source: validation, or test if val_split > 0 */
    int64_t test;        /* of a third source; without val_split */
    /* [rows] 1: this one of the first source is for validation (split.h); NULL: the last ones are. Borrowed until finish. */
    const uint8_t *val;
    bool linked;     /* samples are in files: nothing is stored but checksums, mean and std (charl__writer_files) */
    bool scales;     /* values: store the mean and std of each target too, by which training scales them */
    int64_t classes; /* minimum; 0: largest label + 1. Tokens: size of the vocabulary */
} charl__writer_spec;

/** Reject a path that exists, unless it may be replaced: charl__writer_create's check, for callers that write several files. Errors: ERR_CONFIG. */
charl_status charl__writer_may_create(const char *path, bool overwrite) CHARL_MUST_CHECK;

/** Start writing `path`. Errors: ERR_CONFIG (exists, bad val_split), ERR_DISK. */
charl_status charl__writer_create(const char *path, const charl__writer_spec *spec, const charl_import_options *opt,
                                  charl__writer **out) CHARL_MUST_CHECK;

/** The fault of a name of a class or column, to follow "a name": line ends and tabs,
 *  control and invisible characters (base/text/utf8.h), bytes that are not UTF-8. NULL: none. Borrowed
 *  until the next call on this thread. */
const char *charl__name_fault(const char *name);
/** A text of the file, such as "class_names" and "columns": an attribute, or the array /names/NAME
 *  if it is longer than HDF5 allows (64 kB). Nothing for "". Errors: ERR_DISK. */
charl_status charl__writer_text(charl__writer *w, const char *name, const char *text) CHARL_MUST_CHECK;

/** A number of the file, an attribute. Errors: ERR_DISK. */
charl_status charl__writer_number(charl__writer *w, const char *name, int64_t value) CHARL_MUST_CHECK;

/** A whole array beside the samples, with checksums: `rows` rows of shape `item`. Errors: ERR_DISK.
 */
charl_status charl__writer_array(charl__writer *w, const char *name, charl_dtype dtype, const charl_shape *item,
                                 int64_t rows, const void *data) CHARL_MUST_CHECK;

/** Tokens: the beginnings of documents, as n ascending token numbers in the order in which tokens are put. Each split gets its own as
 * /SPLIT/doc_start. Errors: ERR_DISK. */
charl_status charl__writer_documents(charl__writer *w, const int64_t *starts, int64_t n) CHARL_MUST_CHECK;

/** Linked: the records of all samples (pictures/pictures.h), [announced, width], in the order in which they are put. Errors: ERR_DISK. */
charl_status charl__writer_files(charl__writer *w, const unsigned char *records, int64_t width) CHARL_MUST_CHECK;

/** The next n samples: x [n, x_item] of x_dtype, y [n, y_item] i32 or f32 (NULL for tokens).
 *  Errors: ERR_DATA for a float that is not finite or a label below 0, naming the sample. */
charl_status charl__writer_put(charl__writer *w, const void *x, const void *y, int64_t n) CHARL_MUST_CHECK;

/** Write statistics and checksums, then commit. Errors: ERR_DISK; ERR_DATA if fewer samples arrived than
 *  declared. */
charl_status charl__writer_finish(charl__writer *w) CHARL_MUST_CHECK;

/** Discards an unfinished file. NULL is a no-op. */
void charl__writer_destroy(charl__writer *w);

/** For CHARL_SCOPED. */
CHARL_SCOPED_POINTER(charl__writer_left, charl__writer, charl__writer_destroy)

#endif
