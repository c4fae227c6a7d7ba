#ifndef CHARL_DATA_ROWS_ROWS_H
#define CHARL_DATA_ROWS_ROWS_H
/** Samples from any source, in the form that a model takes: a CSV file, texts, a NumPy array, image files or a data
 *  set, read sequentially in batches.
 *
 *      charl__rows_open(&options, &rows);
 *      do charl__rows_next(rows, 64, x, y, &n); while (n > 0);
 *
 *  A schema determines the result: type, shape and order of the columns of x, classes and targets of
 *  y. Columns, classes and targets are matched by name; what cannot be matched is rejected, or matched by
 *  position with a note. Memory does not grow with the number of rows. Everything belongs to one thread.
 */
#include "base/error.h"
#include "base/text/text.h"
#include "charl/data_schema.h"
#include "charl/image.h"
#include "io/dataset/name_set.h"

/** In a recipe of texts: the special tokens of the tokenizer are recognized. "": they are treated as text. */
#define CHARL__RECIPE_SPECIAL "special_tokens"

/** Layout of a table, as an import of this file has found it. */
typedef struct charl__rows_places {
    int64_t skip;      /* lines before the table */
    bool header;       /* the first line has names */
    const int *target; /* [n_targets] columns; the recipe's columns are the file's */
    int n_targets;
} charl__rows_places;

/** The source and its options. Borrowed for the life of the rows. */
typedef struct charl__rows_options {
    const charl_data_schema *schema;
    const char *model; /* where the schema comes from, for messages */
    const char *const *paths;
    int64_t n_paths; /* >= 1; several only of images or texts, a folder of images */
    char separator;  /* CSV; 0: detected */
    char decimal;    /* CSV: '.' or ','; 0: as in the model's training data */
    bool imports;    /* CSV: every row needs its targets, and rows with a gap in a column of --missing drop are
                        omitted; otherwise a missing target is unknown, and such a gap is an error */
    const charl__rows_places *
        places; /* CSV; NULL: columns and targets are matched by name. With `imports`: rows without a target are omitted */
    const char *targets;           /* arrays: the file of the targets; NULL: there are none */
    const char *x_name, *y_name;   /* arrays of an archive; NULL: those with the usual names */
    const char *id;                /* CSV: the column that names rows; NULL: none */
    const char *split;             /* of a data set; NULL: val if it has one, else train */
    charl_dataset_options dataset; /* how a data set is opened ... */
    const char *other_x, *other_y; /* ... and with which arrays if it is not in charl's layout and
                                      dataset.x is NULL; NULL: it is refused */
    const char *trained_on;        /* content_id of the training data: dataset.val_split and fold divide only these;
                                      NULL: any */
} charl__rows_options;

/** Rows that are being read. Only the first members are for other modules. */
typedef struct charl__rows {
    const charl_data_schema *s; /* o.schema */
    const char *subject;        /* the source in a word: "val", "images", or the name of the file */
    bool has_targets;           /* targets come along */
    charl_image_files files;    /* number of files if each row is one; else 0 */
    int64_t skipped; /* images that could not be read so far: they produce no rows, and a warning names each */
    charl__text first_skipped; /* why the first of them could not be read */

    const struct charl__rows_kind *kind;
    charl__rows_options o;
    const char *path;        /* the first */
    void *self;              /* of the kind */
    int64_t rows;            /* in total; -1: unknown */
    int64_t begin, done;     /* the rows that the last call of next returned; those before `done` have been delivered */
    charl__name_set classes; /* those that have names */
    charl__text warnings, notes;
} charl__rows;

/** Open the source, whose kind is detected from its contents. *out is owned, NULL on failure.
 *  Errors: ERR_DATA    it cannot be read, or lacks something that the model needs; the message names the file and what is
 *                      missing
 *          ERR_CONFIG  options that do not apply to it
 *          ERR_IO, ERR_NOMEM */
charl_status charl__rows_open(const charl__rows_options *o, charl__rows **out) CHARL_MUST_CHECK;
/** NULL is a no-op. */
void charl__rows_close(charl__rows *r);

/** The next rows, at most `most` of them; *n is 0 only at the end.
 *
 *  x  [most, x_shape]  x_dtype of the schema, written
 *  y  [most, y_shape]  y_dtype of the schema, written if there are targets: an unknown class or
 *  flag is -1, an unknown value NaN
 *
 *  Errors: ERR_DATA, naming file and line, row or image; ERR_IO; ERR_NOMEM. */
charl_status charl__rows_next(charl__rows *r, int64_t most, void *x, void *y, int64_t *n) CHARL_MUST_CHECK;

/** Name of row i of the last call of next: an image's path, or the field of the id column.
 *  NULL: rows have no names. Borrowed until next. */
const char *charl__rows_name(const charl__rows *r, int64_t i);
/** Number of the file that row i of them is, if each row is one. */
int64_t charl__rows_file(const charl__rows *r, int64_t i);
/** Number of rows in total; call before the first next. Reads a CSV file once, and decodes images. Errors:
 *  as charl__rows_next. */
charl_status charl__rows_count(charl__rows *r, int64_t *n) CHARL_MUST_CHECK;

/** Messages for the user, available after open and at the end: lines of text since the last call,
 *  or NULL. warnings: problems that may make predictions wrong; else only omissions. Owned by the caller, free
 *  with charl_free. */
char *charl__rows_drain_notes(charl__rows *r, bool warnings);

/** For CHARL_SCOPED. */
CHARL_SCOPED_POINTER(charl__rows_left, charl__rows, charl__rows_close)

#endif
