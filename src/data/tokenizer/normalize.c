/* Normalizers. A map of SentencePiece (precompiled_charsmap) is a number of bytes, that many bytes of a trie, and texts that end with a NUL. The trie
 * is a double array of u32: a node at i has its child for byte b at i ^ offset ^ b, where the low byte of the unit is b. The number of the text that
 * stands for a path is in the child for byte 0.
 *
 *     bit 31      the unit is such a number, in bits 0 to 30
 *     bits 10..   the offset, shifted by 8 more if bit 9 is set
 *     bit 8       a path ends here
 */
#define _GNU_SOURCE /* memmem */
#include "data/tokenizer/normalize.h"

#include <string.h>

#include "base/error.h"
#include "base/text/utf8.h"
#include "data/tokenizer/pretrained.h"
#include "data/tokenizer/unicode.h"

enum {
    SHORT_GRAPHEME = 6, /* `tokenizers` maps longer clusters character by character */
    MARK = sizeof CHARL__SPACE_MARK - 1,
};

/* A text while it is read. */
typedef struct reader {
    const unsigned char *s;
    size_t bytes, at, n; /* n: bytes of the character at `at`, 1 for a byte that is not UTF-8 */
    uint32_t point;      /* the character; UINT32_MAX: not UTF-8 */
} reader;

static bool next(reader *r)
{
    r->at += r->n;
    if (r->at >= r->bytes) {
        return false;
    }
    r->n = charl__utf8_length(r->s + r->at, r->bytes - r->at);
    r->point = r->n > 0 ? charl__utf8_point(r->s + r->at, r->n) : UINT32_MAX;
    r->n = r->n > 0 ? r->n : 1;
    return true;
}

static bool is_white(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
           c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

size_t charl__white_space_at(const unsigned char *text, size_t bytes)
{
    reader r = {.s = text, .bytes = bytes};

    return next(&r) && is_white(r.point) ? r.n : 0;
}

size_t charl__white_space_before(const unsigned char *text, size_t bytes)
{
    for (size_t n = 1; n <= 3 && n <= bytes; n++) {
        if (charl__white_space_at(text + bytes - n, n) == n) {
            return n;
        }
    }
    return 0;
}

/* The ideographs that BERT takes apart. */
static bool is_chinese(uint32_t c)
{
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
           (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

/* What one character becomes: its length in `to`. */
static size_t of_character(charl__normalizer_kind kind, const reader *r, unsigned char to[8])
{
    const unsigned char *s = r->s + r->at;

    memcpy(to, s, r->n);
    if (r->point == UINT32_MAX) {
        return r->n;
    }
    switch (kind) {
    case CHARL__NORMALIZE_LOWERCASE:
        return charl__unicode_lower(r->point, to);
    case CHARL__NORMALIZE_STRIP_ACCENTS:
        return charl__unicode_is_mark(r->point) ? 0 : r->n;
    case CHARL__NORMALIZE_STRIP_NONSPACING:
        return charl__unicode_is_nonspacing(r->point) ? 0 : r->n;
    case CHARL__NORMALIZE_CLEAN:
        if (r->point == '\t' || r->point == '\n' || r->point == '\r') {
            to[0] = ' ';
            return 1;
        }
        if (r->point == 0 || r->point == 0xfffd || charl__unicode_is_control(r->point)) {
            return 0;
        }
        to[0] = is_white(r->point) ? ' ' : s[0];
        return is_white(r->point) ? 1 : r->n;
    case CHARL__NORMALIZE_CHINESE:
        if (is_chinese(r->point)) {
            to[0] = ' ';
            memcpy(to + 1, s, r->n);
            to[r->n + 1] = ' ';
            return r->n + 2;
        }
        return r->n;
    default:
        return r->n;
    }
}

static charl_status by_character(charl__normalizer_kind kind, const unsigned char *text, size_t bytes, charl__text *out)
{
    reader r = {.s = text, .bytes = bytes};
    unsigned char to[8];

    while (next(&r)) {
        CHARL_TRY(charl__text_append(out, to, of_character(kind, &r, to)));
    }
    return CHARL_OK;
}

static charl_status replace(const charl__normalizer *n, const unsigned char *text, size_t bytes, charl__text *out)
{
    for (size_t at = 0; at < bytes;) {
        const unsigned char *found = memmem(text + at, bytes - at, n->from, n->from_bytes);
        const size_t end = found ? (size_t)(found - text) : bytes;

        CHARL_TRY(charl__text_append(out, text + at, end - at));
        if (found) {
            CHARL_TRY(charl__text_append(out, n->to, n->to_bytes));
        }
        at = found ? end + n->from_bytes : end;
    }
    return CHARL_OK;
}

static charl_status replace_spaces(const charl__normalizer *n, const unsigned char *text, size_t bytes,
                                   charl__text *out)
{
    for (size_t at = 0, end; at < bytes; at = end) {
        for (end = at; end < bytes && text[end] == ' '; end++) {
        }
        if (end - at >= 2) {
            CHARL_TRY(charl__text_append(out, n->to, n->to_bytes));
        } else {
            end = at + 1;
            CHARL_TRY(charl__text_append(out, text + at, 1));
        }
    }
    return CHARL_OK;
}

static bool ends_in_space(const unsigned char *text, size_t bytes, size_t *n)
{
    *n = bytes > 0 && text[bytes - 1] == ' '                                          ? 1
         : bytes >= MARK && memcmp(text + bytes - MARK, CHARL__SPACE_MARK, MARK) == 0 ? MARK
                                                                                      : 0;
    return *n > 0;
}

static charl_status strip_spaces(bool begins, const unsigned char *text, size_t bytes, charl__text *out)
{
    size_t n;

    while (bytes > 0 && text[0] == ' ' && (begins || (bytes > 1 && text[1] == ' '))) {
        text++;
        bytes--;
    }
    while (ends_in_space(text, bytes, &n) && !(bytes == n && !begins)) {
        bytes -= n;
    }
    return charl__text_append(out, text, bytes);
}

/* One space for white space between words, none before a U+2581, which Metaspace begins a word with. */
static charl_status squeeze(bool begins, const unsigned char *text, size_t bytes, charl__text *out)
{
    reader r = {.s = text, .bytes = bytes};
    bool pending = false, any = !begins;

    while (next(&r)) {
        const unsigned char *s = text + r.at;

        if (is_white(r.point)) {
            pending = any;
            continue;
        }
        if (pending && !(r.n == MARK && memcmp(s, CHARL__SPACE_MARK, MARK) == 0)) {
            CHARL_TRY(charl__text_append(out, " ", 1));
        }
        CHARL_TRY(charl__text_append(out, s, r.n));
        any = true;
        pending = false;
    }
    return CHARL_OK;
}

/* A map of SentencePiece. */
typedef struct map {
    const unsigned char *trie;
    const char *texts;
    uint32_t units;
    size_t texts_bytes;
} map;

static uint32_t u32_at(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static bool map_of(const charl__normalizer *n, map *m)
{
    const size_t trie = n->from_bytes >= 4 ? u32_at(n->from) : 0;

    if (trie < 4 || trie % 4 != 0 || trie > n->from_bytes - 4 || trie == n->from_bytes - 4 ||
        n->from[n->from_bytes - 1] != '\0') {
        return false;
    }
    *m = (map){.trie = n->from + 4,
               .texts = (const char *)n->from + 4 + trie,
               .units = (uint32_t)(trie / 4),
               .texts_bytes = n->from_bytes - 4 - trie};
    return true;
}

static uint32_t offset_of(uint32_t unit)
{
    return (unit >> 10) << ((unit & (1u << 9)) >> 6);
}

/* The longest text of the map that s begins with, or the shortest; returns its length, 0 for none, and what replaces it. */
static size_t find(const map *m, const unsigned char *s, size_t bytes, bool shortest, const char **to)
{
    uint32_t at = offset_of(u32_at(m->trie));
    size_t found = 0;

    for (size_t i = 0; i < bytes && !(shortest && found > 0); i++) {
        uint32_t unit, text;

        at ^= s[i];
        unit = at < m->units ? u32_at(m->trie + 4 * (size_t)at) : 1u << 31;
        if ((unit & (1u << 31 | 0xff)) != s[i]) {
            break;
        }
        at ^= offset_of(unit);
        if (unit & 1 << 8 && at < m->units) {
            text = u32_at(m->trie + 4 * (size_t)at) & 0x7fffffff;
            if (text < m->texts_bytes) {
                found = i + 1;
                *to = m->texts + text;
            }
        }
    }
    return found;
}

static charl_status map_text(const map *m, const unsigned char *text, size_t bytes, charl__text *out)
{
    reader r = {.s = text, .bytes = bytes};
    const char *to;

    while (next(&r)) {
        const size_t n = find(m, text + r.at, bytes - r.at, false, &to);

        if (n > 0) {
            CHARL_TRY(charl__text_append(out, to, strlen(to)));
            r.n = n;
        } else if (r.point == UINT32_MAX) {
            CHARL_TRY(charl__text_append(out, "\xef\xbf\xbd", 3)); /* U+FFFD */
        } else {
            CHARL_TRY(charl__text_append(out, text + r.at, r.n));
        }
    }
    return CHARL_OK;
}

static charl_status map_grapheme(const map *m, const unsigned char *s, size_t bytes, charl__text *out)
{
    reader r = {.s = s, .bytes = bytes};
    const char *to;

    if (bytes < SHORT_GRAPHEME && find(m, s, bytes, true, &to) > 0) {
        return charl__text_append(out, to, strlen(to));
    }
    while (next(&r)) {
        if (find(m, s + r.at, r.n, true, &to) > 0) {
            CHARL_TRY(charl__text_append(out, to, strlen(to)));
        } else {
            CHARL_TRY(charl__text_append(out, s + r.at, r.n));
        }
    }
    return CHARL_OK;
}

static charl_status map_graphemes(const map *m, const unsigned char *text, size_t bytes, charl__text *out)
{
    reader r = {.s = text, .bytes = bytes};
    size_t from = 0;
    uint32_t before = UINT32_MAX;
    int state = 0;

    while (next(&r)) {
        if (r.at > 0 &&
            (before == UINT32_MAX || r.point == UINT32_MAX || charl__unicode_breaks(before, r.point, &state))) {
            CHARL_TRY(map_grapheme(m, text + from, r.at - from, out));
            from = r.at;
        }
        before = r.point;
    }
    return map_grapheme(m, text + from, bytes - from, out);
}

charl_status charl__normalizer_apply(const charl__normalizer *n, bool begins, const unsigned char *text, size_t bytes,
                                     charl__text *out)
{
    map m;
    size_t k;

    switch (n->kind) {
    case CHARL__NORMALIZE_NFC:
    case CHARL__NORMALIZE_NFD:
    case CHARL__NORMALIZE_NFKC:
    case CHARL__NORMALIZE_NFKD: {
        static const charl__normal_form forms[] = {CHARL__FORM_C, CHARL__FORM_D, CHARL__FORM_KC, CHARL__FORM_KD};

        return charl__unicode_normalize(forms[n->kind - CHARL__NORMALIZE_NFC], text, bytes, out);
    }
    case CHARL__NORMALIZE_STRIP_LEFT:
        while (bytes > 0 && (k = charl__white_space_at(text, bytes)) > 0) {
            text += k;
            bytes -= k;
        }
        return charl__text_append(out, text, bytes);
    case CHARL__NORMALIZE_STRIP_RIGHT:
        while ((k = charl__white_space_before(text, bytes)) > 0) {
            bytes -= k;
        }
        return charl__text_append(out, text, bytes);
    case CHARL__NORMALIZE_REPLACE:
        return replace(n, text, bytes, out);
    case CHARL__NORMALIZE_REPLACE_SPACES:
        return replace_spaces(n, text, bytes, out);
    case CHARL__NORMALIZE_PREPEND:
        CHARL_TRY(charl__text_append(out, n->to, bytes > 0 && begins ? n->to_bytes : 0));
        return charl__text_append(out, text, bytes);
    case CHARL__NORMALIZE_CHARSMAP:
        return map_of(n, &m) ? map_text(&m, text, bytes, out) : CHARL_OK;
    case CHARL__NORMALIZE_CHARSMAP_OF_GRAPHEMES:
        return map_of(n, &m) ? map_graphemes(&m, text, bytes, out) : CHARL_OK;
    case CHARL__NORMALIZE_STRIP_SPACES:
        return strip_spaces(begins, text, bytes, out);
    case CHARL__NORMALIZE_SQUEEZE_WHITE:
        return squeeze(begins, text, bytes, out);
    default:
        return by_character(n->kind, text, bytes, out);
    }
}

charl_status charl__normalizer_check(const charl__normalizer *n)
{
    static const bool of_unicode[CHARL__NORMALIZER_KINDS] = {
        [CHARL__NORMALIZE_NFC] = true,
        [CHARL__NORMALIZE_NFD] = true,
        [CHARL__NORMALIZE_NFKC] = true,
        [CHARL__NORMALIZE_NFKD] = true,
        [CHARL__NORMALIZE_LOWERCASE] = true,
        [CHARL__NORMALIZE_STRIP_ACCENTS] = true,
        [CHARL__NORMALIZE_STRIP_NONSPACING] = true,
        [CHARL__NORMALIZE_CLEAN] = true,
        [CHARL__NORMALIZE_CHARSMAP_OF_GRAPHEMES] = true,
    };
    const bool maps = n->kind == CHARL__NORMALIZE_CHARSMAP || n->kind == CHARL__NORMALIZE_CHARSMAP_OF_GRAPHEMES;
    map m;

    CHARL_REQUIRE(!of_unicode[n->kind] || charl__unicode_is_known(), CHARL_ERR_CONFIG,
                  "the tokenizer normalizes text, and this charl was built without libutf8proc; HINT install "
                  "libutf8proc-dev and build again");
    CHARL_REQUIRE(!maps || map_of(n, &m), CHARL_ERR_DATA, "the precompiled_charsmap of %zu bytes is damaged",
                  n->from_bytes);
    CHARL_REQUIRE(n->kind != CHARL__NORMALIZE_REPLACE || n->from_bytes > 0, CHARL_ERR_DATA,
                  "the normalizer Replace has an empty pattern");
    return CHARL_OK;
}

bool charl__normalizer_cuts_at_spaces(const charl__normalizer *n)
{
    return n->kind <= CHARL__NORMALIZE_CHINESE;
}
