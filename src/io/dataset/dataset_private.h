#ifndef CHARL_IO_DATASET_DATASET_PRIVATE_H
#define CHARL_IO_DATASET_DATASET_PRIVATE_H
/** The open dataset as its own source files see it. */
#include "charl/dataset.h"
#include "io/dataset/dataset_file.h"

/** One split: rows [first, first + items) of two arrays, which several splits may share. */
typedef struct charl__view {
    charl__array *x;
    charl__array *y; /* NULL for tokens */
    int64_t first;
    int64_t items;
    int64_t rows; /* samples; differs from items for tokens */
} charl__view;

struct charl_dataset {
    charl__file file;
    charl__array arrays[2 * CHARL_SPLIT_COUNT]; /* x and y of split s at 2 s and 2 s + 1 */
    charl__view views[CHARL_SPLIT_COUNT];
    charl_dataset_kind kind;
    bool values;            /* targets are numbers, not classes */
    int64_t classes;        /* as delivered */
    int64_t stored_classes; /* labels in the file are below */
    int64_t window;
    float *mean;
    float *std;
    int n_stats;
    char *layout;
    char *fit;
    char *class_names;
    char *columns;
    char *targets;
    char *tokenizer;
    char content_id[65];
    /* How rows become those that a model takes (charl_dataset_map); NULL: they are. */
    int64_t *class_map;  /* [stored_classes] the model's number of a label */
    int64_t *column_map; /* [columns] where the model's column lies in a stored row */
    int64_t *target_map; /* [targets] the same of targets */
};

/** Largest label of the view plus one. Errors: ERR_DATA for a negative label. */
charl_status charl__view_count_classes(charl_dataset *ds, const charl__view *v, int64_t *out) CHARL_MUST_CHECK;

/** ds->content_id from what the arrays are and, without reading all of them, what they hold. */
charl_status charl__dataset_identify(charl_dataset *ds) CHARL_MUST_CHECK;

#endif
