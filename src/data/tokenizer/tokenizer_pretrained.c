/* A tokenizer that others have published, whatever files it came in.
 *
 * Its state is bytes; numbers are u32, little-endian:
 *
 *     "charl tokenizer 1\n"
 *     flags (CHARL__PRETRAINED_), steps, tokens, merges
 *     per step    0, or 1 for matches_only, length of the pattern, the pattern; of a normalizer 2 + its kind (charl__normalizer_kind), and instead
 *                 of the pattern the length of `from`, `from`, `to`
 *     per token   length of its text << 8 | use (CHARL__TOKEN_)
 *     per merge   the two tokens; of characters by rank: the token that is made, and the rank of such merges; of unigram: the score of token i
 *     the texts of all tokens
 */
#define _GNU_SOURCE /* memmem */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/pretrained.h"

static const char magic[] = "charl tokenizer 1\n";

enum { MAGIC = sizeof magic - 1, MOST_TEXT = 1 << 16 };

charl_status charl__pretrained_add_step(charl__pretrained *p, const char *pattern, bool matches_only)
{
    CHARL_REQUIRE(p->n_steps < CHARL__SPLITTER_STEPS, CHARL_ERR_DATA, "a text is split in more than %d steps",
                  CHARL__SPLITTER_STEPS);
    CHARL_TRY(charl__strdup(pattern, &p->step[p->n_steps].pattern));
    p->step[p->n_steps++].matches_only = matches_only;
    return CHARL_OK;
}

charl_status charl__pretrained_add_normalizer(charl__pretrained *p, charl__normalizer_kind kind, const void *from,
                                              size_t from_bytes, const void *to, size_t to_bytes)
{
    struct charl__pretrained_normalizer *n = &p->normalizer[p->n_normalizers];

    CHARL_REQUIRE(p->n_normalizers < CHARL__NORMALIZERS, CHARL_ERR_DATA, "a text is normalized in more than %d steps",
                  CHARL__NORMALIZERS);
    n->kind = kind;
    p->n_normalizers++;
    CHARL_TRY(charl__text_append(&n->from, from, from_bytes));
    return charl__text_append(&n->to, to, to_bytes);
}

charl_status charl__pretrained_add_token(charl__pretrained *p, int64_t id, const void *text, size_t bytes, unsigned use)
{
    charl__pretrained_token *t;

    CHARL_REQUIRE(id >= 0 && id < CHARL__TOKENIZER_MAX_VOCAB, CHARL_ERR_DATA, "token %lld is outside [0,%d)",
                  (long long)id, CHARL__TOKENIZER_MAX_VOCAB);
    CHARL_REQUIRE(bytes > 0 && bytes < MOST_TEXT, CHARL_ERR_DATA, "token %lld has %zu bytes", (long long)id, bytes);
    if (id >= p->capacity) {
        const int64_t capacity = 2 * id + 1024;

        CHARL_TRY(charl__realloc((size_t)capacity * sizeof *p->tokens, &p->tokens));
        memset(p->tokens + p->capacity, 0, (size_t)(capacity - p->capacity) * sizeof *p->tokens);
        p->capacity = capacity;
    }
    t = &p->tokens[id];
    if (t->bytes == 0) {
        *t = (charl__pretrained_token){.at = p->texts.length, .bytes = bytes};
        CHARL_TRY(charl__text_append(&p->texts, text, bytes));
    }
    CHARL_REQUIRE(t->bytes == bytes && memcmp(p->texts.data + t->at, text, bytes) == 0, CHARL_ERR_DATA,
                  "token %lld is \"%.*s\" and \"%.*s\"", (long long)id, (int)t->bytes, p->texts.data + t->at,
                  (int)bytes, (const char *)text);
    t->use |= (unsigned char)use;
    p->vocab = id >= p->vocab ? id + 1 : p->vocab;
    return CHARL_OK;
}

/* The byte of "<0x41>"; -1: it is another text. */
static int byte_of(const char *word, size_t bytes)
{
    int byte = 0;

    if (bytes != 6 || memcmp(word, "<0x", 3) != 0 || word[5] != '>') {
        return -1;
    }
    for (int i = 3; i < 5; i++) {
        const char *digits = "0123456789ABCDEF", *d = word[i] ? strchr(digits, word[i]) : NULL;

        if (!d) {
            return -1;
        }
        byte = 16 * byte + (int)(d - digits);
    }
    return byte;
}

charl_status charl__pretrained_put_spaces(charl__text *out, const char *text, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        const char *next = memmem(text + at, bytes - at, CHARL__SPACE_MARK, strlen(CHARL__SPACE_MARK));
        const size_t end = next ? (size_t)(next - text) : bytes;

        CHARL_TRY(charl__text_append(out, text + at, end - at));
        if (next) {
            CHARL_TRY(charl__text_append(out, " ", 1));
        }
        at = next ? end + strlen(CHARL__SPACE_MARK) : end;
    }
    return CHARL_OK;
}

charl_status charl__pretrained_add_piece(charl__pretrained *p, int64_t id, const char *word, size_t bytes, unsigned use)
{
    CHARL_SCOPED(charl__text_fini) charl__text text = {0};
    const int byte = use == CHARL__TOKEN_MERGED ? byte_of(word, bytes) : -1;
    const unsigned char c = (unsigned char)byte;

    if (byte >= 0) {
        return charl__pretrained_add_token(p, id, &c, 1, CHARL__TOKEN_BYTE);
    }
    CHARL_TRY(charl__pretrained_put_spaces(&text, word, bytes));
    return charl__pretrained_add_token(p, id, charl__text_string(&text), text.length, use);
}

charl_status charl__pretrained_add_wordpiece(charl__pretrained *p, int64_t id, const char *word, size_t bytes)
{
    CHARL_SCOPED(charl__text_fini) charl__text text = {0};

    if (bytes > 2 && memcmp(word, "##", 2) == 0) {
        return charl__pretrained_add_token(p, id, word + 2, bytes - 2, CHARL__TOKEN_MERGED);
    }
    CHARL_TRY(charl__text_append(&text, " ", 1));
    CHARL_TRY(charl__text_append(&text, word, bytes));
    return charl__pretrained_add_token(p, id, charl__text_string(&text), text.length, CHARL__TOKEN_MERGED);
}

charl_status charl__pretrained_split_at_spaces(charl__pretrained *p)
{
    if (p->n_steps > 0) {
        return CHARL_OK;
    }
    p->flags |= p->flags & CHARL__PRETRAINED_UNIGRAM ? CHARL__PRETRAINED_SENTENCE : 0;
    for (int64_t i = 0; i < p->vocab; i++) {
        const charl__pretrained_token *t = &p->tokens[i];
        const char *text = charl__text_string(&p->texts) + t->at;

        for (size_t k = 1; t->use & CHARL__TOKEN_MERGED && k < t->bytes; k++) {
            if (text[k] == ' ' && text[k - 1] != ' ') {
                return CHARL_OK;
            }
        }
    }
    return charl__pretrained_add_step(p, " *[^ ]+| +", false);
}

charl_status charl__pretrained_add_merge(charl__pretrained *p, int32_t left, int32_t right)
{
    CHARL_TRY(charl__grow(p->n_merges, 2 * sizeof *p->merges, &p->merges));
    p->merges[2 * p->n_merges] = (uint32_t)left;
    p->merges[2 * p->n_merges + 1] = (uint32_t)right;
    p->n_merges++;
    return CHARL_OK;
}

charl_status charl__pretrained_add_score(charl__pretrained *p, double score)
{
    uint64_t bits;

    memcpy(&bits, &score, sizeof bits);
    return charl__pretrained_add_merge(p, (int32_t)(uint32_t)bits, (int32_t)(uint32_t)(bits >> 32));
}

void charl__pretrained_fini(charl__pretrained *p)
{
    for (int i = 0; i < p->n_normalizers; i++) {
        charl__text_fini(&p->normalizer[i].from);
        charl__text_fini(&p->normalizer[i].to);
    }
    for (int i = 0; i < p->n_steps; i++) {
        charl_free(p->step[i].pattern);
    }
    charl_free(p->tokens);
    charl_free(p->merges);
    charl__text_fini(&p->texts);
    *p = (charl__pretrained){0};
}

static charl_status put_u32(charl__text *out, uint64_t v)
{
    const unsigned char bytes[4] = {(unsigned char)v, (unsigned char)(v >> 8), (unsigned char)(v >> 16),
                                    (unsigned char)(v >> 24)};

    return charl__text_append(out, bytes, sizeof bytes);
}

charl_status charl__pretrained_finish(const charl__pretrained *p, charl_tokenizer **out)
{
    CHARL_SCOPED(charl__text_fini) charl__text state = {0};
    size_t length;

    *out = NULL;
    CHARL_TRY(charl__text_append(&state, magic, MAGIC));
    CHARL_TRY(put_u32(&state, p->flags));
    CHARL_TRY(put_u32(&state, (uint64_t)(p->n_normalizers + p->n_steps)));
    CHARL_TRY(put_u32(&state, (uint64_t)p->vocab));
    CHARL_TRY(put_u32(&state, (uint64_t)p->n_merges));
    for (int i = 0; i < p->n_normalizers; i++) {
        const struct charl__pretrained_normalizer *n = &p->normalizer[i];

        CHARL_TRY(put_u32(&state, 2 + (uint64_t)n->kind));
        CHARL_TRY(put_u32(&state, 4 + n->from.length + n->to.length));
        CHARL_TRY(put_u32(&state, n->from.length));
        CHARL_TRY(charl__text_append(&state, charl__text_string(&n->from), n->from.length));
        CHARL_TRY(charl__text_append(&state, charl__text_string(&n->to), n->to.length));
    }
    for (int i = 0; i < p->n_steps; i++) {
        CHARL_TRY(put_u32(&state, p->step[i].matches_only));
        CHARL_TRY(put_u32(&state, strlen(p->step[i].pattern)));
        CHARL_TRY(charl__text_append(&state, p->step[i].pattern, strlen(p->step[i].pattern)));
    }
    for (int64_t i = 0; i < p->vocab; i++) {
        CHARL_TRY(put_u32(&state, p->tokens[i].bytes << 8 | p->tokens[i].use));
    }
    for (int64_t i = 0; i < 2 * p->n_merges; i++) {
        CHARL_TRY(put_u32(&state, p->merges[i]));
    }
    for (int64_t i = 0; i < p->vocab; i++) {
        CHARL_TRY(charl__text_append(&state, charl__text_string(&p->texts) + p->tokens[i].at, p->tokens[i].bytes));
    }
    length = state.length;
    CHARL_TRY(charl__tokenizer_create(charl__tokenizer_layout_find("pretrained"), charl__text_steal(&state),
                                      (int64_t)length, out));
    return CHARL_OK;
}

/* A state while it is read. */
typedef struct reader {
    const unsigned char *state;
    size_t length, at;
} reader;

static charl_status read_bytes(reader *r, size_t n, const unsigned char **out)
{
    *out = r->state + r->at;
    CHARL_REQUIRE(n <= r->length - r->at, CHARL_ERR_DATA, "the tokenizer ends after %zu bytes", r->length);
    r->at += n;
    return CHARL_OK;
}

static uint32_t u32_at(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static charl_status read_u32(reader *r, uint32_t *out)
{
    const unsigned char *p;

    *out = 0;
    CHARL_TRY(read_bytes(r, 4, &p));
    *out = u32_at(p);
    return CHARL_OK;
}

static charl_status read_normalizer(uint32_t kind, const unsigned char *text, uint32_t length, charl__normalizer *n)
{
    const uint32_t from = length >= 4 ? u32_at(text) : UINT32_MAX;

    CHARL_REQUIRE(
        kind < CHARL__NORMALIZER_KINDS && length >= 4 && from <= length - 4, CHARL_ERR_DATA,
        "the tokenizer has a normalizer of kind %u and %u bytes: it is of a later version of charl, or damaged", kind,
        length);
    *n = (charl__normalizer){(charl__normalizer_kind)kind, text + 4, text + 4 + from, from, length - 4 - from};
    return charl__normalizer_check(n);
}

/* Normalizers, and steps of splitting. */
static charl_status read_steps(reader *r, uint32_t n, charl__pretrained_parts *out)
{
    out->n_steps = out->n_normalizers = 0;
    for (uint32_t i = 0; i < n; i++) {
        const unsigned char *text;
        uint32_t kind, length;

        CHARL_TRY(read_u32(r, &kind));
        CHARL_TRY(read_u32(r, &length));
        CHARL_TRY(read_bytes(r, length, &text));
        CHARL_REQUIRE(kind < 2 ? out->n_steps < CHARL__SPLITTER_STEPS : out->n_normalizers < CHARL__NORMALIZERS,
                      CHARL_ERR_DATA, "the tokenizer changes and splits texts in %u steps", n);
        if (kind < 2) {
            out->step[out->n_steps++] = (charl__split_step){(const char *)text, length, kind == 1};
        } else {
            CHARL_TRY(read_normalizer(kind - 2, text, length, &out->normalizer[out->n_normalizers++]));
        }
    }
    return CHARL_OK;
}

/* Add an added token to the trie in which it is found. */
static charl_status add_added(charl_tokenizer *t, int32_t id, unsigned use)
{
    const unsigned char *text = t->bytes + t->starts[id];
    size_t bytes = (size_t)(t->starts[id + 1] - t->starts[id]);
    CHARL_SCOPED(charl__text_fini) charl__text normal = {0}, next = {0};

    /* A symbol of SentencePiece is found before its map is applied: the readers take care that it stays as it is. */
    for (int i = 0; use & CHARL__TOKEN_NORMALIZED && !t->bpe->characters && i < t->bpe->normalizers; i++) {
        charl__text_clear(&next);
        CHARL_TRY(charl__normalizer_apply(&t->bpe->normalizer[i], true, text, bytes, &next));
        charl__text_fini(&normal);
        normal = next;
        next = (charl__text){0};
        text = (const unsigned char *)charl__text_string(&normal);
        bytes = normal.length;
    }
    CHARL_REQUIRE(bytes > 0, CHARL_ERR_DATA, "nothing of the added token %d is left when it is normalized", id);
    CHARL_TRY(charl__added_tokens_add(use & CHARL__TOKEN_NORMALIZED ? &t->bpe->normalized : &t->bpe->added,
                                      &(charl__added_node){.token = id,
                                                           .special = (use & CHARL__TOKEN_SPECIAL) != 0,
                                                           .lstrip = (use & CHARL__TOKEN_LSTRIP) != 0,
                                                           .rstrip = (use & CHARL__TOKEN_RSTRIP) != 0},
                                      text, bytes));
    return CHARL_OK;
}

/* The tokens of single bytes. */
static charl_status find_bytes(charl_tokenizer *t, const unsigned char *heads, const charl__token_index *index)
{
    int lacking = 0;

    for (int i = 0; i < 256; i++) {
        const unsigned char byte = (unsigned char)i;

        t->bpe->byte_token[i] = t->bpe->characters ? -1 : charl__token_index_find(index, &byte, 1);
    }
    for (int64_t i = 0; i < t->vocab; i++) {
        if (heads[4 * i] & CHARL__TOKEN_BYTE && t->starts[i + 1] - t->starts[i] == 1) {
            t->bpe->byte_token[t->bytes[t->starts[i]]] = (int32_t)i;
        }
    }
    for (int i = 0; i < 256; i++) {
        lacking += t->bpe->byte_token[i] < 0;
    }
    t->bpe->lacks_bytes = !t->bpe->characters && lacking > 0 && t->bpe->model == CHARL__MODEL_MERGES;
    CHARL_REQUIRE(!t->bpe->characters || lacking == 0 || (lacking == 256 && t->bpe->unknown >= 0), CHARL_ERR_DATA,
                  "the vocabulary of characters has %d of the 256 tokens of bytes (<0x00> to <0xFF>) and %s unknown "
                  "token; a character without a token needs all of the bytes, or none of them and an unknown token",
                  256 - lacking, t->bpe->unknown < 0 ? "no" : "an");
    return CHARL_OK;
}

/* `index` gets the tokens that merges make. */
static charl_status read_tokens(charl_tokenizer *t, const unsigned char *heads, const unsigned char *texts,
                                charl__token_index *index)
{
    memcpy(t->bytes, texts, (size_t)t->starts[t->vocab]);
    CHARL_TRY(charl__token_index_init(index, t->vocab, t->bytes, t->starts));
    for (int64_t i = 0; i < t->vocab; i++) {
        const unsigned use = heads[4 * i];

        t->special[i] = (use & CHARL__TOKEN_SPECIAL) != 0;
        if (use & CHARL__TOKEN_UNKNOWN) {
            CHARL_REQUIRE(t->bpe->unknown < 0, CHARL_ERR_DATA, "tokens %d and %lld are both for unknown text",
                          t->bpe->unknown, (long long)i);
            t->bpe->unknown = (int32_t)i;
        }
        if (use & CHARL__TOKEN_MERGED) {
            const int32_t before = charl__token_index_add(index, (int32_t)i);

            CHARL_REQUIRE(before < 0, CHARL_ERR_DATA, "tokens %d and %lld are the same", before, (long long)i);
        }
        if (use & CHARL__TOKEN_ADDED) {
            CHARL_TRY(add_added(t, (int32_t)i, use));
        }
    }
    return find_bytes(t, heads, index);
}

static charl_status read_merges(charl_tokenizer *t, const unsigned char *merges, int64_t n,
                                const charl__token_index *index)
{
    CHARL_SCOPED(charl__text_fini) charl__text both = {0};

    CHARL_TRY(charl__merge_table_init(&t->bpe->merges, n));
    for (int64_t i = 0; i < n; i++) {
        const uint32_t left = u32_at(merges + 8 * i), right = u32_at(merges + 8 * i + 4);
        int32_t token;
        bool known;

        CHARL_REQUIRE(left < t->vocab && right < t->vocab, CHARL_ERR_DATA, "merge %lld is of tokens %u and %u of %lld",
                      (long long)i, left, right, (long long)t->vocab);
        charl__text_clear(&both);
        CHARL_TRY(
            charl__text_append(&both, t->bytes + t->starts[left], (size_t)(t->starts[left + 1] - t->starts[left])));
        CHARL_TRY(
            charl__text_append(&both, t->bytes + t->starts[right], (size_t)(t->starts[right + 1] - t->starts[right])));
        token = charl__token_index_find(index, (const unsigned char *)charl__text_string(&both), both.length);
        CHARL_REQUIRE(token >= 0, CHARL_ERR_DATA, "merge %lld makes \"%.*s\", which is not in the vocabulary",
                      (long long)i, (int)both.length, charl__text_string(&both));
        charl__merge_add(&t->bpe->merges, (int32_t)left, (int32_t)right, (uint32_t)i, token, &known);
        CHARL_REQUIRE(!known, CHARL_ERR_DATA, "merge %lld is given twice", (long long)i);
    }
    return CHARL_OK;
}

/* Add a merge for every pair of tokens that together are a token, of the rank of that token; NULL: its number. With `add` false they are only
 * counted. */
static int64_t each_pair(const charl_tokenizer *t, const unsigned char *heads, const charl__token_index *index,
                         const uint32_t *rank, bool add)
{
    int64_t n = 0;
    bool known;

    for (int64_t i = 0; i < t->vocab; i++) {
        const unsigned char *text = t->bytes + t->starts[i];
        const size_t bytes = (size_t)(t->starts[i + 1] - t->starts[i]);

        for (size_t cut = 1; heads[4 * i] & CHARL__TOKEN_MERGED && cut < bytes; cut++) {
            const int32_t left = charl__token_index_find(index, text, cut);
            const int32_t right = left < 0 ? -1 : charl__token_index_find(index, text + cut, bytes - cut);

            if (right >= 0) {
                n++;
                if (add) {
                    charl__merge_add(&t->bpe->merges, left, right, rank ? rank[i] : (uint32_t)i, (int32_t)i, &known);
                }
            }
        }
    }
    return n;
}

static charl_status read_ranks(const charl_tokenizer *t, const unsigned char *merges, int64_t n, uint32_t *rank)
{
    for (int64_t i = 0; i < n; i++) {
        const uint32_t token = u32_at(merges + 8 * i), own = u32_at(merges + 8 * i + 4);

        CHARL_REQUIRE(token < t->vocab && own < CHARL__NO_RANK, CHARL_ERR_DATA, "rank %u of token %u of %lld", own,
                      token, (long long)t->vocab);
        rank[token] = own;
    }
    return CHARL_OK;
}

static charl_status read_scores(charl_tokenizer *t, const unsigned char *heads, const unsigned char *scores, int64_t n)
{
    double least = 0;

    CHARL_REQUIRE(n == t->vocab, CHARL_ERR_DATA, "there are %lld scores of %lld tokens", (long long)n,
                  (long long)t->vocab);
    CHARL_TRY(charl__alloc_array(n, sizeof *t->bpe->score, &t->bpe->score));
    for (int64_t i = 0; i < n; i++) {
        const uint64_t bits = u32_at(scores + 8 * i) | (uint64_t)u32_at(scores + 8 * i + 4) << 32;

        memcpy(&t->bpe->score[i], &bits, sizeof bits);
        CHARL_REQUIRE(isfinite(t->bpe->score[i]) && fabs(t->bpe->score[i]) < 1e30, CHARL_ERR_DATA,
                      "the score of token %lld is %g", (long long)i, t->bpe->score[i]);
        if (heads[4 * i] & CHARL__TOKEN_MERGED && t->bpe->score[i] < least) {
            least = t->bpe->score[i];
        }
    }
    t->bpe->unknown_score = t->bpe->single ? (double)((float)least - 10.0f) : least - 10.0;
    return CHARL_OK;
}

/* The rest of the state, whose numbers of steps, tokens and merges are in `count`. */
static charl_status read_rest(reader *r, const uint32_t count[3], bool by_rank, charl_tokenizer *t,
                              charl__token_index *index)
{
    charl__pretrained_parts parts;
    const unsigned char *heads, *merges, *texts;
    CHARL_SCOPED_FREE uint32_t *rank = NULL;
    int64_t total = 0;

    CHARL_TRY(read_steps(r, count[0], &parts));
    CHARL_TRY(charl__splitter_create(parts.step, parts.n_steps, &t->bpe->splitter));
    memcpy(t->bpe->normalizer, parts.normalizer, sizeof parts.normalizer);
    t->bpe->normalizers = parts.n_normalizers;
    CHARL_TRY(read_bytes(r, (size_t)count[1] * 4, &heads));
    CHARL_TRY(read_bytes(r, (size_t)count[2] * 8, &merges));
    for (uint32_t i = 0; i < count[1]; i++) {
        total += u32_at(heads + 4 * (size_t)i) >> 8;
    }
    CHARL_TRY(read_bytes(r, (size_t)total, &texts));
    CHARL_REQUIRE(r->at == r->length, CHARL_ERR_DATA, "there are bytes after the %zu of the tokenizer", r->at);
    CHARL_TRY(charl__tokens_create(t, count[1], total));
    CHARL_TRY(charl__alloc_array(t->vocab, sizeof *t->special, &t->special));
    for (int64_t i = 0; i < t->vocab; i++) {
        t->starts[i + 1] = t->starts[i] + (u32_at(heads + 4 * i) >> 8);
    }
    CHARL_TRY(read_tokens(t, heads, texts, index));
    if (t->bpe->model != CHARL__MODEL_MERGES) {
        CHARL_TRY(charl__trie_init(&t->bpe->trie, t, heads, CHARL__TOKEN_MERGED));
        if (t->bpe->model == CHARL__MODEL_UNIGRAM) {
            return read_scores(t, heads, merges, count[2]);
        }
        CHARL_REQUIRE(t->bpe->unknown >= 0, CHARL_ERR_DATA, "the WordPiece vocabulary has no unknown token");
        return CHARL_OK;
    }
    if (!by_rank) {
        return read_merges(t, merges, count[2], index);
    }
    if (t->bpe->characters) {
        CHARL_TRY(charl__alloc_array(t->vocab, sizeof *rank, &rank));
        CHARL_TRY(read_ranks(t, merges, count[2], rank));
    }
    CHARL_TRY(charl__merge_table_init(&t->bpe->merges, each_pair(t, heads, index, NULL, false)));
    (void)each_pair(t, heads, index, rank, true);
    return CHARL_OK;
}

/* The beginning of a state: flags, and the numbers of steps, tokens and merges. */
static charl_status read_head(reader *r, uint32_t *flags, uint32_t count[3])
{
    const unsigned char *head;

    CHARL_TRY(read_bytes(r, MAGIC, &head));
    CHARL_REQUIRE(memcmp(head, magic, MAGIC) == 0, CHARL_ERR_DATA,
                  "the tokenizer is of a later version of charl, or damaged");
    CHARL_TRY(read_u32(r, flags));
    for (int i = 0; i < 3; i++) {
        CHARL_TRY(read_u32(r, &count[i]));
    }
    return CHARL_OK;
}

charl_status charl__pretrained_get_parts(const charl_tokenizer *t, charl__pretrained_parts *out)
{
    reader r = {t->state, (size_t)t->n, 0};
    uint32_t count[3];

    CHARL_TRY(read_head(&r, &out->flags, count));
    CHARL_TRY(read_steps(&r, count[0], out));
    return read_bytes(&r, (size_t)count[1] * 4, &out->heads);
}

static charl_status become(charl_tokenizer *t)
{
    reader r = {t->state, (size_t)t->n, 0};
    CHARL_SCOPED(charl__token_index_fini) charl__token_index index = {0};
    uint32_t flags, count[3];

    CHARL_TRY(read_head(&r, &flags, count));
    CHARL_REQUIRE((flags & ~(uint32_t)CHARL__PRETRAINED_FLAGS) == 0 && count[1] <= CHARL__TOKENIZER_MAX_VOCAB &&
                      !(flags & CHARL__PRETRAINED_WORDPIECE &&
                        flags & (CHARL__PRETRAINED_UNIGRAM | CHARL__PRETRAINED_CHARACTERS)) &&
                      (flags & CHARL__PRETRAINED_CHARACTERS || !(flags & CHARL__PRETRAINED_UNIGRAM)) &&
                      (flags & CHARL__PRETRAINED_UNIGRAM || !(flags & CHARL__PRETRAINED_SENTENCE)),
                  CHARL_ERR_DATA,
                  "the tokenizer has flags %u and %u tokens: it was stored by another version of charl, or is damaged",
                  flags, count[1]);
    CHARL_TRY(charl__bpe_create(&t->bpe));
    t->bpe->model = flags & CHARL__PRETRAINED_UNIGRAM     ? CHARL__MODEL_UNIGRAM
                    : flags & CHARL__PRETRAINED_WORDPIECE ? CHARL__MODEL_WORDPIECE
                                                          : CHARL__MODEL_MERGES;
    t->bpe->fuse_unknown = (flags & CHARL__PRETRAINED_FUSE_UNKNOWN) != 0;
    t->bpe->single = (flags & CHARL__PRETRAINED_SINGLE) != 0;
    t->bpe->sentence = (flags & CHARL__PRETRAINED_SENTENCE) != 0;
    t->bpe->whole_words = (flags & CHARL__PRETRAINED_WHOLE_WORDS) != 0;
    t->bpe->characters = (flags & CHARL__PRETRAINED_CHARACTERS) != 0;
    t->bpe->prefix =
        flags & (CHARL__PRETRAINED_PREFIX | CHARL__PRETRAINED_PREFIX_FIRST | CHARL__PRETRAINED_PREFIX_UNLESS);
    CHARL_TRY(read_rest(&r, count, (flags & CHARL__PRETRAINED_BY_RANK) != 0, t, &index));
    CHARL_TRY(charl__bpe_find_cuts(t->bpe));
    if (t->bpe->whole_words || t->bpe->characters) {
        t->bpe->index = index;
        index = (charl__token_index){0};
    }
    return CHARL_OK;
}

const charl__tokenizer_type charl__tokenizer_pretrained = {
    .row = {.name = "pretrained", .help = "read from published files: byte pair encoding, Unigram or WordPiece"},
    .become = become,
    .encode = charl__bpe_encode,
};
