#ifndef CHARL_IO_TOKENIZER_TOKENIZER_PRIVATE_H
#define CHARL_IO_TOKENIZER_TOKENIZER_PRIVATE_H
/** A tokenizer as its own source files and the importer see it. */
#include <stdbool.h>

#include "charl/tokenizer.h"
#include "io/dataset/dataset_write.h"
#include "io/tokenizer/word_map.h"

enum {
    CHARL__TOKENIZER_MAX_VOCAB = 1 << 20, /* of bpe; all code points are a little more */
    CHARL__TOKEN_MAX_BYTES = 4096         /* of bpe */
};

struct charl_tokenizer {
    charl_tokenizer_kind kind;
    int64_t vocab;
    unsigned char *bytes;  /* of all tokens, concatenated */
    int64_t *starts;       /* [vocab + 1] in bytes */
    uint32_t *points;      /* chars: [vocab] code points, ascending */
    uint32_t *merges;      /* bpe: [vocab - 256, 2]; token 256 + i is the concatenation of both */
    charl__word_map ranks; /* bpe: charl__pair of a merge -> its i */
};

/** Gets consecutive tokens of a text, borrowed for the call. */
typedef charl_status (*charl__token_sink)(void *ctx, const int32_t *tokens, int64_t n);

/** charl_tokenizer_encode in parts, without holding all tokens. */
charl_status charl__tokenizer_each(const charl_tokenizer *t, const char *text, size_t bytes, charl__token_sink sink,
                                   void *ctx) CHARL_MUST_CHECK;

/** Put the tokenizer into a data set that is being written. Errors: ERR_DISK. */
charl_status charl__tokenizer_store(const charl_tokenizer *t, charl__writer *w) CHARL_MUST_CHECK;

/** What a tokenizer has learnt, borrowed: chars: points [*n], bpe: merges [*n / 2, 2]; bytes: none.
 */
const uint32_t *charl__tokenizer_learnt(const charl_tokenizer *t, int64_t *n);
/** The tokenizer that learnt these n numbers, which are copied. Errors: ERR_DATA, ERR_NOMEM. */
charl_status charl__tokenizer_restore(charl_tokenizer_kind kind, const uint32_t *learnt, int64_t n,
                                      charl_tokenizer **out) CHARL_MUST_CHECK;
/** Whether they encode every text alike; either may be NULL. */
bool charl__tokenizer_equal(const charl_tokenizer *a, const charl_tokenizer *b);
/** The kind that is called `name`, or CHARL_TOKENIZER_KIND_COUNT. */
charl_tokenizer_kind charl__tokenizer_kind_of(const char *name);

/** Room for the bytes of `vocab` tokens, `total` together. The caller fills both in. */
charl_status charl__tokens_create(charl_tokenizer *t, int64_t vocab, int64_t total) CHARL_MUST_CHECK;

/* The kinds: learn from a text; become what a file says (the arrays are taken, also after a
 * failure); encode. */
charl_status charl__bytes_learn(charl_tokenizer *t) CHARL_MUST_CHECK;
charl_status charl__bytes_each(const unsigned char *text, size_t bytes, charl__token_sink sink,
                               void *ctx) CHARL_MUST_CHECK;

charl_status charl__chars_learn(charl_tokenizer *t, const unsigned char *text, size_t bytes) CHARL_MUST_CHECK;
/** Errors: ERR_DATA when the points do not ascend or are none. */
charl_status charl__chars_become(charl_tokenizer *t, uint32_t *points, int64_t n) CHARL_MUST_CHECK;
charl_status charl__chars_each(const charl_tokenizer *t, const unsigned char *text, size_t bytes,
                               charl__token_sink sink, void *ctx) CHARL_MUST_CHECK;

charl_status charl__bpe_learn(charl_tokenizer *t, const unsigned char *text, size_t bytes,
                              int64_t vocab) CHARL_MUST_CHECK;
/** Errors: ERR_DATA when a merge refers to a later token, comes twice or gets too long. */
charl_status charl__bpe_become(charl_tokenizer *t, uint32_t *merges, int64_t n) CHARL_MUST_CHECK;
charl_status charl__bpe_each(const charl_tokenizer *t, const unsigned char *text, size_t bytes, charl__token_sink sink,
                             void *ctx) CHARL_MUST_CHECK;

#endif
