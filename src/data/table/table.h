#ifndef CHARL_DATA_TABLE_TABLE_H
#define CHARL_DATA_TABLE_TABLE_H
/** A CSV file as a table: names of columns, rows of one width, numbers out of fields. The importer
 *  and predictions read tables through this, so that both parse alike.
 *
 *      charl__table_open(&t, path, 0, 0);
 *      if (looks_like_names(&t)) charl__table_take_header(&t);   // the first line is there to look at
 *      while (charl__table_next(&t, &more), more) charl__table_number(&t, column, &value);
 */
#include "data/table/csv.h"

/** How numbers are written. */
typedef struct charl__number_format {
    char decimal; /* '.' or ',' */
    bool grouped; /* the other one may separate thousands, as in 1.234,5 */
} charl__number_format;

/** What a field can be as a number. */
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
    char separator;
    charl__number_format format;
    const char *missing; /* a list of names: texts that stand for a missing value beside the usual ones. Borrowed */
    const char *values;  /* a list: texts that usually stand for a missing value, and here do not. Borrowed */
    int64_t skipped;     /* lines before the first, */
    int64_t comments;    /* of which these begin with # */
    bool can_skip;       /* messages may name --skip */
    int n_columns;
    char **names; /* [n_columns]; NULL: no header */
    bool
        row_names; /* the first line has a field less than the next: R's names of columns; rows begin with a name without a column's */
    bool first; /* the record at hand is the first line, which next has not yet returned */
} charl__table;

/** Open `path` and read the first line after `skip` lines, a line such as sep=; and comments: lines that begin with # and do not have as
 *  many fields as the table. A first line with a field less than the second, which has a number and does not end in an empty field, is a header whose first
 *  column has no name, as R's write.table writes it. Separator 0 is the one of the line sep=, else it is found: of comma, semicolon, tab and | the one that divides
 *  most of the first 20 records alike, then the one that makes most fields numbers, then the one that makes most fields; runs of blanks
 *  where they divide all records alike and make more numbers. Numbers have a decimal point until `format` says otherwise. Needs close on
 *  every path. Errors: as charl__source_open; ERR_DATA for a file without a line; ERR_CONFIG for an unusable separator or skip. */
charl_status charl__table_open(charl__table *t, const char *path, char separator, int64_t skip) CHARL_MUST_CHECK;
void charl__table_close(charl__table *t);

/** The first line holds the names of the columns; "" is one without a name. Errors: ERR_DATA for a name that stands twice, or that
 *  charl__name_fault refuses. */
charl_status charl__table_take_header(charl__table *t) CHARL_MUST_CHECK;

/** The column with that name in the first line, or -1. Before the first row. */
int charl__table_find(const charl__table *t, const char *name);
/** Fail with `code`: there is no column `name` among those that there are. */
charl_status charl__table_no_column(const charl__table *t, const char *name, charl_status code) CHARL_MUST_CHECK;

/** The next row; *more is false at the end. Errors: ERR_DATA for one of another width. */
charl_status charl__table_next(charl__table *t, bool *more) CHARL_MUST_CHECK;

/** Back to before the first row. */
charl_status charl__table_rewind(charl__table *t) CHARL_MUST_CHECK;

/** Field of the row at hand (or, after open, of the first line). Borrowed until the next row. */
const char *charl__table_field(const charl__table *t, int column);
/** "FILE:LINE" of the row at hand. Borrowed until the next call on this thread. */
const char *charl__table_place(const charl__table *t);
/** How messages call a column: its name in quotes, or its number from 0. Borrowed until the next
 *  call on this thread. */
const char *charl__table_column(const charl__table *t, int column);

/** Whether a field is a number with this decimal sign, '.' or ',', and nothing else. `out` may be NULL. */
bool charl__parse_number(const char *text, char decimal, double *out);
/** The same, with thousands separators where the format has them. */
bool charl__parse_formatted(const char *text, charl__number_format f, double *out);
charl__number_form charl__number_form_of(const char *text);
/** Fields of the first line if it is 0, 1, 2, ..., as pandas names columns without names, perhaps behind an empty field; else 0. */
int charl__table_counts_columns(const charl__table *t);
/** Whether a field stands for a missing value: it is empty, one of what pandas takes for it (NA, N/A, NaN, null, None, ...), or in
 *  t->missing. */
bool charl__table_is_missing(const charl__table *t, const char *field);
/** Whether field `column` is an integer that f32 rounds, written without an exponent. */
bool charl__table_rounds(const charl__table *t, int column);
/** The field as f32. Errors: ERR_DATA, naming line and column, when it is missing, no number or too
 *  large. */
charl_status charl__table_number(const charl__table *t, int column, float *out) CHARL_MUST_CHECK;

#endif
