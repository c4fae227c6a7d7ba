/* Importer of texts. Bytes are copied as they are read. For the other tokenizers the text is in
 * memory: it is read once to learn, once to count its tokens and once to write them. */
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "base/utf8.h"
#include "charl/dataset.h"
#include "io/dataset/dataset_write.h"
#include "io/import/import_source.h"
#include "io/tokenizer/tokenizer_private.h"

enum { BLOCK_BYTES = 1 << 20, DEFAULT_VOCAB = 4096 };

typedef charl_status (*use)(void *ctx, const unsigned char *bytes, size_t n);

/* Give the contents of all files to `each`, block by block. */
static charl_status read_all(const char *const *paths, int n, use each, void *ctx)
{
    charl_status st = CHARL_OK;
    charl__source *s = NULL;
    unsigned char *block = NULL;
    size_t got;

    CHARL_TRY_CLEANUP(charl_alloc(BLOCK_BYTES, &block));
    for (int i = 0; i < n; i++) {
        CHARL_TRY_CLEANUP(charl__source_open(paths[i], &s));
        do {
            CHARL_TRY_CLEANUP(charl__source_some(s, block, BLOCK_BYTES, &got));
            CHARL_TRY_CLEANUP(each(ctx, block, got));
        } while (got > 0);
        charl__source_close(s);
        s = NULL;
    }
cleanup:
    charl__source_close(s);
    charl_free(block);
    return st;
}

static charl_status count_bytes(void *ctx, const unsigned char *bytes, size_t n)
{
    (void)bytes;
    *(int64_t *)ctx += (int64_t)n;
    return CHARL_OK;
}

static charl_status write_bytes(void *ctx, const unsigned char *bytes, size_t n)
{
    return charl__writer_put(ctx, bytes, NULL, (int64_t)n);
}

static charl_status import_bytes(const char *const *paths, int n, const char *out, const charl_import_options *opt)
{
    charl_status st = CHARL_OK;
    charl__writer_spec spec = {.kind = CHARL_DATASET_TOKENS, .x_dtype = CHARL_U8, .classes = 256};
    charl_tokenizer *t = NULL;
    charl__writer *w = NULL;

    CHARL_TRY_CLEANUP(read_all(paths, n, count_bytes, &spec.rows));
    CHARL_TRY_CLEANUP(charl_tokenizer_create(CHARL_TOKENIZER_BYTES, "", 0, 0, &t));
    CHARL_TRY_CLEANUP(charl__writer_create(out, &spec, opt, &w));
    CHARL_TRY_CLEANUP(read_all(paths, n, write_bytes, w));
    CHARL_TRY_CLEANUP(charl__tokenizer_store(t, w));
    CHARL_TRY_CLEANUP(charl__writer_finish(w));
cleanup:
    charl__writer_destroy(w);
    charl_tokenizer_destroy(t);
    return st;
}

static charl_status append(void *ctx, const unsigned char *bytes, size_t n)
{
    return charl__text_append(ctx, bytes, n);
}

/* All files in one; for characters each must be UTF-8. */
static charl_status read_text(const char *const *paths, int n, charl_tokenizer_kind kind, charl__text *text)
{
    for (int i = 0; i < n; i++) {
        const size_t begin = text->length;
        size_t valid;

        CHARL_TRY(read_all(paths + i, 1, append, text));
        valid = charl__utf8_valid(text->data + begin, text->length - begin);
        CHARL_REQUIRE(kind != CHARL_TOKENIZER_CHARS || valid == text->length - begin, CHARL_ERR_DATA,
                      "%s: byte %zu is not UTF-8; HINT --tokenizer bytes and bpe take any file", paths[i], valid);
    }
    CHARL_REQUIRE(text->length > 0, CHARL_ERR_DATA, "%s: there is no text", paths[0]);
    return CHARL_OK;
}

/* Bytes of the text that train: all but the last part, cut between two characters. */
static charl_status cut_text(const charl__text *text, double val_split, size_t *out)
{
    const double rest = (double)text->length * (1.0 - val_split);
    size_t cut = (size_t)rest;

    CHARL_REQUIRE(val_split >= 0 && val_split < 1, CHARL_ERR_CONFIG,
                  "val_split must be at least 0 and less than 1, not %g", val_split);
    while (cut > 0 && cut < text->length && ((unsigned char)text->data[cut] & 0xc0) == 0x80) {
        cut--;
    }
    CHARL_REQUIRE(cut > 0 && (val_split <= 0 || cut < text->length), CHARL_ERR_CONFIG,
                  "val_split %g of %zu bytes leaves nothing to %s", val_split, text->length,
                  cut > 0 ? "validate on" : "train on");
    *out = cut;
    return CHARL_OK;
}

static charl_status count_tokens(void *ctx, const int32_t *tokens, int64_t n)
{
    (void)tokens;
    *(int64_t *)ctx += n;
    return CHARL_OK;
}

/* Collects tokens in their stored type into blocks, which are written. */
typedef struct sink {
    charl__writer *w;
    charl_dtype dtype;
    int64_t n;
    unsigned char *block; /* [BLOCK_BYTES] */
} sink;

static charl_status flush(sink *s)
{
    CHARL_TRY(charl__writer_put(s->w, s->block, NULL, s->n));
    s->n = 0;
    return CHARL_OK;
}

static charl_status write_tokens(void *ctx, const int32_t *tokens, int64_t n)
{
    sink *s = ctx;

    for (int64_t i = 0; i < n; i++) {
        if (s->n == BLOCK_BYTES / 4) {
            CHARL_TRY(flush(s));
        }
        switch (s->dtype) {
        case CHARL_U8:
            s->block[s->n++] = (unsigned char)tokens[i];
            break;
        case CHARL_U16:
            ((uint16_t *)(void *)s->block)[s->n++] = (uint16_t)tokens[i];
            break;
        default:
            ((uint32_t *)(void *)s->block)[s->n++] = (uint32_t)tokens[i];
            break;
        }
    }
    return CHARL_OK;
}

/* The tokens of [0, cut) and of the rest, as one set of data. */
static charl_status write_set(const charl_tokenizer *t, const charl__text *text, size_t cut, const char *out,
                              const charl_import_options *opt)
{
    charl_status st = CHARL_OK;
    const int64_t vocab = charl_tokenizer_get_vocab(t);
    charl__writer_spec spec = {.kind = CHARL_DATASET_TOKENS, .classes = vocab};
    sink s = {.dtype = vocab <= 1 << 8 ? CHARL_U8 : vocab <= 1 << 16 ? CHARL_U16 : CHARL_U32};

    spec.x_dtype = s.dtype;
    CHARL_TRY_CLEANUP(charl_alloc(BLOCK_BYTES, &s.block));
    CHARL_TRY_CLEANUP(charl__tokenizer_each(t, text->data, cut, count_tokens, &spec.rows));
    CHARL_TRY_CLEANUP(charl__tokenizer_each(t, text->data + cut, text->length - cut, count_tokens, &spec.more));
    CHARL_TRY_CLEANUP(charl__writer_create(out, &spec, opt, &s.w));
    CHARL_TRY_CLEANUP(charl__tokenizer_each(t, text->data, cut, write_tokens, &s));
    CHARL_TRY_CLEANUP(charl__tokenizer_each(t, text->data + cut, text->length - cut, write_tokens, &s));
    CHARL_TRY_CLEANUP(flush(&s));
    CHARL_TRY_CLEANUP(charl__tokenizer_store(t, s.w));
    CHARL_TRY_CLEANUP(charl__writer_finish(s.w));
cleanup:
    charl__writer_destroy(s.w);
    charl_free(s.block);
    return st;
}

charl_status charl_import_text(const char *const *paths, int n, const charl_text_options *text, const char *out,
                               const charl_import_options *opt)
{
    charl_status st = CHARL_OK;
    const charl_tokenizer_kind kind = text ? text->tokenizer : CHARL_TOKENIZER_BYTES;
    const int64_t vocab = text && text->vocab != 0 ? text->vocab : DEFAULT_VOCAB;
    charl_import_options options = opt ? *opt : (charl_import_options){0};
    charl_tokenizer *t = NULL;
    charl__text all = {0};
    size_t cut;

    CHARL_REQUIRE_CLEANUP(n >= 1, CHARL_ERR_INVALID, "no text to import");
    if (kind == CHARL_TOKENIZER_BYTES) {
        CHARL_TRY_CLEANUP(import_bytes(paths, n, out, opt));
        goto cleanup;
    }
    CHARL_TRY_CLEANUP(read_text(paths, n, kind, &all));
    cut = all.length;
    if (kind == CHARL_TOKENIZER_BPE) { /* validation text must not shape the vocabulary */
        CHARL_TRY_CLEANUP(cut_text(&all, options.val_split, &cut));
        options.val_split = 0;
    }
    CHARL_TRY_CLEANUP(charl_tokenizer_create(kind, all.data, cut, vocab, &t));
    CHARL_TRY_CLEANUP(write_set(t, &all, cut, out, &options));
cleanup:
    charl_tokenizer_destroy(t);
    charl__text_fini(&all);
    return st;
}
