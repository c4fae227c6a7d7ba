#ifndef CHARL_DATA_TOKENIZER_UNICODE_H
#define CHARL_DATA_TOKENIZER_UNICODE_H
/** What tokenizers need of Unicode's tables, from libutf8proc. Without that library charl__unicode_is_known is false, and the other functions fail
 *  or leave characters as they are. */
#include <stdbool.h>
#include <stdint.h>

#include "base/text/text.h"

bool charl__unicode_is_known(void);

/** Unicode's normal forms: characters composed or decomposed, in the K forms also without variants such as full width. */
typedef enum charl__normal_form {
    CHARL__FORM_C,
    CHARL__FORM_D,
    CHARL__FORM_KC,
    CHARL__FORM_KD,
} charl__normal_form;

/** Append a normal form of a text; bytes that are not UTF-8 are copied. Cost: little for ASCII. Errors: ERR_NOMEM; ERR_CONFIG  no libutf8proc. */
charl_status charl__unicode_normalize(charl__normal_form form, const unsigned char *text, size_t bytes,
                                      charl__text *out) CHARL_MUST_CHECK;

/** A character in lower case, as UTF-8; returns its length. */
size_t charl__unicode_lower(uint32_t point, unsigned char out[8]);

/** General categories: a mark that combines with the character before it (M, Mn only); a control or format character, or one for private use (C). */
bool charl__unicode_is_mark(uint32_t point);
bool charl__unicode_is_nonspacing(uint32_t point);
bool charl__unicode_is_control(uint32_t point);

/** Whether a grapheme cluster ends between two neighbours. *state is 0 at the beginning of a text. */
bool charl__unicode_breaks(uint32_t before, uint32_t after, int *state);

#endif
