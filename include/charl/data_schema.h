#ifndef CHARL_DATA_SCHEMA_H
#define CHARL_DATA_SCHEMA_H
/** The schema of a model's data: names of classes, columns and targets, shapes, mean and standard deviation, the
 *  tokenizer. Checkpoints contain it, so that other data can be matched with the model by name.
 *
 *      charl_data_schema *s; // when a training starts
 *      charl_data_schema_create(ds, n, mean, std, &s);
 *      ... // charl_checkpoint.schema = s when saving
 *
 *  A list of names is one string with newlines between the names; "" is an empty list. A schema is immutable: any
 *  number of threads may read it. Nothing here is collective.
 */
#include "charl/dataset.h"

CHARL_BEGIN_DECLS

typedef struct charl_tokenizer charl_tokenizer; /* charl/tokenizer.h */

/** Strings are never NULL; "" means unknown. Everything is owned by the schema: do not modify it. */
typedef struct charl_data_schema {
    charl_dataset_kind kind;
    charl_dtype x_dtype; /* of a sample as charl_dataset_read returns it: u8, u16, u32 or f32; tokens: i32 */
    charl_shape x_shape; /* of one sample; tokens: [window] */
    charl_dtype y_dtype; /* i32 class labels or next tokens, f32 values */
    charl_shape y_shape; /* of one target; a single label is a scalar */
    int64_t classes;     /* number of classes, or size of the vocabulary; 0 for values */
    char *class_names;   /* a list; name i is that of label i */
    char *columns;       /* a list: the columns of a table, in the order of x */
    char *targets;       /* a list, in the order of y; for a single label the name of its column */
    /* tables: how fields of a CSV file are converted to columns; "": every field is a number. Sequences:
     * "special_tokens" if special tokens are recognized in texts; "": they are ordinary text */
    char *recipe;
    char *layout;           /* "NCHW", "rows" or "tokens" */
    char *fit;              /* images: "crop", "stretch" or "pad" */
    int64_t n_stats;        /* 1, or channels (images) or columns (tables); 0: not normalised (tokens) */
    float *mean, *std;      /* [n_stats] in units of x: the input of the model is (x - mean) * (1 / std) */
    int64_t n_target_stats; /* numbers of a target; 0: targets are not scaled */
    /* [n_target_stats] in units of y: the loss compares the output with (y - mean) * (1 / std); predictions are output
     * * std + mean */
    float *target_mean, *target_std;
    char *tokenizer_kind;       /* charl_tokenizer_type_name */
    charl_tokenizer *tokenizer; /* NULL: none, or too large to be stored in the file */
    /* "": a sample is one array. Otherwise a list of named inputs and targets, whose elements stand side by side in the
     * rows of x and of y: "image input numbers 0 0 [1, 28, 28]", NAME, input or target, its kind (numbers, tokens or
     * classes), the smallest value and the number of classes or tokens, and its shape */
    char *fields;
} charl_data_schema;

/** Describe the data of a training. If n_stats > 0, the training normalizes with mean and std. Reads the tokenizer of a
 *  dataset of tokens that contains one. *out is owned, NULL on failure.
 *
 *  mean, std  [n_stats]  copied
 *
 *  Blocks. Local. Errors: ERR_DATA, ERR_IO (the tokenizer), ERR_NOMEM. */
charl_status charl_data_schema_create(const charl_dataset *ds, int64_t n_stats, const float *mean, const float *std,
                                      charl_data_schema **out) CHARL_MUST_CHECK;

/** NULL is a no-op. Local. */
void charl_data_schema_destroy(charl_data_schema *s);

/** Print the schema as JSON, as in a checkpoint. A tokenizer of more than 8192 tokens is described but not included.
 *  Release *out with charl_free. Blocks. Local. Errors: ERR_NOMEM. */
charl_status charl_data_schema_print(const charl_data_schema *s, char **out) CHARL_MUST_CHECK;

/** Number of names in a list. Local. */
int64_t charl_names_count(const char *names);

/** Name `index` of a list, not NUL-terminated, with its length in *length; NULL if out of range. Local. Cost: linear in
 *  index. */
const char *charl_names_get(const char *names, int64_t index, size_t *length);

CHARL_END_DECLS

#endif
