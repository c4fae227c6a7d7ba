/* Parsing of values. */
#include "base/registry/key.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/text/text.h"

bool charl__choice_next(const char **cursor, char *word, size_t size)
{
    const char *p = *cursor;
    size_t n;

    if (!p) {
        return false;
    }
    n = strcspn(p, "|");
    snprintf(word, size, "%.*s", (int)n, p);
    *cursor = p[n] == '|' ? p + n + 1 : NULL;
    return true;
}

int charl__choice_index(const char *choices, const char *word)
{
    char choice[64];
    const char *cursor = choices;

    for (int i = 0; charl__choice_next(&cursor, choice, sizeof choice); i++) {
        if (strcmp(choice, word) == 0) {
            return i;
        }
    }
    return -1;
}

int charl__choice_count(const char *choices)
{
    int n = choices ? 1 : 0;

    for (; choices && *choices; choices++) {
        n += *choices == '|';
    }
    return n;
}

static const char *choice_at(const void *ctx, int i, char *copy)
{
    const char *cursor = ctx;

    while (charl__choice_next(&cursor, copy, 64)) {
        if (i-- == 0) {
            return copy;
        }
    }
    return NULL;
}

const char *charl__choice_list(const char *word, const char *choices, char *text, size_t size)
{
    return charl__text_names(word, choice_at, choices, text, size);
}

/* NULL: minus and plus infinity. */
static void range_ends(const char *range, double *low, double *high)
{
    char *end = NULL;

    *low = -(double)INFINITY;
    *high = (double)INFINITY;
    if (range) {
        *low = strtod(range + 1, &end);
        CHARL_INVARIANT(*end == ',');
        *high = strtod(end + 1, &end);
        CHARL_INVARIANT(*end == ')' || *end == ']');
    }
}

/* Whether v is 0 or in the range of normal floats: a device may treat subnormal numbers as 0. */
static bool is_float(double v)
{
    return v == 0 || (fabs(v) >= (double)FLT_MIN && fabs(v) <= (double)FLT_MAX);
}

static bool is_between(const char *range, double v)
{
    double low;
    double high;

    if (!range) {
        return isfinite(v);
    }
    range_ends(range, &low, &high);
    return (range[0] == '(' ? v > low : v >= low) && (range[strlen(range) - 1] == ')' ? v < high : v <= high);
}

bool charl__range_holds(const char *range, double v)
{
    return is_float(v) && is_between(range, v);
}

/* The numbers of a range, for a message about v, into text[size]. Returns text. */
static const char *range_text(const char *range, double v, char *text, size_t size)
{
    const char *low_is, *high_is;
    double low, high;

    range_ends(range, &low, &high);
    if (isfinite(v) && is_between(range, v)) {
        snprintf(text, size, "0, or %.3g to %.3g without the sign, as a 32-bit float", (double)FLT_MIN,
                 (double)FLT_MAX);
        return text;
    }
    low_is = range && range[0] == '(' ? "above" : "at least";
    high_is = range && range[strlen(range) - 1] == ')' ? "below" : "at most";
    if (isinf(low) && isinf(high)) {
        snprintf(text, size, "any finite number");
    } else if (isinf(high)) {
        snprintf(text, size, "%s %.15g", low_is, low);
    } else if (isinf(low)) {
        snprintf(text, size, "%s %.15g", high_is, high);
    } else if (low_is[1] == 't' && high_is[1] == 't') {
        snprintf(text, size, "%.15g to %.15g", low, high);
    } else {
        snprintf(text, size, "%s %.15g, %s %.15g", low_is, low, high_is, high);
    }
    return text;
}

const char *charl__range_refusal(const char *range, double v, char *text, size_t size)
{
    char holds[80];

    snprintf(text, size, "is %g, out of range (%s%s)", v, isfinite(v) || !range ? "" : "finite, ",
             range_text(range, v, holds, sizeof holds));
    return text;
}

charl_status charl__range_check(charl_status code, const char *name, double v, const char *range)
{
    char text[160];

    CHARL_REQUIRE(charl__range_holds(range, v), code, "%s %s", name, charl__range_refusal(range, v, text, sizeof text));
    return CHARL_OK;
}

static charl_status check_key(const charl_key *k, const void *settings)
{
    const void *at = (const char *)settings + k->offset;
    const charl_int_list *list = at;
    const charl_float_list *floats = at;
    double v = 0.0;
    bool holds = true;
    char why[160];

    switch (k->kind) {
    case CHARL_KEY_INT:
    case CHARL_KEY_SIZE:
    case CHARL_KEY_STEPS:
        v = (double)*(const int64_t *)at;
        holds = (k->choices && v == 0.0) || charl__range_holds(k->range, v);
        break;
    case CHARL_KEY_PAIR:
    case CHARL_KEY_TRIPLE:
        for (int i = 0; i < (k->kind == CHARL_KEY_PAIR ? 2 : 3) && holds; i++) {
            v = (double)((const int64_t *)at)[i];
            holds = charl__range_holds(k->range, v);
        }
        break;
    case CHARL_KEY_INTS:
        CHARL_REQUIRE(list->count >= 0 && list->count <= CHARL_CONFIG_LIST, CHARL_ERR_CONFIG,
                      "%s has %d values; it can have %d", k->name, list->count, CHARL_CONFIG_LIST);
        for (int i = 0; i < list->count && holds; i++) {
            v = (double)list->values[i];
            holds = charl__range_holds(k->range, v);
        }
        break;
    case CHARL_KEY_FLOATS:
        CHARL_REQUIRE(floats->count >= 0 && floats->count <= CHARL_CONFIG_LIST, CHARL_ERR_CONFIG,
                      "%s has %d values; it can have %d", k->name, floats->count, CHARL_CONFIG_LIST);
        for (int i = 0; i < floats->count && holds; i++) {
            v = floats->values[i];
            holds = charl__range_holds(k->range, v);
        }
        break;
    case CHARL_KEY_FLOAT:
        v = *(const double *)at;
        holds = charl__range_holds(k->range, v);
        break;
    case CHARL_KEY_CHOICE:
        CHARL_REQUIRE(*(const int *)at >= 0 && *(const int *)at < charl__choice_count(k->choices), CHARL_ERR_CONFIG,
                      "%s is %d; it can be 0 to %d (%s)", k->name, *(const int *)at,
                      charl__choice_count(k->choices) - 1, k->choices);
        break;
    case CHARL_KEY_BOOL:
    case CHARL_KEY_TEXT:
    case CHARL_KEY_ACTIVATION:
    case CHARL_KEY_LAYER:
        break;
    }
    CHARL_REQUIRE(holds, CHARL_ERR_CONFIG, "%s %s", k->name, charl__range_refusal(k->range, v, why, sizeof why));
    return CHARL_OK;
}

charl_status charl__settings_check(const charl_row *row, const void *settings)
{
    const char *key = "";
    char reason[CHARL_REASON_BYTES];

    for (int i = 0; i < row->n_keys; i++) {
        CHARL_TRY(check_key(&row->keys[i], settings));
    }
    CHARL_REQUIRE(!row->check || row->check(settings, &key, reason), CHARL_ERR_CONFIG, "%s %s", key, reason);
    return CHARL_OK;
}

bool charl__parse_int(const char *text, int64_t *out)
{
    const size_t sign = text[0] == '-' || text[0] == '+';
    long long v;

    if (text[sign] == '\0' || text[sign + strspn(text + sign, "0123456789")] != '\0') {
        return false;
    }
    errno = 0;
    v = strtoll(text, NULL, 10);
    if (errno != 0) {
        return false;
    }
    *out = v;
    return true;
}

bool charl__parse_float(const char *text, double *out)
{
    char *end = NULL;
    double v;

    /* No hexadecimal, no "inf", no "nan": in a configuration they are mistakes. */
    if (text[0] == '\0' || text[strspn(text, "0123456789+-.eE")] != '\0') {
        return false;
    }
    errno = 0;
    v = strtod(text, &end);
    if (*end != '\0' || end == text || !isfinite(v)) {
        return false;
    }
    *out = v == 0 && errno == ERANGE ? DBL_TRUE_MIN : v; /* not 0, so that ranges reject it */
    return true;
}

static bool out_of_range(const charl__number *number, const char *text, double v, char *why)
{
    char range[80];

    snprintf(why, CHARL_REASON_BYTES, "%.100s is out of range (%s)", text,
             range_text(number->range, v, range, sizeof range));
    return false;
}

static bool is_no_number(const charl__number *number, const char *what, const char *text, char *why)
{
    snprintf(why, CHARL_REASON_BYTES, "\"%.100s\" is not %s%s%s%s%s", text, what, number->zero ? " or " : "",
             number->zero ? number->zero : "", number->unit ? "; the unit is " : "", number->unit ? number->unit : "");
    return false;
}

/* Copy `text` without a unit at its end into word[64]; a longer text is no number and is truncated. */
static void cut_unit(const charl__number *number, const char *text, char *word)
{
    const size_t n = strlen(text), m = number->unit ? strlen(number->unit) : 0;
    size_t kept = n > m && m > 0 && strcasecmp(text + n - m, number->unit) == 0 ? n - m : n;

    while (kept < n && kept > 0 && text[kept - 1] == ' ') {
        kept--;
    }
    snprintf(word, 64, "%.*s", (int)(kept < 64 ? kept : 63), text);
}

bool charl__value_int(const charl__number *number, const char *text, int64_t *out, char *why)
{
    char digits[64];
    size_t n;
    int shift = 0;
    int64_t v = 0;

    if (charl__choice_index(number->zero, text) >= 0) {
        *out = 0;
        return true;
    }
    cut_unit(number, text, digits);
    n = strlen(digits);
    if (number->has_suffix && n > 1 && strchr("kKmMgG", digits[n - 1])) {
        shift = 10 * (int)((strchr("kKmMgG", digits[n - 1]) - "kKmMgG") / 2 + 1);
        digits[--n] = '\0';
    }
    if (!charl__parse_int(digits, &v)) {
        const size_t sign = digits[0] == '-' || digits[0] == '+';

        if (n == sign || strspn(digits + sign, "0123456789") != n - sign) {
            return is_no_number(number, "an integer", text, why);
        }
        if (is_between(number->range, strtod(digits, NULL))) { /* a range without an end */
            snprintf(why, CHARL_REASON_BYTES, "%.100s is too large", text);
            return false;
        }
        return out_of_range(number, text, NAN, why);
    }
    if (v > INT64_MAX >> shift || v < -(INT64_MAX >> shift) - 1 ||
        !charl__range_holds(number->range, (double)(v * (INT64_C(1) << shift)))) {
        return out_of_range(number, text, NAN, why);
    }
    *out = v * (INT64_C(1) << shift);
    return true;
}

bool charl__value_float(const charl__number *number, const char *text, double *out, char *why)
{
    char digits[64];
    double v;

    cut_unit(number, text, digits);
    if (!charl__parse_float(digits, &v)) {
        return is_no_number(number, "a number", text, why);
    }
    if (!charl__range_holds(number->range, v)) {
        return out_of_range(number, text, v, why);
    }
    *out = v;
    return true;
}

bool charl__value_bool(const char *text, bool *out, char *why)
{
    const int yes = charl__choice_index("yes|true|on|1", text);

    if (yes < 0 && charl__choice_index("no|false|off|0", text) < 0) {
        snprintf(why, CHARL_REASON_BYTES, "\"%.100s\" is not yes or no", text);
        return false;
    }
    *out = yes >= 0;
    return true;
}

bool charl__value_extents(const charl__number *number, int n, const char *text, int64_t *out, char *why)
{
    const char *p = text;
    int64_t v[3];
    char word[64];
    int found = 0;

    for (bool more = true; more; found++) {
        const size_t length = strcspn(p, "x, ");

        snprintf(word, sizeof word, "%.*s", (int)(length < 63 ? length : 63), p);
        if (found == n || !charl__parse_int(word, &v[found])) {
            found = -1;
            break;
        }
        if (!charl__value_int(number, word, &v[found], why)) {
            return false;
        }
        p += length + strspn(p + length, " ");
        more = *p != '\0';
        p += *p == 'x' || *p == ',';
        p += strspn(p, " ");
    }
    if (found != 1 && found != n) {
        snprintf(why, CHARL_REASON_BYTES, "\"%.100s\" is not an integer, nor %s", text,
                 n == 2 ? "two as in 3x5" : "three as in 1x3x3");
        return false;
    }
    for (int i = 0; i < n; i++) {
        out[i] = v[found == 1 ? 0 : i];
    }
    return true;
}

static bool value_ints(const charl__number *number, const char *text, charl_int_list *out, char *why)
{
    const char *cursor = text;
    charl_int_list v = {0};
    char word[64];

    while (charl__text_element(&cursor, word, sizeof word)) {
        if (v.count == CHARL_CONFIG_LIST) {
            snprintf(why, CHARL_REASON_BYTES, "more than %d values", CHARL_CONFIG_LIST);
            return false;
        }
        if (!charl__value_int(number, word, &v.values[v.count++], why)) {
            return false;
        }
    }
    *out = v;
    return true;
}

static bool value_floats(const charl__number *number, const char *text, charl_float_list *out, char *why)
{
    const char *cursor = text;
    charl_float_list v = {0};
    char word[64];

    while (charl__text_element(&cursor, word, sizeof word)) {
        if (v.count == CHARL_CONFIG_LIST) {
            snprintf(why, CHARL_REASON_BYTES, "more than %d values", CHARL_CONFIG_LIST);
            return false;
        }
        if (!charl__value_float(number, word, &v.values[v.count++], why)) {
            return false;
        }
    }
    *out = v;
    return true;
}

bool charl__value_choice(const char *choices, const char *text, int *out, char *why)
{
    const int i = charl__choice_index(choices, text);
    char list[384];

    if (i < 0) {
        snprintf(why, CHARL_REASON_BYTES, "\"%.100s\" is not one of %s", text,
                 charl__choice_list(text, choices, list, sizeof list));
        return false;
    }
    *out = i;
    return true;
}

bool charl_key_parse(const charl_key *k, const char *text, void *settings, char *reason)
{
    if (!k || !text || !reason) {
        return false;
    }
    void *at = (char *)settings + k->offset;
    const charl__number number = {.range = k->range, .zero = k->choices, .has_suffix = k->kind == CHARL_KEY_SIZE};

    reason[0] = '\0';
    switch (k->kind) {
    case CHARL_KEY_INT:
    case CHARL_KEY_SIZE:
    case CHARL_KEY_STEPS:
        return charl__value_int(&number, text, at, reason);
    case CHARL_KEY_PAIR:
        return charl__value_extents(&number, 2, text, at, reason);
    case CHARL_KEY_TRIPLE:
        return charl__value_extents(&number, 3, text, at, reason);
    case CHARL_KEY_INTS:
        if (k->required && text[strspn(text, " \t\n")] == '\0') {
            snprintf(reason, CHARL_REASON_BYTES, "is empty; it needs integers, as in 8, 16");
            return false;
        }
        return value_ints(&number, text, at, reason);
    case CHARL_KEY_FLOATS:
        if (k->required && text[strspn(text, " \t\n")] == '\0') {
            snprintf(reason, CHARL_REASON_BYTES, "is empty; it needs numbers, as in 0.5, 0.9");
            return false;
        }
        return value_floats(&number, text, at, reason);
    case CHARL_KEY_FLOAT:
        return charl__value_float(&number, text, at, reason);
    case CHARL_KEY_BOOL:
        return charl__value_bool(text, at, reason);
    case CHARL_KEY_CHOICE:
        return charl__value_choice(k->choices, text, at, reason);
    case CHARL_KEY_TEXT:
    case CHARL_KEY_ACTIVATION:
    case CHARL_KEY_LAYER:
        break;
    }
    *(const char **)at = text;
    return true;
}
