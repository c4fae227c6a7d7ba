#ifndef CHARL_BASE_REGISTRY_KEY_H
#define CHARL_BASE_REGISTRY_KEY_H
/** Parsing of values: integers, numbers, choices and so on, with the reason if a text is invalid.
 *
 *  Keys of configurations, settings of layers, options of importers and command-line options are all parsed by these functions,
 *  so values and error messages are the same everywhere. A function that rejects a text returns false,
 *  leaves *out unchanged and writes the reason to why[CHARL_REASON_BYTES]: a sentence about the text, such as
 *
 *      "ten" is not an integer
 *      0 is out of range (at least 1)
 *      "Adamw" is not one of sgd, adam, adamw (did you mean adamw?)
 *
 *  `range` is "[0,1)" or the like, NULL for any finite number. Ranges exclude numbers that become infinite or 0 as a float, since most
 *  values become one.
 */
#include "charl/key.h"

/** A key named as the member of `type` that it sets. */
#define CHARL__KEY(type, member, kind, range, required, ...)                                                           \
    {                                                                                                                  \
#member, CHARL_KEY_##kind, offsetof(type, member), range, required, __VA_ARGS__                                \
    }

/** Iterate over "a|b|c": copies the next word into word[size], advances *cursor; false at the end. */
bool charl__choice_next(const char **cursor, char *word, size_t size);

/** Index of `word` in "a|b|c", or -1. NULL choices contain nothing. */
int charl__choice_index(const char *choices, const char *word);

/** Number of words in "a|b|c". */
int charl__choice_count(const char *choices);

/** "a, b, c" into text[size], with the choice closest to `word` unless that is NULL; returns text. */
const char *charl__choice_list(const char *word, const char *choices, char *text, size_t size);

/** Whether v is in a range. */
bool charl__range_holds(const char *range, double v);

/** Why a range does not contain v, into text[size]: "is 1, out of range (at least 0, below 1)", "is inf, out of range (finite, above 0)". Returns text. */
const char *charl__range_refusal(const char *range, double v, char *text, size_t size);

/** Fail unless `v`, called `name` in the message, is in the range. Errors: `code`  NAME and charl__range_refusal */
charl_status charl__range_check(charl_status code, const char *name, double v, const char *range) CHARL_MUST_CHECK;

/** Parse `text` completely as a number: decimal digits; decimal with an exponent, finite. */
bool charl__parse_int(const char *text, int64_t *out);
bool charl__parse_float(const char *text, double *out);

/** The notation of a key's numbers. */
typedef struct charl__number {
    const char *range;
    const char *zero; /* a word that means 0; NULL: none */
    const char *unit; /* may follow the number, "MB"; NULL: none */
    bool has_suffix;  /* k, M and G stand for powers of 1024 */
} charl__number;

bool charl__value_int(const charl__number *number, const char *text, int64_t *out, char *why);
bool charl__value_float(const charl__number *number, const char *text, double *out, char *why);
/** yes, true, on, 1, no, false, off or 0. */
bool charl__value_bool(const char *text, bool *out, char *why);
/** n integers as in 3x5 or 3, 5; or one for all. */
bool charl__value_extents(const charl__number *number, int n, const char *text, int64_t *out, char *why);
/** *out is the index in "a|b|c". */
bool charl__value_choice(const char *choices, const char *text, int *out, char *why);

/** Check that each value is in the range of its key, and that the values are consistent. Activations and names of layers are not checked.
 *  Errors: ERR_CONFIG  "momentum is 1, out of range (at least 0, below 1)" */
charl_status charl__settings_check(const charl_row *row, const void *settings) CHARL_MUST_CHECK;

#endif
