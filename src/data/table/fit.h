#ifndef CHARL_DATA_TABLE_FIT_H
#define CHARL_DATA_TABLE_FIT_H
/** The numbers and words of a recipe, from the training rows: means, medians, words, and which columns have missing values.
 *
 *      charl__fit_begin(&f, &recipe, look);  for each training row charl__fit_add(&f, &table);  charl__fit_end(&f, &table);
 *
 *  Afterwards every column has its fill and its words, and a flag if that was requested and the training rows have missing values. */
#include "data/table/look.h"

/** A column that is being fitted. */
typedef struct charl__fit_column {
    int64_t missing, n;
    double sum[CHARL__DATE_PARTS];
    double *value; /* [n * parts] if medians are wanted */
    int64_t n_seen;
    bool *seen; /* [n_seen] the words of the look */
} charl__fit_column;

typedef struct charl__fit {
    charl__recipe *recipe;
    charl__look *look;
    charl__fit_column *column;
} charl__fit;

/** Both are borrowed until fini. Column i of the recipe is column i of the file. Errors: ERR_NOMEM. */
charl_status charl__fit_begin(charl__fit *f, charl__recipe *recipe, charl__look *look) CHARL_MUST_CHECK;
/** Add the current row. Errors: ERR_DATA for an invalid date; ERR_NOMEM. */
charl_status charl__fit_add(charl__fit *f, const charl__table *t) CHARL_MUST_CHECK;
/** `t` provides the names of columns for messages. Errors: ERR_DATA for a column without values in the training rows, or a word that charl__name_fault rejects; ERR_NOMEM. */
charl_status charl__fit_end(charl__fit *f, const charl__table *t) CHARL_MUST_CHECK;
void charl__fit_fini(charl__fit *f);

#endif
