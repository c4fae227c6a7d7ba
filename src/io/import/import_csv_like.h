#ifndef CHARL_IO_IMPORT_IMPORT_CSV_LIKE_H
#define CHARL_IO_IMPORT_IMPORT_CSV_LIKE_H
/** Importing rows of a CSV file by a recipe. */
#include "charl/dataset.h"
#include "io/rows/rows.h"

/** charl_import_csv where csv->like is given. */
charl_status charl__import_csv_like(const char *path, const charl_csv_options *csv, const char *out,
                                    const charl_import_options *opt) CHARL_MUST_CHECK;

/** Write the n rows of a CSV file as the schema of `options` says.
 *
 *  val    [n] 1: a validation row; NULL: the last ones
 *  plain  the recipe says no more than the names, and is not stored
 *
 *  Errors: as charl__rows_next and charl__writer_create; ERR_DATA if there are not n rows. */
charl_status charl__import_csv_rows(const charl__rows_options *options, int64_t n, const uint8_t *val, bool plain,
                                    const char *out, const charl_import_options *opt) CHARL_MUST_CHECK;

#endif
