#include "data/table/date.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "charl/import.h"

/* At most `most` digits at *at, which is advanced; -1 if there are none. */
static int digits(const char **at, int most, int *count)
{
    int value = 0, n = 0;

    for (; n < most && **at >= '0' && **at <= '9'; n++, (*at)++) {
        value = 10 * value + (**at - '0');
    }
    *count = n;
    return n > 0 ? value : -1;
}

/* Z, or an offset from UTC in hours: +02, +0200, +02:00. */
static bool parse_zone(const char *at, double *hours)
{
    const double sign = *at == '-' ? -1.0 : 1.0;
    int n, hour, minute = 0;

    *hours = 0.0;
    if (strcmp(at, "Z") == 0 || strcasecmp(at, "UTC") == 0) {
        return true;
    }
    if (*at != '+' && *at != '-') {
        return false;
    }
    at++;
    hour = digits(&at, 2, &n);
    if (n != 2 || hour > 14) {
        return false;
    }
    at += *at == ':';
    if (*at) {
        minute = digits(&at, 2, &n);
        if (n != 2 || minute > 59) {
            return false;
        }
    }
    *hours = sign * (hour + minute / 60.0);
    return !*at;
}

/* "HH:MM", "HH:MM:SS" or "HH:MM:SS.fff", optionally AM or PM, and a time zone. */
static bool parse_clock(const char *at, charl__date *d)
{
    int n, second = 0, hour, minute;
    double fraction = 0.0, zone = 0.0;

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
    at += *at == ' ';
    if (strcasecmp(at, "AM") == 0 || strcasecmp(at, "PM") == 0) {
        if (hour < 1 || hour > 12) {
            return false;
        }
        hour = hour % 12 + (*at == 'P' || *at == 'p' ? 12 : 0);
        at += 2;
    }
    d->has_zone = *at;
    if (*at && !parse_zone(at, &zone)) {
        return false;
    }
    d->hours = hour + minute / 60.0 + (second + fraction) / 3600.0;
    if (zone != 0.0) {
        d->hours -= zone;
    }
    return true;
}

/* The month whose English name, in full or its first three letters, is at *at, which is advanced past it and a point; 0: none. */
static int month_name(const char **at)
{
    static const char *const names[] = {"january", "february", "march",     "april",   "may",      "june",
                                        "july",    "august",   "september", "october", "november", "december"};
    const size_t n = strspn(*at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");

    for (int i = 0; i < 12; i++) {
        if ((n == 3 || n == strlen(names[i])) && strncasecmp(*at, names[i], n) == 0) {
            *at += n;
            *at += **at == '.';
            return i + 1;
        }
    }
    return 0;
}

/* Between two fields: one of -/. or, next to the name of a month, also blanks and a comma. */
static bool skip_separator(const char **at, bool named, char *separator)
{
    const size_t n = strspn(*at, " ,-/.");
    const char own = **at;

    named = named || (*separator == 0 && (((*at)[n] | 32) >= 'a' && ((*at)[n] | 32) <= 'z'));
    if (n == 0 || n > 2 || (!named && (n != 1 || !strchr("-/.", own) || (*separator && own != *separator)))) {
        return false;
    }
    *separator = own;
    *at += n;
    return true;
}

charl__date charl__date_parse(const char *text)
{
    charl__date d = {.form = CHARL__DATE_NONE};
    const char *at = text;
    int n[3], name = -1; /* which field is the name of a month */
    char separator = 0;

    for (int i = 0; i < 3; i++) {
        d.field[i] = digits(&at, 4, &n[i]);
        if (d.field[i] < 0) {
            if (name >= 0 || i == 2 || (d.field[i] = month_name(&at)) == 0) {
                return d;
            }
            name = i;
        }
        if (i < 2 && !skip_separator(&at, name >= 0, &separator)) {
            return d;
        }
    }
    if (*at == ' ' || *at == 'T') {
        d.has_clock = true;
        if (!parse_clock(at + 1, &d)) {
            return d;
        }
    } else if (*at) {
        return d;
    }
    if (name >= 0 && n[2] == 4 && n[1 - name] <= 2) {
        d.form = name == 0 ? CHARL__DATE_MDY : CHARL__DATE_DMY;
    } else if (n[0] == 4 && (name == 1 || n[1] <= 2) && n[2] <= 2) {
        d.form = CHARL__DATE_YMD;
    } else if (name >= 0) {
        d.form = CHARL__DATE_NONE;
    } else if (n[0] <= 2 && n[1] <= 2 && n[2] == 4) {
        d.form = separator == '.' ? CHARL__DATE_DMY : CHARL__DATE_XXY;
    } else if (n[0] <= 2 && n[1] <= 2 && n[2] == 2) {
        d.form = CHARL__DATE_SHORT;
    }
    return d;
}

/* The positions of year, month and day. */
static bool find_places(const charl__date *d, charl__dates order, int place[3])
{
    static const int places[][3] = {
        [CHARL__DATES_DMY] = {2, 1, 0}, [CHARL__DATES_MDY] = {2, 0, 1}, [CHARL__DATES_YMD] = {0, 1, 2}};

    switch (d->form) {
    case CHARL__DATE_YMD:
        order = CHARL__DATES_YMD;
        break;
    case CHARL__DATE_DMY:
        order = CHARL__DATES_DMY;
        break;
    case CHARL__DATE_MDY:
        order = CHARL__DATES_MDY;
        break;
    case CHARL__DATE_XXY:
        order = order == CHARL__DATES_YMD ? CHARL__DATES_AUTO : order;
        break;
    case CHARL__DATE_SHORT:
        break;
    default:
        return false;
    }
    memcpy(place, places[order], sizeof places[order]);
    return order != CHARL__DATES_AUTO;
}

bool charl__date_resolve(const charl__date *d, charl__dates order, int64_t *days, int *month, int *weekday,
                         double *hours)
{
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int place[3], year, m, day;
    int64_t y, era, year_of_era, day_of_year;

    if (!find_places(d, order, place)) {
        return false;
    }
    year = d->field[place[0]];
    year += d->form != CHARL__DATE_SHORT ? 0 : year < 69 ? 2000 : 1900;
    m = d->field[place[1]];
    day = d->field[place[2]];
    if (m < 1 || m > 12 || day < 1 ||
        day > lengths[m - 1] + (m == 2 && year % 4 == 0 && (year % 100 != 0 || year % 400 == 0))) {
        return false;
    }
    /* Years begin in March, so that the leap day is the last one. */
    y = year - (m <= 2);
    era = (y >= 0 ? y : y - 399) / 400;
    year_of_era = y - era * 400;
    day_of_year = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    *days = era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
    *month = m;
    *hours = d->hours;
    if (d->has_zone && (d->hours < 0 || d->hours >= 24)) { /* in UTC it is the day before or after */
        const int step = d->hours < 0 ? -1 : 1;
        const int length = lengths[m - 1] + (m == 2 && year % 4 == 0 && (year % 100 != 0 || year % 400 == 0));

        *hours -= 24.0 * step;
        *days += step;
        *month = day + step < 1 ? (m + 10) % 12 + 1 : day + step > length ? m % 12 + 1 : m;
    }
    *weekday = (int)(((*days + 3) % 7 + 7) % 7); /* 1970-01-01 was a Thursday */
    return true;
}
