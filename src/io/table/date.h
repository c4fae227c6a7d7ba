#ifndef CHARL_IO_TABLE_DATE_H
#define CHARL_IO_TABLE_DATE_H
/** Dates in tables, with or without a time of day. */
#include <stdbool.h>
#include <stdint.h>

#include "charl/dataset.h"

/** In which order day, month and year stand. */
typedef enum charl__date_form {
    CHARL__DATE_NONE, /* no date */
    CHARL__DATE_YMD,  /* 2024-05-17, 2024/05/17 */
    CHARL__DATE_DMY,  /* 17.05.2024 */
    CHARL__DATE_XXY   /* 05/06/2024 or 05-06-2024: day or month first, the fields do not say */
} charl__date_form;

/** A field taken apart: calendar fields in the order in which they stand, then "HH:MM", "HH:MM:SS" or "HH:MM:SS.fff" after a blank
 *  or a T, and a Z or nothing. */
typedef struct charl__date {
    charl__date_form form;
    int field[3];
    bool has_clock;
    double hours; /* since midnight */
} charl__date;

/** Take `text` apart; form NONE where it is no date of the forms above. Years have four digits. */
charl__date charl__date_parse(const char *text);

/** Days since 1970-01-01 (Gregorian), month 1 to 12 and weekday (0: Monday) of a date; with `order` DMY or MDY for the form XXY.
 *  False where there is no such day. Days from civil: Howard Hinnant, "chrono-compatible low-level date algorithms". */
bool charl__date_resolve(const charl__date *d, charl_csv_dates order, int64_t *days, int *month, int *weekday);

#endif
