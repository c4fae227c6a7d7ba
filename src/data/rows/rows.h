#ifndef CHARL_DATA_ROWS_ROWS_H
#define CHARL_DATA_ROWS_ROWS_H
/** Samples from anywhere, as a model takes them: a CSV file, texts, a NumPy array, image files or a data
 *  set, read from front to back in batches.
 *
 *      charl__rows_open(&options, &rows);
 *      do charl__rows_next(rows, 64, x, y, &n); while (n > 0);
 *
 *  A schema says what comes out: type, shape and order of the columns of x, classes and targets of
 *  y. Columns, classes and targets are found by name; what cannot be is refused, or taken by
 *  position with a note. Memory does not grow with the rows. Everything belongs to one thread.
 */
#include "base/error.h"
#include "base/text/text.h"
#include "charl/data_schema.h"
#include "charl/image.h"
#include "io/dataset/name_set.h"

/** Recipe of texts: the special tokens of the tokenizer are recognized in them. "": they are text. */
#define CHARL__RECIPE_SPECIAL "special_tokens"

/** Where a table has what, as an import of this very file has found. */
typedef struct charl__rows_places {
    int64_t skip;      /* lines before the table */
    bool header;       /* the first line has names */
    const int *target; /* [n_targets] columns; those of the recipe are the file's */
    int n_targets;
} charl__rows_places;

/** What to read. Borrowed for the life of the rows. */
typedef struct charl__rows_options {
    const charl_data_schema *schema;
    const char *model; /* what has the schema, for messages */
    const char *const *paths;
    int64_t n_paths; /* >= 1; several only of images or texts, a folder of images */
    char separator;  /* CSV; 0: found */
    char decimal;    /* CSV: '.' or ','; 0: that of the model's training data */
    bool imports;    /* CSV: every row needs its targets, and rows with a gap in a column of --missing drop are left
                                      out; else a missing target is unknown, and such a gap is an error */
    const charl__rows_places *
        places; /* CSV; NULL: columns and targets are found by name. With `imports`: rows without a target are left out */
    const char *targets;           /* arrays: the file of the targets; NULL: there are none */
    const char *x_name, *y_name;   /* of an archive: the arrays that are meant; NULL: the usual ones */
    const char *id;                /* CSV: the column that names rows; NULL: none */
    const char *split;             /* of a data set; NULL: val where it has one, else train */
    charl_dataset_options dataset; /* how a data set is opened ... */
    const char *other_x, *other_y; /* ... and with which arrays if it is not in charl's layout and
                                      dataset.x is NULL; NULL: it is refused */
    const char *trained_on;        /* content_id of the training's data: dataset.val_split cuts only these;
                               NULL: any */
} charl__rows_options;

/** Rows that are being read. Readers outside of data/rows look at the first members. */
typedef struct charl__rows {
    const charl_data_schema *s; /* o.schema */
    const char *subject;        /* what is read, in a word: "val", "images", or the name of the file */
    bool has_targets;           /* targets come along */
    charl_image_files files;    /* where each row is one; else it has none */
    int64_t skipped;            /* images that could not be read so far: they are no rows, and a warning names each */
    charl__text first_skipped;  /* why the first of them could not be read */

    const struct charl__rows_kind *kind;
    charl__rows_options o;
    const char *path;        /* the first */
    void *self;              /* of the kind */
    int64_t rows;            /* in all; -1: unknown */
    int64_t begin, done;     /* the rows that next returned last; those before `done` are delivered */
    charl__name_set classes; /* those that have names */
    charl__text warnings, notes;
} charl__rows;

/** Open the source; what it is follows from its contents. *out is owned, NULL on failure.
 *  Errors: ERR_DATA    it cannot be read, or does not have what the model takes; the message names the file and what is
 *                      missing
 *          ERR_CONFIG  options that do not go with it
 *          ERR_IO, ERR_NOMEM */
charl_status charl__rows_open(const charl__rows_options *o, charl__rows **out) CHARL_MUST_CHECK;
/** NULL is a no-op. */
void charl__rows_close(charl__rows *r);

/** The next rows, at most `most` of them; *n is 0 at the end only.
 *
 *  x  [most, x_shape]  x_dtype of the schema, written
 *  y  [most, y_shape]  y_dtype of the schema, written where they come along: a class or
 *  flag is -1, a value NaN where the row does not have it
 *
 *  Errors: ERR_DATA, naming file and line, row or image; ERR_IO; ERR_NOMEM. */
charl_status charl__rows_next(charl__rows *r, int64_t most, void *x, void *y, int64_t *n) CHARL_MUST_CHECK;

/** Name of row i of those that next returned last: an image's path, or the field of the id column.
 *  NULL: rows have no names. Borrowed until next. */
const char *charl__rows_name(const charl__rows *r, int64_t i);
/** Number of the file that row i of them is, where each row is one. */
int64_t charl__rows_file(const charl__rows *r, int64_t i);
/** How many rows there are in all; before the first next. A CSV file is read once for it, and images are decoded. Errors:
 *  as charl__rows_next. */
charl_status charl__rows_count(charl__rows *r, int64_t *n) CHARL_MUST_CHECK;

/** What the user should know, known after open and at the end: lines of text since the last call,
 *  or NULL. warnings: what may make answers wrong; else what was only left out. The caller's, free
 *  with charl_free. */
char *charl__rows_take_notes(charl__rows *r, bool warnings);

/** For CHARL_SCOPED. */
CHARL_SCOPED_POINTER(charl__rows_left, charl__rows, charl__rows_close)

#endif
