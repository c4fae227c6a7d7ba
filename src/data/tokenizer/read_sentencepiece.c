/* tokenizer.model of SentencePiece: a message of Protocol Buffers (sentencepiece_model.proto) with the pieces, their scores and types, and how
 * text is normalized. In models of type BPE, as those of Llama 2 and Mistral, of two neighbours that are a piece together those with the highest
 * score are merged first; in those of type Unigram, as those of T5 and XLM-R, the pieces with the highest sum of scores are taken. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "data/tokenizer/pretrained.h"

/* Types of pieces. */
enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6 };

/* Types of models. */
enum { UNIGRAM = 1, BPE = 2 };

/* Wire types: how the value of a field is written. */
enum { VARINT = 0, EIGHT_BYTES = 1, MESSAGE = 2, FOUR_BYTES = 5 };

/* A message while it is read, and its last field. */
typedef struct reader {
    const unsigned char *at, *end;
    uint64_t field, number; /* number: of a VARINT or FOUR_BYTES */
    const unsigned char *bytes;
    size_t length; /* bytes[0, length) of a MESSAGE, or of a text */
} reader;

static charl_status get_varint(reader *r, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        CHARL_REQUIRE(r->at < r->end, CHARL_ERR_DATA, "it is cut short, or not a model of SentencePiece");
        *out |= (uint64_t)(*r->at & 0x7f) << shift;
        if (*r->at++ < 0x80) {
            return CHARL_OK;
        }
    }
    CHARL_FAIL(CHARL_ERR_DATA, "it is damaged, or not a model of SentencePiece");
    return CHARL_OK;
}

/* The next field. */
static charl_status next(reader *r)
{
    uint64_t key = 0, length = 0;

    CHARL_TRY(get_varint(r, &key));
    r->field = key >> 3;
    r->number = 0;
    r->length = 0;
    r->bytes = r->at;
    switch (key & 7) {
    case VARINT:
        return get_varint(r, &r->number);
    case FOUR_BYTES:
    case EIGHT_BYTES:
        length = (key & 7) == FOUR_BYTES ? 4 : 8;
        break;
    case MESSAGE:
        CHARL_TRY(get_varint(r, &length));
        break;
    default:
        CHARL_FAIL(CHARL_ERR_DATA, "it is damaged, or not a model of SentencePiece");
    }
    CHARL_REQUIRE(length <= (uint64_t)(r->end - r->at), CHARL_ERR_DATA,
                  "it is cut short, or not a model of SentencePiece");
    r->bytes = r->at;
    r->length = (size_t)length;
    r->at += length;
    return CHARL_OK;
}

static reader inner(const reader *r)
{
    return (reader){.at = r->bytes, .end = r->bytes + r->length};
}

/* A piece; only a normal one has a score. */
typedef struct scored {
    int64_t token;
    float score;
    bool normal;
    size_t symbol; /* bytes of a user-defined one; 0: it is none */
} scored;

typedef struct scores {
    scored *piece;
    int64_t n;
    float highest;  /* of normal pieces */
    bool any;       /* normal pieces */
    int64_t unused; /* one more than the first piece of type UNUSED; 0: none */
} scores;

static void scores_fini(scores *l)
{
    charl_free(l->piece);
}

/* One piece, token `id`. */
static charl_status read_piece(reader r, int64_t id, scores *l, charl__pretrained *p)
{
    static const unsigned uses[] = {
        [NORMAL] = CHARL__TOKEN_MERGED,
        [UNKNOWN] = CHARL__TOKEN_ADDED | CHARL__TOKEN_SPECIAL | CHARL__TOKEN_UNKNOWN,
        [CONTROL] = CHARL__TOKEN_ADDED | CHARL__TOKEN_SPECIAL,
        [USER_DEFINED] = CHARL__TOKEN_ADDED | CHARL__TOKEN_NORMALIZED,
        [UNUSED] = 0,
        [BYTE] = CHARL__TOKEN_MERGED,
    };
    const char *word = NULL;
    size_t bytes = 0;
    float score = 0;
    uint64_t type = NORMAL;

    while (r.at < r.end) {
        CHARL_TRY(next(&r));
        if (r.field == 1) {
            word = (const char *)r.bytes;
            bytes = r.length;
        } else if (r.field == 2 && r.length == sizeof score) {
            memcpy(&score, r.bytes, sizeof score);
        } else if (r.field == 3) {
            type = r.number;
        }
    }
    CHARL_REQUIRE(word && bytes > 0 && type >= NORMAL && type <= BYTE, CHARL_ERR_DATA,
                  "piece %lld has no text, or a type that is not known", (long long)id);
    l->unused = type == UNUSED && !l->unused ? id + 1 : l->unused;
    if (memchr(word, ' ', bytes)) {
        type = UNUSED; /* no text has it: spaces are U+2581 before pieces are looked for */
    }
    CHARL_TRY(charl__grow(l->n, sizeof *l->piece, &l->piece));
    l->piece[l->n++] = (scored){id, type == NORMAL ? score : 0, type == NORMAL, type == USER_DEFINED ? bytes : 0};
    l->highest = type == NORMAL && (!l->any || score > l->highest) ? score : l->highest;
    l->any = l->any || type == NORMAL;
    if (type == NORMAL || type == BYTE || type == USER_DEFINED) {
        return charl__pretrained_add_piece(p, id, word, bytes, uses[type]);
    }
    return charl__pretrained_add_token(p, id, word, bytes, uses[type]);
}

static int by_score(const void *a, const void *b)
{
    const scored *x = a, *y = b;

    return x->score != y->score ? (x->score < y->score) - (x->score > y->score)
                                : (x->token > y->token) - (x->token < y->token);
}

/* Ranks in the order of scores: equal ones for equal scores, of which the leftmost pair of a word is merged first. Of Unigram the scores. */
static charl_status add_scores(scores *l, charl__pretrained *p)
{
    int32_t rank = 0;
    int64_t n = 0;

    for (int64_t i = 0; p->flags & CHARL__PRETRAINED_UNIGRAM && i < l->n; i++) {
        const scored *s = &l->piece[i]; /* a symbol is always taken: SentencePiece gives it this score */

        CHARL_TRY(charl__pretrained_add_score(p, s->symbol > 0 ? (double)((float)s->symbol * l->highest) - 0.1
                                                               : (double)s->score));
    }
    if (p->flags & CHARL__PRETRAINED_UNIGRAM) {
        return CHARL_OK;
    }
    CHARL_REQUIRE(!l->unused, CHARL_ERR_DATA,
                  "piece %lld is of type UNUSED, which is not supported in BPE: texts would be split in another way",
                  (long long)(l->unused - 1));
    for (int64_t i = 0; i < l->n; i++) {
        if (l->piece[i].normal) {
            l->piece[n++] = l->piece[i];
        }
    }
    if (n > 0) {
        qsort(l->piece, (size_t)n, sizeof *l->piece, by_score);
    }
    for (int64_t i = 0; i < n; i++) {
        rank += i > 0 && l->piece[i].score != l->piece[i - 1].score;
        CHARL_TRY(charl__pretrained_add_merge(p, (int32_t)l->piece[i].token, rank));
    }
    return CHARL_OK;
}

static charl_status read_trainer(reader r, charl__pretrained *p)
{
    uint64_t type = 1;
    bool suffix = false;

    while (r.at < r.end) {
        CHARL_TRY(next(&r));
        type = r.field == 3 ? r.number : type;
        suffix = r.field == 24 ? r.number != 0 : suffix;
    }
    CHARL_REQUIRE(type == BPE || type == UNIGRAM, CHARL_ERR_DATA,
                  "its model is %s, which is not supported; BPE and Unigram are",
                  type == 3   ? "Word"
                  : type == 4 ? "Char"
                              : "of an unknown type");
    CHARL_REQUIRE(!suffix, CHARL_ERR_DATA, "its spaces end words (treat_whitespace_as_suffix), which is not supported");
    p->flags |= type == UNIGRAM ? CHARL__PRETRAINED_UNIGRAM | CHARL__PRETRAINED_SINGLE : CHARL__PRETRAINED_BY_RANK;
    return CHARL_OK;
}

static charl_status read_normalizer(reader r, charl__pretrained *p)
{
    bool prefix = true, removes = true, escapes = true;
    reader map = {0};

    while (r.at < r.end) {
        CHARL_TRY(next(&r));
        map = r.field == 2 ? inner(&r) : map;
        prefix = r.field == 3 ? r.number != 0 : prefix;
        removes = r.field == 4 ? r.number != 0 : removes;
        escapes = r.field == 5 ? r.number != 0 : escapes;
    }
    CHARL_REQUIRE(escapes, CHARL_ERR_DATA,
                  "it does not write spaces as U+2581 (escape_whitespaces = false), which is not "
                  "supported");
    if (map.at < map.end) {
        CHARL_TRY(charl__pretrained_add_normalizer(p, CHARL__NORMALIZE_CHARSMAP, map.at, (size_t)(map.end - map.at),
                                                   NULL, 0));
    }
    if (removes) {
        CHARL_TRY(charl__pretrained_add_normalizer(p, CHARL__NORMALIZE_STRIP_SPACES, NULL, 0, NULL, 0));
        CHARL_TRY(charl__pretrained_add_normalizer(p, CHARL__NORMALIZE_REPLACE_SPACES, NULL, 0, " ", 1));
    }
    p->flags |= prefix ? CHARL__PRETRAINED_PREFIX : 0;
    return CHARL_OK;
}

/* A user-defined symbol is found before the text is normalized; charl finds it afterwards, which is the same if it stays as it is. */
static charl_status check_symbols(const charl__pretrained *p)
{
    CHARL_SCOPED(charl__text_fini) charl__text out = {0};

    for (int64_t i = 0; i < p->vocab; i++) {
        const char *text = charl__text_string(&p->texts) + p->tokens[i].at;

        for (int k = 0; p->tokens[i].use & CHARL__TOKEN_NORMALIZED && k < p->n_normalizers; k++) {
            const struct charl__pretrained_normalizer *n = &p->normalizer[k];
            const charl__normalizer how = {n->kind, (const unsigned char *)charl__text_string(&n->from), NULL,
                                           n->from.length, 0};

            charl__text_clear(&out);
            CHARL_TRY(charl__normalizer_check(&how));
            CHARL_TRY(charl__normalizer_apply(&how, true, (const unsigned char *)text, p->tokens[i].bytes, &out));
            CHARL_REQUIRE(out.length == p->tokens[i].bytes && memcmp(out.data, text, out.length) == 0, CHARL_ERR_DATA,
                          "its normalizer changes the user-defined symbol \"%.*s\", which is not supported",
                          (int)p->tokens[i].bytes, text);
        }
    }
    return CHARL_OK;
}

static charl_status read_model(const char *path, charl__pretrained *p)
{
    CHARL_SCOPED(charl__text_fini) charl__text file = {0};
    CHARL_SCOPED(scores_fini) scores l = {0};
    reader r;
    int64_t id = 0;
    bool has_trainer = false, has_normalizer = false;

    CHARL_TRY(charl__tokenizer_read_file(path, &file));
    p->flags = CHARL__PRETRAINED_CHARACTERS | CHARL__PRETRAINED_FUSE_UNKNOWN;
    r = (reader){.at = (const unsigned char *)charl__text_string(&file)};
    r.end = r.at + file.length;
    while (r.at < r.end) {
        CHARL_TRY(next(&r));
        if (r.field == 1) {
            CHARL_TRY(read_piece(inner(&r), id++, &l, p));
        } else if (r.field == 2) {
            has_trainer = true;
            CHARL_TRY(read_trainer(inner(&r), p));
        } else if (r.field == 3) {
            has_normalizer = true;
            CHARL_TRY(read_normalizer(inner(&r), p));
        }
    }
    CHARL_REQUIRE(
        id > 0 && has_trainer && has_normalizer, CHARL_ERR_DATA,
        "it has no pieces, no trainer_spec or no normalizer_spec: it is no model of SentencePiece, or damaged");
    CHARL_TRY(check_symbols(p));
    CHARL_TRY(add_scores(&l, p));
    return charl__pretrained_split_at_spaces(p);
}

/* A first piece of at least a letter: field 1, its length, field 1 of it, a length that fits. */
static bool is_model(const char *path, const char *head, size_t bytes)
{
    (void)path;
    return bytes > 8 && head[0] == '\n' && head[2] == '\n' && head[3] > 0 && head[3] < head[1];
}

const charl__tokenizer_format charl__tokenizer_format_sentencepiece = {
    .row = {.name = "sentencepiece", .help = "tokenizer.model of SentencePiece, BPE or Unigram"},
    .files = (const char *const[]){NULL}, /* tokenizer.model, which is looked for as a rank file too */
    .is = is_model,
    .read = read_model,
};
