/* UTF-8. */
#include "base/text/utf8.h"

#include <string.h>

/* Well-formed sequences, by the range of the first byte: length and the range of the second byte,
 * which excludes overlong forms, surrogates and what lies beyond U+10FFFF. */
static const struct {
    unsigned char first_lo, first_hi, second_lo, second_hi;
    size_t length;
} forms[] = {
    {0x00, 0x7f, 0x00, 0xff, 1}, {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
    {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
    {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
};

size_t charl__utf8_length(const unsigned char *s, size_t bytes)
{
    for (size_t k = 0; bytes > 0 && k < sizeof forms / sizeof *forms; k++) {
        const size_t n = forms[k].length;

        if (s[0] < forms[k].first_lo || s[0] > forms[k].first_hi) {
            continue;
        }
        if (n > bytes || (n > 1 && (s[1] < forms[k].second_lo || s[1] > forms[k].second_hi))) {
            return 0;
        }
        for (size_t i = 2; i < n; i++) {
            if ((s[i] & 0xc0) != 0x80) {
                return 0;
            }
        }
        return n;
    }
    return 0;
}

size_t charl__utf8_valid(const void *text, size_t bytes)
{
    const unsigned char *s = text;
    size_t at = 0;

    for (;;) {
        uint64_t eight; /* ASCII, the usual case */
        size_t n;

        while (bytes - at >= sizeof eight &&
               (memcpy(&eight, s + at, sizeof eight), eight & UINT64_C(0x8080808080808080)) == 0) {
            at += sizeof eight;
        }
        n = charl__utf8_length(s + at, bytes - at);
        if (n == 0) {
            return at;
        }
        at += n;
    }
}

uint32_t charl__utf8_point(const unsigned char *s, size_t length)
{
    static const unsigned char first[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t point = s[0] & first[length];

    for (size_t i = 1; i < length; i++) {
        point = point << 6 | (s[i] & 0x3fU);
    }
    return point;
}

bool charl__utf8_is_visible(uint32_t point)
{
    static const struct {
        uint32_t first, last;
    } hidden[] = {
        {0x00, 0x1f},       {0x7f, 0x9f},     /* control characters */
        {0xad, 0xad},                         /* soft hyphen */
        {0x61c, 0x61c},     {0x180e, 0x180e}, /* Arabic mark, Mongolian separator */
        {0x200b, 0x200b},   {0x200e, 0x200f}, /* zero-width space, marks of direction */
        {0x2028, 0x202e},                     /* separators of lines, embeddings, overrides */
        {0x2060, 0x206f},                     /* word joiner, isolates, ... */
        {0xfeff, 0xfeff},   {0xfff9, 0xfffb}, /* byte order mark, annotations */
        {0xe0000, 0xe007f},                   /* tags */
    };

    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) {
        if (point >= hidden[i].first && point <= hidden[i].last) {
            return false;
        }
    }
    return true;
}

size_t charl_text_next(const char *s, size_t bytes, bool *visible)
{
    if (!s || !visible) {
        return 0;
    }
    const unsigned char *u = (const unsigned char *)s;
    const size_t n = charl__utf8_length(u, bytes);

    *visible = n > 0 && charl__utf8_is_visible(charl__utf8_point(u, n));
    return n > 0 ? n : 1;
}

const char *charl__utf8_find_hidden(const char *s, size_t bytes, uint32_t *point)
{
    for (size_t i = 0, n; i<bytes; i += n> 0 ? n : 1) {
        n = charl__utf8_length((const unsigned char *)s + i, bytes - i);
        if (n > 0 && s[i] != '\n' && s[i] != '\t') {
            *point = charl__utf8_point((const unsigned char *)s + i, n);
            if (!charl__utf8_is_visible(*point)) {
                return s + i;
            }
        }
    }
    return NULL;
}

void charl__utf8_make_visible(char *text)
{
    const size_t bytes = strlen(text);
    size_t to = 0;

    for (size_t at = 0, n; at < bytes; at += n) {
        bool visible;

        n = charl_text_next(text + at, bytes - at, &visible);
        if (visible || text[at] == '\n' || text[at] == '\t') {
            memmove(text + to, text + at, n);
            to += n;
        } else {
            text[to++] = '?';
        }
    }
    text[to] = '\0';
}

size_t charl__utf8_put(uint32_t point, unsigned char *out)
{
    const size_t n = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    static const unsigned char mark[] = {0, 0, 0xc0, 0xe0, 0xf0};

    if (point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) {
        return 0;
    }
    for (size_t i = n - 1; i > 0; i--) {
        out[i] = (unsigned char)(0x80 | (point & 0x3f));
        point >>= 6;
    }
    out[0] = (unsigned char)(mark[n] | point);
    return n;
}
