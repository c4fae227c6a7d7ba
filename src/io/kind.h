#ifndef CHARL_IO_KIND_H
#define CHARL_IO_KIND_H
/** The kind of a file: by its first bytes if they identify it, else by its name.
 *
 *      CHARL_TRY(charl__kind_expect(path, CHARL__KIND_CHECKPOINT, "a checkpoint", CHARL_ERR_CHECKPOINT));
 *
 *  fails for a table with "haus.csv is a CSV file, not a checkpoint; HINT ...". Readers check before they trust a file or after they have
 *  failed, so that a file of another kind is not reported as damaged. The rows are in kind.c.
 */
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/** What a reader accepts; a kind is one or several of them. */
enum {
    CHARL__KIND_DATASET = 1 << 0,    /* HDF5 with arrays: charl's, or another program's */
    CHARL__KIND_CHECKPOINT = 1 << 1, /* of charl */
    CHARL__KIND_WEIGHTS = 1 << 2,    /* of other programs, in a format that charl/tensor_file.h reads */
    CHARL__KIND_CONFIG = 1 << 3,     /* possibly an INI file */
    CHARL__KIND_RUN = 1 << 4,        /* a run directory */
    CHARL__KIND_TABLE = 1 << 5,      /* possibly CSV */
    CHARL__KIND_TEXT = 1 << 6,       /* text in UTF-8, whatever its contents */
    CHARL__KIND_WIDE = 1 << 7,       /* text in UTF-16 or UTF-32 */
    CHARL__KIND_JSON_LINES = 1 << 8, /* possibly lines of JSON */
    CHARL__KIND_NPY = 1 << 9,        /* an array of NumPy */
    CHARL__KIND_NPZ = 1 << 10,       /* an archive of them */
    CHARL__KIND_IDX = 1 << 11,       /* MNIST's format */
    CHARL__KIND_IMAGE = 1 << 12,     /* PNG or JPEG */
    CHARL__KIND_FOLDER = 1 << 13,    /* of images, texts or other files */
    CHARL__KIND_TOKENIZER = 1 << 14, /* a published one */
    CHARL__KIND_TRACE = 1 << 15,     /* a trace of charl's */
    CHARL__KIND_TOKENS = 1 << 16,    /* token numbers without a header, or llm.c's: files that no other format claims */
    CHARL__KIND_OF_HDF5 = 1 << 17,   /* begins like HDF5 */
    CHARL__KIND_ADAPTER = 1 << 18,   /* of PEFT */
    CHARL__KIND_MODEL = 1 << 19,     /* a folder with config.json and weights, or that config.json */
    CHARL__KIND_PROOF = 1 << 20,     /* of a run */
    CHARL__KIND_PARQUET = 1 << 21,   /* a table in Parquet's format */
};

typedef struct charl__kind {
    unsigned as;      /* CHARL__KIND_... */
    const char *name; /* "a CSV file", in a sentence */
    const char *
        use; /* the command that reads it, where %P is the path, and %S its last part without the extension; NULL: none */
    const char *importer; /* that reads it; NULL: none, or it takes more than this path */
} charl__kind;

/** The kind of the file at `path`; NULL if nothing can be read there. For gzip, the kind of its contents. Never fails and leaves no message. */
const charl__kind *charl__kind_of(const char *path);

/** Fail with `code` if `path` can be read and is none of `wanted`, described by `what` ("a checkpoint"): the message says what it is
 *  and which command reads it. */
charl_status charl__kind_expect(const char *path, unsigned wanted, const char *what,
                                charl_status code) CHARL_MUST_CHECK;

/** The status of a reader of `path` that failed with `st`: if st is `code` and the path is none of `wanted`, the failure of
 *  charl__kind_expect instead of the reader's; else st. */
charl_status charl__kind_explain(charl_status st, const char *path, unsigned wanted, const char *what,
                                 charl_status code) CHARL_MUST_CHECK;

/** Whether the name ends in .png, .jpg, .jpeg or .jfif, ignoring case. */
bool charl__is_image_name(const char *name);
/** Whether it ends like other kinds of images: .gif, .webp, ... */
bool charl__is_foreign_image_name(const char *name);

#endif
