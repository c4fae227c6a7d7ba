#ifndef CHARL_IO_DATASET_SCHEMA_DATA_SCHEMA_H
#define CHARL_IO_DATASET_SCHEMA_DATA_SCHEMA_H
/** Internals of schemas, for the files that store them. */
#include "base/text/text.h"
#include "charl/data_schema.h"

/** The texts of a schema, to process each of them. */
typedef struct charl__schema_text {
    const char *name, *plain; /* in messages: "names of columns", "columns" */
    size_t offset;
} charl__schema_text;

enum { CHARL__SCHEMA_TEXTS = 8 };
extern const charl__schema_text charl__schema_texts[CHARL__SCHEMA_TEXTS];

static inline char **charl__schema_text_of(const charl_data_schema *s, int i)
{
    return (char **)((uintptr_t)s + charl__schema_texts[i].offset);
}

/** Replace a text by a copy of another one. Errors: ERR_NOMEM. */
charl_status charl__schema_set(char **text, const char *to) CHARL_MUST_CHECK;

/** A schema with empty texts. Errors: ERR_NOMEM. */
charl_status charl__schema_new(charl_data_schema **out) CHARL_MUST_CHECK;

/** Check the contents of a file: counts, statistics, texts. `path` is for messages, `code` for failures.
 */
charl_status charl__schema_check(const charl_data_schema *s, const char *path, charl_status code) CHARL_MUST_CHECK;

/** The kind called `name`, or CHARL_DATASET_KIND_COUNT. */
charl_dataset_kind charl__dataset_kind_of(const char *name);

/** Make `s` describe the targets, classes and tokens of `ds`. Errors: as charl_data_schema_create; then s must be destroyed. */
charl_status charl__schema_use_outputs(charl_data_schema *s, const charl_dataset *ds) CHARL_MUST_CHECK;

/** Make targets unscaled. */
void charl__schema_drop_target_stats(charl_data_schema *s);

/** Append a line for every difference of two schemas; either may be NULL. Errors: ERR_NOMEM.
 */
charl_status charl__schema_diff(const charl_data_schema *a, const charl_data_schema *b,
                                charl__text *out) CHARL_MUST_CHECK;

#endif
