/* A tokenizer for llama.cpp, from the output of charl_tokenizer_print_json: byte-level BPE (its "gpt2"), whose pattern llama.cpp knows by a
 * name, or BPE of SentencePiece ("llama"), which has a score for each piece instead of a list of merges. */
#include "data/tokenizer/gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/json_steps.h"

/* Types of tokens. */
enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6 };

#define WORDS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* Patterns that llama.cpp knows. */
static const char *const patterns[][2] = {
    {CHARL__PATTERN_GPT2, "gpt-2"},
    {WORDS "\\p{N}{1,3}" REST, "llama-bpe"},
    {WORDS "\\p{N}" REST, "qwen2"},
};

static charl_status put(charl__text *out, const void *value, size_t bytes)
{
    return charl__text_append(out, value, bytes); /* memory is little-endian, like the file */
}

charl_status charl__gguf_string(charl__text *out, const char *s, size_t bytes)
{
    const uint64_t n = bytes;

    CHARL_TRY(put(out, &n, sizeof n));
    return charl__text_append(out, s, bytes);
}

/* The key of the next pair, and the type of its value. */
static charl_status put_key(charl__gguf *g, const char *key, charl__gguf_type type)
{
    const uint32_t t = type;

    g->n++;
    CHARL_TRY(charl__gguf_string(&g->text, key, strlen(key)));
    return put(&g->text, &t, sizeof t);
}

charl_status charl__gguf_put_u32(charl__gguf *g, const char *key, uint32_t value)
{
    CHARL_TRY(put_key(g, key, CHARL__GGUF_U32));
    return put(&g->text, &value, sizeof value);
}

charl_status charl__gguf_put_f32(charl__gguf *g, const char *key, double value)
{
    const float v = (float)value;

    CHARL_TRY(put_key(g, key, CHARL__GGUF_F32));
    return put(&g->text, &v, sizeof v);
}

charl_status charl__gguf_put_bool(charl__gguf *g, const char *key, bool value)
{
    const unsigned char v = value;

    CHARL_TRY(put_key(g, key, CHARL__GGUF_BOOL));
    return put(&g->text, &v, sizeof v);
}

charl_status charl__gguf_put_text(charl__gguf *g, const char *key, const char *value)
{
    CHARL_TRY(put_key(g, key, CHARL__GGUF_STRING));
    return charl__gguf_string(&g->text, value, strlen(value));
}

static charl_status put_array(charl__gguf *g, const char *key, charl__gguf_type type, int64_t n)
{
    const uint32_t t = type;
    const uint64_t count = (uint64_t)n;

    CHARL_TRY(put_key(g, key, CHARL__GGUF_ARRAY));
    CHARL_TRY(put(&g->text, &t, sizeof t));
    return put(&g->text, &count, sizeof count);
}

/* The tokens of a model: their texts and types, some of which only pad the vocabulary. */
typedef struct tokens {
    const char **text;
    size_t *bytes;
    int32_t *type;
    int64_t n;
} tokens;

static void tokens_fini(tokens *k)
{
    charl_free((void *)k->text);
    charl_free(k->bytes);
    charl_free(k->type);
}

static void set_token(tokens *k, const json_t *id, const char *text, size_t bytes, int32_t type)
{
    const json_int_t i = json_integer_value(id);

    if (i >= 0 && i < k->n) { /* the model has all of the tokenizer's tokens */
        k->text[i] = text;
        k->bytes[i] = bytes;
        k->type[i] = type;
    }
}

static charl_status read_tokens(const json_t *root, bool pieces, tokens *k)
{
    const json_t *model = json_object_get(root, "model"), *added = json_object_get(root, "added_tokens"), *text;
    const char *unknown = charl__json_text(model, "unk_token"), *key;
    json_t *value;
    size_t length;

    CHARL_TRY(charl__alloc_array(k->n, sizeof *k->text, &k->text));
    CHARL_TRY(charl__alloc_array(k->n, sizeof *k->bytes, &k->bytes));
    CHARL_TRY(charl__alloc_array(k->n, sizeof *k->type, &k->type));
    json_object_keylen_foreach(json_object_get(model, "vocab"), key, length, value)
    {
        const bool byte = pieces && length == 6 && strncmp(key, "<0x", 3) == 0;

        set_token(k, value, key, length, byte ? BYTE : NORMAL);
    }
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *o = json_array_get(added, i);
        const bool special = json_is_true(json_object_get(o, "special"));

        text = json_object_get(o, "content");
        set_token(k, json_object_get(o, "id"), json_string_value(text), json_string_length(text),
                  !special                                                                ? USER_DEFINED
                  : pieces && unknown[0] && strcmp(unknown, json_string_value(text)) == 0 ? UNKNOWN
                                                                                          : CONTROL);
    }
    return CHARL_OK;
}

static charl_status put_tokens(charl__gguf *g, const tokens *k)
{
    char filler[32];

    CHARL_TRY(put_array(g, "tokenizer.ggml.tokens", CHARL__GGUF_STRING, k->n));
    for (int64_t i = 0; i < k->n; i++) {
        snprintf(filler, sizeof filler, "[PAD%" PRId64 "]", i);
        CHARL_TRY(
            charl__gguf_string(&g->text, k->text[i] ? k->text[i] : filler, k->text[i] ? k->bytes[i] : strlen(filler)));
    }
    CHARL_TRY(put_array(g, "tokenizer.ggml.token_type", CHARL__GGUF_I32, k->n));
    for (int64_t i = 0; i < k->n; i++) {
        const int32_t type = k->text[i] ? k->type[i] : UNUSED;

        CHARL_TRY(put(&g->text, &type, sizeof type));
    }
    return CHARL_OK;
}

/* ------------------------------------------------------------------ byte-level BPE */

/* The name of the only pattern, for which byte pair encoding within bytes needs none. */
static charl_status find_pattern(const json_t *root, const char **name)
{
    const json_t *steps = json_object_get(json_object_get(root, "pre_tokenizer"), "pretokenizers");
    const char *pattern = charl__json_text(json_object_get(json_array_get(steps, 0), "pattern"), "Regex");

    *name = NULL;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns && json_array_size(steps) == 2; i++) {
        *name = strcmp(pattern, patterns[i][0]) == 0 ? patterns[i][1] : *name;
    }
    if (json_array_size(steps) == 1 &&
        json_array_size(json_object_get(json_object_get(root, "model"), "merges")) == 0) {
        *name = "gpt-2"; /* each byte is a token, wherever the text is split */
    }
    CHARL_REQUIRE(*name, CHARL_ERR_CONFIG,
                  "the tokenizer splits text by a pattern that is not known to be one of llama.cpp's: \"%.60s\"; those "
                  "of GPT-2, Llama 3 and Qwen are",
                  pattern);
    return CHARL_OK;
}

static charl_status put_bytes(charl__gguf *g, const json_t *root, const tokens *k)
{
    const json_t *merges = json_object_get(json_object_get(root, "model"), "merges");
    const char *name;

    CHARL_TRY(find_pattern(root, &name));
    CHARL_TRY(charl__gguf_put_text(g, "tokenizer.ggml.model", "gpt2"));
    CHARL_TRY(charl__gguf_put_text(g, "tokenizer.ggml.pre", name));
    CHARL_TRY(put_tokens(g, k));
    CHARL_TRY(put_array(g, "tokenizer.ggml.merges", CHARL__GGUF_STRING, (int64_t)json_array_size(merges)));
    for (size_t i = 0; i < json_array_size(merges); i++) {
        const json_t *m = json_array_get(merges, i);

        CHARL_TRY(charl__gguf_string(&g->text, json_string_value(m), json_string_length(m)));
    }
    return CHARL_OK;
}

/* ------------------------------------------------------------------ BPE of SentencePiece */

static int by_rank(const void *a, const void *b)
{
    const charl__merge *x = a, *y = b;

    return x->rank != y->rank ? (x->rank > y->rank) - (x->rank < y->rank)
                              : (x->token > y->token) - (x->token < y->token);
}

/* Scores that merge in the order of the ranks, as llama.cpp merges any two pieces that together are a piece. */
static charl_status find_scores(const charl_tokenizer *t, const tokens *k, float *score)
{
    const charl__merge_table *m = &t->bpe->merges;
    CHARL_SCOPED_FREE charl__merge *list = NULL;
    int64_t n = 0, pairs = 0;

    CHARL_TRY(charl__alloc_array(m->count + 1, sizeof *list, &list));
    for (int64_t i = 0; i < m->capacity; i++) {
        if (m->slots[i].key != UINT64_MAX) {
            list[n++] = m->slots[i];
        }
    }
    qsort(list, (size_t)n, sizeof *list, by_rank);
    for (int64_t i = 0, group = 0; i < n; i++) {
        group += i > 0 && list[i].rank != list[i - 1].rank && list[i].token != list[i - 1].token;
        CHARL_REQUIRE(score[list[i].token] == 0 || score[list[i].token] == (float)-(group + 1), CHARL_ERR_CONFIG,
                      "the merges that make token %d of the tokenizer are not next to each other, and llama.cpp orders "
                      "merges by the token that they make",
                      list[i].token);
        score[list[i].token] = (float)-(group + 1);
    }
    for (int64_t i = 0; i < t->vocab; i++) {
        const unsigned char *text = t->bytes + t->starts[i];
        const size_t bytes = (size_t)(t->starts[i + 1] - t->starts[i]);

        for (size_t cut = 1; k->type[i] == NORMAL && cut < bytes; cut++) {
            pairs += charl__token_index_find(&t->bpe->index, text, cut) >= 0 &&
                     charl__token_index_find(&t->bpe->index, text + cut, bytes - cut) >= 0;
        }
    }
    CHARL_REQUIRE(
        pairs == n, CHARL_ERR_CONFIG,
        "the tokenizer has %lld merges of %lld pairs of pieces that are a piece together, and llama.cpp merges "
        "them all",
        (long long)n, (long long)pairs);
    return CHARL_OK;
}

static charl_status put_pieces(charl__gguf *g, const charl_tokenizer *t, const json_t *root, const tokens *k)
{
    CHARL_SCOPED_FREE float *score = NULL;

    CHARL_REQUIRE(t->bpe->normalizers == 0, CHARL_ERR_CONFIG,
                  "the tokenizer normalizes text, which llama.cpp does not do for BPE of SentencePiece");
    CHARL_REQUIRE(json_is_true(json_object_get(json_object_get(root, "model"), "byte_fallback")), CHARL_ERR_CONFIG,
                  "the tokenizer has no tokens of bytes (byte_fallback), which llama.cpp needs");
    CHARL_TRY(charl__alloc_array(k->n, sizeof *score, &score));
    CHARL_TRY(find_scores(t, k, score));
    CHARL_TRY(charl__gguf_put_text(g, "tokenizer.ggml.model", "llama"));
    CHARL_TRY(charl__gguf_put_text(g, "tokenizer.ggml.pre", "default"));
    CHARL_TRY(put_tokens(g, k));
    CHARL_TRY(put_array(g, "tokenizer.ggml.scores", CHARL__GGUF_F32, k->n));
    CHARL_TRY(put(&g->text, score, (size_t)k->n * sizeof *score));
    return charl__gguf_put_bool(g, "tokenizer.ggml.add_space_prefix", (t->bpe->prefix & CHARL__PRETRAINED_PREFIX) != 0);
}

charl_status charl__gguf_put_tokenizer(charl__gguf *g, const charl_tokenizer *t, int64_t vocab)
{
    CHARL_SCOPED_FREE char *json = NULL;
    CHARL_SCOPED(json_left) json_t *root = NULL;
    CHARL_SCOPED(tokens_fini) tokens k = {.n = vocab};
    const bool pieces = t && t->bpe && t->bpe->characters;
    const char *type;
    int64_t begin, end;
    json_error_t error;

    if (!t) {
        return charl__gguf_put_text(g, "tokenizer.ggml.model", "none");
    }
    CHARL_TRY(charl_tokenizer_print_json(t, &json));
    root = json_loads(json, JSON_ALLOW_NUL, &error);
    CHARL_REQUIRE(root, CHARL_ERR_NOMEM, "the tokenizer.json of the tokenizer is not read back: %s", error.text);
    type = charl__json_text(json_object_get(root, "model"), "type");
    CHARL_REQUIRE(
        strcmp(type, "BPE") == 0 && vocab >= t->vocab, CHARL_ERR_CONFIG,
        "the tokenizer has %lld tokens and is of type %s; for llama.cpp charl writes BPE, of at most the %lld "
        "tokens of the model",
        (long long)t->vocab, type, (long long)vocab);
    CHARL_REQUIRE(!t->bpe || t->bpe->normalizers == 0 ||
                      (t->bpe->normalizers == 1 && t->bpe->normalizer[0].kind == CHARL__NORMALIZE_NFC),
                  CHARL_ERR_CONFIG, "the tokenizer normalizes text, which llama.cpp does not do for BPE");
    CHARL_TRY(read_tokens(root, pieces, &k));
    CHARL_TRY(pieces ? put_pieces(g, t, root, &k) : put_bytes(g, root, &k));
    end = charl_tokenizer_get_end_of_text(t);
    begin = charl_tokenizer_find_special(t, "<s>");
    if (end >= 0) {
        CHARL_TRY(charl__gguf_put_u32(g, "tokenizer.ggml.eos_token_id", (uint32_t)end));
        CHARL_TRY(charl__gguf_put_u32(g, "tokenizer.ggml.bos_token_id", (uint32_t)(begin >= 0 ? begin : end)));
    }
    CHARL_TRY(charl__gguf_put_bool(g, "tokenizer.ggml.add_bos_token", false));
    return charl__gguf_put_bool(g, "tokenizer.ggml.add_eos_token", false);
}
