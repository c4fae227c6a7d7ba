#ifndef CHARL_DATA_TABLE_LOOK_H
#define CHARL_DATA_TABLE_LOOK_H
/** Properties of the fields of a column, collected in one pass over a CSV file, and the resulting kind of the column. Start from {0}. */
#include "io/dataset/name_set.h"
#include "data/table/recipe.h"

/** A field to quote in a message. */
typedef struct charl__look_at {
    int64_t line;  /* 0: there is none */
    char text[48]; /* truncated */
} charl__look_at;

typedef struct charl__look {
    int64_t fields; /* so far */
    int64_t missing;
    int64_t numbers, dates, words;
    int64_t
        units; /* numbers with a unit, such as 45%, $12 or 70 kg, all with the same unit unless units_differ; the rest are words */
    int64_t edges;    /* of units, dates and words: the number that begin or end with a digit */
    char unit[2][24]; /* before and after the number */
    bool units_differ;
    charl__look_at first_missing, first_number, first_word; /* word: of units, dates and words */
    charl__look_at first_edge;                              /* that is no date */
    charl__look_at first_rounded;                           /* an integer that f32 rounds */
    charl__look_at first_form[CHARL__NUMBER_FORMS];         /* of numbers, and of those with a unit */
    charl__look_at first_fault;                             /* a word that charl__name_fault rejects, */
    char fault[96];                                         /* and why */
    charl__look_at first_dmy, first_mdy;                    /* dates such as 13/01/2024 and 01/13/2024 */
    int64_t rows;                                           /* so far, including omitted rows */
    int64_t counted;                                        /* this many fields from the first on count up by one */
    double first;                                           /* their first number */
    bool clock, has_xxy, has_short;
    charl__look_at first_zone, first_local; /* times with a zone, and without */
    charl__name_set
        set; /* the distinct fields that are not numbers; all of them if `collects`; with `overflows` not all */
    bool collects, overflows;
} charl__look;

enum { CHARL__MOST_WORDS = 10000 };

/** Add the column's field of the current row. Errors: ERR_NOMEM. */
charl_status charl__look_add(charl__look *l, const charl__table *t, int column) CHARL_MUST_CHECK;
/** Add a field of an omitted row, which only counts in the number of rows. */
void charl__look_count(charl__look *l, const charl__table *t, int column);
void charl__look_fini(charl__look *l);

/** Whether the fields count the rows from 0 or 1. */
bool charl__look_counts(const charl__look *l);

#endif
