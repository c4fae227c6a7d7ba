/* Texts to values and back, one function per type of key. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "config/config_private.h"
#include "config/text/interval.h"

static void why_choice(const charl__key *key, const char *word, char *why)
{
    char list[384];

    snprintf(why, CHARL__WHY, "\"%.100s\" is not one of %s", word, charl__key_choice_list(key, list, sizeof list));
}

static void why_range(const charl__key *key, const char *text, char *why)
{
    snprintf(why, CHARL__WHY, "%.100s is outside %s", text, key->range);
}

static void set_int(const charl__key *key, const char *text, int64_t *field, char *why)
{
    char number[32];
    const size_t n = strlen(text);
    const char *suffix = n > 0 ? strchr("kKmMgG", text[n - 1]) : NULL;
    int shift = 0;
    int64_t v = 0;

    if (key->choices && charl__choice_index(key->choices, text) >= 0) {
        *field = 0;
        return;
    }
    snprintf(number, sizeof number, "%s", text);
    if (key->type == CHARL__KEY_SIZE && n > 1 && n < sizeof number && suffix) {
        shift = 10 * (int)((suffix - "kKmMgG") / 2 + 1);
        number[n - 1] = '\0';
    }
    if (n >= sizeof number || !charl__parse_int(number, &v)) {
        const char *digits = text + (text[0] == '-' || text[0] == '+');
        const bool is_long = strspn(digits, "0123456789") == n - (size_t)(digits - text) - (shift > 0) && n > 18;

        if (is_long && charl__range_holds(key->range, strtod(text, NULL) * (double)(INT64_C(1) << shift))) {
            snprintf(why, CHARL__WHY, "%.100s has more than 18 digits", text);
        } else if (is_long) {
            why_range(key, text, why);
        } else {
            snprintf(why, CHARL__WHY, "\"%.100s\" is not an integer%s%s", text, key->choices ? " or " : "",
                     key->choices ? key->choices : "");
        }
    } else if (v > INT64_MAX >> shift || v < -(INT64_MAX >> shift) - 1 ||
               !charl__range_holds(key->range, (double)(v * (INT64_C(1) << shift)))) {
        why_range(key, text, why);
    } else {
        *field = v * (INT64_C(1) << shift);
    }
}

static void set_float(const charl__key *key, const char *text, double *field, char *why)
{
    double v;

    if (!charl__parse_float(text, &v)) {
        snprintf(why, CHARL__WHY, "\"%.100s\" is not a number", text);
    } else if (!charl__range_holds(key->range, v)) {
        why_range(key, text, why);
    } else {
        *field = v;
    }
}

bool charl__config_element(const char **cursor, char *word, size_t size)
{
    const char *p = *cursor + strspn(*cursor, " \t\n");
    size_t n = strcspn(p, ",\n");
    size_t kept = n;

    if (*p == '\0') {
        return false;
    }
    *cursor = p + n;
    *cursor += strspn(*cursor, " \t\n");
    if (**cursor == ',') {
        ++*cursor;
    }
    while (kept > 0 && (p[kept - 1] == ' ' || p[kept - 1] == '\t')) {
        kept--;
    }
    snprintf(word, size, "%.*s", (int)(kept < size ? kept : size - 1), p);
    return true;
}

static void set_ints(const charl__key *key, const char *text, charl_int_list *field, char *why)
{
    charl__key element = *key;
    charl_int_list v = {0};
    const char *cursor = text;
    char word[64];

    element.type = CHARL__KEY_INT;
    element.choices = NULL;
    while (why[0] == '\0' && charl__config_element(&cursor, word, sizeof word)) {
        if (v.count == CHARL_CONFIG_LIST) {
            snprintf(why, CHARL__WHY, "more than %d values", CHARL_CONFIG_LIST);
            return;
        }
        set_int(&element, word, &v.values[v.count++], why);
    }
    if (why[0] == '\0') {
        *field = v;
    }
}

static void set_set(const charl__key *key, const char *text, unsigned *field, char *why)
{
    const char *cursor = text;
    unsigned v = 0;
    char word[64];

    while (charl__config_element(&cursor, word, sizeof word)) {
        const int i = charl__key_choice_index(key, word);

        if (i < 0) {
            why_choice(key, word, why);
            return;
        }
        v |= 1U << i;
    }
    *field = v;
}

static int floats_of(const char *text, float *out)
{
    const char *cursor = text;
    char word[64];
    int n = 0;
    double v;

    while (charl__config_element(&cursor, word, sizeof word)) {
        if (n == CHARL_CONFIG_LIST || !charl__parse_float(word, &v) || fabs(v) > 1e30) {
            return -1;
        }
        out[n++] = (float)v;
    }
    return n;
}

/* auto, none or "MEANS / DEVIATIONS" */
static charl_status set_normalize(const char *text, charl_normalize *field, char *why)
{
    charl_status st = CHARL_OK;
    charl_normalize v = {.kind = CHARL_NORMALIZE_GIVEN};
    const int word = charl__choice_index("auto|none", text);
    char *copy = NULL;
    char *slash;

    if (word >= 0) {
        *field = (charl_normalize){.kind = word == 0 ? CHARL_NORMALIZE_AUTO : CHARL_NORMALIZE_NONE};
        return CHARL_OK;
    }
    CHARL_TRY_CLEANUP(charl__strdup(text, &copy));
    slash = strchr(copy, '/');
    if (!slash) {
        snprintf(why, CHARL__WHY, "\"%.100s\" is not auto, none or MEANS / DEVIATIONS", text);
        goto cleanup;
    }
    *slash = '\0';
    v.count = floats_of(copy, v.mean);
    if (v.count < 1 || floats_of(slash + 1, v.std) != v.count) {
        snprintf(why, CHARL__WHY, "expected as many deviations as means, 1 to %d numbers each, such as 0.5 / 0.25",
                 CHARL_CONFIG_LIST);
        goto cleanup;
    }
    for (int i = 0; i < v.count; i++) {
        if (!(v.std[i] > 0.0F)) {
            snprintf(why, CHARL__WHY, "deviations must be positive");
            goto cleanup;
        }
    }
    *field = v;
cleanup:
    charl_free(copy);
    return st;
}

static bool device_rule_is_valid(const charl__key *key, const char *text)
{
    int64_t index;

    return charl__choice_index(key->choices, text) >= 0 ||
           (charl__parse_int(text, &index) && index >= 0 && index < 1000) ||
           (strncmp(text, "pci:", 4) == 0 && text[4] != '\0') || (strncmp(text, "name:", 5) == 0 && text[5] != '\0') ||
           (strncmp(text, "platform:", 9) == 0 && text[9] != '\0');
}

/* One rule, or a list of them, one for each rank. */
static bool device_is_valid(const charl__key *key, const char *text)
{
    const char *cursor = text;
    char rule[128];
    bool valid = text[0] != '\0';

    while (valid && charl__config_element(&cursor, rule, sizeof rule)) {
        valid = device_rule_is_valid(key, rule);
    }
    return valid;
}

static void check_text(const charl__key *key, const char *text, char *why)
{
    char list[256];

    if (key->type == CHARL__KEY_CHOICE && charl__key_choice_index(key, text) < 0) {
        why_choice(key, text, why);
    } else if (key->type == CHARL__KEY_DEVICE && !device_is_valid(key, text)) {
        snprintf(why, CHARL__WHY, "\"%.100s\" is not %s, an index, pci:ADDRESS, name:PART or platform:PART", text,
                 charl__choice_list(key->choices, list, sizeof list));
    } else if (key->type == CHARL__KEY_PATH && text[0] == '\0') {
        snprintf(why, CHARL__WHY, "a path is missing");
    }
}

static charl_status set_text(const charl__key *key, const char *text, charl__config_strings *strings, void *field,
                             char *why)
{
    check_text(key, text, why);
    if (why[0] == '\0') {
        CHARL_TRY(charl__config_keep(strings, text, field));
    }
    return CHARL_OK;
}

charl_status charl__config_value_set(const charl__key *key, const char *text, charl__config_strings *strings,
                                     void *field, char *why)
{
    why[0] = '\0';
    switch (key->type) {
    case CHARL__KEY_CHOICE:
        return set_text(key, charl__choice_renamed(key, text), strings, field, why);
    case CHARL__KEY_STRING:
    case CHARL__KEY_PATH:
    case CHARL__KEY_DEVICE:
        return set_text(key, text, strings, field, why);
    case CHARL__KEY_BOOL:
        if (!charl__parse_bool(text, field)) {
            snprintf(why, CHARL__WHY, "\"%.100s\" is not yes or no", text);
        }
        break;
    case CHARL__KEY_INT:
    case CHARL__KEY_SIZE:
        set_int(key, text, field, why);
        break;
    case CHARL__KEY_FLOAT:
        set_float(key, text, field, why);
        break;
    case CHARL__KEY_ENUM: {
        int i = charl__key_choice_index(key, text);
        bool on;

        if (i < 0 && charl__parse_bool(text, &on)) { /* true or off, where yes and no are among the choices */
            i = charl__key_choice_index(key, on ? "yes" : "no");
        }
        if (i < 0) {
            why_choice(key, text, why);
        } else {
            *(int *)field = i;
        }
        break;
    }
    case CHARL__KEY_SET:
        set_set(key, text, field, why);
        break;
    case CHARL__KEY_INTS:
        set_ints(key, text, field, why);
        break;
    case CHARL__KEY_INTERVAL:
        if (!charl__interval_parse(text, field)) {
            snprintf(why, CHARL__WHY, "\"%.100s\" is not an interval: steps (500), epochs (1ep), time (30m) or 0",
                     text);
        }
        break;
    case CHARL__KEY_DURATION:
        if (!charl__duration_parse(text, field)) {
            snprintf(why, CHARL__WHY, "\"%.100s\" is not a time above 0: [D-]HH:MM:SS, 90s, 30m or 2h", text);
        }
        break;
    case CHARL__KEY_AUGMENT:
        charl__config_augment_set(text, field, why);
        break;
    case CHARL__KEY_MIX:
        return charl__config_mix_set(text, "", strings, field, why);
    case CHARL__KEY_NORMALIZE:
    default:
        return set_normalize(text, field, why);
    }
    return CHARL_OK;
}

charl_status charl__config_print_float(double v, charl__text *out)
{
    char text[40];

    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v) {
            break;
        }
    }
    return charl__text_printf(out, "%s", text);
}

static charl_status print_set(const charl__key *key, unsigned v, charl__text *out)
{
    const char *comma = "", *choice;
    char word[64];

    for (int i = 0; (choice = charl__key_choice(key, i, word)) != NULL; i++) {
        if (v & 1U << i) {
            CHARL_TRY(charl__text_printf(out, "%s%s", comma, choice));
            comma = ", ";
        }
    }
    return CHARL_OK;
}

static charl_status print_normalize(const charl_normalize *v, charl__text *out)
{
    if (v->kind != CHARL_NORMALIZE_GIVEN) {
        CHARL_TRY(charl__text_printf(out, "%s", v->kind == CHARL_NORMALIZE_AUTO ? "auto" : "none"));
        return CHARL_OK;
    }
    for (int i = 0; i < 2 * v->count; i++) {
        const double x = (double)(i < v->count ? v->mean[i] : v->std[i - v->count]);

        CHARL_TRY(charl__text_printf(out, "%s%.9g", i == 0 ? "" : i == v->count ? " / " : ", ", x));
    }
    return CHARL_OK;
}

static charl_status print_ints(const charl_int_list *v, charl__text *out)
{
    for (int i = 0; i < v->count; i++) {
        CHARL_TRY(charl__text_printf(out, "%s%" PRId64, i > 0 ? ", " : "", v->values[i]));
    }
    return CHARL_OK;
}

charl_status charl__config_value_print(const charl__key *key, const void *field, charl__text *out)
{
    char text[64];
    const char *name;

    switch (key->type) {
    case CHARL__KEY_STRING:
    case CHARL__KEY_PATH:
    case CHARL__KEY_CHOICE:
    case CHARL__KEY_DEVICE:
        return charl__config_quote(*(const char *const *)field, out);
    case CHARL__KEY_BOOL:
        return charl__text_printf(out, "%s", *(const bool *)field ? "yes" : "no");
    case CHARL__KEY_INT:
    case CHARL__KEY_SIZE:
        if (key->choices && *(const int64_t *)field == 0) {
            return charl__text_printf(out, "%s", key->choices);
        }
        return charl__text_printf(out, "%" PRId64, *(const int64_t *)field);
    case CHARL__KEY_FLOAT:
        return charl__config_print_float(*(const double *)field, out);
    case CHARL__KEY_ENUM:
        name = charl__key_choice(key, *(const int *)field, text);
        return charl__text_printf(out, "%s", name ? name : "?");
    case CHARL__KEY_SET:
        return print_set(key, *(const unsigned *)field, out);
    case CHARL__KEY_INTS:
        return print_ints(field, out);
    case CHARL__KEY_INTERVAL:
        return charl__text_printf(out, "%s", charl__interval_format(*(const charl_interval *)field, text, sizeof text));
    case CHARL__KEY_DURATION:
        return charl__text_printf(out, "%s", charl__duration_format(*(const double *)field, text, sizeof text));
    case CHARL__KEY_AUGMENT:
        return charl__config_augment_print(field, out);
    case CHARL__KEY_MIX:
        return charl__config_mix_print(field, "", out);
    case CHARL__KEY_NORMALIZE:
    default:
        return print_normalize(field, out);
    }
}
