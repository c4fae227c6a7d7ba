/* Regular expressions of published tokenizers, written for Oniguruma (tokenizer.json) or Rust's regex (tiktoken), converted for PCRE2.
 *
 * Syntax that all three interpret in the same way is copied. `\s` becomes Unicode's White_Space, because PCRE2's also contains U+180E; the name of
 * a script becomes `sc:NAME`, because PCRE2 would also match characters that several scripts share. Syntax that the libraries interpret differently
 * is rejected by name: anchors, `.`, `\w`, `\b`, `\pL`, sets within sets, quantified intervals such as `{1,3}+`. When ignoring case, Oniguruma lets a
 * character match several, such as a sharp s two of s, and interprets properties in sets differently.
 */
#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "data/tokenizer/splitter.h"

typedef struct reader {
    const char *pattern;
    size_t length, at;
    int depth, caseless; /* groups that are open; the outermost of them that is (?i:, 0: none */
    charl__text *out;
} reader;

static charl_status refuse(const reader *r, size_t from, size_t n)
{
    CHARL_FAIL(CHARL_ERR_DATA, "the pattern uses \"%.*s\" (at byte %zu), which is not supported: %.*s", (int)n,
               r->pattern + from, from, r->length < 200 ? (int)r->length : 200, r->pattern);
}

static charl_status copy(reader *r, size_t n)
{
    CHARL_TRY(charl__text_append(r->out, r->pattern + r->at, n));
    r->at += n;
    return CHARL_OK;
}

static bool sees(const reader *r, const char *text)
{
    const size_t n = strlen(text);

    return r->length - r->at >= n && memcmp(r->pattern + r->at, text, n) == 0;
}

/* \p{Lu}, \P{Han}, \p{^L} */
static charl_status property(reader *r)
{
    const char *s = r->pattern + r->at;
    const char *end;
    size_t name;

    if (r->length - r->at < 3 || s[2] != '{') { /* \pL is a p and an L in Oniguruma */
        return refuse(r, r->at, r->length - r->at < 3 ? r->length - r->at : 3);
    }
    end = memchr(s, '}', r->length - r->at);
    if (!end) {
        return refuse(r, r->at, r->length - r->at);
    }
    name = s[3] == '^' ? 4 : 3;
    if ((size_t)(end - s) - name <= 2) { /* a general category */
        return copy(r, (size_t)(end - s) + 1);
    }
    CHARL_TRY(charl__text_append(r->out, s, name));
    CHARL_TRY(charl__text_append(r->out, "sc:", 3));
    r->at += name;
    return copy(r, (size_t)(end - s) + 1 - name);
}

/* \u3040 or \u{3040}, as \x{3040} */
static charl_status code_point(reader *r)
{
    const char *s = r->pattern + r->at + 2;
    const size_t left = r->length - r->at - 2;
    const bool braces = left > 0 && *s == '{';
    const size_t digits = strspn(s + braces, "0123456789abcdefABCDEF");

    if (left < (braces ? digits + 2 : 4) || (braces ? digits == 0 || s[1 + digits] != '}' : digits < 4)) {
        return refuse(r, r->at, 2);
    }
    CHARL_TRY(charl__text_append(r->out, "\\x{", 3));
    CHARL_TRY(charl__text_append(r->out, s + braces, braces ? digits : 4));
    CHARL_TRY(charl__text_append(r->out, "}", 1));
    r->at += 2 + (braces ? digits + 2 : 4);
    return CHARL_OK;
}

static charl_status escape(reader *r, bool in_class)
{
    const char c = r->length - r->at > 1 ? r->pattern[r->at + 1] : '\0';

    switch (c) {
    case 's':
    case 'S':
        r->at += 2;
        CHARL_TRY(charl__text_append(r->out, c == 's' ? "\\p{White_Space}" : "\\P{White_Space}", 15));
        return CHARL_OK;
    case 'd':
    case 'D':
        r->at += 2;
        CHARL_TRY(charl__text_append(r->out, c == 'd' ? "\\p{Nd}" : "\\P{Nd}", 6));
        return CHARL_OK;
    case 'p':
    case 'P':
        return property(r);
    case 'u':
        return code_point(r);
    case 'n':
    case 'r':
    case 't':
    case 'f':
        return copy(r, 2);
    case 'z':
        return in_class ? refuse(r, r->at, 2) : copy(r, 2);
    default:
        if (c > ' ' && c < 0x7f && strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", c)) {
            return copy(r, 2);
        }
        return refuse(r, r->at, r->length - r->at < 2 ? r->length - r->at : 2);
    }
}

/* Whether a character that, ignoring case, is equivalent to several others or forms one with the next begins here. */
static bool folds(const reader *r)
{
    static const char *const pairs[] = {"ff", "fi", "fl", "ss", "st"};
    const char *s = r->pattern + r->at;

    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (r->length - r->at >= 2 && (s[0] | 32) == pairs[i][0] && (s[1] | 32) == pairs[i][1]) {
            return true;
        }
    }
    return (unsigned char)s[0] >= 0x80;
}

static charl_status set(reader *r)
{
    const size_t from = r->at;

    CHARL_TRY(copy(r, sees(r, "[^") ? 2 : 1));
    if (sees(r, "]")) { /* a bracket or an empty set */
        return refuse(r, from, r->at + 1 - from);
    }
    while (r->at < r->length && r->pattern[r->at] != ']') {
        if (r->caseless && ((unsigned char)r->pattern[r->at] >= 0x80 || sees(r, "\\p") || sees(r, "\\P"))) {
            return refuse(r, from, r->length - from);
        }
        if (r->pattern[r->at] == '\\') {
            CHARL_TRY(escape(r, true));
        } else if (sees(r, "[") || sees(r, "&&") || sees(r, "--") || sees(r, "~~")) {
            return refuse(r, r->at, sees(r, "[") ? 1 : 2);
        } else {
            CHARL_TRY(copy(r, 1));
        }
    }
    return r->at < r->length ? copy(r, 1) : refuse(r, from, r->length - from);
}

static charl_status group(reader *r)
{
    static const char *const known[] = {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};

    r->depth++;
    if (!sees(r, "(?")) {
        return copy(r, 1);
    }
    if (sees(r, "(?i:") && !r->caseless) {
        r->caseless = r->depth;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (sees(r, known[i])) {
            return copy(r, strlen(known[i]));
        }
    }
    return refuse(r, r->at, r->length - r->at < 4 ? r->length - r->at : 4);
}

/* {3}, {1,3}, {2,} */
static charl_status interval(reader *r)
{
    const size_t n = strspn(r->pattern + r->at + 1, "0123456789,") + 2;

    if (n == 2 || r->at + n > r->length || r->pattern[r->at + n - 1] != '}' || r->pattern[r->at + 1] == ',' ||
        (r->at + n < r->length && strchr("+?*", r->pattern[r->at + n]))) {
        return refuse(r, r->at, n < r->length - r->at ? n + 1 : r->length - r->at);
    }
    return copy(r, n);
}

charl_status charl__pattern_translate(const char *pattern, size_t length, charl__text *out)
{
    reader r = {.pattern = pattern, .length = length, .out = out};

    while (r.at < length) {
        switch (pattern[r.at]) {
        case '\\':
            CHARL_TRY(escape(&r, false));
            break;
        case '[':
            CHARL_TRY(set(&r));
            break;
        case '(':
            CHARL_TRY(group(&r));
            break;
        case '{':
            CHARL_TRY(interval(&r));
            break;
        case '^':
        case '$':
        case '.':
        case '\0':
            return refuse(&r, r.at, 1);
        default:
            if (r.caseless && folds(&r)) {
                return refuse(&r, r.at, length - r.at);
            }
            r.caseless = pattern[r.at] == ')' && r.caseless == r.depth ? 0 : r.caseless;
            r.depth -= pattern[r.at] == ')';
            CHARL_TRY(copy(&r, 1));
        }
    }
    return CHARL_OK;
}
