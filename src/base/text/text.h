#ifndef CHARL_BASE_TEXT_TEXT_H
#define CHARL_BASE_TEXT_TEXT_H
/** A growing string. Start from {0}; every failure is ERR_NOMEM (or ERR_INVALID for a bad
 *  format) and leaves the contents unchanged. */
#include <stdbool.h>
#include <stddef.h>

#include "charl/status.h"
#include "charl/text.h" /* charl_text_closer */

typedef struct charl__text {
    char *data; /* NULL, or length bytes and a NUL */
    size_t length;
    size_t capacity;
} charl__text;

charl_status charl__text_printf(charl__text *t, const char *fmt, ...) CHARL_PRINTF(2, 3) CHARL_MUST_CHECK;

/** Any bytes, NUL too. */
charl_status charl__text_append(charl__text *t, const void *bytes, size_t count) CHARL_MUST_CHECK;

/** `s` as a JSON string, with its quotes. Bytes that are not UTF-8 become U+FFFD; characters that a
 *  terminal would not display as is (base/text/utf8.h) are escaped. */
charl_status charl__text_json(charl__text *t, const char *s) CHARL_MUST_CHECK;

/** `v` as a JSON number with just enough digits to read the same double back; null when it is not
 *  finite. */
charl_status charl__text_json_number(charl__text *t, double v) CHARL_MUST_CHECK;

/** Bytes in base 64 (RFC 4648). */
charl_status charl__text_base64(charl__text *t, const void *bytes, size_t count) CHARL_MUST_CHECK;

/** The text so far, "" when empty. Borrowed until the next change. */
const char *charl__text_string(const charl__text *t);

/** Name i = 0, 1, ... of a list, NULL past the last; in copy[64] if it has no string of its own. */
typedef const char *(*charl__name_at)(const void *ctx, int i, char *copy);

/** "a, b, c (did you mean b?)": the names of a list, truncated to `size`, and the one closest to `word`, which is not among them;
 *  NULL: without a suggestion. Every message that lists the allowed words uses it. Returns text. */
const char *charl__text_names(const char *word, charl__name_at name_at, const void *ctx, char *text, size_t size);

/** The same for a list that is a function of i alone. */
typedef struct charl__name_list {
    const char *(*at)(int i);
} charl__name_list;
const char *charl__text_list(const char *word, const char *(*name_at)(int i), char *text, size_t size);

/** The next element of a list, false at its end: elements are separated by commas or line ends; an empty one exists
 *  only between two commas. Advances *cursor. */
bool charl__text_element(const char **cursor, char *word, size_t size);

/** For qsort and bsearch of an array of texts: by their bytes. */
int charl__by_text(const void *a, const void *b);

/** Whether `s` is longer than `suffix` and ends in it. */
bool charl__ends_in(const char *s, const char *suffix);

/** " (did you mean NEAR?)", or "" where near is NULL. Borrowed until the next call on this thread. */
const char *charl__did_you_mean(const char *near);

/** Whether `pattern`, in which * matches any text and ? any character, matches all of `name`. */
bool charl__text_matches(const char *pattern, const char *name);

/** A pattern of a list such as "*, !head.*": a ! excludes its matches from those of the patterns before it. */
typedef struct charl__pattern {
    bool excludes;
    char text[256]; /* longer ones are truncated */
} charl__pattern;

/** Remove the first pattern from *list; false at its end. */
bool charl__pattern_next(const char **list, charl__pattern *out);

/** Whether a list of patterns selects `name`: the last match decides. */
bool charl__patterns_choose(const char *list, const char *name);

/** Reserve memory for `bytes` more bytes, so that appending them does not move the text. */
charl_status charl__text_reserve(charl__text *t, size_t bytes) CHARL_MUST_CHECK;

/** Clear the contents, keep the memory. */
void charl__text_clear(charl__text *t);

/** Hand the string over (free with charl_free); NULL if nothing was ever appended. Leaves t
 *  empty. */
char *charl__text_steal(charl__text *t);

void charl__text_fini(charl__text *t);

/** Whether a checkpoint can contain a tensor called `name`, as an HDF5 link: not empty, not ".", "..", no '/', blank or control character, at
 *  most 255 bytes. NULL is not a name. */
bool charl__text_is_name(const char *name);

#endif
