/* Importer of files of token numbers, in blocks.
 *
 * llm.c's files begin with 256 i32: a magic number that identifies the size of a token, a version and the number of tokens. nanoGPT's files
 * contain only tokens of 16 bits.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "charl/dataset.h"
#include "charl/import.h"
#include "io/commit.h"
#include "io/dataset/dataset_write.h"
#include "io/paths.h"
#include "data/import/import_source.h"
#include "data/import/importer.h"
#include "io/kind.h"
#include "data/tokenizer/tokenizer_private.h"

enum {
    BLOCK_TOKENS = 1 << 18,
    HEADER_BYTES = 1024,
    MAGIC_U16 = 20240520,
    MAGIC_U32 = 20240801,
    VERSION_U16 = 1,
    VERSION_U32 = 7,
};

#define ENDINGS ".bin"

/* As listed by the key `format`. */
typedef enum token_format { FORMAT_AUTO, FORMAT_LLMC, FORMAT_NANOGPT } token_format;

typedef struct tokens_settings {
    int64_t vocab;       /* 0: the tokenizer's, or what the tokens require */
    int format;          /* token_format */
    int64_t end_of_text; /* -1: the tokenizer's */
    const char *val_file, *tokenizer;
} tokens_settings;

/* One file, positioned at a token. */
typedef struct shard {
    charl__source *source;
    int64_t begin; /* bytes before the first token */
    size_t size;   /* bytes of a token */
    int64_t n;     /* tokens */
} shard;

static uint32_t little_endian(const unsigned char *p, size_t size)
{
    uint32_t v = 0;

    for (size_t i = 0; i < size; i++) {
        v |= (uint32_t)p[i] << (8 * i);
    }
    return v;
}

/* llm.c identifies its kinds of files by dates; as tokens these would be outside GPT-2's vocabulary. */
static bool is_other_llmc(uint32_t magic)
{
    return magic / 10000 >= 2023 && magic / 10000 <= 2035 && magic / 100 % 100 >= 1 && magic / 100 % 100 <= 12;
}

static charl_status read_header(shard *s, const unsigned char *head)
{
    const char *path = charl__source_path(s->source);
    const uint32_t magic = little_endian(head, 4), version = little_endian(head + 4, 4);
    const uint32_t want = magic == MAGIC_U16 ? VERSION_U16 : VERSION_U32;

    CHARL_REQUIRE(version == want, CHARL_ERR_DATA,
                  "%s: byte 4: version %u of llm.c's token files; with magic number %u charl reads "
                  "version %u",
                  path, version, magic, want);
    s->begin = HEADER_BYTES;
    s->size = magic == MAGIC_U16 ? 2 : 4;
    s->n = little_endian(head + 8, 4);
    return CHARL_OK;
}

/* Open a file and detect its format. Positions it at the first token. */
static charl_status shard_open(const char *path, token_format format, shard *s)
{
    unsigned char head[HEADER_BYTES];
    size_t got = 0, more;
    uint32_t magic;
    int64_t bytes = 0;

    *s = (shard){0};
    CHARL_TRY(charl__source_open(path, &s->source));
    do {
        CHARL_TRY(charl__source_some(s->source, head + got, sizeof head - got, &more));
        got += more;
    } while (more > 0 && got < sizeof head);
    magic = got >= 4 ? little_endian(head, 4) : 0;
    if (format != FORMAT_NANOGPT && got == sizeof head && (magic == MAGIC_U16 || magic == MAGIC_U32)) {
        return read_header(s, head);
    }
    CHARL_REQUIRE(format != FORMAT_LLMC, CHARL_ERR_DATA,
                  "%s: byte 0: the magic number is %u, token files of llm.c have %d or %d", path, magic, MAGIC_U16,
                  MAGIC_U32);
    if (format == FORMAT_AUTO) { /* small numbers look like UTF-16 text, or IDX */
        CHARL_TRY(charl__kind_expect(path, CHARL__KIND_TOKENS | CHARL__KIND_WIDE | CHARL__KIND_IDX, "a file of tokens",
                                     CHARL_ERR_DATA));
        CHARL_REQUIRE(got < HEADER_BYTES || !is_other_llmc(magic), CHARL_ERR_DATA,
                      "%s: byte 0: another kind of file of llm.c (magic number %u), not tokens; HINT --format nanogpt "
                      "takes any file as tokens of 16 bits",
                      path, magic);
    }
    s->size = 2;
    bytes = charl__source_file_bytes(s->source);
    if (charl__ends_in(path, ".gz")) { /* that is the compressed size */
        for (bytes = (int64_t)got; more > 0; bytes += (int64_t)more) {
            CHARL_TRY(charl__source_some(s->source, head, sizeof head, &more));
        }
    }
    CHARL_REQUIRE(bytes % 2 == 0, CHARL_ERR_DATA, "%s: %lld bytes: an odd number of bytes cannot be tokens of 16 bits",
                  path, (long long)bytes);
    s->n = bytes / 2;
    CHARL_TRY(charl__source_rewind(s->source));
    return CHARL_OK;
}

/* An import: both sets of files, properties of their tokens, and later the writer. */
typedef struct import {
    charl__paths paths[2];
    tokens_settings o;
    charl_tokenizer *tokenizer; /* that produced the tokens, or NULL */
    int64_t end_of_text;        /* -1: none */
    int64_t tokens[2];
    size_t size;      /* bytes of the widest token */
    uint32_t largest; /* token */
    int64_t *starts;  /* [n_starts] tokens before each document */
    int64_t n_starts;
    charl__writer *w;
    unsigned char *raw;
    uint32_t *wide;   /* [BLOCK_TOKENS] */
    uint16_t *narrow; /* [BLOCK_TOKENS] */
} import;

/* Begin a document at this token, unless one has begun there. */
static charl_status begin_document(import *m, int64_t token)
{
    if (m->n_starts > 0 && m->starts[m->n_starts - 1] == token) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__grow(m->n_starts, sizeof *m->starts, &m->starts));
    m->starts[m->n_starts++] = token;
    return CHARL_OK;
}

/* n tokens that follow `before` others of the import; the first of them is token `at` of the file. */
static charl_status copy_block(import *m, const shard *s, int64_t at, int64_t before, int64_t n)
{
    const int64_t vocab = m->o.vocab;

    for (int64_t k = 0; k < n; k++) {
        const uint32_t token = little_endian(m->raw + (size_t)k * s->size, s->size);

        CHARL_REQUIRE(token<(vocab > 0 ? (uint32_t)vocab : (uint32_t)INT32_MAX), CHARL_ERR_DATA,
                            "%s: token %lld (byte %lld) is %u, %s %lld", charl__source_path(s->source),
                            (long long)(at + k), (long long)(s->begin + (at + k) * (int64_t)s->size), token, vocab> 0
                          ? "the vocabulary has"
                          : "tokens are below",
                      (long long)(vocab > 0 ? vocab : INT32_MAX));
        m->wide[k] = token;
        m->narrow[k] = (uint16_t)token;
        m->largest = token > m->largest ? token : m->largest;
        if (m->w && (int64_t)token == m->end_of_text) {
            CHARL_TRY(begin_document(m, before + k + 1));
        }
    }
    if (m->w) {
        CHARL_TRY(charl__writer_put(m->w, m->size == 2 ? (void *)m->narrow : (void *)m->wide, NULL, n));
    }
    return CHARL_OK;
}

/* All tokens of a file, which follow `before` others. */
static charl_status copy_tokens(import *m, const shard *s, int64_t before)
{
    for (int64_t at = 0; at < s->n; at += BLOCK_TOKENS) {
        const int64_t n = s->n - at < BLOCK_TOKENS ? s->n - at : BLOCK_TOKENS;

        CHARL_TRY(charl__source_exact(s->source, m->raw, (size_t)n * s->size, "the tokens"));
        CHARL_TRY(copy_block(m, s, at, before + at, n));
    }
    CHARL_TRY(charl__source_end(s->source));
    return CHARL_OK;
}

/* Read all files: their headers, and with `whole` their tokens. */
static charl_status go_through(import *m, bool whole)
{
    charl_status st = CHARL_OK;
    shard s = {0};

    m->tokens[0] = m->tokens[1] = 0;
    for (int k = 0; k < 2; k++) {
        if (m->w && m->end_of_text >= 0) {
            CHARL_TRY_CLEANUP(begin_document(m, m->tokens[0]));
        }
        for (int64_t i = 0; i < m->paths[k].n; i++) {
            CHARL_TRY_CLEANUP(shard_open(m->paths[k].path[i], (token_format)m->o.format, &s));
            m->size = s.size > m->size ? s.size : m->size;
            if (whole) {
                CHARL_TRY_CLEANUP(copy_tokens(m, &s, m->tokens[0] + m->tokens[1]));
            }
            m->tokens[k] += s.n;
            charl__source_close(s.source);
            s.source = NULL;
        }
    }
cleanup:
    charl__source_close(s.source);
    return st;
}

static void import_fini(import *m)
{
    charl_tokenizer_destroy(m->tokenizer);
    charl__writer_destroy(m->w);
    charl_free(m->starts);
    charl_free(m->narrow);
    charl_free(m->wide);
    charl_free(m->raw);
    charl__paths_fini(&m->paths[0]);
    charl__paths_fini(&m->paths[1]);
}

/* Take the vocabulary and the end of text from the tokenizer unless they are given. */
static charl_status load_tokenizer(import *m)
{
    const char *name = m->o.tokenizer;
    int64_t vocab;

    CHARL_TRY(charl_tokenizer_load(name, &m->tokenizer));
    vocab = charl_tokenizer_get_vocab(m->tokenizer);
    CHARL_REQUIRE(m->o.vocab == 0 || m->o.vocab >= vocab, CHARL_ERR_CONFIG,
                  "a vocabulary of %lld is too small for %s, which has %lld tokens", (long long)m->o.vocab, name,
                  (long long)vocab);
    m->o.vocab = m->o.vocab > 0 ? m->o.vocab : vocab;
    if (m->end_of_text < 0) {
        m->end_of_text = charl_tokenizer_get_end_of_text(m->tokenizer);
    }
    return CHARL_OK;
}

static charl_status run_tokens(const void *settings, const char *const *files, int n, const char *out,
                               const charl_import_options *opt)
{
    CHARL_SCOPED(import_fini) import m = {.o = *(const tokens_settings *)settings};
    charl__writer_spec spec = {.kind = CHARL_DATASET_TOKENS};

    m.end_of_text = m.o.end_of_text;
    if (m.o.tokenizer) {
        CHARL_TRY(load_tokenizer(&m));
    }
    CHARL_TRY(charl__import_paths(m.paths, files, n, m.o.val_file, opt->val_split, ENDINGS, out));
    CHARL_TRY(charl__commit_check_inputs(out, &m.o.tokenizer, 1));
    CHARL_TRY(charl__alloc_array(BLOCK_TOKENS, 4, &m.raw));
    CHARL_TRY(charl__alloc_array(BLOCK_TOKENS, sizeof *m.wide, &m.wide));
    CHARL_TRY(charl__alloc_array(BLOCK_TOKENS, sizeof *m.narrow, &m.narrow));
    CHARL_TRY(go_through(&m, m.o.vocab == 0));
    spec.x_dtype = m.size == 2 ? CHARL_U16 : CHARL_U32;
    spec.rows = m.tokens[0];
    spec.more = m.tokens[1];
    spec.classes = m.o.vocab > 0 ? m.o.vocab : (int64_t)m.largest + 1;
    CHARL_TRY(charl__writer_create(out, &spec, opt, &m.w));
    CHARL_TRY(go_through(&m, true));
    if (m.n_starts > 0 && m.starts[m.n_starts - 1] == m.tokens[0] + m.tokens[1]) {
        m.n_starts--; /* nothing follows the last end of text */
    }
    CHARL_TRY(charl__writer_documents(m.w, m.starts, m.n_starts));
    if (m.tokenizer) {
        CHARL_TRY(charl__tokenizer_store(m.tokenizer, m.w));
    }
    CHARL_TRY(charl__writer_finish(m.w));
    return CHARL_OK;
}

static const charl_key keys[] = {
    {"vocab", CHARL_KEY_INT, offsetof(tokens_settings, vocab), "[1,2147483647]", false,
     "vocabulary size (default: the tokenizer's, or the largest token plus one)", NULL},
    {"tokenizer", CHARL_KEY_TEXT, offsetof(tokens_settings, tokenizer), NULL, false,
     "file or folder of the tokenizer that made the tokens, so that text can be generated", NULL},
    {"format", CHARL_KEY_CHOICE, offsetof(tokens_settings, format), NULL, false,
     "llm.c: with its header; nanogpt: 16 bits per token and nothing else; auto (default): by the "
     "header",
     "auto|llm.c|nanogpt"},
    {"end_of_text", CHARL_KEY_INT, offsetof(tokens_settings, end_of_text), "[0,2147483646]", false,
     "the token that separates documents, 50256 for GPT-2, so that their places are stored "
     "(default: the tokenizer's)",
     NULL},
    {"val_file", CHARL_KEY_TEXT, offsetof(tokens_settings, val_file), NULL, false,
     "a file, folder or pattern to validate on, instead of --val-split", NULL},
};
static const tokens_settings defaults = {.end_of_text = -1};

const charl_importer charl__importer_tokens = {
    .row.name = "tokens",
    .row.help = "token files of llm.c or nanoGPT; files, folders and patterns",
    CHARL_KEYS(keys),
    CHARL_DEFAULTS(defaults),
    .files = "PATH...",
    .group = 1,
    .note = "PATH is a file, a folder, of which all .bin files are read, or a pattern such as "
            "'fineweb_train_*.bin'.",
    .run = run_tokens,
};
