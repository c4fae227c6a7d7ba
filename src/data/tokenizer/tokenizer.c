/* Tokenizers of every type: the registry, creation from a state, tables of tokens, encoding and decoding. */
#include "charl/tokenizer.h"

#include <string.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/pretrained.h"

static const charl__registry tokenizers = {.what = "tokenizer", .built_in = charl__tokenizers};

const char *charl_tokenizer_type_name(int i)
{
    const charl__tokenizer_type *t = charl__registry_at(&tokenizers, i);

    return t ? t->row.name : NULL;
}

const char *charl__tokenizer_learnt_name(int i)
{
    const charl__tokenizer_type *t;

    for (int k = 0; (t = charl__registry_at(&tokenizers, k)) != NULL; k++) {
        if (t->learn && i-- == 0) {
            return t->row.name;
        }
    }
    return NULL;
}

const charl__tokenizer_type *charl__tokenizer_type_find(const char *name)
{
    return charl__registry_find(&tokenizers, name);
}

static charl_status become(charl_tokenizer *t)
{
    t->type = charl__tokenizer_type_find(t->layout->name);
    return t->type->become(t);
}

static void fini(charl_tokenizer *t)
{
    charl_free(t->bytes);
    charl_free(t->starts);
    charl_free(t->special);
    charl__bpe_destroy(t->bpe);
}

__attribute__((constructor)) static void register_kind(void)
{
    static const charl__tokenizer_kind kind = {become, fini};

    charl__tokenizer_set_kind(&kind);
}

charl_status charl__tokens_create(charl_tokenizer *t, int64_t vocab, int64_t total)
{
    t->vocab = vocab;
    CHARL_TRY(charl__alloc_array(total, 1, &t->bytes));
    CHARL_TRY(charl__alloc_array(vocab + 1, sizeof *t->starts, &t->starts));
    return CHARL_OK;
}

charl_status charl_tokenizer_create(const char *type, const char *text, size_t bytes, int64_t vocab,
                                    charl_tokenizer **out)
{
    CHARL_GIVEN(type, text || bytes == 0, out);
    const charl__tokenizer_type *row = charl__tokenizer_type_find(type);
    void *state = NULL;
    int64_t n = 0;
    char names[200];

    *out = NULL;
    CHARL_REQUIRE(row && row->learn, CHARL_ERR_CONFIG, "tokenizer %.60s cannot be learnt from a text; the types are %s",
                  type ? type : "", charl__text_list(type, charl__tokenizer_learnt_name, names, sizeof names));
    CHARL_TRY(row->learn((const unsigned char *)text, bytes, vocab, &state, &n));
    return charl__tokenizer_create(charl__tokenizer_layout_find(type), state, n, out);
}

void charl_tokenizer_destroy(charl_tokenizer *t)
{
    charl__tokenizer_release(t);
}

bool charl__tokenizer_cuts_at_spaces(const charl_tokenizer *t)
{
    return !t->bpe || t->bpe->cuts_at_spaces;
}

const char *charl_tokenizer_get_type(const charl_tokenizer *t)
{
    return t ? t->layout->name : NULL;
}

int64_t charl_tokenizer_get_vocab(const charl_tokenizer *t)
{
    return t ? t->vocab : 0;
}

const char *charl_tokenizer_get_token(const charl_tokenizer *t, int64_t token, size_t *bytes)
{
    if (!bytes) {
        return NULL;
    }
    *bytes = 0;
    if (!t || !t->starts || token < 0 || token >= t->vocab) {
        return NULL;
    }
    *bytes = (size_t)(t->starts[token + 1] - t->starts[token]);
    return (const char *)t->bytes + t->starts[token];
}

bool charl__tokenizer_is_special(const charl_tokenizer *t, int64_t token)
{
    return t && t->special && token >= 0 && token < t->vocab && t->special[token];
}

int64_t charl_tokenizer_find_special(const charl_tokenizer *t, const char *text)
{
    if (!t || !text) {
        return -1;
    }
    const size_t length = strlen(text);

    for (int64_t i = 0; t->special && i < t->vocab; i++) {
        if (t->special[i] && (size_t)(t->starts[i + 1] - t->starts[i]) == length &&
            memcmp(t->bytes + t->starts[i], text, length) == 0) {
            return i;
        }
    }
    return -1;
}

int64_t charl_tokenizer_get_end_of_text(const charl_tokenizer *t)
{
    if (!t) {
        return -1;
    }
    static const char *const names[] = {"<|endoftext|>", "<|end_of_text|>",
                                        "<\xef\xbd\x9c"
                                        "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>",
                                        "</s>", "<eos>"};
    int64_t token = -1;

    for (size_t i = 0; token < 0 && i < sizeof names / sizeof *names; i++) {
        token = charl_tokenizer_find_special(t, names[i]);
    }
    return token;
}

charl_status charl__encoder_create(const charl_tokenizer *t, bool special, charl__encoder **out)
{
    CHARL_REQUIRE(t->type, CHARL_ERR_INVALID, "the tokenizer was read before libcharl-train was loaded");
    CHARL_TRY(charl__alloc(sizeof **out, out));
    (*out)->t = t;
    (*out)->special = special;
    return CHARL_OK;
}

charl_status charl__encoder_run(charl__encoder *e, const char *text, size_t bytes, charl__token_sink sink, void *ctx)
{
    e->sink = sink;
    e->ctx = ctx;
    e->n = 0;
    CHARL_TRY(e->t->type->encode(e, (const unsigned char *)text, bytes));
    return e->n > 0 ? sink(ctx, e->block, e->n) : CHARL_OK;
}

void charl__encoder_destroy(charl__encoder *e)
{
    if (e) {
        charl__bpe_work_destroy(e->work);
        charl_free(e);
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

        CHARL_TRY(charl__realloc((size_t)capacity * sizeof *c->tokens, &c->tokens));
        c->capacity = capacity;
    }
    memcpy(c->tokens + c->n, tokens, (size_t)n * sizeof *tokens);
    c->n += n;
    return CHARL_OK;
}

static charl_status encode(const charl_tokenizer *t, const char *text, size_t bytes, bool special, bool continues,
                           int32_t **tokens, int64_t *n)
{
    charl_status st = CHARL_OK;
    collected c = {.capacity = CHARL__ENCODER_BLOCK};
    charl__encoder *e = NULL;

    *tokens = NULL;
    *n = 0;
    CHARL_TRY_CLEANUP(charl__alloc_array(c.capacity, sizeof *c.tokens, &c.tokens)); /* an array for "" too */
    CHARL_TRY_CLEANUP(charl__encoder_create(t, special, &e));
    e->continues = continues;
    CHARL_TRY_CLEANUP(charl__encoder_run(e, text, bytes, collect, &c));
    *tokens = c.tokens;
    *n = c.n;
    c.tokens = NULL;
cleanup:
    charl__encoder_destroy(e);
    charl_free(c.tokens);
    return st;
}

charl_status charl_tokenizer_encode(const charl_tokenizer *t, const char *text, size_t bytes, bool special,
                                    int32_t **tokens, int64_t *n)
{
    CHARL_GIVEN(t, text || bytes == 0, tokens, n);
    return encode(t, text, bytes, special, false, tokens, n);
}

charl_status charl__tokenizer_continue(const charl_tokenizer *t, const char *text, size_t bytes, int32_t **tokens,
                                       int64_t *n)
{
    return encode(t, text, bytes, false, true, tokens, n);
}

charl_status charl_tokenizer_decode(const charl_tokenizer *t, const int32_t *tokens, int64_t n, char **text,
                                    size_t *bytes)
{
    CHARL_GIVEN(t, tokens || n == 0, text, bytes);
    size_t length, total = 0;

    *text = NULL;
    *bytes = 0;
    for (int64_t i = 0; i < n; i++) {
        CHARL_REQUIRE(charl_tokenizer_get_token(t, tokens[i], &length), CHARL_ERR_INVALID,
                      "token %lld is %d, the vocabulary has %lld", (long long)i, tokens[i], (long long)t->vocab);
        total += length;
    }
    CHARL_TRY(charl__alloc(total + 1, text));
    for (int64_t i = 0; i < n; i++) {
        const char *token = charl_tokenizer_get_token(t, tokens[i], &length);

        if (i == 0 && t->bpe && t->bpe->prefix && length > 0 && token[0] == ' ') { /* which encoding put there */
            token++;
            length--;
        }
        memcpy(*text + *bytes, token, length);
        *bytes += length;
    }
    return CHARL_OK;
}
