#ifndef CHARL_DATA_TABLE_RECIPE_H
#define CHARL_DATA_TABLE_RECIPE_H
/** How the fields of a CSV file become the columns of a table. The importer determines it and stores it with the data as text; a model stores
 *  it in its schema, and new rows are converted by it.
 *
 *      width = charl__recipe_width(&r);                       columns of the table
 *      for (i = 0; i < r.n; i++)                              columns of the file, in its order
 *          charl__recipe_read(&r, i, &table, column_of_i, x + at, &known), at += charl__recipe_column_width(&r.column[i]);
 *
 *  The text consists of lines of fields separated by tabs: "decimal" SIGN, with a third field "grouped" if thousands may be separated, "missing"
 *  TEXT..., optionally "values" TEXT..., then for each column of the file
 *
 *      number NAME METHOD FLAGGED FILL              one column; FLAGGED 1: also NAME_missing
 *      unit   NAME METHOD FLAGGED FILL BEFORE AFTER the same with texts before and after the number, as in 45% and $12
 *      date   NAME METHOD FLAGGED ORDER CLOCK FILL...   3 columns, with CLOCK 1 4
 *      words  NAME METHOD FLAGGED WORD...           one column for each word
 *      dropped NAME  and  target NAME               none
 *
 *  METHOD is what replaces a missing value (error and drop: it is rejected), FILL is the number for it. */
#include "base/text/text.h"
#include "data/table/date.h"
#include "data/table/table.h"
#include "charl/import.h"

typedef enum charl__column_kind {
    CHARL__COLUMN_NUMBER,
    CHARL__COLUMN_DATE,
    CHARL__COLUMN_WORDS,
    CHARL__COLUMN_DROPPED,
    CHARL__COLUMN_TARGET,
    CHARL__COLUMN_KINDS
} charl__column_kind;

typedef enum charl__missing {
    CHARL__MISSING_ERROR,
    CHARL__MISSING_DROP,
    CHARL__MISSING_MEAN,
    CHARL__MISSING_MEDIAN,
    CHARL__MISSING_FLAG,
    CHARL__MISSING_METHODS
} charl__missing;

enum { CHARL__DATE_PARTS = 4 }; /* days, month, weekday, hour */

typedef struct charl__recipe_column {
    char *name; /* "": the file has no header, or the column no name */
    charl__column_kind kind;
    charl__missing missing;
    bool flagged; /* the last of its columns says whether the value is missing */
    double fill[CHARL__DATE_PARTS];
    charl__dates order;
    bool clock;
    char *unit[2]; /* of a number: the text before and after it; NULL: nothing */
    char **words;  /* [n_words] in byte order */
    int64_t n_words;
} charl__recipe_column;

typedef struct charl__recipe {
    charl__number_format format;
    char *missing; /* a list: texts for a missing value in addition to the usual ones */
    char *values;  /* a list: texts that usually mean a missing value, and here do not */
    charl__recipe_column *column;
    int n;
} charl__recipe;

/** "drop" and so on; METHODS if there is no such method. */
charl__missing charl__missing_of(const char *name);

/** An empty recipe with room for n columns of kind NUMBER without names. Errors: ERR_NOMEM. */
charl_status charl__recipe_init(charl__recipe *r, int n) CHARL_MUST_CHECK;
void charl__recipe_fini(charl__recipe *r);

/** Number of values of a column before the flag; number of table columns for a column; and for all. */
int64_t charl__recipe_numbers(const charl__recipe_column *c);
int64_t charl__recipe_column_width(const charl__recipe_column *c);
int64_t charl__recipe_width(const charl__recipe *r);
/** Whether it consists only of the names of numbers, so that it need not be stored. */
bool charl__recipe_is_plain(const charl__recipe *r);

/** Append the names of the table's columns as a list. A column without a name is called by its number. Errors: ERR_NOMEM. */
charl_status charl__recipe_names(const charl__recipe *r, charl__text *out) CHARL_MUST_CHECK;
/** Append the recipe as text. Errors: ERR_NOMEM. */
charl_status charl__recipe_print(const charl__recipe *r, charl__text *out) CHARL_MUST_CHECK;
/** The recipe in a text. `path` is for messages. *r needs fini on every path. Errors: ERR_DATA, ERR_NOMEM. */
charl_status charl__recipe_parse(const char *path, const char *text, charl__recipe *r) CHARL_MUST_CHECK;

/** The numbers of a field of kind NUMBER, DATE or WORDS that is not missing. False: the field is not of that kind, or its word is
 *  unknown (then all are 0). */
bool charl__recipe_convert(const charl__recipe *r, const charl__recipe_column *c, const char *field, double *out);

/** Column i of the recipe from field `column` of the current row.
 *
 *  out    [charl__recipe_column_width]  written
 *  known  false: the field is a word that is not in the recipe
 *
 *  Errors: ERR_DATA, naming line and column, if the field is missing and must not be, or is not of the column's kind. */
charl_status charl__recipe_read(const charl__recipe *r, int i, const charl__table *t, int column, double *out,
                                bool *known) CHARL_MUST_CHECK;

#endif
