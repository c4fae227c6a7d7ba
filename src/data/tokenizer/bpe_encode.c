/* Encoding, and byte pair encoding of words. Short words that recur are not encoded again: a cache of fixed size holds their tokens. */
#include <string.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "base/text/utf8.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/pretrained.h"

enum {
    SHORT = 96,    /* longest word, in bytes, that is merged by scanning all its pairs each time */
    KEY_WORDS = 4, /* of a cached word: its bytes, zeros, and its length in the last byte */
    CACHED_BYTES = 31,
    CACHED_TOKENS = 7,
    CACHE_BITS = 16,
    CACHE_FROM = 16 << 10, /* bytes of text from which a cache pays off */
    AHEAD = 16,            /* words whose slots are prefetched */
};

/* A word and its tokens: a cache line. */
typedef struct cached {
    uint64_t key[KEY_WORDS]; /* all zero: the slot is free */
    int32_t n;
    int32_t token[CACHED_TOKENS];
} cached;

/* A long word while it is merged: a list of tokens; token -1 has been merged into its left neighbour. */
typedef struct spelling {
    int32_t *token;
    int32_t *next, *previous; /* positions; -1 at the ends */
    size_t capacity;
    int32_t n;          /* tokens before merging */
    charl__heap merges; /* priority: - rank, key: position of the left token */
} spelling;

struct charl__bpe_work {
    const charl__bpe *bpe;
    charl__words words;
    spelling spelling;
    cached *cache;         /* [1 << CACHE_BITS], NULL: none */
    charl__text normal[2]; /* the text after a normalizer, and before */
    charl__trie_work trie;
    size_t bytes; /* of all texts so far */
};

charl_status charl__bpe_create(charl__bpe **out)
{
    CHARL_TRY(charl__alloc(sizeof **out, out));
    (*out)->unknown = -1;
    return CHARL_OK;
}

void charl__bpe_destroy(charl__bpe *b)
{
    if (!b) {
        return;
    }
    charl__splitter_destroy(b->splitter);
    charl__merge_table_fini(&b->merges);
    charl__token_index_fini(&b->index);
    charl__added_tokens_fini(&b->added);
    charl__added_tokens_fini(&b->normalized);
    charl__trie_fini(&b->trie);
    charl_free(b->score);
    charl_free(b);
}

/* Whether the texts of added tokens contain a place where a text may be divided. */
static bool has_cut(const charl__added_tokens *a)
{
    for (int32_t i = 0; i < a->count; i++) {
        for (int32_t c = a->nodes[i].child; i > 0 && c >= 0; c = a->nodes[c].sibling) {
            if (charl__is_cut(a->nodes[i].byte, a->nodes[c].byte)) {
                return true;
            }
        }
    }
    return false;
}

charl_status charl__bpe_find_cuts(charl__bpe *b)
{
    CHARL_TRY(charl__splitter_cuts_at_spaces(b->splitter, &b->cuts_at_spaces));
    b->cuts_at_spaces = b->cuts_at_spaces && !(b->characters && b->prefix) && !b->sentence && !has_cut(&b->added) &&
                        !has_cut(&b->normalized);
    for (int i = 0; i < b->normalizers; i++) {
        b->cuts_at_spaces = b->cuts_at_spaces && charl__normalizer_cuts_at_spaces(&b->normalizer[i]);
    }
    return CHARL_OK;
}

void charl__bpe_work_destroy(struct charl__bpe_work *w)
{
    if (!w) {
        return;
    }
    charl__words_fini(&w->words);
    charl_free(w->spelling.token);
    charl_free(w->spelling.next);
    charl_free(w->spelling.previous);
    charl__heap_fini(&w->spelling.merges);
    charl_free(w->cache);
    charl__text_fini(&w->normal[0]);
    charl__text_fini(&w->normal[1]);
    charl__trie_work_fini(&w->trie);
    charl_free(w);
}

static const charl__merge *find(const charl__bpe *b, int32_t left, int32_t right)
{
    return charl__merge_find(&b->merges, left, right);
}

/* The token that merging of text[0, bytes) begins with; returns the bytes that it stands for. */
static size_t first_token(const charl__bpe *b, const unsigned char *text, size_t bytes, int32_t *token)
{
    const size_t n = b->characters ? charl__utf8_length(text, bytes) : 0;

    if (n > 0 && (*token = charl__token_index_find(&b->index, text, n)) >= 0) {
        return n;
    }
    *token = b->byte_token[text[0]];
    if (*token < 0) {
        *token = b->unknown;
        return n > 0 ? n : 1;
    }
    return 1;
}

/* Merge a word of at most SHORT bytes: tokens in place, and the merge of each with the next. Returns the number of tokens. */
static int merge_short(const charl__bpe *b, const unsigned char *word, int bytes, int32_t token[SHORT])
{
    uint32_t rank[SHORT]; /* of the pair (i, i + 1); CHARL__NO_RANK for a free slot */
    int32_t merged[SHORT];
    int n = 0;

    for (int i = 0; i < bytes;) {
        i += (int)first_token(b, word + i, (size_t)(bytes - i), &token[n++]);
    }
    for (int i = 0; i + 1 < n; i++) {
        const charl__merge *m = find(b, token[i], token[i + 1]);

        rank[i] = m->rank;
        merged[i] = m->token;
    }
    while (n > 1) {
        uint32_t lowest = CHARL__NO_RANK;
        int best = 0;

        for (int i = 0; i + 1 < n; i++) {
            if (rank[i] < lowest) {
                lowest = rank[i];
                best = i;
            }
        }
        if (lowest == CHARL__NO_RANK) {
            break;
        }
        token[best] = merged[best];
        n--;
        for (int i = best + 1; i < n; i++) {
            token[i] = token[i + 1];
        }
        for (int i = best + 1; i + 1 < n; i++) {
            rank[i] = rank[i + 1];
            merged[i] = merged[i + 1];
        }
        for (int i = best > 0 ? best - 1 : best; i <= best && i + 1 < n; i++) {
            const charl__merge *m = find(b, token[i], token[i + 1]);

            rank[i] = m->rank;
            merged[i] = m->token;
        }
    }
    return n;
}

static charl_status spelling_begin(spelling *s, const charl__bpe *b, const unsigned char *word, size_t bytes)
{
    CHARL_REQUIRE(bytes < INT32_MAX, CHARL_ERR_DATA, "a word of %zu bytes is too long", bytes);
    if (bytes > s->capacity) {
        CHARL_TRY(charl__realloc(bytes * sizeof *s->token, &s->token));
        CHARL_TRY(charl__realloc(bytes * sizeof *s->next, &s->next));
        CHARL_TRY(charl__realloc(bytes * sizeof *s->previous, &s->previous));
        s->capacity = bytes;
    }
    s->n = 0;
    for (size_t i = 0; i < bytes; s->n++) {
        i += first_token(b, word + i, bytes - i, &s->token[s->n]);
        s->previous[s->n] = s->n - 1;
        s->next[s->n] = i < bytes ? s->n + 1 : -1;
    }
    return CHARL_OK;
}

/* The merge of the pair whose left token is at i; NULL for none. */
static const charl__merge *merge_at(const charl__bpe *b, const spelling *s, int32_t i)
{
    const charl__merge *m;

    if (i < 0 || s->token[i] < 0 || s->next[i] < 0) {
        return NULL;
    }
    m = find(b, s->token[i], s->token[s->next[i]]);
    return m->rank == CHARL__NO_RANK ? NULL : m;
}

static charl_status queue(const charl__bpe *b, spelling *s, int32_t i)
{
    const charl__merge *m = merge_at(b, s, i);

    return m ? charl__heap_push(&s->merges, -(int64_t)m->rank, (uint64_t)i) : CHARL_OK;
}

/* Merge a word of any length, in time n log n. */
static charl_status merge_long(const charl__bpe *b, spelling *s, const unsigned char *word, size_t bytes)
{
    charl__queued q;

    CHARL_TRY(spelling_begin(s, b, word, bytes));
    for (int32_t i = 0; i + 1 < s->n; i++) {
        CHARL_TRY(queue(b, s, i));
    }
    while (charl__heap_pop(&s->merges, &q)) {
        const int32_t i = (int32_t)q.key;
        const charl__merge *m = merge_at(b, s, i);
        int32_t right;

        if (!m || -(int64_t)m->rank != q.priority) { /* one of the two has been merged since */
            continue;
        }
        right = s->next[i];
        s->token[i] = m->token;
        s->token[right] = -1;
        s->next[i] = s->next[right];
        if (s->next[i] >= 0) {
            s->previous[s->next[i]] = i;
        }
        CHARL_TRY(queue(b, s, i));
        CHARL_TRY(queue(b, s, s->previous[i]));
    }
    return CHARL_OK;
}

/* The slot where a word of at most CACHED_BYTES is or would be, and its key. */
static cached *slot_of(struct charl__bpe_work *w, const unsigned char *word, size_t bytes, uint64_t key[KEY_WORDS])
{
    uint64_t hash;

    memset(key, 0, KEY_WORDS * sizeof *key);
    memcpy(key, word, bytes);
    ((unsigned char *)key)[CACHED_BYTES] = (unsigned char)bytes;
    hash = key[0] * UINT64_C(0x9e3779b97f4a7c15) ^ (key[1] ^ key[1] >> 31) * UINT64_C(0xbf58476d1ce4e5b9) ^
           (key[2] ^ key[2] >> 29) * UINT64_C(0x94d049bb133111eb) ^ key[3] * UINT64_C(0xd6e8feb86659fd93);
    return &w->cache[(hash ^ hash >> 32) * UINT64_C(0x9e3779b97f4a7c15) >> (64 - CACHE_BITS)];
}

static charl_status check_bytes(const charl__bpe *b, const unsigned char *word, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        CHARL_REQUIRE(b->byte_token[word[i]] >= 0, CHARL_ERR_DATA,
                      "the text has a byte 0x%02x, for which the tokenizer has no token", word[i]);
    }
    return CHARL_OK;
}

/* A word of the text while it is encoded. */
typedef struct waiting {
    const unsigned char *at;
    size_t bytes;
    cached *slot; /* NULL: it is not cached */
    uint64_t key[KEY_WORDS];
} waiting;

/* Emit the tokens of a word. */
static charl_status put_tokens(charl__encoder *e, const int32_t *token, int64_t n)
{
    const struct charl__bpe *b = e->work->bpe;

    for (int64_t i = 0; i < n; i++) {
        if (!(b->fuse_unknown && i > 0 && token[i] == b->unknown && token[i - 1] == b->unknown)) {
            CHARL_TRY(charl__encoder_put(e, token[i]));
        }
    }
    return CHARL_OK;
}

static charl_status put_word(charl__encoder *e, const waiting *word)
{
    struct charl__bpe_work *w = e->work;
    const size_t bytes = word->bytes;
    int32_t short_word[SHORT], *token = short_word;
    cached *slot = word->slot;
    int64_t n = 0;

    if (slot && memcmp(slot->key, word->key, sizeof word->key) == 0) {
        return put_tokens(e, slot->token, slot->n);
    }
    if (w->bpe->lacks_bytes) {
        CHARL_TRY(check_bytes(w->bpe, word->at, bytes));
    }
    if (w->bpe->whole_words && (token[0] = charl__token_index_find(&w->bpe->index, word->at, bytes)) >= 0) {
        n = 1;
    } else if (w->bpe->model != CHARL__MODEL_MERGES) {
        CHARL_TRY((w->bpe->model == CHARL__MODEL_UNIGRAM ? charl__unigram_encode : charl__wordpiece_encode)(
            w->bpe, &w->trie, word->at, bytes, &n));
        token = w->trie.token;
    } else if (bytes <= SHORT) {
        n = merge_short(w->bpe, word->at, (int)bytes, token);
    } else {
        CHARL_TRY(merge_long(w->bpe, &w->spelling, word->at, bytes));
        token = w->spelling.token;
        for (int32_t i = 0; i >= 0; i = w->spelling.next[i]) {
            token[n++] = token[i];
        }
    }
    if (slot && n <= CACHED_TOKENS) {
        memcpy(slot->key, word->key, sizeof slot->key);
        memcpy(slot->token, token, (size_t)n * sizeof *token);
        slot->n = (int32_t)n;
    }
    return put_tokens(e, token, n);
}

/* Several words at a time: their slots are loaded from memory together. */
static charl_status put_words(charl__encoder *e, const unsigned char *text, size_t bytes)
{
    struct charl__bpe_work *w = e->work;
    waiting words[AHEAD];
    int n;

    charl__words_begin(&w->words, text, bytes);
    do {
        for (n = 0; n < AHEAD; n++) {
            waiting *word = &words[n];

            CHARL_TRY(charl__words_next(&w->words, &word->at, &word->bytes));
            if (word->bytes == 0) {
                break;
            }
            word->slot = NULL;
            if (w->cache && word->bytes <= CACHED_BYTES) {
                word->slot = slot_of(w, word->at, word->bytes, word->key);
                __builtin_prefetch(word->slot);
            }
        }
        for (int i = 0; i < n; i++) {
            CHARL_TRY(put_word(e, &words[i]));
        }
    } while (n == AHEAD);
    return CHARL_OK;
}

/* The text with the spaces of SentencePiece: one in front if it begins a stretch, and one for each U+2581. `first`: it begins the whole text. */
static charl_status put_spaces(const charl__bpe *b, const unsigned char *text, size_t bytes, bool first, bool begins,
                               charl__text *out)
{
    const bool has_space = bytes > 0 && (text[0] == ' ' || (bytes >= 3 && memcmp(text, CHARL__SPACE_MARK, 3) == 0));

    charl__text_clear(out);
    if (bytes > 0 && begins && b->prefix & CHARL__PRETRAINED_PREFIX &&
        (first || !(b->prefix & CHARL__PRETRAINED_PREFIX_FIRST)) &&
        !(has_space && b->prefix & CHARL__PRETRAINED_PREFIX_UNLESS)) {
        CHARL_TRY(charl__text_append(out, " ", 1));
    }
    return charl__pretrained_put_spaces(out, (const char *)text, bytes);
}

/* Text between tokens that were found in the unnormalized text. `first`: it begins the whole text. */
static charl_status put_section(charl__encoder *e, const unsigned char *text, size_t bytes, bool first)
{
    const charl__bpe *b = e->work->bpe;
    const bool begins = !(first && e->continues);
    size_t at = 0;

    for (int i = 0; i < b->normalizers; i++) {
        charl__text *out = &e->work->normal[i % 2];

        charl__text_clear(out);
        CHARL_TRY(charl__normalizer_apply(&b->normalizer[i], begins, text, bytes, out));
        text = (const unsigned char *)charl__text_string(out);
        bytes = out->length;
    }
    if (b->characters) {
        charl__text *out = &e->work->normal[b->normalizers % 2];

        CHARL_TRY(put_spaces(b, text, bytes, first, begins, out));
        text = (const unsigned char *)charl__text_string(out);
        bytes = out->length;
    }
    e->work->trie.score = 0;
    while (at < bytes) {
        size_t end;
        int32_t token;
        const size_t begin = charl__added_tokens_find(&b->normalized, e->special, text, bytes, at, &end, &token);

        CHARL_TRY(put_words(e, text + at, begin - at));
        if (token >= 0) {
            CHARL_TRY(charl__encoder_put(e, token));
            e->work->trie.score += b->sentence ? b->score[token] : 0;
        }
        at = end;
    }
    return CHARL_OK;
}

static charl_status begin(charl__encoder *e, size_t bytes)
{
    if (!e->work) {
        CHARL_TRY(charl__alloc(sizeof *e->work, &e->work));
        e->work->bpe = e->t->bpe;
        CHARL_TRY(charl__words_init(&e->work->words, e->t->bpe->splitter));
    }
    e->work->bytes += bytes;
    if (!e->work->cache && !e->t->bpe->sentence && e->work->bytes >= CACHE_FROM) {
        CHARL_TRY(charl__alloc_array((int64_t)1 << CACHE_BITS, sizeof *e->work->cache, &e->work->cache));
    }
    return CHARL_OK;
}

charl_status charl__bpe_encode(charl__encoder *e, const unsigned char *text, size_t bytes)
{
    size_t at = 0;

    CHARL_TRY(begin(e, bytes));
    while (at < bytes) {
        size_t end;
        int32_t token;
        const size_t found = charl__added_tokens_find(&e->t->bpe->added, e->special, text, bytes, at, &end, &token);

        CHARL_TRY(put_section(e, text + at, found - at, at == 0));
        if (token >= 0) {
            CHARL_TRY(charl__encoder_put(e, token));
        }
        at = end;
    }
    return CHARL_OK;
}
