/* Importer of files of token numbers. */
#include <string.h>

#include "base/alloc.h"
#include "charl/dataset.h"
#include "io/dataset/dataset_write.h"
#include "io/import/import_source.h"

enum {
    BLOCK_BYTES = 1 << 20,
    HEADER_BYTES = 1024, /* of llm.c: 256 i32: magic, version, number of tokens */
    MAGIC_U16 = 20240520,
    MAGIC_U32 = 20240801,
};

typedef struct token_file {
    charl__source *source;
    bool header;
    size_t size; /* bytes per token */
    int64_t n;
} token_file;

static uint32_t little_endian(const unsigned char *p, size_t size)
{
    uint32_t v = 0;

    for (size_t i = 0; i < size; i++) {
        v |= (uint32_t)p[i] << (8 * i);
    }
    return v;
}

/* Which of the formats it is, by the header. Leaves the source at the first token. */
static charl_status tokens_begin(token_file *t, const char *path)
{
    unsigned char head[HEADER_BYTES];
    size_t got = 0;
    uint32_t magic;

    CHARL_TRY(charl__source_some(t->source, head, sizeof head, &got));
    magic = got == sizeof head ? little_endian(head, 4) : 0;
    if (magic == MAGIC_U16 || magic == MAGIC_U32) {
        t->header = true;
        t->size = magic == MAGIC_U16 ? 2 : 4;
        t->n = little_endian(head + 8, 4);
        return CHARL_OK;
    }
    t->header = false;
    t->size = 2;
    t->n = charl__source_file_bytes(t->source) / 2;
    CHARL_REQUIRE(charl__source_file_bytes(t->source) % 2 == 0, CHARL_ERR_DATA,
                  "%s: an odd number of bytes cannot be tokens of 16 bits", path);
    CHARL_TRY(charl__source_rewind(t->source));
    return CHARL_OK;
}

/* All tokens in order, checked against `vocab`, into `w`; without a writer only the largest is
 * found. */
static charl_status tokens_copy(token_file *t, int64_t vocab, charl__writer *w, int64_t *largest)
{
    charl_status st = CHARL_OK;
    const int64_t block = BLOCK_BYTES / 4;
    unsigned char *raw = NULL;
    uint32_t *wide = NULL;
    uint16_t *narrow = NULL;

    CHARL_TRY_CLEANUP(charl_alloc_array(block, 4, &raw));
    CHARL_TRY_CLEANUP(charl_alloc_array(block, sizeof *wide, &wide));
    CHARL_TRY_CLEANUP(charl_alloc_array(block, sizeof *narrow, &narrow));
    *largest = 0;
    for (int64_t i = 0; i < t->n; i += block) {
        const int64_t n = t->n - i < block ? t->n - i : block;

        CHARL_TRY_CLEANUP(charl__source_exact(t->source, raw, (size_t)n * t->size, "the tokens"));
        for (int64_t k = 0; k < n; k++) {
            wide[k] = little_endian(raw + (size_t)k * t->size, t->size);
            narrow[k] = (uint16_t)wide[k];
            *largest = wide[k] > *largest ? wide[k] : *largest;
            CHARL_REQUIRE_CLEANUP(vocab == 0 || wide[k] < vocab, CHARL_ERR_DATA,
                                  "%s: token %lld is %u, the vocabulary has %lld", charl__source_path(t->source),
                                  (long long)(i + k), wide[k], (long long)vocab);
        }
        if (w) {
            CHARL_TRY_CLEANUP(charl__writer_put(w, t->size == 2 ? (void *)narrow : (void *)wide, NULL, n));
        }
    }
    CHARL_TRY_CLEANUP(charl__source_end(t->source));
cleanup:
    charl_free(narrow);
    charl_free(wide);
    charl_free(raw);
    return st;
}

charl_status charl_import_tokens(const char *path, int64_t vocab, const char *out, const charl_import_options *opt)
{
    charl_status st = CHARL_OK;
    token_file t = {0};
    charl__writer *w = NULL;
    charl__writer_spec spec = {.kind = CHARL_DATASET_TOKENS};
    int64_t largest = 0;

    CHARL_REQUIRE_CLEANUP(vocab >= 0 && vocab <= INT32_MAX, CHARL_ERR_CONFIG, "a vocabulary of %lld", (long long)vocab);
    CHARL_TRY_CLEANUP(charl__source_open(path, &t.source));
    CHARL_TRY_CLEANUP(tokens_begin(&t, path));
    CHARL_TRY_CLEANUP(tokens_copy(&t, vocab, NULL, &largest));
    CHARL_REQUIRE_CLEANUP(largest < INT32_MAX, CHARL_ERR_DATA, "%s: token %lld is too large", path, (long long)largest);
    CHARL_TRY_CLEANUP(charl__source_rewind(t.source));
    CHARL_TRY_CLEANUP(tokens_begin(&t, path));
    spec.x_dtype = t.size == 2 ? CHARL_U16 : CHARL_U32;
    spec.rows = t.n;
    spec.classes = vocab > 0 ? vocab : largest + 1;
    CHARL_TRY_CLEANUP(charl__writer_create(out, &spec, opt, &w));
    CHARL_TRY_CLEANUP(tokens_copy(&t, vocab, w, &largest));
    CHARL_TRY_CLEANUP(charl__writer_finish(w));
cleanup:
    charl__writer_destroy(w);
    charl__source_close(t.source);
    return st;
}
