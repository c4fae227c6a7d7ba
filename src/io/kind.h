#ifndef CHARL_IO_KIND_H
#define CHARL_IO_KIND_H
/** What a path is: by its first bytes where they tell, else by its name.
 *
 *      CHARL_TRY(charl__kind_expect(path, CHARL__KIND_CHECKPOINT, "a checkpoint", CHARL_ERR_CHECKPOINT));
 *
 *  fails for a table with "haus.csv is a CSV file, not a checkpoint; HINT ...". Readers ask before they trust a file or when they have
 *  failed, so that the first mistake in a file of another kind is not taken for damage. The rows are in kind.c.
 */
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/** What a reader can take; a kind is one or several of them. */
enum {
    CHARL__KIND_DATASET = 1 << 0,    /* HDF5 with arrays: charl's, or of another program */
    CHARL__KIND_CHECKPOINT = 1 << 1, /* of charl */
    CHARL__KIND_WEIGHTS = 1 << 2,    /* of other programs, which charl/tensor_file.h reads */
    CHARL__KIND_CONFIG = 1 << 3,     /* what may be an INI file */
    CHARL__KIND_RUN = 1 << 4,        /* a run directory */
    CHARL__KIND_TABLE = 1 << 5,      /* what may be CSV */
    CHARL__KIND_TEXT = 1 << 6,       /* text in UTF-8, whatever it says */
    CHARL__KIND_WIDE = 1 << 7,       /* text in UTF-16 or UTF-32 */
    CHARL__KIND_JSON_LINES = 1 << 8, /* what may be lines of JSON */
    CHARL__KIND_NPY = 1 << 9,        /* an array of NumPy */
    CHARL__KIND_NPZ = 1 << 10,       /* an archive of them */
    CHARL__KIND_IDX = 1 << 11,       /* MNIST's format */
    CHARL__KIND_IMAGE = 1 << 12,     /* PNG or JPEG */
    CHARL__KIND_FOLDER = 1 << 13,    /* of images, texts or other files */
    CHARL__KIND_TOKENIZER = 1 << 14, /* a published one */
    CHARL__KIND_TRACE = 1 << 15,     /* a time line of charl's */
    CHARL__KIND_TOKENS = 1 << 16,    /* numbers of tokens without a header, or llm.c's: what no other format claims */
    CHARL__KIND_OF_HDF5 = 1 << 17,   /* begins as HDF5 does */
    CHARL__KIND_ADAPTER = 1 << 18,   /* of PEFT */
    CHARL__KIND_MODEL = 1 << 19,     /* a folder with config.json and weights, or that config.json */
};

typedef struct charl__kind {
    unsigned as;      /* CHARL__KIND_... */
    const char *name; /* "a CSV file", in a sentence */
    const char *use;  /* what takes it, where %P is the path, and %S its last part without the ending; NULL: nothing */
} charl__kind;

/** What is at `path`; NULL when nothing can be read there. A file in gzip is what is in it. Never fails and leaves no message. */
const charl__kind *charl__kind_of(const char *path);

/** Fail with `code` when `path` can be read and is none of `wanted`, which is `what` in words ("a checkpoint"): the message says what it is
 *  and which command takes it. */
charl_status charl__kind_expect(const char *path, unsigned wanted, const char *what,
                                charl_status code) CHARL_MUST_CHECK;

/** What the failure `st` of a reader of `path` becomes: where st is `code` and the path is none of `wanted`, the failure of
 *  charl__kind_expect in place of what the reader found wrong first; else st. */
charl_status charl__kind_explain(charl_status st, const char *path, unsigned wanted, const char *what,
                                 charl_status code) CHARL_MUST_CHECK;

/** Whether the name ends in .png, .jpg, .jpeg or .jfif, in letters of either case. */
bool charl__is_image_name(const char *name);
/** Whether it ends as those of other kinds of images do: .gif, .webp, ... */
bool charl__is_foreign_image_name(const char *name);

enum { CHARL__KIND_HINT = 1024 };

/** "; HINT ..." with what takes a kind, or "". Returns text. */
const char *charl__kind_hint(const charl__kind *kind, const char *path, char text[CHARL__KIND_HINT]);

#endif
