#ifndef CHARL_DATA_TABLE_DATE_H
#define CHARL_DATA_TABLE_DATE_H
/** Dates in tables, with or without a time of day. */
#include <stdbool.h>
#include <stdint.h>

#include "charl/dataset.h"
#include "charl/import.h"

/** The order of day, month and year in a file; AUTO: detected from its dates. */
typedef enum charl__dates { CHARL__DATES_AUTO, CHARL__DATES_DMY, CHARL__DATES_MDY, CHARL__DATES_YMD } charl__dates;

/** Their order in one date. */
typedef enum charl__date_form {
    CHARL__DATE_NONE, /* no date */
    CHARL__DATE_YMD,  /* 2024-05-17, 2024/05/17, 2024.05.17, 2024-May-17 */
    CHARL__DATE_DMY,  /* 17.05.2024, 17 May 2024 */
    CHARL__DATE_MDY,  /* May 17, 2024 */
    CHARL__DATE_XXY,  /* 05/06/2024 or 05-06-2024: day or month first, ambiguous */
    CHARL__DATE_SHORT /* 01.05.23: a year of two digits may be first or last; 00 to 68 is 2000 to 2068, 69 to 99 is 1969 to 1999 */
} charl__date_form;

/** A parsed field: calendar fields in the order in which they appear, then optionally "HH:MM", "HH:MM:SS" or "HH:MM:SS.fff" after a blank
 *  or a T, AM or PM, and Z or an offset from UTC such as +02:00. */
typedef struct charl__date {
    charl__date_form form;
    int field[3];
    bool has_clock, has_zone;
    double hours; /* since midnight of the day; with a time zone in UTC, negative or above 24 on the adjacent days */
} charl__date;

/** Parse `text`; form NONE if it is not a date of the forms above. Months may have their English names. */
charl__date charl__date_parse(const char *text);

/** Days since 1970-01-01 (Gregorian), month 1 to 12, weekday (0: Monday) and hours since midnight of a date; `order` applies to the forms
 *  XXY (DMY or MDY) and SHORT. False if there is no such day. Days from civil: Howard Hinnant, "chrono-compatible low-level date algorithms". */
bool charl__date_resolve(const charl__date *d, charl__dates order, int64_t *days, int *month, int *weekday,
                         double *hours);

#endif
