#ifndef CHARL_BASE_TEXT_UTF8_H
#define CHARL_BASE_TEXT_UTF8_H
/** UTF-8: what is well-formed, code points, and what may reach a terminal. Thread-safe. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "charl/text.h" /* charl_text_next */

/** Bytes of the well-formed sequence that begins at s, of which `bytes` bytes are there; 0 when
 *  there is none. */
size_t charl__utf8_length(const unsigned char *s, size_t bytes);

/** How many of the first bytes are well-formed. */
size_t charl__utf8_valid(const void *text, size_t bytes);

/** Code point of the well-formed sequence of `length` bytes at s. */
uint32_t charl__utf8_point(const unsigned char *s, size_t length);

/** Whether a terminal shows a character and does nothing else with it. False for control characters
 *  (C0, DEL, C1), for those that change the direction of text, line and paragraph separators, and
 *  invisible ones. The joiners U+200C and U+200D are visible: spelling needs them. */
bool charl__utf8_is_visible(uint32_t point);

/** The first character of UTF-8 that is not visible, tabs and line ends aside; NULL: none. What is
 *  not UTF-8 is passed over. *point: its code point. */
const char *charl__utf8_find_hidden(const char *s, size_t bytes, uint32_t *point);

/** Put '?' in place of every character that is not visible, except line ends and tabs. */
void charl__utf8_make_visible(char *text);

/** Write a code point into out[4]; its bytes, 0 for what is no code point (surrogates too). */
size_t charl__utf8_put(uint32_t point, unsigned char *out);

#endif
