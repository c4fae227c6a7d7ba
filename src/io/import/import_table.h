#ifndef CHARL_IO_IMPORT_IMPORT_TABLE_H
#define CHARL_IO_IMPORT_IMPORT_TABLE_H
/** A CSV file as a table: names of columns, rows of one width, numbers out of fields. The importer
 *  and predictions read tables through this, so that both parse alike.
 *
 *      charl__table_open(path, ',', &t);
 *      if (looks_like_names(t)) charl__table_take_header(t);   // the first line is there to look
 *  at while (charl__table_next(t, &more), more) charl__table_number(t, column, &value);
 */
#include "io/import/import_csv.h"

typedef struct charl__table {
    charl__source *source;
    charl__csv *csv;
    char separator;
    int n_columns;
    char **names; /* [n_columns]; NULL: no header */
    bool first;   /* the record at hand is the first line, which next has not yet returned */
} charl__table;

/** Open `path` and read the first line. Needs close on every path. Errors: as charl__source_open;
 *  ERR_DATA for a file without a line; ERR_CONFIG for an unusable separator. */
charl_status charl__table_open(charl__table *t, const char *path, char separator) CHARL_MUST_CHECK;
void charl__table_close(charl__table *t);

/** The first line holds the names of the columns. Errors: ERR_DATA for a name that is missing, that
 *  stands twice, or that charl__name_fault refuses. */
charl_status charl__table_take_header(charl__table *t) CHARL_MUST_CHECK;

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

/** Whether a field is a decimal number and nothing else. */
bool charl__is_number(const char *text);
/** The field as f32. Errors: ERR_DATA, naming line and column, when it is empty, no number or too
 *  large. */
charl_status charl__table_number(const charl__table *t, int column, float *out) CHARL_MUST_CHECK;

#endif
