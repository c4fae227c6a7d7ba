/* Choices and ranges. */
#include "base/key.h"

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
        for (int i = 0; i < 2 && holds; i++) {
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
