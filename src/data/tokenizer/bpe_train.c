/* Learning merges: repeatedly, the pair of neighbours that occurs most often in the words of a
 * text becomes a token; among equals, the pair with the earliest tokens.
 *
 * Every distinct word is stored once, with its number of occurrences. A pair knows its count and the words
 * that have contained it, so a merge inspects only those; a queue orders the pairs, and an
 * entry whose count differs from the pair's has been replaced by a later one.
 */
#include <string.h>

#include "base/alloc.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/tokenizer_private.h"
#include "io/dataset/word_map.h"

/* A pair of neighbours. */
typedef struct pair {
    uint64_t key; /* charl__pair of its tokens */
    int64_t count;
    int32_t *words;
    int32_t n_words, capacity;
    int32_t touched; /* round that last changed the count */
} pair;

typedef struct trainer {
    charl__splitter *splitter;
    charl__words words;
    charl__pieces pieces; /* distinct words; value: number of occurrences */
    int32_t *tokens;      /* of all pieces */
    int64_t *start;       /* [pieces + 1] offset in tokens of each piece */
    int32_t *length;      /* [pieces] current number of tokens */
    int32_t *merged;      /* [pieces] round that last inspected the piece */
    pair *pairs;
    int64_t n_pairs, pairs_capacity;
    charl__word_map pair_map; /* key -> pair */
    int32_t round;            /* 1: the first count of pairs, then one for each merge */
    int32_t *touched;         /* pairs whose count this round has changed */
    int64_t n_touched, touched_capacity;
    charl__heap queue; /* priority: count, key: of the pair */
    uint32_t *merges;  /* [n_merges, 2] */
    int32_t *bytes;    /* [256 + n_merges] lengths of the tokens */
    int32_t n_merges;
} trainer;

static void trainer_fini(trainer *r)
{
    for (int64_t i = 0; i < r->n_pairs; i++) {
        charl_free(r->pairs[i].words);
    }
    charl__words_fini(&r->words);
    charl__splitter_destroy(r->splitter);
    charl__pieces_fini(&r->pieces);
    charl_free(r->tokens);
    charl_free(r->start);
    charl_free(r->length);
    charl_free(r->merged);
    charl_free(r->pairs);
    charl__word_map_fini(&r->pair_map);
    charl_free(r->touched);
    charl__heap_fini(&r->queue);
    charl_free(r->merges);
    charl_free(r->bytes);
}

/* The distinct words of the text, as tokens that are bytes. */
static charl_status count_words(trainer *r, const unsigned char *text, size_t bytes)
{
    const charl__split_step step = {.pattern = CHARL__PATTERN_GPT2, .length = strlen(CHARL__PATTERN_GPT2)};
    const unsigned char *word;
    size_t length;
    int64_t total = 0;

    CHARL_TRY(charl__splitter_create(&step, 1, &r->splitter));
    CHARL_TRY(charl__words_init(&r->words, r->splitter));
    charl__words_begin(&r->words, text, bytes);
    for (;;) {
        int32_t piece;

        CHARL_TRY(charl__words_next(&r->words, &word, &length));
        if (length == 0) {
            break;
        }
        CHARL_TRY(charl__pieces_number(&r->pieces, word, length, &piece));
        total += r->pieces.items[piece].value++ == 0 ? (int64_t)length : 0;
        CHARL_REQUIRE(length < INT32_MAX, CHARL_ERR_DATA, "a word of %zu bytes is too long", length);
    }
    CHARL_TRY(charl__alloc_array(total, sizeof *r->tokens, &r->tokens));
    CHARL_TRY(charl__alloc_array(r->pieces.count + 1, sizeof *r->start, &r->start));
    CHARL_TRY(charl__alloc_array(r->pieces.count, sizeof *r->length, &r->length));
    CHARL_TRY(charl__alloc_array(r->pieces.count, sizeof *r->merged, &r->merged));
    for (int64_t p = 0; p < r->pieces.count; p++) {
        const charl__piece *piece = &r->pieces.items[p];

        r->length[p] = (int32_t)piece->bytes;
        r->start[p + 1] = r->start[p] + r->length[p];
        for (int32_t i = 0; i < r->length[p]; i++) {
            r->tokens[r->start[p] + i] = piece->at[i];
        }
    }
    return CHARL_OK;
}

static charl_status find_pair(trainer *r, uint64_t key, pair **out)
{
    const int32_t known = charl__word_map_find(&r->pair_map, key);

    *out = NULL;

    if (known >= 0) {
        *out = &r->pairs[known];
        return CHARL_OK;
    }
    CHARL_REQUIRE(r->n_pairs < INT32_MAX, CHARL_ERR_NOMEM, "too many pairs of tokens");
    if (r->n_pairs == r->pairs_capacity) {
        const int64_t capacity = 2 * r->pairs_capacity + 1024;

        CHARL_TRY(charl__realloc((size_t)capacity * sizeof *r->pairs, &r->pairs));
        r->pairs_capacity = capacity;
    }
    CHARL_TRY(charl__word_map_add(&r->pair_map, key, (int32_t)r->n_pairs));
    *out = &r->pairs[r->n_pairs++];
    **out = (pair){.key = key};
    return CHARL_OK;
}

/* This round changes the count of a pair. */
static charl_status touch(trainer *r, pair *p)
{
    if (p->touched == r->round) {
        return CHARL_OK;
    }
    p->touched = r->round;
    if (r->n_touched == r->touched_capacity) {
        const int64_t capacity = 2 * r->touched_capacity + 1024;

        CHARL_TRY(charl__realloc((size_t)capacity * sizeof *r->touched, &r->touched));
        r->touched_capacity = capacity;
    }
    r->touched[r->n_touched++] = (int32_t)(p - r->pairs);
    return CHARL_OK;
}

static charl_status remember(pair *p, int32_t piece)
{
    if (p->n_words > 0 && p->words[p->n_words - 1] == piece) {
        return CHARL_OK;
    }
    if (p->n_words == p->capacity) {
        const int32_t capacity = 2 * p->capacity + 4;

        CHARL_TRY(charl__realloc((size_t)capacity * sizeof *p->words, &p->words));
        p->capacity = capacity;
    }
    p->words[p->n_words++] = piece;
    return CHARL_OK;
}

/* Add the pairs of a piece to the counts, or (sign -1) subtract them. */
static charl_status count_pairs(trainer *r, int32_t piece, int64_t sign)
{
    const int32_t *t = r->tokens + r->start[piece];

    for (int32_t i = 0; i + 1 < r->length[piece]; i++) {
        pair *p;

        CHARL_TRY(find_pair(r, charl__pair((uint32_t)t[i], (uint32_t)t[i + 1]), &p));
        p->count += sign * r->pieces.items[piece].value;
        CHARL_TRY(touch(r, p));
        if (sign > 0) {
            CHARL_TRY(remember(p, piece));
        }
    }
    return CHARL_OK;
}

/* Queue the changed pairs with their new counts. */
static charl_status queue_touched(trainer *r)
{
    for (int64_t i = 0; i < r->n_touched; i++) {
        const pair *p = &r->pairs[r->touched[i]];

        if (p->count > 1) {
            CHARL_TRY(charl__heap_push(&r->queue, p->count, p->key));
        }
    }
    r->n_touched = 0;
    return CHARL_OK;
}

/* Replace the pair (a, b) in a piece. */
static void rewrite(trainer *r, int32_t piece, int32_t a, int32_t b, int32_t merged)
{
    int32_t *t = r->tokens + r->start[piece];
    int32_t n = 0;

    for (int32_t i = 0; i < r->length[piece]; i++) {
        if (t[i] == a && i + 1 < r->length[piece] && t[i + 1] == b) {
            t[n++] = merged;
            i++;
        } else {
            t[n++] = t[i];
        }
    }
    r->length[piece] = n;
}

static charl_status merge(trainer *r, int32_t which)
{
    const int32_t a = (int32_t)(r->pairs[which].key >> 32);
    const int32_t b = (int32_t)(r->pairs[which].key & UINT32_MAX);
    const int32_t token = 256 + r->n_merges;
    CHARL_SCOPED_FREE int32_t *words = r->pairs[which].words; /* adding pairs may move the table of pairs */
    const int32_t n_words = r->pairs[which].n_words;

    r->round++;
    r->pairs[which].words = NULL;
    r->pairs[which].n_words = r->pairs[which].capacity = 0;
    for (int32_t i = 0; i < n_words; i++) {
        const int32_t piece = words[i];

        if (r->merged[piece] == r->round) {
            continue;
        }
        r->merged[piece] = r->round;
        CHARL_TRY(count_pairs(r, piece, -1));
        rewrite(r, piece, a, b, token);
        CHARL_TRY(count_pairs(r, piece, 1));
    }
    r->bytes[token] = r->bytes[a] + r->bytes[b];
    r->merges[2 * r->n_merges] = (uint32_t)a;
    r->merges[2 * r->n_merges + 1] = (uint32_t)b;
    CHARL_TRY(queue_touched(r));
    r->n_merges++;
    return CHARL_OK;
}

static charl_status train(trainer *r, int64_t merges)
{
    charl__queued q;

    CHARL_TRY(charl__alloc_array(merges, 2 * sizeof *r->merges, &r->merges));
    CHARL_TRY(charl__alloc_array(merges + 256, sizeof *r->bytes, &r->bytes));
    for (int i = 0; i < 256; i++) {
        r->bytes[i] = 1;
    }
    r->round = 1;
    for (int64_t p = 0; p < r->pieces.count; p++) {
        CHARL_TRY(count_pairs(r, (int32_t)p, 1));
    }
    CHARL_TRY(queue_touched(r));
    while (r->n_merges < merges && charl__heap_pop(&r->queue, &q)) {
        const int32_t which = charl__word_map_find(&r->pair_map, q.key);
        const int32_t length = r->bytes[q.key >> 32] + r->bytes[q.key & UINT32_MAX];

        if (r->pairs[which].count == q.priority && length <= CHARL__TOKEN_MAX_BYTES) {
            CHARL_TRY(merge(r, which));
        }
    }
    return CHARL_OK;
}

charl_status charl__bpe_learn(const unsigned char *text, size_t bytes, int64_t vocab, void **state, int64_t *n)
{
    CHARL_SCOPED(trainer_fini) trainer r = {0};

    *state = NULL;
    *n = 0;
    CHARL_REQUIRE(vocab >= 256 && vocab <= CHARL__TOKENIZER_MAX_VOCAB, CHARL_ERR_CONFIG,
                  "tokenizer bpe: a vocabulary of %lld is outside [256,%d]", (long long)vocab,
                  CHARL__TOKENIZER_MAX_VOCAB);
    CHARL_TRY(count_words(&r, text, bytes));
    CHARL_TRY(train(&r, vocab - 256));
    *state = r.merges;
    *n = 2 * (int64_t)r.n_merges;
    r.merges = NULL;
    return CHARL_OK;
}
