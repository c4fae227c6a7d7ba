/* A tokenizer as tokenizer.json of Hugging Face's `tokenizers`.
 *
 *     bytes, bpe, pretrained   byte-level BPE: the patterns that split a text, and merges in the order of their ranks
 *     pretrained, of pieces    BPE of characters or Unigram, and spaces as U+2581, as SentencePiece has them
 *     pretrained, WordPiece    tokens that continue a word begin with ##
 *     chars                    WordLevel without an unknown word, of text that is split between all characters
 *
 * tiktoken's tokenizers have no list of merges: any two tokens that form a third are a merge, of its rank. Here they are listed in the order of
 * the third, then of the first two, as transformers does.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/utf8.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/byte_level.h"
#include "data/tokenizer/json_steps.h"

enum { MARK = sizeof CHARL__SPACE_MARK - 1 };

/* A tokenizer while it is written. */
typedef struct writer {
    const charl_tokenizer *t;
    charl__pretrained_parts parts;
    uint32_t points[256]; /* charl__byte_points */
    bool characters;      /* a token for each character */
    bool pieces;          /* CHARL__PRETRAINED_CHARACTERS; else tokens are written byte by byte ... */
    bool wordpiece;       /* ... or as in vocab.txt */
    charl__text *out;
} writer;

/* Bytes as a JSON string; charl__text_json ends at a NUL, which is an ordinary character here. */
static charl_status put_string(charl__text *out, const char *s, size_t bytes)
{
    CHARL_SCOPED(charl__text_fini) charl__text piece = {0}, json = {0};

    CHARL_TRY(charl__text_append(out, "\"", 1));
    for (size_t at = 0; at < bytes;) {
        const char *nul = memchr(s + at, 0, bytes - at);
        const size_t n = nul ? (size_t)(nul - s) - at : bytes - at;

        charl__text_clear(&piece);
        charl__text_clear(&json);
        CHARL_TRY(charl__text_append(&piece, s + at, n));
        CHARL_TRY(charl__text_json(&json, charl__text_string(&piece)));
        CHARL_TRY(charl__text_append(out, json.data + 1, json.length - 2));
        if (nul) {
            CHARL_TRY(charl__text_printf(out, "\\u0000"));
        }
        at += n + (nul != NULL);
    }
    CHARL_TRY(charl__text_append(out, "\"", 1));
    return CHARL_OK;
}

static unsigned use_of(const writer *w, int64_t token)
{
    return w->parts.heads ? w->parts.heads[4 * token] : CHARL__TOKEN_MERGED;
}

/* Append a token as a word of the vocabulary. */
static charl_status add_word(const writer *w, int64_t token, charl__text *word)
{
    size_t bytes;
    const char *text = charl_tokenizer_get_token(w->t, token, &bytes);
    unsigned char form[4];

    if (w->characters) {
        return charl__text_append(word, text, bytes);
    }
    if (w->pieces && use_of(w, token) & CHARL__TOKEN_BYTE) {
        return charl__text_printf(word, "<0x%02X>", (unsigned)(unsigned char)text[0]);
    }
    if (w->wordpiece) {
        const bool begins = bytes > 0 && text[0] == ' ';

        CHARL_TRY(charl__text_append(word, "##", begins ? 0 : 2));
        return charl__text_append(word, text + begins, bytes - begins);
    }
    for (size_t i = 0; w->pieces && i < bytes; i++) {
        CHARL_TRY(charl__text_append(word, text[i] == ' ' ? CHARL__SPACE_MARK : text + i, text[i] == ' ' ? 3 : 1));
    }
    for (size_t i = 0; !w->pieces && i < bytes; i++) {
        const size_t n = charl__utf8_put(w->points[(unsigned char)text[i]], form);

        CHARL_TRY(charl__text_append(word, form, n));
    }
    return CHARL_OK;
}

/* The bytes that a text would represent as a word of the vocabulary; false: it cannot be one. */
static charl_status word_bytes(const writer *w, const char *text, size_t bytes, charl__text *out, bool *ok)
{
    const unsigned char *s = (const unsigned char *)text;

    charl__text_clear(out);
    *ok = true;
    if (w->wordpiece) {
        CHARL_TRY(charl__text_append(out, " ", 1));
        return charl__text_append(out, text, bytes);
    }
    if (w->pieces) {
        return charl__pretrained_put_spaces(out, text, bytes);
    }
    for (size_t at = 0, n; *ok && at < bytes; at += n) {
        int byte = 255;
        unsigned char c;

        n = charl__utf8_length(s + at, bytes - at);
        while (n > 0 && byte >= 0 && w->points[byte] != charl__utf8_point(s + at, n)) {
            byte--;
        }
        c = (unsigned char)byte;
        *ok = n > 0 && byte >= 0;
        if (*ok) {
            CHARL_TRY(charl__text_append(out, &c, 1));
        }
    }
    return CHARL_OK;
}

/* Whether an added token needs its own word: `tokenizers` numbers it by the word with its text, and from the end of the vocabulary if
 * there is none. Errors: ERR_CONFIG  another token is that word. */
static charl_status needs_word(const writer *w, int64_t token, bool *needs)
{
    size_t bytes, other_bytes;
    const char *text = charl_tokenizer_get_token(w->t, token, &bytes);
    CHARL_SCOPED(charl__text_fini) charl__text word = {0};
    bool ok;

    *needs = true;
    CHARL_TRY(word_bytes(w, text, bytes, &word, &ok));
    for (int64_t i = 0; ok && *needs && i < w->t->vocab; i++) {
        const char *other = charl_tokenizer_get_token(w->t, i, &other_bytes);

        if (use_of(w, i) & CHARL__TOKEN_MERGED && other_bytes == word.length &&
            memcmp(other, charl__text_string(&word), other_bytes) == 0) {
            CHARL_REQUIRE(i == token, CHARL_ERR_CONFIG,
                          "tokens %" PRId64 " and %" PRId64
                          " of the tokenizer have the text %.*s, and a tokenizer.json cannot hold both",
                          i, token, (int)bytes, text);
            *needs = false;
        }
    }
    return CHARL_OK;
}

/* Add a member to the vocabulary. */
static charl_status put_member(const writer *w, const char *word, size_t bytes, int64_t token, bool *first)
{
    CHARL_TRY(charl__text_printf(w->out, *first ? "\n      " : ",\n      "));
    CHARL_TRY(put_string(w->out, word, bytes));
    *first = false;
    return charl__text_printf(w->out, ": %" PRId64, token);
}

static charl_status put_vocab(const writer *w)
{
    CHARL_SCOPED(charl__text_fini) charl__text word = {0};
    bool first = true;

    CHARL_TRY(charl__text_printf(w->out, "    \"vocab\": {"));
    for (int64_t i = 0; i < w->t->vocab; i++) {
        if (use_of(w, i) & (CHARL__TOKEN_MERGED | CHARL__TOKEN_BYTE)) {
            charl__text_clear(&word);
            CHARL_TRY(add_word(w, i, &word));
            CHARL_TRY(put_member(w, charl__text_string(&word), word.length, i, &first));
        }
        if (use_of(w, i) & CHARL__TOKEN_ADDED) {
            size_t bytes;
            const char *text = charl_tokenizer_get_token(w->t, i, &bytes);
            bool needs;

            CHARL_TRY(needs_word(w, i, &needs));
            if (needs) {
                CHARL_TRY(put_member(w, text, bytes, i, &first));
            }
        }
    }
    CHARL_TRY(charl__text_printf(w->out, "\n    }"));
    return CHARL_OK;
}

static int compare_merges(const void *a, const void *b)
{
    const charl__merge *x = a, *y = b;

    if (x->rank != y->rank) {
        return x->rank < y->rank ? -1 : 1;
    }
    return (x->key > y->key) - (x->key < y->key);
}

static charl_status put_merges(const writer *w)
{
    const charl__merge_table *m = w->t->bpe ? &w->t->bpe->merges : &(charl__merge_table){0};
    CHARL_SCOPED_FREE charl__merge *list = NULL;
    CHARL_SCOPED(charl__text_fini) charl__text both = {0};
    int64_t n = 0;

    CHARL_TRY(charl__alloc_array(m->count + 1, sizeof *list, &list));
    for (int64_t i = 0; i < m->capacity; i++) {
        if (m->slots[i].key != UINT64_MAX) {
            list[n++] = m->slots[i];
        }
    }
    qsort(list, (size_t)n, sizeof *list, compare_merges);
    CHARL_TRY(charl__text_printf(w->out, "    \"merges\": ["));
    for (int64_t i = 0; i < n; i++) {
        charl__text_clear(&both);
        CHARL_TRY(add_word(w, (int64_t)(list[i].key >> 32), &both));
        CHARL_TRY(charl__text_append(&both, " ", 1));
        CHARL_TRY(add_word(w, (int64_t)(list[i].key & UINT32_MAX), &both));
        CHARL_TRY(charl__text_printf(w->out, i > 0 ? ",\n      " : "\n      "));
        CHARL_TRY(put_string(w->out, charl__text_string(&both), both.length));
    }
    CHARL_TRY(charl__text_printf(w->out, n > 0 ? "\n    ]" : "]"));
    return CHARL_OK;
}

static charl_status put_added(const writer *w)
{
    bool first = true;

    CHARL_TRY(charl__text_printf(w->out, "  \"added_tokens\": ["));
    for (int64_t i = 0; i < w->t->vocab; i++) {
        const unsigned use = use_of(w, i);
        size_t bytes;
        const char *text = charl_tokenizer_get_token(w->t, i, &bytes);

        if (!(use & CHARL__TOKEN_ADDED)) {
            continue;
        }
        CHARL_TRY(charl__text_printf(w->out, "%s\n    {\"id\": %" PRId64 ", \"content\": ", first ? "" : ",", i));
        CHARL_TRY(put_string(w->out, text, bytes));
        CHARL_TRY(charl__text_printf(w->out,
                                     ", \"single_word\": false, \"lstrip\": %s, \"rstrip\": %s, "
                                     "\"normalized\": %s, \"special\": %s}",
                                     use & CHARL__TOKEN_LSTRIP ? "true" : "false",
                                     use & CHARL__TOKEN_RSTRIP ? "true" : "false",
                                     use & CHARL__TOKEN_NORMALIZED && !w->pieces ? "true" : "false",
                                     use & CHARL__TOKEN_SPECIAL ? "true" : "false"));
        first = false;
    }
    return charl__text_printf(w->out, first ? "],\n" : "\n  ],\n");
}

static charl_status put_split(const writer *w, const char *pattern, size_t length, bool matches_only)
{
    CHARL_TRY(charl__text_printf(w->out, "      {\"type\": \"Split\", \"pattern\": {\"Regex\": "));
    CHARL_TRY(put_string(w->out, pattern, length));
    return charl__text_printf(w->out, "}, \"behavior\": \"%s\", \"invert\": %s}", matches_only ? "Removed" : "Isolated",
                              matches_only ? "true" : "false");
}

/* BERT's, from normalizer i on, which must not be empty; returns how many it stands for. */
static int bert_of(const writer *w, int i, bool part[4])
{
    static const charl__normalizer_kind kinds[] = {CHARL__NORMALIZE_CLEAN, CHARL__NORMALIZE_CHINESE,
                                                   CHARL__NORMALIZE_NFD, CHARL__NORMALIZE_LOWERCASE};
    const int n = w->parts.n_normalizers, first = i;
    const charl__normalizer *list = w->parts.normalizer;
    bool any = false;

    for (int k = 0; k < 4; k++) {
        part[k] = i < n && list[i].kind == kinds[k] &&
                  (k != 2 || (i + 1 < n && list[i + 1].kind == CHARL__NORMALIZE_STRIP_NONSPACING));
        i += part[k] ? 1 + (k == 2) : 0;
        any = any || (part[k] && k < 3);
    }
    return any ? i - first : 0;
}

static charl_status put_replace(const writer *w, const char *kind, const void *from, size_t from_bytes, const void *to,
                                size_t to_bytes)
{
    CHARL_TRY(charl__text_printf(w->out, "{\"type\": \"Replace\", \"pattern\": {\"%s\": ", kind));
    CHARL_TRY(put_string(w->out, from, from_bytes));
    CHARL_TRY(charl__text_printf(w->out, "}, \"content\": "));
    CHARL_TRY(put_string(w->out, to, to_bytes));
    return charl__text_printf(w->out, "}");
}

static charl_status put_normalizer(const writer *w, const charl__normalizer *n)
{
    static const char *const names[CHARL__NORMALIZER_KINDS] = {
        [CHARL__NORMALIZE_NFC] = "NFC",
        [CHARL__NORMALIZE_NFD] = "NFD",
        [CHARL__NORMALIZE_NFKC] = "NFKC",
        [CHARL__NORMALIZE_NFKD] = "NFKD",
        [CHARL__NORMALIZE_LOWERCASE] = "Lowercase",
        [CHARL__NORMALIZE_STRIP_ACCENTS] = "StripAccents",
    };

    switch (n->kind) {
    case CHARL__NORMALIZE_STRIP_LEFT:
    case CHARL__NORMALIZE_STRIP_RIGHT:
        return charl__text_printf(w->out, "{\"type\": \"Strip\", \"strip_left\": %s, \"strip_right\": %s}",
                                  n->kind == CHARL__NORMALIZE_STRIP_LEFT ? "true" : "false",
                                  n->kind == CHARL__NORMALIZE_STRIP_RIGHT ? "true" : "false");
    case CHARL__NORMALIZE_REPLACE:
        return put_replace(w, "String", n->from, n->from_bytes, n->to, n->to_bytes);
    case CHARL__NORMALIZE_REPLACE_SPACES:
        return put_replace(w, "Regex", " {2,}", 5, n->to, n->to_bytes);
    case CHARL__NORMALIZE_STRIP_SPACES:
        return put_replace(w, "Regex", CHARL__JSON_ENDS, strlen(CHARL__JSON_ENDS), "", 0);
    case CHARL__NORMALIZE_PREPEND:
        CHARL_TRY(charl__text_printf(w->out, "{\"type\": \"Prepend\", \"prepend\": "));
        CHARL_TRY(put_string(w->out, (const char *)n->to, n->to_bytes));
        return charl__text_printf(w->out, "}");
    case CHARL__NORMALIZE_CHARSMAP:
    case CHARL__NORMALIZE_CHARSMAP_OF_GRAPHEMES:
        CHARL_TRY(charl__text_printf(w->out, "{\"type\": \"Precompiled\", \"precompiled_charsmap\": \""));
        CHARL_TRY(charl__text_base64(w->out, n->from, n->from_bytes));
        return charl__text_printf(w->out, "\"}");
    default:
        return charl__text_printf(w->out, "{\"type\": \"%s\"}", names[n->kind]);
    }
}

/* All of them; and with `spaces` those that write spaces as U+2581. WhitespaceSplit is a pre_tokenizer. */
static charl_status put_normalizers(const writer *w, bool spaces)
{
    static const char mark[] = CHARL__SPACE_MARK;
    const bool prefix = spaces && w->parts.flags & CHARL__PRETRAINED_PREFIX;
    int n = w->parts.n_normalizers;

    n -= n > 0 && w->parts.normalizer[n - 1].kind == CHARL__NORMALIZE_SQUEEZE_WHITE;
    if (n == 0 && !spaces) {
        return charl__text_printf(w->out, "  \"normalizer\": null,\n");
    }
    CHARL_TRY(charl__text_printf(w->out, "  \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": ["));
    for (int i = 0; i < n;) {
        bool part[4];
        const int bert = bert_of(w, i, part);

        if (bert > 0) {
            CHARL_TRY(charl__text_printf(w->out,
                                         "{\"type\": \"BertNormalizer\", \"clean_text\": %s, \"handle_chinese_chars\": "
                                         "%s, \"strip_accents\": %s, \"lowercase\": %s}",
                                         part[0] ? "true" : "false", part[1] ? "true" : "false",
                                         part[2] ? "true" : "false", part[3] ? "true" : "false"));
        } else {
            CHARL_TRY(put_normalizer(w, &w->parts.normalizer[i]));
        }
        i += bert > 0 ? bert : 1;
        CHARL_TRY(charl__text_printf(w->out, i < n || spaces ? ", " : ""));
    }
    if (prefix) {
        CHARL_TRY(charl__text_printf(w->out, "{\"type\": \"Prepend\", \"prepend\": \"%s\"}, ", mark));
    }
    CHARL_TRY(spaces ? put_replace(w, "String", " ", 1, mark, MARK) : CHARL_OK);
    return charl__text_printf(w->out, "]},\n");
}

/* Normalizer or Metaspace, and decoder, of a vocabulary of SentencePiece. */
static charl_status put_spaces(const writer *w)
{
    const uint32_t flags = w->parts.flags;
    const int n = w->parts.n_normalizers;
    const bool white = n > 0 && w->parts.normalizer[n - 1].kind == CHARL__NORMALIZE_SQUEEZE_WHITE;
    const char *scheme = !(flags & CHARL__PRETRAINED_PREFIX_UNLESS) ? "never"
                         : flags & CHARL__PRETRAINED_PREFIX_FIRST   ? "first"
                                                                    : "always";
    const bool splits =
        w->parts.n_steps == 1 && w->parts.step[0].length == strlen(CHARL__PATTERN_METASPACE) &&
        memcmp(w->parts.step[0].pattern, CHARL__PATTERN_METASPACE, strlen(CHARL__PATTERN_METASPACE)) == 0;

    CHARL_TRY(put_normalizers(w, !(flags & CHARL__PRETRAINED_PREFIX_UNLESS)));
    CHARL_TRY(charl__text_printf(
        w->out,
        "  \"pre_tokenizer\": %s{\"type\": \"Metaspace\", \"replacement\": \"\xe2\x96\x81\", "
        "\"prepend_scheme\": \"%s\", \"split\": %s}%s,\n",
        white ? "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"WhitespaceSplit\"}, " : "", scheme,
        splits ? "true" : "false", white ? "]}" : ""));
    return charl__text_printf(
        w->out,
        "  \"post_processor\": null,\n  \"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", "
        "\"pattern\": {\"String\": \"\xe2\x96\x81\"}, \"content\": \" \"}, {\"type\": \"ByteFallback\"}, "
        "{\"type\": \"Fuse\"}%s]},\n",
        flags & CHARL__PRETRAINED_PREFIX ? ", {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}"
                                         : "");
}

static charl_status put_pre_tokenizer(const writer *w)
{
    if (w->wordpiece) {
        return charl__text_printf(w->out, "  \"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"},\n");
    }
    CHARL_TRY(charl__text_printf(w->out, "  \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [\n"));
    if (w->characters) {
        CHARL_TRY(put_split(w, "[\\s\\S]", strlen("[\\s\\S]"), false));
        return charl__text_printf(w->out, "\n    ]},\n");
    }
    for (int i = 0; i < w->parts.n_steps; i++) {
        const charl__split_step *s = &w->parts.step[i];

        CHARL_TRY(put_split(w, s->pattern, s->length, s->matches_only));
        CHARL_TRY(charl__text_printf(w->out, ",\n"));
    }
    return charl__text_printf(w->out,
                              "      {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, "
                              "\"use_regex\": false}\n    ]},\n");
}

/* The vocabulary of Unigram: a list, so that every number needs a token. */
static charl_status put_scores(const writer *w)
{
    CHARL_SCOPED(charl__text_fini) charl__text word = {0};

    CHARL_TRY(charl__text_printf(w->out, "    \"vocab\": ["));
    for (int64_t i = 0; i < w->t->vocab; i++) {
        const unsigned use = use_of(w, i);

        CHARL_REQUIRE(
            use & (CHARL__TOKEN_MERGED | CHARL__TOKEN_BYTE | CHARL__TOKEN_ADDED), CHARL_ERR_CONFIG,
            "token %" PRId64 " of the tokenizer is not used, which a tokenizer.json with Unigram cannot express", i);
        charl__text_clear(&word);
        CHARL_TRY(add_word(w, i, &word));
        CHARL_TRY(charl__text_printf(w->out, "%s\n      [", i > 0 ? "," : ""));
        CHARL_TRY(put_string(w->out, charl__text_string(&word), word.length));
        CHARL_TRY(charl__text_printf(w->out, ", "));
        CHARL_TRY(charl__text_json_number(w->out, w->t->bpe->score[i]));
        CHARL_TRY(charl__text_printf(w->out, "]"));
    }
    return charl__text_printf(w->out, "\n    ]");
}

/* The token of unknown text, or null. */
static charl_status put_unknown(const writer *w)
{
    size_t bytes;
    const int32_t token = w->t->bpe ? w->t->bpe->unknown : -1;
    const char *text = charl_tokenizer_get_token(w->t, token, &bytes);

    CHARL_TRY(charl__text_printf(w->out, "    \"unk_token\": %s", text ? "" : "null"));
    CHARL_TRY(text ? put_string(w->out, text, bytes) : CHARL_OK);
    return charl__text_printf(w->out, ",\n");
}

static charl_status put_model(const writer *w)
{
    const bool byte_fallback = w->pieces && w->t->bpe->byte_token[0] >= 0;
    const char *fuse = w->parts.flags & CHARL__PRETRAINED_FUSE_UNKNOWN ? "true" : "false";

    if (w->characters) {
        CHARL_TRY(charl__text_printf(w->out, "  \"model\": {\n    \"type\": \"WordLevel\",\n"));
        CHARL_TRY(put_vocab(w));
        return charl__text_printf(w->out, ",\n    \"unk_token\": \"\"\n  }\n}\n");
    }
    if (w->parts.flags & CHARL__PRETRAINED_UNIGRAM) {
        CHARL_TRY(charl__text_printf(w->out, "  \"model\": {\n    \"type\": \"Unigram\",\n    \"unk_id\": "));
        CHARL_TRY(w->t->bpe->unknown < 0 ? charl__text_printf(w->out, "null")
                                         : charl__text_printf(w->out, "%d", w->t->bpe->unknown));
        CHARL_TRY(charl__text_printf(w->out, ",\n    \"byte_fallback\": %s,\n", byte_fallback ? "true" : "false"));
        CHARL_TRY(put_scores(w));
        return charl__text_printf(w->out, "\n  }\n}\n");
    }
    if (w->wordpiece) {
        CHARL_TRY(charl__text_printf(w->out, "  \"model\": {\n    \"type\": \"WordPiece\",\n"));
        CHARL_TRY(put_unknown(w));
        CHARL_TRY(charl__text_printf(
            w->out, "    \"continuing_subword_prefix\": \"##\",\n    \"max_input_chars_per_word\": 100,\n"));
        CHARL_TRY(put_vocab(w));
        return charl__text_printf(w->out, "\n  }\n}\n");
    }
    CHARL_TRY(charl__text_printf(w->out, "  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n"));
    CHARL_TRY(put_unknown(w));
    CHARL_TRY(charl__text_printf(
        w->out,
        "    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n    \"fuse_unk\": %s,\n"
        "    \"byte_fallback\": %s,\n    \"ignore_merges\": %s,\n",
        fuse, byte_fallback ? "true" : "false", w->parts.flags & CHARL__PRETRAINED_WHOLE_WORDS ? "true" : "false"));
    CHARL_TRY(put_vocab(w));
    CHARL_TRY(charl__text_printf(w->out, ",\n"));
    CHARL_TRY(put_merges(w));
    return charl__text_printf(w->out, "\n  }\n}\n");
}

static charl_status put_all(writer *w)
{
    const charl__tokenizer_type *type = w->t->type;

    charl__byte_points(w->points);
    w->characters = type == &charl__tokenizer_chars;
    if (type == &charl__tokenizer_pretrained) {
        CHARL_TRY(charl__pretrained_get_parts(w->t, &w->parts));
    } else if (type == &charl__tokenizer_bpe) {
        w->parts.step[w->parts.n_steps++] =
            (charl__split_step){CHARL__PATTERN_GPT2, strlen(CHARL__PATTERN_GPT2), false};
    }
    CHARL_TRY(
        charl__text_printf(w->out, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n"));
    w->pieces = (w->parts.flags & CHARL__PRETRAINED_CHARACTERS) != 0;
    w->wordpiece = (w->parts.flags & CHARL__PRETRAINED_WORDPIECE) != 0;
    CHARL_TRY(put_added(w));
    if (w->pieces) {
        CHARL_TRY(put_spaces(w));
        return put_model(w);
    }
    CHARL_TRY(put_normalizers(w, false));
    CHARL_TRY(put_pre_tokenizer(w));
    CHARL_TRY(charl__text_printf(
        w->out, "  \"post_processor\": null,\n  \"decoder\": %s,\n",
        w->wordpiece ? "{\"type\": \"WordPiece\", \"prefix\": \"##\", \"cleanup\": false}"
        : w->characters
            ? "{\"type\": \"Fuse\"}"
            : "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": false}"));
    return put_model(w);
}

charl_status charl_tokenizer_print_json(const charl_tokenizer *t, char **out)
{
    CHARL_GIVEN(t, out);
    CHARL_SCOPED(charl__text_fini) charl__text text = {0};
    writer w = {.t = t, .out = &text};

    *out = NULL;
    CHARL_TRY(put_all(&w));
    *out = charl__text_steal(&text);
    return CHARL_OK;
}
