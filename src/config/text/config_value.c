/* Converts texts to values and back, with one function per type of key. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "config/config_private.h"
#include "config/text/interval.h"

static void why_choice(const charl__key *key, const char *word, char *why)
{
    char list[384];

    snprintf(why, CHARL__WHY, "\"%.100s\" is not one of %s", word,
             charl__key_choice_list(word, key, list, sizeof list));
}

static charl__number number_of(const charl__key *key)
{
    return (charl__number){key->range, key->choices, key->unit, key->type == CHARL__KEY_SIZE};
}

static void set_set(const charl__key *key, const char *text, unsigned *field, char *why)
{
    const char *cursor = text;
    unsigned v = 0;
    char word[64];

    while (charl__text_element(&cursor, word, sizeof word)) {
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

    while (charl__text_element(&cursor, word, sizeof word)) {
        if (n == CHARL_CONFIG_LIST || !charl__parse_float(word, &v) || !charl__range_holds("[-1e30,1e30]", v)) {
            return -1;
        }
        out[n++] = (float)v;
    }
    return n;
}

/* auto, none or "MEANS / DEVIATIONS" */
static charl_status set_normalize(const char *text, charl__normalize *field, char *why)
{
    charl__normalize v = {.kind = CHARL__NORMALIZE_GIVEN};
    const int word = charl__choice_index("auto|none", text);
    CHARL_SCOPED_FREE char *copy = NULL;
    char *slash;

    if (word >= 0) {
        *field = (charl__normalize){.kind = word == 0 ? CHARL__NORMALIZE_AUTO : CHARL__NORMALIZE_NONE};
        return CHARL_OK;
    }
    CHARL_TRY(charl__strdup(text, &copy));
    slash = strchr(copy, '/');
    if (!slash) {
        snprintf(why, CHARL__WHY, "\"%.100s\" is not auto, none or MEANS / DEVIATIONS", text);
        return CHARL_OK;
    }
    *slash = '\0';
    v.count = floats_of(copy, v.mean);
    if (v.count < 1 || floats_of(slash + 1, v.std) != v.count) {
        snprintf(why, CHARL__WHY, "expected as many deviations as means, 1 to %d numbers each, such as 0.5 / 0.25",
                 CHARL_CONFIG_LIST);
        return CHARL_OK;
    }
    for (int i = 0; i < v.count; i++) {
        if (!(v.std[i] > 0.0F)) {
            snprintf(why, CHARL__WHY, "deviations must be positive");
            return CHARL_OK;
        }
    }
    *field = v;
    return CHARL_OK;
}

/* none, or fold K of N */
static void set_fold(const char *text, charl__data_fold *field, char *why)
{
    const char *slash = strchr(text, '/');
    charl__data_fold v = {0};
    char k[24];

    if (slash && slash - text < (int)sizeof k) {
        snprintf(k, sizeof k, "%.*s", (int)(slash - text), text);
        if (!charl__parse_int(k, &v.k) || !charl__parse_int(slash + 1, &v.n)) {
            v.n = 0;
        }
    }
    if (strcmp(text, "none") != 0 && !(v.k >= 1 && v.k <= v.n && v.n >= 2)) {
        snprintf(why, CHARL__WHY, "\"%.100s\" is not K/N, fold K of N: 1/5 to 5/5, say, or none", text);
        return;
    }
    *field = v;
}

static bool device_rule_is_valid(const charl__key *key, const char *text)
{
    int64_t index;

    return charl__choice_index(key->choices, text) >= 0 ||
           (charl__parse_int(text, &index) && index >= 0 && index < 1000) ||
           (strncmp(text, "pci:", 4) == 0 && text[4] != '\0') || (strncmp(text, "name:", 5) == 0 && text[5] != '\0') ||
           (strncmp(text, "platform:", 9) == 0 && text[9] != '\0');
}

/* One rule, or a list with one rule for each rank. */
static bool device_is_valid(const charl__key *key, const char *text)
{
    const char *cursor = text;
    char rule[128];
    bool valid = text[0] != '\0';

    while (valid && charl__text_element(&cursor, rule, sizeof rule)) {
        valid = device_rule_is_valid(key, rule);
    }
    return valid;
}

/* Other programs write an index after the kind: cuda:1. */
static void why_device(const charl__key *key, const char *text, char *why)
{
    const char *colon = strrchr(text, ':');
    char list[256];
    int64_t index;

    snprintf(why, CHARL__WHY, "\"%.100s\" is not %s, an index, pci:ADDRESS, name:PART or platform:PART", text,
             charl__choice_list(colon ? NULL : text, key->choices, list, sizeof list));
    if (colon && charl__parse_int(colon + 1, &index)) {
        snprintf(why + strlen(why), CHARL__WHY - strlen(why), " (did you mean %s?)", colon + 1);
    }
}

/* "val/NAME.METRIC", of an output; whether there is one of that name is checked later. */
static bool is_of_output(const charl__key *key, const char *text)
{
    const char *metric = strrchr(text, '.');
    const size_t n = key->prefix ? strlen(key->prefix) : 0;
    char word[96];

    snprintf(word, sizeof word, "%s%s", n > 0 ? key->prefix : "", metric ? metric + 1 : "");
    return n > 0 && metric && strncmp(text, key->prefix, n) == 0 && charl__key_choice_index(key, word) >= 0;
}

static void check_text(const charl__key *key, const char *text, char *why)
{

    if (key->type == CHARL__KEY_CHOICE && charl__key_choice_index(key, text) < 0 && !is_of_output(key, text)) {
        why_choice(key, text, why);
    } else if (key->type == CHARL__KEY_DEVICE && !device_is_valid(key, text)) {
        why_device(key, text, why);
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
    const charl__number number = number_of(key);

    why[0] = '\0';
    switch (key->type) {
    case CHARL__KEY_CHOICE:
        return set_text(key, charl__choice_renamed(key, text), strings, field, why);
    case CHARL__KEY_STRING:
    case CHARL__KEY_PATH:
    case CHARL__KEY_DEVICE:
        return set_text(key, text, strings, field, why);
    case CHARL__KEY_BOOL:
        (void)charl__value_bool(text, field, why);
        break;
    case CHARL__KEY_INT:
    case CHARL__KEY_SIZE:
        (void)charl__value_int(&number, text, field, why);
        break;
    case CHARL__KEY_FLOAT:
        (void)charl__value_float(&number, text, field, why);
        break;
    case CHARL__KEY_STEPS: {
        int64_t tokens;

        if (charl__tokens_parse(text, &tokens)) {
            *(int64_t *)field = CHARL__TOKENS + tokens;
        } else if (!charl__value_int(&number, text, field, why) && strstr(why, "not an integer")) {
            snprintf(why + strlen(why), CHARL__WHY - strlen(why), ", nor 1 to 1e15 tokens (2B tokens)");
        }
        break;
    }
    case CHARL__KEY_ENUM: {
        int i = charl__key_choice_index(key, charl__choice_renamed(key, text));
        bool on;

        if (i < 0 && charl__value_bool(text, &on, why)) { /* true or off, where yes and no are among the choices */
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
    case CHARL__KEY_FLOATS: {
        const charl_key list = {.kind = key->type == CHARL__KEY_INTS ? CHARL_KEY_INTS : CHARL_KEY_FLOATS,
                                .range = key->range};

        (void)charl_key_parse(&list, text, field, why);
        break;
    }
    case CHARL__KEY_INTERVAL:
        if (key->choices && strcmp(text, key->choices) == 0) {
            *(charl__interval *)field = (charl__interval){CHARL__INTERVAL_AUTO, 0};
        } else if (!charl__interval_parse(text, field)) {
            snprintf(
                why, CHARL__WHY,
                "\"%.100s\" is not an interval: steps (500), epochs (1ep), tokens (10M tokens), time (30m)%s%s or 0",
                text, key->choices ? ", " : "", key->choices ? key->choices : "");
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
    case CHARL__KEY_FOLD:
        set_fold(text, field, why);
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

static charl_status print_normalize(const charl__normalize *v, charl__text *out)
{
    if (v->kind != CHARL__NORMALIZE_GIVEN) {
        CHARL_TRY(charl__text_printf(out, "%s", v->kind == CHARL__NORMALIZE_AUTO ? "auto" : "none"));
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

charl_status charl__config_print_floats(const charl_float_list *v, charl__text *out)
{
    for (int i = 0; i < v->count; i++) {
        CHARL_TRY(charl__text_printf(out, "%s", i > 0 ? ", " : ""));
        CHARL_TRY(charl__config_print_float(v->values[i], out));
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
    case CHARL__KEY_STEPS:
        if (*(const int64_t *)field >= CHARL__TOKENS) {
            return charl__text_printf(out, "%" PRId64 " tokens", *(const int64_t *)field - CHARL__TOKENS);
        }
        /* fall through */
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
    case CHARL__KEY_FLOATS:
        return charl__config_print_floats(field, out);
    case CHARL__KEY_INTERVAL:
        return charl__text_printf(out, "%s",
                                  charl__interval_format(*(const charl__interval *)field, text, sizeof text));
    case CHARL__KEY_DURATION:
        return charl__text_printf(out, "%s", charl__duration_format(*(const double *)field, text, sizeof text));
    case CHARL__KEY_AUGMENT:
        return charl__config_augment_print(field, out);
    case CHARL__KEY_FOLD:
        return ((const charl__data_fold *)field)->n > 0
                   ? charl__text_printf(out, "%" PRId64 "/%" PRId64, ((const charl__data_fold *)field)->k,
                                        ((const charl__data_fold *)field)->n)
                   : charl__text_printf(out, "none");
    case CHARL__KEY_MIX:
        return charl__config_mix_print(field, "", out);
    case CHARL__KEY_NORMALIZE:
    default:
        return print_normalize(field, out);
    }
}
