/* Encoding by merges: in each word the pair with the lowest rank is merged first, the leftmost of
 * equals first, until no pair has a rank. A word that comes again is not encoded again. */
#include <string.h>

#include "base/alloc.h"
#include "io/tokenizer/bpe.h"
#include "io/tokenizer/tokenizer_private.h"

/* A word while it is merged: a list of tokens; token -1 is one that was merged into its left. */
typedef struct spelling {
    int32_t *token;
    int32_t *next, *previous; /* positions; -1 at the ends */
    size_t capacity;
    charl__heap merges; /* priority: - rank, key: position of the left token */
} spelling;

typedef struct encoder {
    const charl_tokenizer *t;
    charl__words words;
    charl__pieces seen; /* value: where its tokens begin in `tokens` */
    int32_t *lengths;   /* per piece seen: number of tokens */
    int64_t lengths_capacity;
    int32_t *tokens; /* of all pieces seen */
    int64_t n_tokens, capacity;
    spelling s;
} encoder;

static void encoder_fini(encoder *e)
{
    charl__words_fini(&e->words);
    charl__pieces_fini(&e->seen);
    charl_free(e->lengths);
    charl_free(e->tokens);
    charl_free(e->s.token);
    charl_free(e->s.next);
    charl_free(e->s.previous);
    charl__heap_fini(&e->s.merges);
}

static charl_status spelling_begin(spelling *s, const unsigned char *word, size_t bytes)
{
    CHARL_REQUIRE(bytes < INT32_MAX, CHARL_ERR_DATA, "a word of %zu bytes is too long", bytes);
    if (bytes > s->capacity) {
        CHARL_TRY(charl_realloc(bytes * sizeof *s->token, &s->token));
        CHARL_TRY(charl_realloc(bytes * sizeof *s->next, &s->next));
        CHARL_TRY(charl_realloc(bytes * sizeof *s->previous, &s->previous));
        s->capacity = bytes;
    }
    for (size_t i = 0; i < bytes; i++) {
        s->token[i] = word[i];
        s->previous[i] = (int32_t)i - 1;
        s->next[i] = i + 1 < bytes ? (int32_t)i + 1 : -1;
    }
    return CHARL_OK;
}

/* Rank of the pair whose left token is at i; -1 for none. */
static int32_t rank_at(const encoder *e, int32_t i)
{
    const spelling *s = &e->s;

    if (i < 0 || s->token[i] < 0 || s->next[i] < 0) {
        return -1;
    }
    return charl__word_map_find(&e->t->ranks, charl__pair((uint32_t)s->token[i], (uint32_t)s->token[s->next[i]]));
}

static charl_status queue(encoder *e, int32_t i)
{
    const int32_t rank = rank_at(e, i);

    return rank < 0 ? CHARL_OK : charl__heap_push(&e->s.merges, -(int64_t)rank, (uint64_t)i);
}

static charl_status spell(encoder *e, const unsigned char *word, size_t bytes)
{
    spelling *s = &e->s;
    charl__queued q;

    CHARL_TRY(spelling_begin(s, word, bytes));
    for (size_t i = 0; i + 1 < bytes; i++) {
        CHARL_TRY(queue(e, (int32_t)i));
    }
    while (charl__heap_pop(&s->merges, &q)) {
        const int32_t i = (int32_t)q.key;
        int32_t right;

        if (rank_at(e, i) != -q.priority) { /* one of the two has been merged since */
            continue;
        }
        right = s->next[i];
        s->token[i] = 256 - (int32_t)q.priority;
        s->token[right] = -1;
        s->next[i] = s->next[right];
        if (s->next[i] >= 0) {
            s->previous[s->next[i]] = i;
        }
        CHARL_TRY(queue(e, i));
        CHARL_TRY(queue(e, s->previous[i]));
    }
    return CHARL_OK;
}

/* Encode a piece that is seen for the first time and keep its tokens. */
static charl_status learn(encoder *e, int32_t piece)
{
    charl__piece *p = &e->seen.items[piece];
    int32_t n = 0;

    CHARL_TRY(spell(e, p->at, p->bytes));
    if (e->n_tokens + (int64_t)p->bytes > e->capacity) {
        const int64_t capacity = 2 * (e->n_tokens + (int64_t)p->bytes);

        CHARL_TRY(charl_realloc((size_t)capacity * sizeof *e->tokens, &e->tokens));
        e->capacity = capacity;
    }
    if (piece >= e->lengths_capacity) {
        const int64_t capacity = 2 * (int64_t)piece + 64;

        CHARL_TRY(charl_realloc((size_t)capacity * sizeof *e->lengths, &e->lengths));
        e->lengths_capacity = capacity;
    }
    for (int32_t i = 0; i >= 0; i = e->s.next[i]) {
        e->tokens[e->n_tokens + n++] = e->s.token[i];
    }
    p->value = e->n_tokens;
    e->lengths[piece] = n;
    e->n_tokens += n;
    return CHARL_OK;
}

charl_status charl__bpe_each(const charl_tokenizer *t, const unsigned char *text, size_t bytes, charl__token_sink sink,
                             void *ctx)
{
    charl_status st = CHARL_OK;
    encoder e = {.t = t};
    const unsigned char *word;
    size_t length;

    CHARL_TRY_CLEANUP(charl__words_init(&e.words, text, bytes));
    while (charl__words_next(&e.words, &word, &length)) {
        const int64_t known = e.seen.count;
        int32_t piece;

        CHARL_TRY_CLEANUP(charl__pieces_number(&e.seen, word, length, &piece));
        if (piece == known) {
            CHARL_TRY_CLEANUP(learn(&e, piece));
        }
        CHARL_TRY_CLEANUP(sink(ctx, e.tokens + e.seen.items[piece].value, e.lengths[piece]));
    }
cleanup:
    encoder_fini(&e);
    return st;
}
