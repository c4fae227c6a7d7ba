/* Tokens that are characters: every code point of a text, in ascending order. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "io/tokenizer/tokenizer_private.h"

enum { POINTS = 0x110000, BLOCK = 4096 };

charl_status charl__chars_become(charl_tokenizer *t, uint32_t *points, int64_t n)
{
    unsigned char form[4];
    int64_t total = 0;

    t->points = points;
    for (int64_t i = 0; i < n; i++) {
        const size_t length = charl__utf8_put(points[i], form);

        CHARL_REQUIRE(length > 0 && (i == 0 || points[i] > points[i - 1]), CHARL_ERR_DATA,
                      "character %lld of the vocabulary, U+%04X, is not one or out of order", (long long)i, points[i]);
        total += (int64_t)length;
    }
    CHARL_TRY(charl__tokens_create(t, n, total));
    for (int64_t i = 0; i < n; i++) {
        const size_t length = charl__utf8_put(points[i], form);

        memcpy(t->bytes + t->starts[i], form, length);
        t->starts[i + 1] = t->starts[i] + (int64_t)length;
    }
    return CHARL_OK;
}

charl_status charl__chars_learn(charl_tokenizer *t, const unsigned char *text, size_t bytes)
{
    charl_status st = CHARL_OK;
    const size_t valid = charl__utf8_valid(text, bytes);
    unsigned char *seen = NULL;
    uint32_t *points = NULL;
    int64_t n = 0;

    CHARL_REQUIRE_CLEANUP(valid == bytes, CHARL_ERR_DATA, "byte %zu of the text is not UTF-8", valid);
    CHARL_REQUIRE_CLEANUP(bytes > 0, CHARL_ERR_DATA, "the text is empty");
    CHARL_TRY_CLEANUP(charl_alloc(POINTS, &seen));
    for (size_t at = 0, length; at < bytes; at += length) {
        const uint32_t point = charl__utf8_point(text + at, length = charl__utf8_length(text + at, bytes - at));

        n += !seen[point];
        seen[point] = 1;
    }
    CHARL_TRY_CLEANUP(charl_alloc_array(n, sizeof *points, &points));
    n = 0;
    for (uint32_t point = 0; point < POINTS; point++) {
        if (seen[point]) {
            points[n++] = point;
        }
    }
    CHARL_TRY_CLEANUP(charl__chars_become(t, points, n));
cleanup:
    charl_free(seen);
    return st;
}

/* Where `point` stands in the vocabulary; -1 when it does not. */
static int32_t find(const charl_tokenizer *t, uint32_t point)
{
    int64_t low = 0, high = t->vocab;

    while (low < high) {
        const int64_t middle = (low + high) / 2;

        if (t->points[middle] < point) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < t->vocab && t->points[low] == point ? (int32_t)low : -1;
}

charl_status charl__chars_each(const charl_tokenizer *t, const unsigned char *text, size_t bytes,
                               charl__token_sink sink, void *ctx)
{
    int32_t block[BLOCK];
    int64_t n = 0;

    for (size_t at = 0, length; at < bytes; at += length) {
        length = charl__utf8_length(text + at, bytes - at);
        CHARL_REQUIRE(length > 0, CHARL_ERR_DATA, "byte %zu of the text is not UTF-8", at);
        block[n] = find(t, charl__utf8_point(text + at, length));
        CHARL_REQUIRE(block[n] >= 0, CHARL_ERR_DATA,
                      "the character \"%.*s\" (U+%04X) at byte %zu of the text is not in the "
                      "vocabulary of %lld characters",
                      (int)length, (const char *)text + at, charl__utf8_point(text + at, length), at,
                      (long long)t->vocab);
        if (++n == BLOCK) {
            CHARL_TRY(sink(ctx, block, n));
            n = 0;
        }
    }
    CHARL_TRY(sink(ctx, block, n));
    return CHARL_OK;
}
