#ifndef CHARL_IO_SCHEMA_H
#define CHARL_IO_SCHEMA_H
/** Making, storing and applying a description of data. */
#include "charl/data_schema.h"

/** A copy that shares nothing. Blocks. Local. Errors: ERR_NOMEM. */
charl_status charl__data_schema_copy(const charl_data_schema *s, charl_data_schema **out) CHARL_MUST_CHECK;

/** A copy that normalises with other numbers. Blocks. Local. Errors: ERR_NOMEM. */
charl_status charl__data_schema_normalized(const charl_data_schema *s, int64_t n_stats, const float *mean,
                                           const float *std, charl_data_schema **out) CHARL_MUST_CHECK;

/** Describe samples that no data set holds, such as rows that a caller brings: the schema as the
 *  info of a data set without rows. `path` is for messages; pointers are borrowed from both. Local.
 */
void charl__data_schema_get_info(const charl_data_schema *s, const char *path, charl_dataset_info *out);

/** The schema in a JSON text. `path` is for messages. Blocks. Local. Errors: ERR_CHECKPOINT  not
 *  such a text, naming the field; ERR_CONFIG  this build cannot read JSON; ERR_NOMEM. */
charl_status charl__data_schema_parse(const char *path, const char *json, charl_data_schema **out) CHARL_MUST_CHECK;

/** Find the names of one list in another.
 *
 *  index    [charl_names_count(of)] new, charl_free: place in `in` of each name of `of`, or -1
 *  missing  new, charl_free: the names of `of` that are not in `in`, as text for a message; NULL
 *           when there is none
 *
 *  Blocks. Local. Errors: ERR_DATA  a name of `of` stands twice in `in`; ERR_NOMEM.
 *  Cost: n log n comparisons. */
charl_status charl__names_match(const char *of, const char *in, int64_t **index, char **missing) CHARL_MUST_CHECK;

/** From now on deliver the rows of `ds` as the model of schema `s` takes them: labels become the
 *  model's numbers, columns and targets stand in its order, and charl_dataset_get_info reports its
 *  classes and names (mean and std stay those of the file).
 *
 *  Names decide. Numbers and positions are used only where neither side has names, or, with a note,
 *  where only one has. Fewer classes than the model knows are allowed unless `all`.
 *
 *  model  what has the schema, for messages
 *  all    every class of the model must be there, as for training
 *  notes  new, charl_free: a line for everything that could not be compared; NULL: nothing
 *
 *  Before the first read, once. Blocks. Local. Errors: ERR_DATA  samples or targets of another
 *  shape, classes, columns or targets that the other side does not have, all named; another
 *  tokenizer; ERR_NOMEM */
charl_status charl__dataset_map(charl_dataset *ds, const charl_data_schema *s, const char *model, bool all,
                                char **notes) CHARL_MUST_CHECK;

/** Whether samples consist of tokens, which are not normalized. */
static inline bool charl__kind_has_tokens(charl_dataset_kind kind)
{
    return kind == CHARL_DATASET_TOKENS || kind == CHARL_DATASET_SEQUENCES;
}

#endif
