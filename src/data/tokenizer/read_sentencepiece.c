/* tokenizer.model of SentencePiece: a message of Protocol Buffers (sentencepiece_model.proto) with the pieces, their scores and types, and how
 * text is normalized. Read are models of type BPE with byte fallback, as those of Llama 2 and Mistral: of two neighbours that are a piece
 * together, those with the highest score are merged first. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "data/tokenizer/pretrained.h"

/* Types of pieces. */
enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6 };

/* Types of models. */
enum { BPE = 2 };

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

/* The pieces that are merged. */
typedef struct scored {
    int64_t token;
    float score;
} scored;

typedef struct scores {
    scored *piece;
    int64_t n;
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
        [UNKNOWN] = CHARL__TOKEN_ADDED | CHARL__TOKEN_SPECIAL,
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
    CHARL_REQUIRE(
        type != UNUSED, CHARL_ERR_DATA,
        "piece %lld, \"%.*s\", is of type UNUSED, which is not supported: texts would be split in another way",
        (long long)id, (int)(bytes < 60 ? bytes : 60), word);
    if (memchr(word, ' ', bytes)) {
        type = UNUSED; /* no text has it: spaces are U+2581 before pieces are looked for */
    }
    if (type == NORMAL) {
        CHARL_TRY(charl__grow(l->n, sizeof *l->piece, &l->piece));
        l->piece[l->n++] = (scored){id, score};
    }
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

/* Ranks in the order of scores: equal ones for equal scores, of which the leftmost pair of a word is merged first. */
static charl_status add_ranks(scores *l, charl__pretrained *p)
{
    int32_t rank = 0;

    if (l->n > 0) {
        qsort(l->piece, (size_t)l->n, sizeof *l->piece, by_score);
    }
    for (int64_t i = 0; i < l->n; i++) {
        rank += i > 0 && l->piece[i].score != l->piece[i - 1].score;
        CHARL_TRY(charl__pretrained_add_merge(p, (int32_t)l->piece[i].token, rank));
    }
    return CHARL_OK;
}

static charl_status check_trainer(reader r)
{
    uint64_t type = 1;
    bool suffix = false;

    while (r.at < r.end) {
        CHARL_TRY(next(&r));
        type = r.field == 3 ? r.number : type;
        suffix = r.field == 24 ? r.number != 0 : suffix;
    }
    CHARL_REQUIRE(type == BPE, CHARL_ERR_DATA, "its model is %s, which is not supported; BPE is",
                  type == 1   ? "Unigram"
                  : type == 3 ? "Word"
                  : type == 4 ? "Char"
                              : "of an unknown type");
    CHARL_REQUIRE(!suffix, CHARL_ERR_DATA, "its spaces end words (treat_whitespace_as_suffix), which is not supported");
    return CHARL_OK;
}

static charl_status read_normalizer(reader r, charl__pretrained *p)
{
    bool prefix = true, removes = true, escapes = true, maps = false;

    while (r.at < r.end) {
        CHARL_TRY(next(&r));
        maps = maps || (r.field == 2 && r.length > 0);
        prefix = r.field == 3 ? r.number != 0 : prefix;
        removes = r.field == 4 ? r.number != 0 : removes;
        escapes = r.field == 5 ? r.number != 0 : escapes;
    }
    CHARL_REQUIRE(!maps && !removes && escapes, CHARL_ERR_DATA,
                  "it changes text (%s), which is not supported: the text would not come back as it was",
                  maps      ? "precompiled_charsmap"
                  : removes ? "remove_extra_whitespaces"
                            : "escape_whitespaces = false");
    p->flags |= prefix ? CHARL__PRETRAINED_PREFIX : 0;
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
    p->flags = CHARL__PRETRAINED_CHARACTERS | CHARL__PRETRAINED_BY_RANK;
    r = (reader){.at = (const unsigned char *)charl__text_string(&file)};
    r.end = r.at + file.length;
    while (r.at < r.end) {
        CHARL_TRY(next(&r));
        if (r.field == 1) {
            CHARL_TRY(read_piece(inner(&r), id++, &l, p));
        } else if (r.field == 2) {
            has_trainer = true;
            CHARL_TRY(check_trainer(inner(&r)));
        } else if (r.field == 3) {
            has_normalizer = true;
            CHARL_TRY(read_normalizer(inner(&r), p));
        }
    }
    CHARL_REQUIRE(
        id > 0 && has_trainer && has_normalizer, CHARL_ERR_DATA,
        "it has no pieces, no trainer_spec or no normalizer_spec: it is no model of SentencePiece, or damaged");
    CHARL_TRY(add_ranks(&l, p));
    return charl__pretrained_split_at_spaces(p);
}

/* A first piece of at least a letter: field 1, its length, field 1 of it, a length that fits. */
static bool is_model(const char *path, const char *head, size_t bytes)
{
    (void)path;
    return bytes > 8 && head[0] == '\n' && head[2] == '\n' && head[3] > 0 && head[3] < head[1];
}

const charl__tokenizer_format charl__tokenizer_format_sentencepiece = {
    .row = {.name = "sentencepiece", .help = "tokenizer.model of SentencePiece, BPE with byte fallback"},
    .files = (const char *const[]){NULL}, /* tokenizer.model, which is looked for as a rank file too */
    .is = is_model,
    .read = read_model,
};
