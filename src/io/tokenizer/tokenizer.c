/* Tokenizers: the table of token bytes, decoding, and the kind whose tokens are bytes. */
#include "charl/tokenizer.h"

#include <string.h>

#include "base/alloc.h"
#include "io/tokenizer/tokenizer_private.h"

enum { BLOCK = 4096 };

const char *charl_tokenizer_kind_name(charl_tokenizer_kind kind)
{
    static const char *const names[] = {"bytes", "chars", "bpe"};

    return (unsigned)kind < CHARL_TOKENIZER_KIND_COUNT ? names[kind] : "?";
}

charl_status charl__tokens_create(charl_tokenizer *t, int64_t vocab, int64_t total)
{
    t->vocab = vocab;
    CHARL_TRY(charl_alloc_array(total, 1, &t->bytes));
    CHARL_TRY(charl_alloc_array(vocab + 1, sizeof *t->starts, &t->starts));
    return CHARL_OK;
}

charl_status charl__bytes_learn(charl_tokenizer *t)
{
    CHARL_TRY(charl__tokens_create(t, 256, 256));
    for (int i = 0; i < 256; i++) {
        t->bytes[i] = (unsigned char)i;
        t->starts[i + 1] = i + 1;
    }
    return CHARL_OK;
}

charl_status charl__bytes_each(const unsigned char *text, size_t bytes, charl__token_sink sink, void *ctx)
{
    int32_t block[BLOCK];

    for (size_t at = 0; at < bytes; at += BLOCK) {
        const size_t n = bytes - at < BLOCK ? bytes - at : BLOCK;

        for (size_t i = 0; i < n; i++) {
            block[i] = text[at + i];
        }
        CHARL_TRY(sink(ctx, block, (int64_t)n));
    }
    return CHARL_OK;
}

charl_status charl_tokenizer_create(charl_tokenizer_kind kind, const char *text, size_t bytes, int64_t vocab,
                                    charl_tokenizer **out)
{
    charl_status st = CHARL_OK;
    charl_tokenizer *t = NULL;

    *out = NULL;
    CHARL_TRY_CLEANUP(charl_alloc(sizeof *t, &t));
    t->kind = kind;
    switch (kind) {
    case CHARL_TOKENIZER_BYTES:
        CHARL_TRY_CLEANUP(charl__bytes_learn(t));
        break;
    case CHARL_TOKENIZER_CHARS:
        CHARL_TRY_CLEANUP(charl__chars_learn(t, (const unsigned char *)text, bytes));
        break;
    case CHARL_TOKENIZER_BPE:
        CHARL_TRY_CLEANUP(charl__bpe_learn(t, (const unsigned char *)text, bytes, vocab));
        break;
    default:
        CHARL_FAIL_CLEANUP(CHARL_ERR_CONFIG, "there is no tokenizer of kind %d", (int)kind);
    }
    *out = t;
    t = NULL;
cleanup:
    charl_tokenizer_destroy(t);
    return st;
}

void charl_tokenizer_destroy(charl_tokenizer *t)
{
    if (!t) {
        return;
    }
    charl_free(t->bytes);
    charl_free(t->starts);
    charl_free(t->points);
    charl_free(t->merges);
    charl__word_map_fini(&t->ranks);
    charl_free(t);
}

const uint32_t *charl__tokenizer_learnt(const charl_tokenizer *t, int64_t *n)
{
    switch (t->kind) {
    case CHARL_TOKENIZER_CHARS:
        *n = t->vocab;
        return t->points;
    case CHARL_TOKENIZER_BPE:
        *n = 2 * (t->vocab - 256);
        return t->merges;
    default:
        *n = 0;
        return NULL;
    }
}

charl_status charl__tokenizer_restore(charl_tokenizer_kind kind, const uint32_t *learnt, int64_t n,
                                      charl_tokenizer **out)
{
    charl_status st = CHARL_OK;
    charl_tokenizer *t = NULL;
    uint32_t *copy = NULL;

    *out = NULL;
    CHARL_REQUIRE_CLEANUP(kind == CHARL_TOKENIZER_CHARS || (kind == CHARL_TOKENIZER_BPE && n % 2 == 0) ||
                              (kind == CHARL_TOKENIZER_BYTES && n == 0),
                          CHARL_ERR_DATA, "a tokenizer of kind %s does not learn %lld numbers",
                          charl_tokenizer_kind_name(kind), (long long)n);
    CHARL_TRY_CLEANUP(charl_alloc(sizeof *t, &t));
    t->kind = kind;
    CHARL_TRY_CLEANUP(charl_alloc_array(n + 1, sizeof *copy, &copy));
    if (n > 0) {
        memcpy(copy, learnt, (size_t)n * sizeof *copy);
    }
    switch (kind) {
    case CHARL_TOKENIZER_CHARS:
        st = charl__chars_become(t, copy, n);
        copy = NULL; /* taken */
        break;
    case CHARL_TOKENIZER_BPE:
        st = charl__bpe_become(t, copy, n / 2);
        copy = NULL;
        break;
    default:
        st = charl__bytes_learn(t);
    }
    CHARL_TRY_CLEANUP(st);
    *out = t;
    t = NULL;
cleanup:
    charl_free(copy);
    charl_tokenizer_destroy(t);
    return st;
}

charl_status charl_tokenizer_copy(const charl_tokenizer *t, charl_tokenizer **out)
{
    int64_t n;
    const uint32_t *learnt = charl__tokenizer_learnt(t, &n);

    return charl__tokenizer_restore(t->kind, learnt, n, out);
}

bool charl__tokenizer_equal(const charl_tokenizer *a, const charl_tokenizer *b)
{
    int64_t n = 0, m = 0;
    const uint32_t *x = a ? charl__tokenizer_learnt(a, &n) : NULL;
    const uint32_t *y = b ? charl__tokenizer_learnt(b, &m) : NULL;

    if (!a || !b) {
        return a == b;
    }
    return a->kind == b->kind && n == m && (n == 0 || memcmp(x, y, (size_t)n * sizeof *x) == 0);
}

charl_tokenizer_kind charl__tokenizer_kind_of(const char *name)
{
    int kind = 0;

    while (kind < CHARL_TOKENIZER_KIND_COUNT &&
           strcmp(name, charl_tokenizer_kind_name((charl_tokenizer_kind)kind)) != 0) {
        kind++;
    }
    return (charl_tokenizer_kind)kind;
}

charl_tokenizer_kind charl_tokenizer_get_kind(const charl_tokenizer *t)
{
    return t->kind;
}

int64_t charl_tokenizer_get_vocab(const charl_tokenizer *t)
{
    return t->vocab;
}

const char *charl_tokenizer_get_token(const charl_tokenizer *t, int64_t token, size_t *bytes)
{
    *bytes = 0;
    if (token < 0 || token >= t->vocab) {
        return NULL;
    }
    *bytes = (size_t)(t->starts[token + 1] - t->starts[token]);
    return (const char *)t->bytes + t->starts[token];
}

charl_status charl__tokenizer_each(const charl_tokenizer *t, const char *text, size_t bytes, charl__token_sink sink,
                                   void *ctx)
{
    const unsigned char *s = (const unsigned char *)text;

    switch (t->kind) {
    case CHARL_TOKENIZER_CHARS:
        return charl__chars_each(t, s, bytes, sink, ctx);
    case CHARL_TOKENIZER_BPE:
        return charl__bpe_each(t, s, bytes, sink, ctx);
    default:
        return charl__bytes_each(s, bytes, sink, ctx);
    }
}

typedef struct collected {
    int32_t *tokens;
    int64_t n, capacity;
} collected;

static charl_status collect(void *ctx, const int32_t *tokens, int64_t n)
{
    collected *c = ctx;

    if (c->n + n > c->capacity) {
        const int64_t capacity = 2 * (c->n + n);

        CHARL_TRY(charl_realloc((size_t)capacity * sizeof *c->tokens, &c->tokens));
        c->capacity = capacity;
    }
    memcpy(c->tokens + c->n, tokens, (size_t)n * sizeof *tokens);
    c->n += n;
    return CHARL_OK;
}

charl_status charl_tokenizer_encode(const charl_tokenizer *t, const char *text, size_t bytes, int32_t **tokens,
                                    int64_t *n)
{
    charl_status st = CHARL_OK;
    collected c = {0};

    *tokens = NULL;
    *n = 0;
    CHARL_TRY_CLEANUP(charl_alloc_array(BLOCK, sizeof *c.tokens, &c.tokens)); /* an array for "" too */
    c.capacity = BLOCK;
    CHARL_TRY_CLEANUP(charl__tokenizer_each(t, text, bytes, collect, &c));
    *tokens = c.tokens;
    *n = c.n;
    c.tokens = NULL;
cleanup:
    charl_free(c.tokens);
    return st;
}

charl_status charl_tokenizer_decode(const charl_tokenizer *t, const int32_t *tokens, int64_t n, char **text,
                                    size_t *bytes)
{
    size_t length, total = 0;

    *text = NULL;
    *bytes = 0;
    for (int64_t i = 0; i < n; i++) {
        CHARL_REQUIRE(charl_tokenizer_get_token(t, tokens[i], &length), CHARL_ERR_INVALID,
                      "token %lld is %d, the vocabulary has %lld", (long long)i, tokens[i], (long long)t->vocab);
        total += length;
    }
    CHARL_TRY(charl_alloc(total + 1, text));
    for (int64_t i = 0; i < n; i++) {
        const char *token = charl_tokenizer_get_token(t, tokens[i], &length);

        memcpy(*text + *bytes, token, length);
        *bytes += length;
    }
    return CHARL_OK;
}
