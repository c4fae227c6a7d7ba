/* Tokens that are characters: every code point of a text, in ascending order, which is the state. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/utf8.h"
#include "data/tokenizer/tokenizer_private.h"

enum { POINTS = 0x110000 };

static charl_status become(charl_tokenizer *t)
{
    const uint32_t *points = t->state;
    unsigned char form[4];
    int64_t total = 0;

    for (int64_t i = 0; i < t->n; i++) {
        const size_t length = charl__utf8_put(points[i], form);

        CHARL_REQUIRE(length > 0 && (i == 0 || points[i] > points[i - 1]), CHARL_ERR_DATA,
                      "character %lld of the vocabulary, U+%04X, is not one or out of order", (long long)i, points[i]);
        total += (int64_t)length;
    }
    CHARL_TRY(charl__tokens_create(t, t->n, total));
    for (int64_t i = 0; i < t->n; i++) {
        const size_t length = charl__utf8_put(points[i], form);

        memcpy(t->bytes + t->starts[i], form, length);
        t->starts[i + 1] = t->starts[i] + (int64_t)length;
    }
    return CHARL_OK;
}

static charl_status learn(const unsigned char *text, size_t bytes, int64_t vocab, void **state, int64_t *n)
{
    const size_t valid = charl__utf8_valid(text, bytes);
    CHARL_SCOPED_FREE unsigned char *seen = NULL;
    uint32_t *points = NULL;

    (void)vocab;
    *n = 0;
    *state = NULL;
    CHARL_REQUIRE(valid == bytes, CHARL_ERR_DATA, "byte %zu of the text is not UTF-8", valid);
    CHARL_REQUIRE(bytes > 0, CHARL_ERR_DATA, "the text is empty");
    CHARL_TRY(charl__alloc(POINTS, &seen));
    for (size_t at = 0, length; at < bytes; at += length) {
        const uint32_t point = charl__utf8_point(text + at, length = charl__utf8_length(text + at, bytes - at));

        *n += !seen[point];
        seen[point] = 1;
    }
    CHARL_TRY(charl__alloc_array(*n, sizeof *points, &points));
    *n = 0;
    for (uint32_t point = 0; point < POINTS; point++) {
        if (seen[point]) {
            points[(*n)++] = point;
        }
    }
    *state = points;
    return CHARL_OK;
}

/* Index of `point` in the vocabulary; -1 if it is not there. */
static int32_t find(const charl_tokenizer *t, uint32_t point)
{
    const uint32_t *points = t->state;
    int64_t low = 0, high = t->vocab;

    while (low < high) {
        const int64_t middle = (low + high) / 2;

        if (points[middle] < point) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < t->vocab && points[low] == point ? (int32_t)low : -1;
}

static charl_status encode(charl__encoder *e, const unsigned char *text, size_t bytes)
{
    for (size_t at = 0, length; at < bytes; at += length) {
        uint32_t point;
        int32_t token;

        length = charl__utf8_length(text + at, bytes - at);
        CHARL_REQUIRE(length > 0, CHARL_ERR_DATA, "byte %zu of the text is not UTF-8", at);
        point = charl__utf8_point(text + at, length);
        token = find(e->t, point);
        CHARL_REQUIRE(token >= 0, CHARL_ERR_DATA,
                      "the character \"%.*s\" (U+%04X) at byte %zu of the text is not in the "
                      "vocabulary of %lld characters",
                      (int)length, (const char *)text + at, point, at, (long long)e->t->vocab);
        CHARL_TRY(charl__encoder_put(e, token));
    }
    return CHARL_OK;
}

const charl__tokenizer_type charl__tokenizer_chars = {
    .row = {.name = "chars", .help = "every character of the training text is a token"},
    .learn = learn,
    .needs_utf8 = true,
    .become = become,
    .encode = encode,
};
