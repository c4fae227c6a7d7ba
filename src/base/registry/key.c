/* Choices and ranges. */
#include "base/registry/key.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

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

const char *charl__choice_list(const char *choices, char *text, size_t size)
{
    char choice[64];
    const char *cursor = choices;
    size_t used = 0;

    text[0] = '\0';
    while (charl__choice_next(&cursor, choice, sizeof choice) && used < size) {
        const int n = snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", choice);

        used += n > 0 ? (size_t)n : 0;
    }
    return text;
}

void charl__range_ends(const char *range, double *low, double *high)
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

bool charl__range_holds(const char *range, double v)
{
    double low;
    double high;

    if (!isfinite(v)) {
        return false;
    }
    if (!range) {
        return true;
    }
    charl__range_ends(range, &low, &high);
    return (range[0] == '(' ? v > low : v >= low) && (range[strlen(range) - 1] == ')' ? v < high : v <= high);
}

static charl_status check_key(const charl_key *k, const void *settings, const char *prefix)
{
    const void *at = (const char *)settings + k->offset;
    const charl_int_list *list = at;
    double v = 0.0;
    bool holds = true;

    switch (k->kind) {
    case CHARL_KEY_INT:
    case CHARL_KEY_SIZE:
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
                      "%s%s has %d values; it can have %d", prefix, k->name, list->count, CHARL_CONFIG_LIST);
        for (int i = 0; i < list->count && holds; i++) {
            v = (double)list->values[i];
            holds = charl__range_holds(k->range, v);
        }
        break;
    case CHARL_KEY_FLOAT:
        v = *(const double *)at;
        holds = charl__range_holds(k->range, v);
        break;
    case CHARL_KEY_CHOICE:
        CHARL_REQUIRE(*(const int *)at >= 0 && *(const int *)at < charl__choice_count(k->choices), CHARL_ERR_CONFIG,
                      "%s%s is choice %d of %s", prefix, k->name, *(const int *)at, k->choices);
        break;
    case CHARL_KEY_BOOL:
    case CHARL_KEY_TEXT:
    case CHARL_KEY_ACTIVATION:
    case CHARL_KEY_LAYER:
        break;
    }
    CHARL_REQUIRE(holds, CHARL_ERR_CONFIG, "%s%s is %g; it must lie in %s", prefix, k->name, v,
                  k->range ? k->range : "(-inf,inf)");
    return CHARL_OK;
}

charl_status charl__settings_check(const charl_row *row, const void *settings, const char *prefix)
{
    const char *key = "";
    char reason[CHARL_REASON_BYTES];

    for (int i = 0; i < row->n_keys; i++) {
        CHARL_TRY(check_key(&row->keys[i], settings, prefix));
    }
    CHARL_REQUIRE(!row->check || row->check(settings, &key, reason), CHARL_ERR_CONFIG, "%s%s %s", prefix, key, reason);
    return CHARL_OK;
}

bool charl__parse_int(const char *text, int64_t *out)
{
    const size_t digits = strspn(text + (text[0] == '-' || text[0] == '+'), "0123456789");
    long long v;

    if (digits == 0 || digits > 18 || text[digits + (text[0] == '-' || text[0] == '+')] != '\0') {
        return false;
    }
    v = strtoll(text, NULL, 10);
    *out = v;
    return true;
}

bool charl__parse_float(const char *text, double *out)
{
    char *end = NULL;
    double v;

    /* No hexadecimal, no "inf", no "nan": nobody means them. */
    if (text[0] == '\0' || text[strspn(text, "0123456789+-.eE")] != '\0') {
        return false;
    }
    v = strtod(text, &end);
    if (*end != '\0' || end == text || !isfinite(v)) {
        return false;
    }
    *out = v;
    return true;
}

bool charl__parse_bool(const char *text, bool *out)
{
    const int yes = charl__choice_index("yes|true|on|1", text);

    if (yes < 0 && charl__choice_index("no|false|off|0", text) < 0) {
        return false;
    }
    *out = yes >= 0;
    return true;
}

/* "3x5", or one number for both. */
static bool parse_pair(const char *text, int64_t *out)
{
    const char *x = strchr(text, 'x');
    char first[24];

    if (!x) {
        return charl__parse_int(text, &out[0]) && charl__parse_int(text, &out[1]);
    }
    snprintf(first, sizeof first, "%.*s", (int)(x - text < 23 ? x - text : 23), text);
    return charl__parse_int(first, &out[0]) && charl__parse_int(x + 1, &out[1]);
}

static const char *range_of(const charl_key *k)
{
    return k->range ? k->range : "(-inf,inf)";
}

bool charl_key_parse(const charl_key *k, const char *text, void *settings, char *reason)
{
    void *at = (char *)settings + k->offset;
    int64_t n[2];
    double v;
    int choice;
    char list[256];

    reason[0] = '\0';
    switch (k->kind) {
    case CHARL_KEY_INT:
        if (charl__choice_index(k->choices, text) >= 0) {
            *(int64_t *)at = 0;
            return true;
        }
        if (charl__parse_int(text, n) && charl__range_holds(k->range, (double)n[0])) {
            *(int64_t *)at = n[0];
            return true;
        }
        snprintf(reason, CHARL_REASON_BYTES, "must be an integer in %s%s%s", range_of(k), k->choices ? ", or " : "",
                 k->choices ? k->choices : "");
        return false;
    case CHARL_KEY_PAIR:
        if (parse_pair(text, n) && charl__range_holds(k->range, (double)n[0]) &&
            charl__range_holds(k->range, (double)n[1])) {
            memcpy(at, n, sizeof n);
            return true;
        }
        snprintf(reason, CHARL_REASON_BYTES, "must be an integer in %s, or two of them, as in 32x48", range_of(k));
        return false;
    case CHARL_KEY_FLOAT:
        if (charl__parse_float(text, &v) && charl__range_holds(k->range, v)) {
            *(double *)at = v;
            return true;
        }
        snprintf(reason, CHARL_REASON_BYTES, "must be a number in %s", range_of(k));
        return false;
    case CHARL_KEY_BOOL:
        if (charl__parse_bool(text, at)) {
            return true;
        }
        snprintf(reason, CHARL_REASON_BYTES, "must be yes or no");
        return false;
    case CHARL_KEY_CHOICE:
        choice = charl__choice_index(k->choices, text);
        if (choice >= 0) {
            *(int *)at = choice;
            return true;
        }
        snprintf(reason, CHARL_REASON_BYTES, "must be one of %s", charl__choice_list(k->choices, list, sizeof list));
        return false;
    case CHARL_KEY_TEXT:
        *(const char **)at = text;
        return true;
    case CHARL_KEY_TRIPLE:
    case CHARL_KEY_SIZE:
    case CHARL_KEY_INTS:
    case CHARL_KEY_ACTIVATION:
    case CHARL_KEY_LAYER:
        break;
    }
    snprintf(reason, CHARL_REASON_BYTES, "can be set in a configuration only");
    return false;
}
