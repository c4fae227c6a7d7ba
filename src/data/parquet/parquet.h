#ifndef CHARL_DATA_PARQUET_PARQUET_H
#define CHARL_DATA_PARQUET_PARQUET_H
/** The rows of a Parquet file as texts, one column beside the other, as pandas writes them to CSV:
 *
 *      CHARL_TRY(charl__parquet_open(path, &p));         p is NULL: not a Parquet file
 *      while (charl__parquet_next(p, &more), more) charl__parquet_field(p, column, &text, &n);
 *
 *  numbers            with just enough digits to read back the same value
 *  booleans           True, False
 *  texts              unchanged
 *  dates, times       2024-05-17, 14:30:00, 2024-05-17 14:30:00, with a fraction of a second if there is one
 *  decimals           12.50
 *  missing values     nothing
 *
 *  Format: https://parquet.apache.org/docs/file-format. Pages may be plain or have a dictionary, and be compressed with gzip, snappy or zstd,
 *  the latter two by their libraries, which are opened when they are needed. Checksums of pages are verified where a file has them. Columns
 *  that hold lists, maps or structures, or bytes that are neither text nor a number, are left out, and so are pandas' index columns.
 *
 *  Fault points: parquet.no_library  the library of a compression is said to be missing. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct charl__parquet charl__parquet;

/** Open a file. *out is NULL if it does not begin like a Parquet file. Errors: ERR_DATA  it cannot be read, is damaged or encrypted, or no column
 *  can be read; ERR_NOMEM. Cost: reads the description of the file. */
charl_status charl__parquet_open(const char *path, charl__parquet **out) CHARL_MUST_CHECK;
/** NULL is a no-op. */
void charl__parquet_close(charl__parquet *p);

int charl__parquet_n_columns(const charl__parquet *p);
/** Borrowed. */
const char *charl__parquet_name(const charl__parquet *p, int column);
/** Column i = 0, 1, ... that is left out, and why, as in "holds lists"; NULL past the last. Borrowed. */
const char *charl__parquet_left_out(const charl__parquet *p, int i, const char **why);

/** Read no other column. Before the first row. */
void charl__parquet_use(charl__parquet *p, int column);

/** The next row; *more is false at the end. Errors: ERR_DATA, naming file and column, for a damaged page, or one with an encoding or compression
 *  that charl does not read; ERR_NOMEM. */
charl_status charl__parquet_next(charl__parquet *p, bool *more) CHARL_MUST_CHECK;
/** Number of the current row, from 1. */
int64_t charl__parquet_row(const charl__parquet *p);
/** A field of the current row, of *n bytes; NULL and 0: it is missing. Borrowed until the next field or row. Errors: ERR_NOMEM. */
charl_status charl__parquet_field(charl__parquet *p, int column, const char **text, size_t *n) CHARL_MUST_CHECK;

/** For CHARL_SCOPED. */
CHARL_SCOPED_POINTER(charl__parquet_left, charl__parquet, charl__parquet_close)

#endif
