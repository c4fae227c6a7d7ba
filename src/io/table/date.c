#include "io/table/date.h"

#include <stdlib.h>
#include <string.h>

/* At most `most` digits at *at, which moves behind them; -1 where there are none. */
static int digits(const char **at, int most, int *count)
{
    int value = 0, n = 0;

    for (; n < most && **at >= '0' && **at <= '9'; n++, (*at)++) {
        value = 10 * value + (**at - '0');
    }
    *count = n;
    return n > 0 ? value : -1;
}

/* "HH:MM", "HH:MM:SS" or "HH:MM:SS.fff", and a Z. */
static bool parse_clock(const char *at, double *hours)
{
    int n, second = 0, hour, minute;
    double fraction = 0.0;

    hour = digits(&at, 2, &n);
    if (hour < 0 || hour > 23 || *at++ != ':') {
        return false;
    }
    minute = digits(&at, 2, &n);
    if (n != 2 || minute > 59) {
        return false;
    }
    if (*at == ':') {
        at++;
        second = digits(&at, 2, &n);
        if (n != 2 || second > 59) {
            return false;
        }
        if (*at == '.') {
            const size_t length = 1 + strspn(at + 1, "0123456789");

            fraction = length > 1 && length < 20 ? strtod(at, NULL) : 0.0;
            at += length;
        }
    }
    *hours = hour + minute / 60.0 + (second + fraction) / 3600.0;
    return *at == '\0' || strcmp(at, "Z") == 0;
}

charl__date charl__date_parse(const char *text)
{
    charl__date d = {CHARL__DATE_NONE, {0}, false, 0.0};
    const char *at = text;
    int n[3];
    char separator = 0;

    for (int i = 0; i < 3; i++) {
        d.field[i] = digits(&at, 4, &n[i]);
        if (d.field[i] < 0) {
            return d;
        }
        if (i < 2) {
            if (!strchr("-/.", *at) || !*at || (separator && *at != separator)) {
                return d;
            }
            separator = *at++;
        }
    }
    if (*at == ' ' || *at == 'T') {
        d.has_clock = true;
        if (!parse_clock(at + 1, &d.hours)) {
            return d;
        }
    } else if (*at) {
        return d;
    }
    if (n[0] == 4 && n[1] <= 2 && n[2] <= 2 && separator != '.') {
        d.form = CHARL__DATE_YMD;
    } else if (n[0] <= 2 && n[1] <= 2 && n[2] == 4) {
        d.form = separator == '.' ? CHARL__DATE_DMY : CHARL__DATE_XXY;
    }
    return d;
}

bool charl__date_resolve(const charl__date *d, charl_csv_dates order, int64_t *days, int *month, int *weekday)
{
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const bool ymd = d->form == CHARL__DATE_YMD;
    const bool day_first = d->form == CHARL__DATE_DMY || (d->form == CHARL__DATE_XXY && order == CHARL_CSV_DATES_DMY);
    const int year = d->field[ymd ? 0 : 2], m = d->field[ymd || day_first ? 1 : 0];
    const int day = d->field[ymd ? 2 : day_first ? 0 : 1];
    const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    int64_t y, era, year_of_era, day_of_year;

    if (d->form == CHARL__DATE_NONE || (d->form == CHARL__DATE_XXY && order == CHARL_CSV_DATES_AUTO) || m < 1 ||
        m > 12 || day < 1 || day > lengths[m - 1] + (leap && m == 2)) {
        return false;
    }
    /* Years begin in March, so that the leap day is the last one. */
    y = year - (m <= 2);
    era = (y >= 0 ? y : y - 399) / 400;
    year_of_era = y - era * 400;
    day_of_year = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    *days = era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
    *month = m;
    *weekday = (int)(((*days + 3) % 7 + 7) % 7); /* 1970-01-01 was a Thursday */
    return true;
}
