#ifndef CHARL_BASE_UTF8_H
#define CHARL_BASE_UTF8_H
/** UTF-8: what is well-formed, and code points. Thread-safe. */
#include <stddef.h>
#include <stdint.h>

/** Bytes of the well-formed sequence that begins at s, of which `bytes` bytes are there; 0 when
 * there is none. */
size_t charl__utf8_length(const unsigned char *s, size_t bytes);

/** How many of the first bytes are well-formed. */
size_t charl__utf8_valid(const void *text, size_t bytes);

/** Code point of the well-formed sequence of `length` bytes at s. */
uint32_t charl__utf8_point(const unsigned char *s, size_t length);

/** Write a code point into out[4]; its bytes, 0 for what is no code point (surrogates too). */
size_t charl__utf8_put(uint32_t point, unsigned char *out);

#endif
