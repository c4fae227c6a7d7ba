#ifndef CHARL_BASE_REGISTRY_KEY_H
#define CHARL_BASE_REGISTRY_KEY_H
/** The small languages that keys are described in: choices "a|b|c" and ranges "[0,1)". */
#include "charl/key.h"

/** Walk "a|b|c": copies the next word into word[size], advances *cursor; false at the end. */
bool charl__choice_next(const char **cursor, char *word, size_t size);

/** Index of `word` in "a|b|c", or -1. NULL choices hold nothing. */
int charl__choice_index(const char *choices, const char *word);

/** Number of words in "a|b|c". */
int charl__choice_count(const char *choices);

/** "a, b, c" into text[size]; returns text. */
const char *charl__choice_list(const char *choices, char *text, size_t size);

/** Whether v lies in "[lo,hi)" or the like; NULL holds everything finite. */
bool charl__range_holds(const char *range, double v);

/** The ends of a range; NULL: minus and plus infinity. */
void charl__range_ends(const char *range, double *low, double *high);

/** The number that is all of `text`: decimal digits; decimal with an exponent, finite; yes, true, on, 1, no, false, off, 0. */
bool charl__parse_int(const char *text, int64_t *out);
bool charl__parse_float(const char *text, double *out);
bool charl__parse_bool(const char *text, bool *out);

/** Whether a value lies where its key wants it, and the values fit together. Activations and names of layers are not looked up.
 *  Errors: ERR_CONFIG  "PREFIXmomentum is 1; it must lie in [0,1)" */
charl_status charl__settings_check(const charl_row *row, const void *settings, const char *prefix) CHARL_MUST_CHECK;

#endif
