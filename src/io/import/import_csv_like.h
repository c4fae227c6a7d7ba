#ifndef CHARL_IO_IMPORT_IMPORT_CSV_LIKE_H
#define CHARL_IO_IMPORT_IMPORT_CSV_LIKE_H
/** A CSV file as one more file of an earlier import. */
#include "charl/dataset.h"

/** charl_import_csv where csv->like is given. */
charl_status charl__import_csv_like(const char *path, const charl_csv_options *csv, const char *out,
                                    const charl_import_options *opt) CHARL_MUST_CHECK;

#endif
