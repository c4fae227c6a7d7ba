/* A tokenizer as tokenizer.json of Hugging Face's `tokenizers`.
 *
 *     bytes, bpe, pretrained   byte-level BPE: the patterns that split a text, and merges in the order of their ranks
 *     pretrained, of pieces    BPE of characters with byte fallback, and spaces as U+2581, as SentencePiece has them
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
#include "data/tokenizer/pretrained.h"

/* A tokenizer while it is written. */
typedef struct writer {
    const charl_tokenizer *t;
    charl__pretrained_parts parts;
    uint32_t points[256]; /* charl__byte_points */
    bool characters;      /* a token for each character */
    bool pieces;          /* CHARL__PRETRAINED_CHARACTERS; else tokens are written byte by byte */
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

/* Normalizer or Metaspace, and decoder, of a vocabulary of SentencePiece. */
static charl_status put_spaces(const writer *w)
{
    static const char replace[] =
        "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"\xe2\x96\x81\"}";
    const uint32_t flags = w->parts.flags;
    const char *scheme = !(flags & CHARL__PRETRAINED_PREFIX)      ? "never"
                         : flags & CHARL__PRETRAINED_PREFIX_FIRST ? "first"
                                                                  : "always";
    const bool splits =
        w->parts.n_steps == 1 && w->parts.step[0].length == strlen(CHARL__PATTERN_METASPACE) &&
        memcmp(w->parts.step[0].pattern, CHARL__PATTERN_METASPACE, strlen(CHARL__PATTERN_METASPACE)) == 0;

    if (flags & CHARL__PRETRAINED_PREFIX_UNLESS) {
        CHARL_TRY(charl__text_printf(w->out, "  \"normalizer\": null,\n"));
    } else {
        CHARL_TRY(charl__text_printf(
            w->out, "  \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [%s%s]},\n",
            flags & CHARL__PRETRAINED_PREFIX ? "{\"type\": \"Prepend\", \"prepend\": \"\xe2\x96\x81\"}, " : "",
            replace));
        scheme = "never";
    }
    CHARL_TRY(charl__text_printf(w->out,
                                 "  \"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"\xe2\x96\x81\", "
                                 "\"prepend_scheme\": \"%s\", \"split\": %s},\n",
                                 scheme, splits ? "true" : "false"));
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

static charl_status put_model(const writer *w)
{
    if (w->characters) {
        CHARL_TRY(charl__text_printf(w->out, "  \"model\": {\n    \"type\": \"WordLevel\",\n"));
        CHARL_TRY(put_vocab(w));
        return charl__text_printf(w->out, ",\n    \"unk_token\": \"\"\n  }\n}\n");
    }
    CHARL_TRY(charl__text_printf(
        w->out,
        "  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": null,\n"
        "    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n    \"fuse_unk\": false,\n"
        "    \"byte_fallback\": %s,\n    \"ignore_merges\": %s,\n",
        w->pieces ? "true" : "false", w->parts.flags & CHARL__PRETRAINED_WHOLE_WORDS ? "true" : "false"));
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
    CHARL_TRY(put_added(w));
    if (w->pieces) {
        CHARL_TRY(put_spaces(w));
        return put_model(w);
    }
    CHARL_TRY(charl__text_printf(w->out, "  \"normalizer\": %s,\n",
                                 w->parts.flags & CHARL__PRETRAINED_NFC ? "{\"type\": \"NFC\"}" : "null"));
    CHARL_TRY(put_pre_tokenizer(w));
    CHARL_TRY(charl__text_printf(
        w->out, "  \"post_processor\": null,\n  \"decoder\": %s,\n",
        w->characters
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
