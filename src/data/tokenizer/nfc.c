/* Characters below U+0300 change only if one from there on follows them, and no ASCII character ever combines with one before it. So the
 * text is divided before ASCII characters, and only pieces with a character from U+0300 on are passed to the library. */
#include "data/tokenizer/nfc.h"

#ifdef CHARL_HAVE_UTF8PROC

#include <string.h>
#include <utf8proc.h>

#include "base/alloc.h"
#include "base/text/utf8.h"

static const unsigned char before_finals[] = {0xe1, 0x86,
                                              0xa7}; /* U+11A7, one before the first final consonant of Hangul */

bool charl__nfc_is_known(void)
{
    return true;
}

/* From `at`, an ASCII character or the beginning, to the next ASCII character that is followed by ASCII; *change: it has a character
 * from U+0300 on (0xcc in UTF-8). */
static size_t piece_end(const unsigned char *s, size_t bytes, size_t at, bool *change)
{
    *change = false;
    for (at++; at < bytes && s[at] >= 0x80; at++) {
        *change = *change || s[at] >= 0xcc;
    }
    return at;
}

/* The normal form of valid UTF-8. `points` is scratch. */
static charl_status normalize(const unsigned char *s, size_t bytes, charl__text *points, charl__text *out)
{
    const utf8proc_option_t options = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
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
static charl_status normalize_parts(const unsigned char *s, size_t bytes, charl__text *points, charl__text *out)
{
    for (size_t at = 0; at < bytes;) {
        const size_t n = find_before_finals(s + at, bytes - at);

        if (n > 0) {
            CHARL_TRY(normalize(s + at, n, points, out));
        } else {
            CHARL_TRY(charl__text_append(out, before_finals, sizeof before_finals));
        }
        at += n > 0 ? n : sizeof before_finals;
    }
    return CHARL_OK;
}

charl_status charl__nfc(const unsigned char *text, size_t bytes, charl__text *out, bool *same)
{
    const size_t before = out->length;
    CHARL_SCOPED(charl__text_fini) charl__text points = {0};
    size_t copied = 0; /* text[0, copied) is in `out`, unless all of it is the same so far */

    *same = true;
    for (size_t at = 0, end; at < bytes; at = end) {
        bool change;
        size_t valid;

        end = piece_end(text, bytes, at, &change);
        if (!change) {
            continue;
        }
        for (size_t from = at; from < end; from += valid) {
            valid = charl__utf8_valid(text + from, end - from);
            if (valid == 0) {
                valid = 1;
                continue;
            }
            CHARL_TRY(charl__text_append(out, text + copied, from - copied));
            CHARL_TRY(normalize_parts(text + from, valid, &points, out));
            copied = from + valid;
        }
    }
    *same = out->length - before == copied && memcmp(charl__text_string(out) + before, text, copied) == 0;
    if (*same) {
        out->length = before;
    } else {
        CHARL_TRY(charl__text_append(out, text + copied, bytes - copied));
    }
    return CHARL_OK;
}

#else

#include "base/error.h"

bool charl__nfc_is_known(void)
{
    return false;
}

charl_status charl__nfc(const unsigned char *text, size_t bytes, charl__text *out, bool *same)
{
    (void)text;
    (void)bytes;
    (void)out;
    *same = false;
    CHARL_FAIL(CHARL_ERR_CONFIG,
               "this charl was built without libutf8proc; HINT install libutf8proc-dev and build again");
}

#endif
