/* ASCII is normal in every form, and no ASCII character combines with one before it. So a text is divided before ASCII characters, and only pieces
 * with other characters are passed to the library; in form C those with a character from U+0300 on, without which no others combine. */
#include "data/tokenizer/unicode.h"

#ifdef CHARL_HAVE_UTF8PROC

#include <string.h>
#include <utf8proc.h>

#include "base/alloc.h"
#include "base/text/utf8.h"

static const unsigned char before_finals[] = {0xe1, 0x86,
                                              0xa7}; /* U+11A7, one before the first final consonant of Hangul */

bool charl__unicode_is_known(void)
{
    return true;
}

/* Options of the library for each form, and the first byte of characters that may change. */
static const struct {
    utf8proc_option_t options;
    unsigned char first;
} forms[] = {
    [CHARL__FORM_C] = {UTF8PROC_STABLE | UTF8PROC_COMPOSE, 0xcc},
    [CHARL__FORM_D] = {UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, 0x80},
    [CHARL__FORM_KC] = {UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT, 0x80},
    [CHARL__FORM_KD] = {UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT, 0x80},
};

/* From `at`, an ASCII character or the beginning, to the next ASCII character; *change: it has a byte from `first` on. */
static size_t piece_end(const unsigned char *s, size_t bytes, size_t at, unsigned char first, bool *change)
{
    *change = s[at] >= first;
    for (at++; at < bytes && s[at] >= 0x80; at++) {
        *change = *change || s[at] >= first;
    }
    return at;
}

/* The normal form of valid UTF-8. `points` is scratch. */
static charl_status normalize(utf8proc_option_t options, const unsigned char *s, size_t bytes, charl__text *points,
                              charl__text *out)
{
    utf8proc_ssize_t n = 0, room = (utf8proc_ssize_t)(points->capacity / sizeof(utf8proc_int32_t));

    n = utf8proc_decompose(s, (utf8proc_ssize_t)bytes, (utf8proc_int32_t *)(void *)points->data, room, options);
    if (n + 1 > room) { /* utf8proc_reencode needs one more for a NUL */
        charl__text_clear(points);
        CHARL_TRY(charl__text_reserve(points, (size_t)(n + 1) * sizeof(utf8proc_int32_t)));
        room = (utf8proc_ssize_t)(points->capacity / sizeof(utf8proc_int32_t));
        n = utf8proc_decompose(s, (utf8proc_ssize_t)bytes, (utf8proc_int32_t *)(void *)points->data, room, options);
    }
    CHARL_INVARIANT(n > 0 && n < room);
    n = utf8proc_reencode((utf8proc_int32_t *)(void *)points->data, n, options);
    CHARL_INVARIANT(n > 0);
    return charl__text_append(out, points->data, (size_t)n);
}

/* The next U+11A7 in s, or its end. */
static size_t find_before_finals(const unsigned char *s, size_t bytes)
{
    for (size_t i = 0; i + sizeof before_finals <= bytes; i++) {
        if (memcmp(s + i, before_finals, sizeof before_finals) == 0) {
            return i;
        }
    }
    return bytes;
}

/* The same, around each U+11A7 separately: utf8proc 2.8 treats it as a final consonant and drops it after a Hangul syllable. Nothing combines
 * with it, and nothing combines across it. */
static charl_status normalize_parts(utf8proc_option_t options, const unsigned char *s, size_t bytes,
                                    charl__text *points, charl__text *out)
{
    for (size_t at = 0; at < bytes;) {
        const size_t n = find_before_finals(s + at, bytes - at);

        if (n > 0) {
            CHARL_TRY(normalize(options, s + at, n, points, out));
        } else {
            CHARL_TRY(charl__text_append(out, before_finals, sizeof before_finals));
        }
        at += n > 0 ? n : sizeof before_finals;
    }
    return CHARL_OK;
}

charl_status charl__unicode_normalize(charl__normal_form form, const unsigned char *text, size_t bytes,
                                      charl__text *out)
{
    CHARL_SCOPED(charl__text_fini) charl__text points = {0};
    size_t copied = 0; /* text[0, copied) is in `out` */

    for (size_t at = 0, end; at < bytes; at = end) {
        bool change;
        size_t valid;

        end = piece_end(text, bytes, at, forms[form].first, &change);
        for (size_t from = at; change && from < end; from += valid) {
            valid = charl__utf8_valid(text + from, end - from);
            if (valid == 0) {
                valid = 1;
                continue;
            }
            CHARL_TRY(charl__text_append(out, text + copied, from - copied));
            CHARL_TRY(normalize_parts(forms[form].options, text + from, valid, &points, out));
            copied = from + valid;
        }
    }
    return charl__text_append(out, text + copied, bytes - copied);
}

size_t charl__unicode_lower(uint32_t point, unsigned char out[8])
{
    if (point == 0x130) { /* the only one whose lower case is two characters */
        memcpy(out, "i\xcc\x87", 3);
        return 3;
    }
    return charl__utf8_put((uint32_t)utf8proc_tolower((utf8proc_int32_t)point), out);
}

bool charl__unicode_is_mark(uint32_t point)
{
    const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)point);

    return c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_MC || c == UTF8PROC_CATEGORY_ME;
}

bool charl__unicode_is_nonspacing(uint32_t point)
{
    return utf8proc_category((utf8proc_int32_t)point) == UTF8PROC_CATEGORY_MN;
}

bool charl__unicode_is_control(uint32_t point)
{
    const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)point);

    return c == UTF8PROC_CATEGORY_CC || c == UTF8PROC_CATEGORY_CF || c == UTF8PROC_CATEGORY_CO;
}

bool charl__unicode_breaks(uint32_t before, uint32_t after, int *state)
{
    utf8proc_int32_t s = *state;
    const bool breaks = utf8proc_grapheme_break_stateful((utf8proc_int32_t)before, (utf8proc_int32_t)after, &s);

    *state = s;
    return breaks;
}

#else

#include "base/error.h"
#include "base/text/utf8.h"

bool charl__unicode_is_known(void)
{
    return false;
}

charl_status charl__unicode_normalize(charl__normal_form form, const unsigned char *text, size_t bytes,
                                      charl__text *out)
{
    (void)form;
    (void)text;
    (void)bytes;
    (void)out;
    CHARL_FAIL(CHARL_ERR_CONFIG,
               "this charl was built without libutf8proc; HINT install libutf8proc-dev and build again");
}

size_t charl__unicode_lower(uint32_t point, unsigned char out[8])
{
    return charl__utf8_put(point, out);
}

bool charl__unicode_is_mark(uint32_t point)
{
    (void)point;
    return false;
}

bool charl__unicode_is_nonspacing(uint32_t point)
{
    (void)point;
    return false;
}

bool charl__unicode_is_control(uint32_t point)
{
    (void)point;
    return false;
}

bool charl__unicode_breaks(uint32_t before, uint32_t after, int *state)
{
    (void)before;
    (void)after;
    (void)state;
    return true;
}

#endif
