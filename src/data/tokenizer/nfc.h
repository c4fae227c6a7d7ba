#ifndef CHARL_DATA_TOKENIZER_NFC_H
#define CHARL_DATA_TOKENIZER_NFC_H
/** Unicode's normal form C: a letter and its combining marks become one character if one exists. */
#include <stdbool.h>

#include "base/text/text.h"

/** Whether this charl was built with libutf8proc, which implements it. */
bool charl__nfc_is_known(void);

/** Append the normal form of a text to `out`; bytes that are not UTF-8 are copied. *same: the text is already normal, and nothing was
 *  appended. Cost: little for ASCII. Errors: ERR_NOMEM. */
charl_status charl__nfc(const unsigned char *text, size_t bytes, charl__text *out, bool *same) CHARL_MUST_CHECK;

#endif
