/* Importer of texts.
 *
 * Documents arrive in pieces and their tokens are written in blocks, so a text may be larger than memory. It is read once to count its
 * tokens and once to write them, and before that to learn a vocabulary. Text kept in memory:
 *
 *     bytes, chars           a block
 *     others, to encode      up to a place where a word surely ends
 *     bpe, for training      the training text
 *
 * A document is a file, a line of a .jsonl file, or a row of a Parquet file. The tokenizer's end-of-text token separates documents; for tokenizers that
 * learn from a text this is the character NUL, which such a text must then not contain.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "base/text/utf8.h"
#include "charl/dataset.h"
#include "charl/import.h"
#include "io/commit.h"
#include "io/dataset/dataset_write.h"
#include "io/h5_element.h"
#include "data/import/import_documents.h"
#include "data/import/importer.h"
#include "data/tokenizer/tokenizer_private.h"

enum { BLOCK_BYTES = 1 << 20, BLOCK_TOKENS = 1 << 18, DEFAULT_VOCAB = 4096, POINTS = 0x110000 };

#define ENDINGS ".txt|.jsonl|.parquet"

typedef struct text_settings {
    const char *tokenizer; /* NULL: bytes */
    int64_t vocab;         /* 0: DEFAULT_VOCAB */
    bool special_tokens;
    const char *field; /* NULL: text */
    const char *val_file;
    bool binary;
} text_settings;

/* The input: for training, and for validation if it is separate. */
typedef struct corpus {
    charl__paths paths[2];
    charl__documents documents[2];
    bool several; /* there may be more than one document */
    int64_t cut;  /* bytes of documents[0] for training, if the rest is for validation; -1: all of them */
} corpus;

/* Check that the files exist. learnt: the tokenizer learns from a text */
static charl_status corpus_open(corpus *c, const text_settings *text, bool learnt)
{
    bool fields = false;

    for (int k = 0; k < 2; k++) {
        c->documents[k] = (charl__documents){
            .paths = &c->paths[k], .field = text->field ? text->field : "text", .binary = text->binary};
        fields = fields || charl__documents_have_fields(&c->documents[k]);
        c->several = c->several || fields || c->paths[k].n > 1;
    }
    CHARL_REQUIRE(!text->field || fields, CHARL_ERR_CONFIG,
                  "field \"%s\": none of the files is a .jsonl file, whose lines have fields, or a Parquet file",
                  text->field);
    c->documents[0].no_nul = c->documents[1].no_nul = c->several && learnt;
    return CHARL_OK;
}

static void corpus_fini(corpus *c)
{
    charl__paths_fini(&c->paths[0]);
    charl__paths_fini(&c->paths[1]);
}

static charl_status read_both(const corpus *c, const charl__document_sink *sink)
{
    CHARL_TRY(charl__documents_read(&c->documents[0], sink));
    CHARL_TRY(charl__documents_read(&c->documents[1], sink));
    return CHARL_OK;
}

/* The set of characters: one bit for each code point. */
static charl_status note_points(void *ctx, const unsigned char *bytes, size_t n)
{
    unsigned char *seen = ctx;

    for (size_t i = 0; i < n;) {
        const size_t length = charl__utf8_length(bytes + i, n - i);
        const uint32_t point = charl__utf8_point(bytes + i, length);

        seen[point / 8] |= (unsigned char)(1U << point % 8);
        i += length;
    }
    return CHARL_OK;
}

/* A text with every character that the documents have. */
static charl_status find_characters(const corpus *c, charl__text *out)
{
    CHARL_SCOPED_FREE unsigned char *seen = NULL;
    unsigned char utf8[4];

    CHARL_TRY(charl__alloc(POINTS / 8, &seen));
    CHARL_TRY(read_both(c, &(charl__document_sink){.text = note_points, .ctx = seen}));
    for (uint32_t point = 0; point < POINTS; point++) {
        if (seen[point / 8] & 1U << point % 8) {
            CHARL_TRY(charl__text_append(out, utf8, charl__utf8_put(point, utf8)));
        }
    }
    CHARL_REQUIRE(out->length > 0, CHARL_ERR_DATA, "%s: there is no text", c->paths[0].path[0]);
    if (c->several && out->data[0] != '\0') { /* ends a document */
        CHARL_TRY(charl__text_append(out, "", 1));
    }
    return CHARL_OK;
}

static charl_status count_bytes(void *ctx, const unsigned char *bytes, size_t n)
{
    (void)bytes;
    *(int64_t *)ctx += (int64_t)n;
    return CHARL_OK;
}

/* Length of the prefix of a character that precedes byte `last` of a text, if it is split there. */
enum { CHARACTER_BYTES = 4 };

typedef struct place {
    int64_t seen, last;
    unsigned char before[CHARACTER_BYTES]; /* bytes last - 3 to last */
} place;

static charl_status note_place(void *ctx, const unsigned char *bytes, size_t n)
{
    place *p = ctx;

    for (int k = 0; k < CHARACTER_BYTES; k++) {
        const int64_t at = p->last - (CHARACTER_BYTES - 1) + k - p->seen;

        if (at >= 0 && at < (int64_t)n) {
            p->before[k] = bytes[at];
        }
    }
    p->seen += (int64_t)n;
    return CHARL_OK;
}

/* Set c->cut to where the validation part of the training documents begins: that many bytes, split between two characters. */
static charl_status find_cut(corpus *c, double val_split)
{
    place p = {0};
    int64_t bytes = 0;
    const char *leaves; /* nothing to divide */

    if (val_split == 0) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__documents_read(&c->documents[0], &(charl__document_sink){.text = count_bytes, .ctx = &bytes}));
    p.last = c->cut = (int64_t)((double)bytes * (1.0 - val_split));
    CHARL_TRY(charl__documents_read(&c->documents[0], &(charl__document_sink){.text = note_place, .ctx = &p}));
    for (int k = CHARACTER_BYTES - 1; k > 0 && c->cut > 0 && (p.before[k] & 0xc0) == 0x80; k--) {
        c->cut--;
    }
    leaves = c->cut <= 0 ? "train on" : bytes <= c->cut ? "validate on" : NULL;
    CHARL_REQUIRE(!leaves, CHARL_ERR_CONFIG, "val_split %g of %lld bytes leaves nothing to %s", val_split,
                  (long long)bytes, leaves);
    return CHARL_OK;
}

/* Collects text up to a limit. */
typedef struct gathering {
    charl__text *text;
    size_t limit;
} gathering;

static charl_status gather(void *ctx, const unsigned char *bytes, size_t n)
{
    const gathering *g = ctx;
    const size_t room = g->limit - g->text->length;

    return charl__text_append(g->text, bytes, n < room ? n : room);
}

/* The text to learn from: validation text must not affect the vocabulary. */
static charl_status gather_training(const corpus *c, charl__text *out)
{
    gathering g = {.text = out, .limit = c->cut >= 0 ? (size_t)c->cut : SIZE_MAX};

    CHARL_TRY(charl__documents_read(&c->documents[0], &(charl__document_sink){.text = gather, .ctx = &g}));
    CHARL_REQUIRE(out->length > 0, CHARL_ERR_DATA, "%s: there is no text", c->paths[0].path[0]);
    return CHARL_OK;
}

/* Encodes documents: counts their tokens and records where they begin, and with a writer writes them.
 *
 *     any_cut    a text may be divided between any two characters without changing its tokens
 *     held       text of the document that is not yet encoded
 *     inside     whether inside a document
 *     seen       number of bytes
 *     part       0: training; 1: validation
 *     documents  number in the part
 *     tokens     number in both parts
 *     starts     [n_starts] number of tokens before each document
 *     block      [BLOCK_TOKENS] of dtype, n_block of them used
 */
typedef struct encoding {
    const corpus *corpus;
    const charl_tokenizer *tokenizer;
    charl__encoder *encoder;
    bool any_cut;
    int32_t end_of_text;

    charl__text held;
    bool inside;
    int64_t seen;
    int part;
    int64_t documents;
    int64_t tokens[2];
    int64_t *starts;
    int64_t n_starts;

    charl__writer *writer;
    charl_dtype dtype;
    int64_t n_block;
    unsigned char *block;
} encoding;

static charl_status flush(encoding *e)
{
    CHARL_TRY(charl__writer_put(e->writer, e->block, NULL, e->n_block));
    e->n_block = 0;
    return CHARL_OK;
}

static charl_status add_tokens(void *ctx, const int32_t *tokens, int64_t n)
{
    encoding *e = ctx;

    e->tokens[e->part] += n;
    for (int64_t i = 0; e->writer && i < n; i++) {
        if (e->n_block == BLOCK_TOKENS) {
            CHARL_TRY(flush(e));
        }
        (void)charl__put_number(e->dtype, tokens[i], e->block, e->n_block++);
    }
    return CHARL_OK;
}

/* Encode the first n bytes of `held`. */
static charl_status encode_held(encoding *e, size_t n)
{
    if (n == 0) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__encoder_run(e->encoder, e->held.data, n, add_tokens, e));
    memmove(e->held.data, e->held.data + n, e->held.length - n);
    e->held.length -= n;
    return CHARL_OK;
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* The last position in held[from, length) between a letter or digit and a space, where words end (charl__tokenizer_cuts_at_spaces). 0: there
 * is none. */
static size_t last_cut(const charl__text *held, size_t from)
{
    for (size_t i = held->length - 1; i > from; i--) {
        if (is_word(held->data[i - 1]) && is_space(held->data[i])) {
            return i;
        }
    }
    return 0;
}

static charl_status begin_document(encoding *e)
{
    e->inside = true;
    if (e->documents++ > 0) {
        CHARL_TRY(add_tokens(e, &e->end_of_text, 1));
    }
    if (!e->writer) {
        CHARL_TRY(charl__grow(e->n_starts, sizeof *e->starts, &e->starts));
        e->starts[e->n_starts++] = e->tokens[0] + e->tokens[1];
    }
    return CHARL_OK;
}

static charl_status add_text(void *ctx, const unsigned char *bytes, size_t n)
{
    encoding *e = ctx;
    const int64_t cut = e->part == 0 ? e->corpus->cut : -1;

    /* A document that begins in the training set and ends in the validation set. */
    if (cut >= 0 && (int64_t)n > cut - e->seen) {
        const size_t first = (size_t)(cut - e->seen);

        if (first > 0) {
            CHARL_TRY(add_text(e, bytes, first));
        }
        CHARL_TRY(encode_held(e, e->held.length));
        e->part = 1;
        bytes += first;
        n -= first;
    }
    if (!e->inside) {
        CHARL_TRY(begin_document(e));
    }
    for (size_t at = 0; at < n;) {
        const size_t before = e->held.length;
        const size_t k = n - at < BLOCK_BYTES ? n - at : BLOCK_BYTES;

        CHARL_TRY(charl__text_append(&e->held, bytes + at, k));
        at += k;
        e->seen += (int64_t)k;
        if (e->held.length >= BLOCK_BYTES && !e->any_cut) {
            if (!charl__tokenizer_cuts_at_spaces(e->tokenizer)) {
                continue;
            }
            CHARL_TRY(encode_held(e, last_cut(&e->held, before > 0 ? before - 1 : 0)));
        } else if (e->held.length >= BLOCK_BYTES && at == n) {
            CHARL_TRY(encode_held(e, e->held.length));
        }
    }
    return CHARL_OK;
}

static charl_status end_document(void *ctx)
{
    encoding *e = ctx;

    CHARL_TRY(encode_held(e, e->held.length));
    e->inside = false;
    return CHARL_OK;
}

static charl_status encode_all(encoding *e)
{
    const charl__document_sink sink = {.text = add_text, .end = end_document, .ctx = e};

    e->part = 0;
    e->seen = e->documents = 0;
    e->tokens[0] = e->tokens[1] = 0;
    CHARL_TRY(charl__documents_read(&e->corpus->documents[0], &sink));
    if (e->corpus->paths[1].n > 0) {
        e->part = 1;
        e->documents = 0;
        CHARL_TRY(charl__documents_read(&e->corpus->documents[1], &sink));
    }
    return CHARL_OK;
}

static charl_status write_tokens(encoding *e, const char *out, const charl_import_options *opt)
{
    charl_status st = CHARL_OK;
    const int64_t vocab = charl_tokenizer_get_vocab(e->tokenizer);
    charl__writer_spec spec = {.kind = CHARL_DATASET_TOKENS, .classes = vocab};

    e->dtype = spec.x_dtype = vocab <= 1 << 8 ? CHARL_U8 : vocab <= 1 << 16 ? CHARL_U16 : CHARL_U32;
    CHARL_TRY_CLEANUP(charl__alloc_array(BLOCK_TOKENS, charl_dtype_size(e->dtype), &e->block));
    CHARL_TRY_CLEANUP(encode_all(e));
    CHARL_REQUIRE_CLEANUP(e->tokens[0] > 0, CHARL_ERR_DATA, "%s: there is no text", e->corpus->paths[0].path[0]);
    spec.rows = e->tokens[0];
    spec.more = e->tokens[1];
    CHARL_TRY_CLEANUP(charl__writer_create(out, &spec, opt, &e->writer));
    CHARL_TRY_CLEANUP(encode_all(e));
    CHARL_TRY_CLEANUP(flush(e));
    if (e->n_starts > 1) {
        CHARL_TRY_CLEANUP(charl__writer_documents(e->writer, e->starts, e->n_starts));
    }
    CHARL_TRY_CLEANUP(charl__tokenizer_store(e->tokenizer, e->writer));
    CHARL_TRY_CLEANUP(charl__writer_finish(e->writer));
cleanup:
    charl__writer_destroy(e->writer);
    charl_free(e->block);
    charl_free(e->starts);
    charl__text_fini(&e->held);
    return st;
}

/* The token between documents. */
static charl_status find_end_of_text(const charl_tokenizer *t, bool learnt, const char *name, int32_t *out)
{
    CHARL_SCOPED_FREE int32_t *tokens = NULL;
    int64_t n, end = charl_tokenizer_get_end_of_text(t);

    if (learnt) {
        CHARL_TRY(charl_tokenizer_encode(t, "", 1, false, &tokens, &n));
        CHARL_INVARIANT(n == 1);
        end = tokens[0];
    }
    CHARL_REQUIRE(end >= 0, CHARL_ERR_DATA,
                  "%s has no end-of-text token, which must separate documents; HINT import "
                  "one document",
                  name);
    *out = (int32_t)end;
    return CHARL_OK;
}

/* Learn from the text that is read. */
static charl_status learn(const corpus *c, const charl__tokenizer_type *type, int64_t vocab, charl_tokenizer **out)
{
    CHARL_SCOPED(charl__text_fini) charl__text sample = {0};

    if (type == &charl__tokenizer_chars) {
        CHARL_TRY(find_characters(c, &sample));
    } else if (type->has_vocab) {
        CHARL_TRY(gather_training(c, &sample));
    }
    CHARL_TRY(
        charl_tokenizer_create(type->row.name, sample.data, sample.length, vocab != 0 ? vocab : DEFAULT_VOCAB, out));
    return CHARL_OK;
}

static charl_status run_text(const void *settings, const char *const *files, int n, const char *out,
                             const charl_import_options *opt)
{
    charl_status st = CHARL_OK;
    const text_settings *o = settings;
    const char *name = o->tokenizer ? o->tokenizer : "bytes";
    const charl__tokenizer_type *type = NULL; /* to learn; NULL: t is there already */
    charl_import_options options = *opt;
    corpus c = {.cut = -1};
    encoding e = {.corpus = &c};
    charl_tokenizer *t = NULL;

    CHARL_TRY_CLEANUP(charl__import_paths(c.paths, files, n, o->val_file, options.val_split, ENDINGS, out));
    CHARL_TRY_CLEANUP(charl__tokenizer_open(name, &type, &t));
    CHARL_REQUIRE_CLEANUP(o->vocab == 0 || (type && type->has_vocab), CHARL_ERR_CONFIG,
                          "tokenizer %s: a size of the vocabulary (--vocab) applies to a tokenizer "
                          "that learns one, such as bpe",
                          name);
    CHARL_REQUIRE_CLEANUP(!o->special_tokens || !type, CHARL_ERR_CONFIG,
                          "tokenizer %s has no special tokens: only published tokenizers do", name);
    CHARL_REQUIRE_CLEANUP(!o->binary || !(type ? type : t->type)->needs_utf8, CHARL_ERR_CONFIG,
                          "tokenizer %s takes text in UTF-8 only, so it cannot be used with --binary", name);
    CHARL_TRY_CLEANUP(corpus_open(&c, o, type != NULL));
    CHARL_TRY_CLEANUP(charl__commit_check_inputs(out, &o->tokenizer, 1));
    if (!type || type->has_vocab) { /* the text is divided, not the tokens */
        CHARL_TRY_CLEANUP(find_cut(&c, options.val_split));
        options.val_split = 0;
    }
    if (type) {
        CHARL_TRY_CLEANUP(learn(&c, type, o->vocab, &t));
    }
    e.tokenizer = t;
    e.any_cut = !t->bpe;
    if (c.several) {
        CHARL_TRY_CLEANUP(find_end_of_text(t, type != NULL, name, &e.end_of_text));
    }
    CHARL_TRY_CLEANUP(charl__encoder_create(t, o->special_tokens, &e.encoder));
    CHARL_TRY_CLEANUP(write_tokens(&e, out, &options));
cleanup:
    charl__encoder_destroy(e.encoder);
    charl_tokenizer_destroy(t);
    corpus_fini(&c);
    return st;
}

/* Every character is a token: the text need not be large enough to train a vocabulary. */
static charl_status suggest_text(const char *path, const charl_suggest_options *opt, char **out)
{
    (void)path, (void)opt;
    return charl__strdup("tokenizer=chars", out);
}

static const charl_key keys[] = {
    {"tokenizer", CHARL_KEY_TEXT, offsetof(text_settings, tokenizer), NULL, false,
     "bytes (default), chars, bpe (byte pair encoding, trained on the training set), or the file "
     "or folder of a published tokenizer: "
     "tokenizer.json, vocab.json with merges.txt, or a rank file of tiktoken",
     NULL},
    {"special_tokens", CHARL_KEY_BOOL, offsetof(text_settings, special_tokens), NULL, false,
     "recognize the special tokens of a published tokenizer in the text, such as <|endoftext|>", NULL},
    {"vocab", CHARL_KEY_INT, offsetof(text_settings, vocab), "[1,2147483647]", false,
     "maximum size of a vocabulary that is trained (default 4096)", NULL},
    {"field", CHARL_KEY_TEXT, offsetof(text_settings, field), NULL, false,
     "the field of a .jsonl file, or column of a Parquet file, that holds the text (default: text)", NULL},
    {"val_file", CHARL_KEY_TEXT, offsetof(text_settings, val_file), NULL, false,
     "a file, folder or pattern to validate on, instead of --val-split", NULL},
    {"binary", CHARL_KEY_BOOL, offsetof(text_settings, binary), NULL, false,
     "the files hold arbitrary bytes; without it they must be UTF-8 text", NULL},
};
static const text_settings defaults = {0};

const charl_importer charl__importer_text = {
    .row.name = "text",
    .row.help = "text: .txt, .jsonl, .gz of these, .parquet; files, folders, patterns",
    CHARL_KEYS(keys),
    CHARL_DEFAULTS(defaults),
    .files = "PATH...",
    .group = 1,
    .note = "PATH is a file, a folder, of which all .txt, .jsonl and .parquet files are read, or a pattern "
            "such as 'data/*.txt'. A document is a "
            "file, a line of a .jsonl file or a row of a Parquet file; an end-of-text token separates documents.",
    .run = run_text,
    .suggest = suggest_text,
};
