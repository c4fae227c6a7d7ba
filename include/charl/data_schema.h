#ifndef CHARL_DATA_SCHEMA_H
#define CHARL_DATA_SCHEMA_H
/** What a model's data look like: names of classes, columns and targets, shapes, the numbers that
 *  normalise a sample, the tokenizer. A checkpoint stores it, so that other data can be matched with
 *  the model by name.
 *
 *      charl_data_schema *s;                            // when a training starts
 *      charl_data_schema_create(ds, n, mean, std, &s);
 *      ...                                              // it travels in charl_checkpoint.schema
 *
 *  A list of names is one text with line ends between the names; "" is an empty list. A schema is
 *  plain memory that never changes after it was made: any thread may read it. Nothing here is
 *  collective.
 */
#include "charl/dataset.h"

CHARL_BEGIN_DECLS

typedef struct charl_tokenizer charl_tokenizer; /* charl/tokenizer.h */

/** Texts are never NULL, "" when unknown. Everything is owned by the schema: read it, do not change
 *  it. */
typedef struct charl_data_schema {
    charl_dataset_kind kind;
    charl_dtype x_dtype; /* of a sample as it is delivered: u8, u16, u32 or f32; tokens: i32 */
    charl_shape x_shape; /* of one sample; tokens: [window] */
    charl_dtype y_dtype; /* i32 class labels or next tokens, f32 values */
    charl_shape y_shape; /* of one target; a single label is a scalar */
    int64_t classes;     /* that the model knows; size of the vocabulary; 0 for values */
    char *class_names;   /* name i is that of label i */
    char *columns;       /* of a table, in the order of x */
    char *targets;       /* in the order of y; of a single label the name of its column */
    /* of a table: how fields of a CSV file become columns; "": each is a number. Of sequences: "special_tokens" where
     * those of the tokenizer are recognized in texts; "": they are text */
    char *recipe;
    char *layout;           /* "NCHW", "rows" or "tokens" */
    char *fit;              /* images: "crop", "stretch" or "pad" */
    int64_t n_stats;        /* 1, or channels (images) or columns (tables); 0: not normalised (tokens) */
    float *mean, *std;      /* [n_stats] that training used, in units of x: the model sees
                          (x - mean) * (1 / std) */
    int64_t n_target_stats; /* numbers of a target; 0: targets are not scaled */
    /* [n_target_stats] in units of y: the loss sees (y - mean) * (1 / std); what the model puts out means output * std
     * + mean */
    float *target_mean, *target_std;
    char *tokenizer_kind;       /* charl_tokenizer_type_name */
    charl_tokenizer *tokenizer; /* NULL: none, or too large for the file that the schema is from */
} charl_data_schema;

/** Describe the data of a training. With n_stats > 0 mean and std are the numbers that training
 *  normalises with. Reads the tokenizer of a set of tokens that carries one. *out is owned, NULL on
 *  failure.
 *
 *  mean, std  [n_stats]  copied
 *
 *  Blocks. Local. Errors: ERR_DATA, ERR_IO (the tokenizer), ERR_NOMEM. */
charl_status charl_data_schema_create(const charl_dataset *ds, int64_t n_stats, const float *mean, const float *std,
                                      charl_data_schema **out) CHARL_MUST_CHECK;

/** NULL is a no-op. Local. */
void charl_data_schema_destroy(charl_data_schema *s);

/** The schema as JSON, as a checkpoint has it. A tokenizer of more than 8192
 *  tokens is described and left out. *out is the caller's, charl_free. Blocks. Local. Errors:
 *  ERR_NOMEM. */
charl_status charl_data_schema_print(const charl_data_schema *s, char **out) CHARL_MUST_CHECK;

/** Number of names in a list. Local. */
int64_t charl_names_count(const char *names);

/** Name `index` of a list, not terminated: its bytes are in *length. NULL outside the list. Local.
 *  Cost: reads the list up to there. */
const char *charl_names_get(const char *names, int64_t index, size_t *length);

CHARL_END_DECLS

#endif
