#ifndef CHARL_DATA_TABLE_TABLE_H
#define CHARL_DATA_TABLE_TABLE_H
/** A CSV or Parquet file as a table: names of columns, rows of equal width, numbers from fields. The importer
 *  and predictions share this code, so both parse in the same way.
 *
 *      charl__table_open(&t, path, 0, 0);
 *      if (looks_like_names(&t)) charl__table_use_header(&t);   // the first line can be inspected
 *      while (charl__table_next(&t, &more), more) charl__table_number(&t, column, &value);
 */
#include "data/table/csv.h"

/** The notation of numbers. */
typedef struct charl__number_format {
    char decimal; /* '.' or ',' */
    bool grouped; /* the other one may separate thousands, as in 1.234,5 */
} charl__number_format;

/** The possible readings of a field as a number. */
typedef enum charl__number_form {
    CHARL__NUMBER_NONE,
    CHARL__NUMBER_INTEGER,        /* 980, 1e5 */
    CHARL__NUMBER_POINT,          /* 1.5 */
    CHARL__NUMBER_COMMA,          /* 1,5 */
    CHARL__NUMBER_POINT_OR_GROUP, /* 1.250: with a decimal comma 1250 */
    CHARL__NUMBER_COMMA_OR_GROUP, /* 1,250: with a decimal point 1250 */
    CHARL__NUMBER_POINT_GROUPED,  /* 1,234.5 and 1,234,567 */
    CHARL__NUMBER_COMMA_GROUPED,  /* 1.234,5 and 1.234.567 */
    CHARL__NUMBER_FORMS
} charl__number_form;

typedef struct charl__table {
    charl__source *source;
    charl__csv *csv;
    const charl__parquet
        *parquet; /* NULL: a CSV file. A Parquet file has names of columns and numbers with a decimal point */
    char separator;
    charl__number_format format;
    const char *missing; /* a list of names: texts for a missing value in addition to the usual ones. Borrowed */
    const char *values;  /* a list: texts that usually mean a missing value, and here do not. Borrowed */
    int64_t skipped;     /* lines before the first, */
    int64_t comments;    /* number of these that begin with # */
    bool can_skip;       /* messages may name --skip */
    int n_columns;
    char **names; /* [n_columns]; NULL: no header */
    bool
        row_names; /* the first line has one field less than the next: R's names of columns; rows begin with a name, whose column has none */
    bool first;    /* the current record is the first line, which next has not yet returned */
} charl__table;

/** Open `path` and read the first line after `skip` lines, a line such as sep=; and comments: lines that begin with # and do not have as
 *  many fields as the table. If the first line has one field less than the second, and the second has a number and does not end in an empty field,
 *  it is a header whose first column has no name, as written by R's write.table. Separator 0 means the one of the line sep=, else it is detected: of
 *  comma, semicolon, tab and | the one that splits most of the first 20 records into the same number of fields, then the one with the most numbers,
 *  then the one with the most fields; runs of blanks if they split all records equally and give more numbers. Numbers have a decimal point until
 *  `format` says otherwise. Needs close on every path. Errors: as charl__source_open; ERR_DATA for a file without a line; ERR_CONFIG for an
 *  unusable separator or skip. */
charl_status charl__table_open(charl__table *t, const char *path, char separator, int64_t skip) CHARL_MUST_CHECK;
void charl__table_close(charl__table *t);

/** Use the first line as the names of the columns; "" means no name. Errors: ERR_DATA for a duplicate name, or one that
 *  charl__name_fault rejects. */
charl_status charl__table_use_header(charl__table *t) CHARL_MUST_CHECK;

/** The column with that name in the first line, or -1. Before the first row. */
int charl__table_find(const charl__table *t, const char *name);
/** Fail with `code`: there is no column `name`; lists the existing ones. */
charl_status charl__table_no_column(const charl__table *t, const char *name, charl_status code) CHARL_MUST_CHECK;

/** The next row; *more is false at the end. Errors: ERR_DATA for one of another width. */
charl_status charl__table_next(charl__table *t, bool *more) CHARL_MUST_CHECK;

/** Go back to before the first row. */
charl_status charl__table_rewind(charl__table *t) CHARL_MUST_CHECK;

/** Field of the current row (or, after open, of the first line). Borrowed until the next row. */
const char *charl__table_field(const charl__table *t, int column);
/** "FILE:LINE" of the current row. Borrowed until the next call on this thread. */
const char *charl__table_place(const charl__table *t);
/** The name of a column in messages: its name in quotes, or its number from 0. Borrowed until the next
 *  call on this thread. */
const char *charl__table_column(const charl__table *t, int column);

/** Whether a field is only a number with this decimal sign, '.' or ','. `out` may be NULL. */
bool charl__parse_number(const char *text, char decimal, double *out);
/** The same, with thousands separators if the format has them. */
bool charl__parse_formatted(const char *text, charl__number_format f, double *out);
charl__number_form charl__number_form_of(const char *text);
/** Number of fields of the first line if it is 0, 1, 2, ..., the names that pandas gives columns without names, optionally after an empty field; else 0. */
int charl__table_counts_columns(const charl__table *t);
/** Whether a field means a missing value: it is empty, one of the texts that pandas treats so (NA, N/A, NaN, null, None, ...), or in
 *  t->missing. */
bool charl__table_is_missing(const charl__table *t, const char *field);
/** Whether field `column` is an integer that f32 rounds, written without an exponent. */
bool charl__table_rounds(const charl__table *t, int column);
/** The field as f32. Errors: ERR_DATA, naming line and column, if it is missing, not a number or too
 *  large. */
charl_status charl__table_number(const charl__table *t, int column, float *out) CHARL_MUST_CHECK;

#endif
