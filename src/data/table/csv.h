#ifndef CHARL_DATA_TABLE_CSV_H
#define CHARL_DATA_TABLE_CSV_H
/** Records of a CSV file as described by RFC 4180: quoted fields may contain separators, line ends
 *  and doubled quotes; lines end in LF or CRLF; empty lines are skipped. Blanks around unquoted
 *  fields are dropped. If the separator is a blank, fields are separated by runs of blanks and tabs.
 *  Of a Parquet file the first record has the names of the columns, and each other one a row (data/parquet/parquet.h). */
#include "base/error.h"
#include "data/import/import_source.h"
#include "data/parquet/parquet.h"

typedef struct charl__csv charl__csv;

/** `s` is borrowed and read from its current position; a Parquet file from its beginning. Errors: ERR_NOMEM; as charl__parquet_open. */
charl_status charl__csv_create(charl__source *s, char separator, charl__csv **out) CHARL_MUST_CHECK;
void charl__csv_destroy(charl__csv *c);

/** The Parquet file, borrowed; NULL if it is none. */
const charl__parquet *charl__csv_parquet(const charl__csv *c);

/** Skip one line, whatever it contains, before the first record.
 *
 *  head  [n]  written: the beginning of the line, with a NUL
 *  more       false: there was no line */
charl_status charl__csv_skip_line(charl__csv *c, char *head, size_t n, bool *more) CHARL_MUST_CHECK;

/** The next record; *n_fields is 0 at the end. Errors: ERR_DATA naming the line for malformed
 *  quotes or a record of more than 16 MiB. */
charl_status charl__csv_next(charl__csv *c, int *n_fields) CHARL_MUST_CHECK;

/** Field i of the record, NUL-terminated, borrowed until the next record. */
const char *charl__csv_field(const charl__csv *c, int i);
/** Number of the record's first line, from 1; of a Parquet file, of the row. */
int64_t charl__csv_line(const charl__csv *c);

/** For CHARL_SCOPED. */
CHARL_SCOPED_POINTER(charl__csv_left, charl__csv, charl__csv_destroy)

#endif
