#ifndef CHARL_IO_SCHEMA_H
#define CHARL_IO_SCHEMA_H
/** Creating, storing and applying a description of data. */
#include "charl/data_schema.h"

/** A deep copy. Blocks. Local. Errors: ERR_NOMEM. */
charl_status charl__data_schema_copy(const charl_data_schema *s, charl_data_schema **out) CHARL_MUST_CHECK;

/** A copy that normalizes with other numbers. Blocks. Local. Errors: ERR_NOMEM. */
charl_status charl__data_schema_normalized(const charl_data_schema *s, int64_t n_stats, const float *mean,
                                           const float *std, charl_data_schema **out) CHARL_MUST_CHECK;

/** Describe samples that are in no data set, such as rows passed by a caller: the schema in the form of the
 *  info of a data set without rows. `path` is for messages; pointers are borrowed from both. Local.
 */
void charl__data_schema_get_info(const charl_data_schema *s, const char *path, charl_dataset_info *out);

/** Parse the schema in a JSON text. `path` is for messages. Blocks. Local. Errors: ERR_CHECKPOINT  not
 *  a schema, naming the field; ERR_CONFIG  this build cannot read JSON; ERR_NOMEM. */
charl_status charl__data_schema_parse(const char *path, const char *json, charl_data_schema **out) CHARL_MUST_CHECK;

/** Find the names of one list in another.
 *
 *  index    [charl_names_count(of)] new, charl_free: index in `in` of each name of `of`, or -1
 *  missing  new, charl_free: the names of `of` that are not in `in`, as text for a message; NULL
 *           if there is none
 *
 *  Blocks. Local. Errors: ERR_DATA  a name of `of` occurs twice in `in`; ERR_NOMEM.
 *  Cost: n log n comparisons. */
charl_status charl__names_match(const char *of, const char *in, int64_t **index, char **missing) CHARL_MUST_CHECK;

/** From now on deliver the rows of `ds` in the form that the model of schema `s` takes: labels become the
 *  model's numbers, columns and targets get its order, and charl_dataset_get_info reports its
 *  classes and names (mean and std remain the file's).
 *
 *  Names decide. Numbers and positions are used only if neither side has names or, with a note,
 *  if only one has. Fewer classes than the model's are allowed unless `all`.
 *
 *  model  where the schema comes from, for messages
 *  all    every class of the model must exist, as for training
 *  notes  new, charl_free: a line for everything that could not be compared; NULL: nothing
 *
 *  Call it before the first read, once. Blocks. Local. Errors: ERR_DATA  samples or targets of another
 *  shape, classes, columns or targets that the other side lacks, all named; another
 *  tokenizer; ERR_NOMEM */
charl_status charl__dataset_map(charl_dataset *ds, const charl_data_schema *s, const char *model, bool all,
                                char **notes) CHARL_MUST_CHECK;

/** Whether samples consist of tokens, which are not normalized. */
static inline bool charl__kind_has_tokens(charl_dataset_kind kind)
{
    return kind == CHARL_DATASET_TOKENS || kind == CHARL_DATASET_SEQUENCES;
}

#endif
