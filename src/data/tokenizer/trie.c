/* Encoding with tokens that are found in a trie: unigram and wordpiece. */
#include <string.h>

#include "base/alloc.h"
#include "base/text/utf8.h"
#include "data/tokenizer/bpe.h"

enum {
    LONGEST_WORD = 100,  /* wordpiece: characters; a longer one is unknown */
    MOST_BYTES = 1 << 24 /* of a vocabulary: its trie takes 32 to 64 bytes for each */
};

/* The node after `node` for a byte; -1: none. */
static int32_t next_node(const charl__trie *trie, int32_t node, unsigned char byte)
{
    const charl__merge *m = charl__merge_find(&trie->next, node, byte);

    return m->rank == CHARL__NO_RANK ? -1 : m->token;
}

charl_status charl__trie_init(charl__trie *trie, const charl_tokenizer *t, const unsigned char *heads, unsigned mask)
{
    CHARL_REQUIRE(t->starts[t->vocab] <= MOST_BYTES, CHARL_ERR_DATA,
                  "the tokens of the vocabulary have %lld bytes; at most %d are supported",
                  (long long)t->starts[t->vocab], MOST_BYTES);
    CHARL_TRY(charl__merge_table_init(&trie->next, t->starts[t->vocab]));
    CHARL_TRY(charl__alloc_array(t->starts[t->vocab] + 1, sizeof *trie->token, &trie->token));
    trie->token[0] = -1;
    trie->nodes = 1;
    for (int64_t i = 0; i < t->vocab; i++) {
        int32_t node = 0;

        if (!(heads[4 * i] & mask) || t->starts[i] == t->starts[i + 1]) {
            continue;
        }
        for (int64_t k = t->starts[i]; k < t->starts[i + 1]; k++) {
            int32_t next = next_node(trie, node, t->bytes[k]);
            bool known;

            if (next < 0) {
                next = trie->nodes++;
                charl__merge_add(&trie->next, node, t->bytes[k], 0, next, &known);
                trie->token[next] = -1;
            }
            node = next;
        }
        trie->token[node] = (int32_t)i;
    }
    return CHARL_OK;
}

void charl__trie_fini(charl__trie *trie)
{
    charl__merge_table_fini(&trie->next);
    charl_free(trie->token);
}

void charl__trie_work_fini(charl__trie_work *w)
{
    charl_free(w->token);
    charl_free(w->way);
}

static charl_status reserve(charl__trie_work *w, size_t bytes)
{
    CHARL_REQUIRE(bytes < INT32_MAX, CHARL_ERR_DATA, "a word of %zu bytes is too long", bytes);
    if (bytes >= w->capacity) {
        CHARL_TRY(charl__realloc((2 * bytes + 64) * sizeof *w->token, &w->token));
        CHARL_TRY(charl__realloc((2 * bytes + 64) * sizeof *w->way, &w->way));
        w->capacity = 2 * bytes + 64;
    }
    return CHARL_OK;
}

/* A way to `end` with a last token from `at`: the first of the best is kept. SentencePiece compares before it rounds to f32. */
static void relax(const struct charl__bpe *b, struct charl__trie_way *way, size_t at, size_t end, int32_t token,
                  double score)
{
    const double exact = score + way[at].score, sum = b->single ? (double)(float)exact : exact;

    if (way[end].from < 0 || (token < 0 ? sum : exact) > way[end].score) {
        way[end] = (struct charl__trie_way){sum, (int32_t)at, token};
    }
}

/* An unknown character: its bytes if the vocabulary has them. Tokens are written from the end. */
static size_t put_unknown(const struct charl__bpe *b, const unsigned char *s, size_t bytes, int32_t *token, size_t to)
{
    if (b->byte_token[s[0]] < 0) {
        token[--to] = b->unknown;
        return to;
    }
    for (size_t i = bytes; i > 0; i--) {
        token[--to] = b->byte_token[s[i - 1]];
    }
    return to;
}

charl_status charl__unigram_encode(const struct charl__bpe *b, charl__trie_work *w, const unsigned char *word,
                                   size_t bytes, int64_t *n)
{
    struct charl__trie_way *way;
    size_t to = bytes;

    CHARL_TRY(reserve(w, bytes));
    way = w->way;
    for (size_t i = 0; i <= bytes; i++) {
        way[i].from = -1;
    }
    way[0].score = !b->sentence ? 0 : b->single ? (double)(float)w->score : w->score;
    for (size_t at = 0, length; at < bytes; at += length) {
        bool single = false;
        int32_t node = 0;

        length = charl__utf8_length(word + at, bytes - at);
        length = length > 0 ? length : 1;
        for (size_t end = at; end < bytes && (node = next_node(&b->trie, node, word[end])) >= 0; end++) {
            const int32_t token = b->trie.token[node];

            if (token >= 0) {
                single = single || end + 1 == at + length;
                relax(b, way, at, end + 1, token, b->score[token]);
            }
        }
        if (!single) {
            relax(b, way, at, at + length, -1, b->unknown_score);
        }
    }
    w->score = way[bytes].score;
    for (size_t end = bytes; end > 0; end = (size_t)way[end].from) {
        if (way[end].token >= 0) {
            w->token[--to] = way[end].token;
        } else {
            const size_t from = (size_t)way[end].from;

            to = put_unknown(b, word + from, end - from, w->token, to);
        }
    }
    *n = (int64_t)(bytes - to);
    memmove(w->token, w->token + to, (bytes - to) * sizeof *w->token);
    return CHARL_OK;
}

/* Tokens that begin a word have a space in front. */
charl_status charl__wordpiece_encode(const struct charl__bpe *b, charl__trie_work *w, const unsigned char *word,
                                     size_t bytes, int64_t *n)
{
    size_t characters = 0;

    CHARL_TRY(reserve(w, bytes));
    for (size_t i = 0; i < bytes; i++) {
        characters += (word[i] & 0xc0) != 0x80;
    }
    *n = 0;
    for (size_t at = 0, end; at < bytes; at = end) {
        int32_t node = at == 0 ? next_node(&b->trie, 0, ' ') : 0, token = -1;

        end = at;
        for (size_t i = at; node >= 0 && i < bytes && (node = next_node(&b->trie, node, word[i])) >= 0; i++) {
            if (b->trie.token[node] >= 0) {
                token = b->trie.token[node];
                end = i + 1;
            }
        }
        if (token < 0 || characters > LONGEST_WORD) {
            w->token[0] = b->unknown;
            *n = 1;
            return CHARL_OK;
        }
        w->token[(*n)++] = token;
    }
    return CHARL_OK;
}
