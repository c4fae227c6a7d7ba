#ifndef CHARL_BASE_TEXT_UTF8_H
#define CHARL_BASE_TEXT_UTF8_H
/** UTF-8: validation, code points, and which characters may be written to a terminal. Thread-safe. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "charl/text.h" /* charl_text_next */

/** Length of the well-formed sequence that begins at s, of which `bytes` bytes exist; 0 if
 *  there is none. */
size_t charl__utf8_length(const unsigned char *s, size_t bytes);

/** Number of leading bytes that are well-formed. */
size_t charl__utf8_valid(const void *text, size_t bytes);

/** Code point of the well-formed sequence of `length` bytes at s. */
uint32_t charl__utf8_point(const unsigned char *s, size_t length);

/** Whether a terminal displays a character and does nothing else with it. False for control characters
 *  (C0, DEL, C1), for those that change the direction of text, line and paragraph separators, and
 *  invisible ones. The joiners U+200C and U+200D count as visible: spelling needs them. */
bool charl__utf8_is_visible(uint32_t point);

/** The first UTF-8 character that is not visible, except tabs and line ends; NULL: none. Skips
 *  invalid UTF-8. *point: its code point. */
const char *charl__utf8_find_hidden(const char *s, size_t bytes, uint32_t *point);

/** Replace every character that is not visible by '?', except line ends and tabs. */
void charl__utf8_make_visible(char *text);

/** Write a code point into out[4]; returns its length, 0 if it is not a code point (such as a surrogate). */
size_t charl__utf8_put(uint32_t point, unsigned char *out);

#endif
