#ifndef CHARL_IO_DATASET_DATASET_PRIVATE_H
#define CHARL_IO_DATASET_DATASET_PRIVATE_H
/** Internals of an open dataset. */
#include "charl/data_schema.h"
#include "io/dataset/dataset_file.h"
#include "io/dataset/fields.h"
#include "io/dataset/labels.h"
#include "io/dataset/schema/data_schema.h"
#include "io/dataset/weights.h"

/** One split: rows [first, first + items) of two arrays, which several splits may share, or rows of any places. */
typedef struct charl__view {
    charl__array *x;
    charl__array *y; /* NULL for tokens */
    charl__array *w; /* weights of the targets; NULL: none are stored */
    int64_t first;
    const int64_t *place; /* [items] of each row in the arrays, ascending; then first is 0. NULL: first + row */
    int64_t items;
    int64_t rows;          /* samples; differs from items for tokens */
    int64_t ignored;       /* labels that do not count */
    const int64_t *starts; /* tokens at which documents begin, in the array, ascending; NULL: they are not separate */
    int64_t n_starts;
} charl__view;

/* x and y of split s are arrays 2 s and 2 s + 1 */
enum {
    CHARL__DOC_START = 2 * CHARL_SPLIT_COUNT,
    CHARL__WEIGHTS = 3 * CHARL_SPLIT_COUNT,
    CHARL__FILES = 4 * CHARL_SPLIT_COUNT, /* records of the files that images come from (pictures/pictures.h) */
    CHARL__FIELD_ARRAYS =
        5 * CHARL_SPLIT_COUNT, /* named arrays, of which x and y of the training split are packed (fields.h) */
    CHARL__ARRAYS = CHARL__FIELD_ARRAYS + 2 * CHARL__MAX_FIELDS
};

/** Elements of samples that are taken from other rows of their split. */
typedef struct charl__permuted {
    charl_split split;
    int64_t first, count; /* 0: none */
    uint64_t seed;
    const struct charl__permuted *before; /* owned */
} charl__permuted;

/** A mix (dataset_mix.c) consists of sets and their common properties; it has no file and no arrays. */
struct charl_dataset {
    charl_dataset **part; /* [n_parts]; NULL: not a mix */
    int n_parts;
    int64_t *share; /* [n_parts] of CHARL__MIX_BLOCK */
    charl__file file;
    charl__chunk_cache *cache;     /* of chunks; NULL: a mix */
    struct charl_dataset **joined; /* [n_joined] files whose rows are one after another here; NULL: one file */
    int n_joined;
    charl__text rows_note;
    charl__array arrays[CHARL__ARRAYS];
    charl__view views[CHARL_SPLIT_COUNT];
    charl_dataset_kind kind;
    bool values;            /* targets are numbers, not classes */
    int64_t classes;        /* as delivered */
    int64_t stored_classes; /* upper bound of the labels in the file; if they are names, their number */
    charl__labels *labels;  /* of all splits; NULL: the number of classes is stored, or labels are of pixels */
    int64_t vocab;          /* the same bound for the tokens of SEQUENCES, except padding; 0: unknown */
    int64_t window;
    int64_t packed;                     /* windows that documents were packed into; 0: none */
    int64_t block_rows, shuffle_window; /* of charl_order_blocks */
    charl_sampling sampling;
    uint64_t *draws;                    /* charl__order_draws of the training rows; NULL: each once */
    charl_data_schema *stored;          /* texts, and means and deviations, as in the file; nothing else of it is set */
    int64_t *starts[CHARL_SPLIT_COUNT]; /* of the arrays; NULL: not read */
    int64_t *folded;                    /* places of the views of a fold, all training rows first; NULL: none */
    char content_id[65];
    /* Conversion of rows to the model's form (charl__dataset_map); NULL: none. */
    int64_t *class_map;   /* [stored_classes] the model's number of a label */
    int64_t *column_map;  /* [columns] index of the model's column in a stored row */
    int64_t *target_map;  /* [targets] the same for targets */
    float *class_weights; /* [classes] as delivered, of training targets; NULL: all 1 */
    _Atomic(const charl__permuted *)
        permuted; /* NULL: samples are as they are. Earlier ones stay until the end: a thread may use them */
    const int64_t *forgotten; /* [n_forgotten] ascending training rows of weight 0, borrowed; NULL: none */
    int64_t n_forgotten;
};

/** The place in the arrays of a row of a view, and the number of rows from it on, up to n, whose places follow each other. */
int64_t charl__view_place(const charl__view *v, int64_t row);
int64_t charl__view_run(const charl__view *v, int64_t row, int64_t n);

/** Rows of an array, in all its files, that are decoded from image files. */
int64_t charl__array_pictures(const charl__array *a);

/** The steps of opening a set after its arrays have been opened. */
charl_status charl__dataset_complete(charl_dataset *ds, const charl_dataset_options *opt) CHARL_MUST_CHECK;
/** Open the named arrays of opt->x and opt->y. */
charl_status charl__dataset_open_fields(charl_dataset *ds, const charl_dataset_options *opt) CHARL_MUST_CHECK;
/** An empty data set. */
charl_status charl__dataset_create(charl_dataset **out) CHARL_MUST_CHECK;

/** The tokenizer in the data set, if any. Errors: as charl_tokenizer_load. */
charl_status charl__dataset_tokenizer(const charl_dataset *ds, charl_tokenizer **out) CHARL_MUST_CHECK;

/** Largest label of all splits plus one; sets the views' `ignored`, and adds to ds->labels unless that is NULL. Errors: ERR_DATA for a label
 *  that is neither a class nor ignored, and for labels that are -1 and 1 only; ERR_NOMEM. */
charl_status charl__dataset_count_classes(charl_dataset *ds, int64_t *out) CHARL_MUST_CHECK;

/** Treat labels as the names of their classes, or as their numbers. Errors: ERR_NOMEM. */
charl_status charl__dataset_name_labels(charl_dataset *ds, bool are_names) CHARL_MUST_CHECK;

/** Take fold opt->fold of the training rows for validation. Errors: ERR_CONFIG if the data have a validation set, are tokens, or have too few rows;
 *  errors of reading the labels; ERR_NOMEM. */
charl_status charl__dataset_fold(charl_dataset *ds, const charl_dataset_options *opt) CHARL_MUST_CHECK;

/** Check that the documents of a split begin one after another, inside it. Errors: ERR_DATA, ERR_IO. */
charl_status charl__dataset_check_documents(charl_dataset *ds, charl_split split) CHARL_MUST_CHECK;

/** Draw training rows by `sampling`. Errors: ERR_CONFIG if the data have no weights or classes, or are tokens; errors of reading
 *  them; ERR_NOMEM. */
charl_status charl__dataset_draw(charl_dataset *ds, charl_sampling sampling) CHARL_MUST_CHECK;

/** Compute ds->content_id from the arrays' descriptions and, without reading all of them, their contents. */
charl_status charl__dataset_identify(charl_dataset *ds) CHARL_MUST_CHECK;

#endif
