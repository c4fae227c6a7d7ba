/* Intervals, durations and numbers of tokens. Counts are limited so that products with a batch size or 86400 cannot
 * overflow. */
#include "config/text/interval.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/registry/key.h"

static const double MAX_TOKENS = 1e15; /* every integer up to it is a double */

/* The digits at *p as a number of at most CHARL__LONGEST; false if there are none or too many. */
static bool parse_count(const char **p, int64_t *out)
{
    int64_t v = 0;

    if (**p < '0' || **p > '9') {
        return false;
    }
    for (; **p >= '0' && **p <= '9'; ++*p) {
        v = v * 10 + (**p - '0');
        if (v > CHARL__LONGEST) {
            return false;
        }
    }
    *out = v;
    return true;
}

static int64_t unit_seconds(const char *suffix)
{
    static const struct {
        const char *name;
        int64_t seconds;
    } units[] = {{"s", 1}, {"m", 60}, {"min", 60}, {"h", 3600}, {"d", 86400}};

    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(suffix, units[i].name) == 0) {
            return units[i].seconds;
        }
    }
    return 0;
}

bool charl__tokens_parse(const char *text, int64_t *out)
{
    static const char *const words[] = {"tokens", "token", "tok"};
    static const char letters[] = "kMBT"; /* powers of 1000 */
    size_t length = strlen(text), i = 0, word = 0;
    char number[64];
    double v;

    while (i < sizeof words / sizeof *words && word == 0) {
        const size_t n = strlen(words[i++]);

        word = length > n && strcmp(text + length - n, words[i - 1]) == 0 ? n : 0;
    }
    for (length -= word; length > 0 && text[length - 1] == ' ';) {
        length--;
    }
    if (word == 0 || length == 0 || length >= sizeof number) {
        return false;
    }
    const char *letter = strchr(letters, text[length - 1]);

    snprintf(number, sizeof number, "%.*s", (int)length - (letter ? 1 : 0), text);
    if (!charl__parse_float(number, &v)) {
        return false;
    }
    v *= letter ? pow(1000, (double)(letter - letters + 1)) : 1;
    if (!(v >= 1 && v <= MAX_TOKENS) || fabs(v - nearbyint(v)) > 1e-12 * v) { /* 4.35k is not quite 4350 */
        return false;
    }
    *out = (int64_t)nearbyint(v);
    return true;
}

bool charl__interval_parse(const char *text, charl__interval *out)
{
    const char *p = text;
    charl__interval v = {CHARL__INTERVAL_STEPS, 0};

    if (strcmp(text, "none") == 0) {
        *out = (charl__interval){CHARL__INTERVAL_OFF, 0};
        return true;
    }
    if (charl__tokens_parse(text, &v.count)) {
        *out = (charl__interval){CHARL__INTERVAL_TOKENS, v.count};
        return true;
    }
    if (!parse_count(&p, &v.count)) {
        return false;
    }
    while (*p == ' ') {
        p++;
    }
    if (strcmp(p, "ep") == 0 || strcmp(p, "epoch") == 0 || strcmp(p, "epochs") == 0) {
        v.unit = CHARL__INTERVAL_EPOCHS;
    } else if (*p != '\0' && strcmp(p, "steps") != 0) {
        const int64_t seconds = unit_seconds(p);

        if (seconds == 0) {
            return false;
        }
        v.unit = CHARL__INTERVAL_SECONDS;
        v.count *= seconds;
    }
    if (v.count == 0) {
        v.unit = CHARL__INTERVAL_OFF;
    }
    *out = v;
    return true;
}

const char *charl__interval_format(charl__interval v, char *text, size_t size)
{
    switch (v.unit) {
    case CHARL__INTERVAL_STEPS:
        snprintf(text, size, "%" PRId64, v.count);
        break;
    case CHARL__INTERVAL_EPOCHS:
        snprintf(text, size, "%" PRId64 "ep", v.count);
        break;
    case CHARL__INTERVAL_TOKENS:
        snprintf(text, size, "%" PRId64 " tokens", v.count);
        break;
    case CHARL__INTERVAL_SECONDS:
        if (v.count % 60 == 0) {
            snprintf(text, size, "%" PRId64 "m", v.count / 60);
        } else {
            snprintf(text, size, "%" PRId64 "s", v.count);
        }
        break;
    case CHARL__INTERVAL_AUTO:
        snprintf(text, size, "auto");
        break;
    case CHARL__INTERVAL_OFF:
    default:
        snprintf(text, size, "0");
        break;
    }
    return text;
}

/* [D-]H:MM:SS with two digits each for minutes and seconds. */
static bool parse_clock(const char *text, int64_t *out)
{
    const char *p = text;
    int64_t days = 0;
    int64_t hours = 0;
    int64_t part[2];

    if (!parse_count(&p, &hours)) {
        return false;
    }
    if (*p == '-') {
        p++;
        days = hours;
        if (!parse_count(&p, &hours) || hours > 23) {
            return false;
        }
    }
    for (int i = 0; i < 2; i++) {
        const char *start = p + 1;

        if (*p++ != ':' || !parse_count(&p, &part[i]) || p - start != 2 || part[i] > 59) {
            return false;
        }
    }
    *out = ((days * 24 + hours) * 60 + part[0]) * 60 + part[1];
    return *p == '\0';
}

bool charl__duration_parse(const char *text, double *seconds)
{
    const char *p = text;
    int64_t v = 0;

    if (*text != '\0' && !parse_clock(text, &v)) {
        if (!parse_count(&p, &v) || unit_seconds(p) == 0) {
            return false;
        }
        v *= unit_seconds(p);
    }
    if (v == 0 && *text != '\0') {
        return false;
    }
    *seconds = (double)v;
    return true;
}

static void format_clock(double seconds, int hour_digits, char *text, size_t size)
{
    const int64_t s = (int64_t)seconds;
    const int64_t days = s / 86400;
    int n = 0;

    if (days > 0) {
        n = snprintf(text, size, "%" PRId64 "-%02d", days, (int)(s / 3600 % 24));
    } else {
        n = snprintf(text, size, "%0*d", hour_digits, (int)(s / 3600 % 24));
    }
    if (n > 0 && (size_t)n < size) {
        snprintf(text + n, size - (size_t)n, ":%02d:%02d", (int)(s / 60 % 60), (int)(s % 60));
    }
}

const char *charl__duration_format(double seconds, char *text, size_t size)
{
    text[0] = '\0';
    if (seconds >= 1) {
        format_clock(seconds, 2, text, size);
    }
    return text;
}

bool charl__interval_due(charl__interval v, int64_t step, int64_t batch, int64_t epoch_samples, double since_s)
{
    if (v.unit == CHARL__INTERVAL_AUTO) {
        return since_s >= CHARL__INTERVAL_AUTO_S &&
               charl__interval_due((charl__interval){CHARL__INTERVAL_EPOCHS, 1}, step, batch, epoch_samples, since_s);
    }
    if (v.count <= 0 || step <= 0) {
        return false;
    }
    switch (v.unit) {
    case CHARL__INTERVAL_STEPS:
        return step % v.count == 0;
    case CHARL__INTERVAL_EPOCHS: {
        const int64_t after = step * batch / epoch_samples;
        const int64_t before = (step - 1) * batch / epoch_samples;

        return after / v.count > before / v.count;
    }
    case CHARL__INTERVAL_SECONDS:
        return since_s >= (double)v.count;
    case CHARL__INTERVAL_AUTO:
    case CHARL__INTERVAL_TOKENS:
    case CHARL__INTERVAL_OFF:
    default:
        return false;
    }
}
