#ifndef CHARL_DATA_TOKENIZER_TOKENIZER_PRIVATE_H
#define CHARL_DATA_TOKENIZER_TOKENIZER_PRIVATE_H
/** A tokenizer as its own source files and the importers see it: what is made of its state (io/tokenizer.h). */
#include <stdbool.h>

#include "base/error.h"
#include "base/registry/registry.h"
#include "charl/tokenizer.h"
#include "io/tokenizer.h"

enum {
    CHARL__TOKENIZER_MAX_VOCAB = 1 << 20, /* of bpe and pretrained; all code points are a little more */
    CHARL__TOKEN_MAX_BYTES = 4096         /* of bpe */
};

typedef struct charl__encoder charl__encoder;
typedef struct charl__bpe charl__bpe;

/** A row of the registry of tokenizers. The layout of the same name says how its state is stored. */
typedef struct charl__tokenizer_type {
    charl_row row;
    /** Learn from a text: state[*n], new. NULL: it is read from files. */
    charl_status (*learn)(const unsigned char *text, size_t bytes, int64_t vocab, void **state, int64_t *n);
    bool has_vocab; /* learn takes the size of the vocabulary */
    bool needs_utf8;
    /** Make everything from the state. Errors: ERR_DATA  the state is not one; ERR_CONFIG  this charl was built without what it needs. */
    charl_status (*become)(charl_tokenizer *t);
    charl_status (*encode)(charl__encoder *e, const unsigned char *text, size_t bytes);
} charl__tokenizer_type;

/** All of them, charl__tokenizer_NAME in a file of this folder, and NULL. Made by CMake. */
extern const void *const charl__tokenizers[];
extern const charl__tokenizer_type charl__tokenizer_bytes, charl__tokenizer_chars, charl__tokenizer_bpe,
    charl__tokenizer_pretrained;

/** Name of type i = 0, 1, ... of those that learn from a text; NULL past the last. */
const char *charl__tokenizer_learnt_name(int i);
/** The type that is called `name`; NULL when there is none. */
const charl__tokenizer_type *charl__tokenizer_type_find(const char *name);

/** Gets consecutive tokens of a text, borrowed for the call. */
typedef charl_status (*charl__token_sink)(void *ctx, const int32_t *tokens, int64_t n);

/** Encodes one text after another, and remembers words that it has met: for one thread.
 *
 *  special  recognise the texts of special tokens
 *
 *  Errors of create: ERR_NOMEM; of run: as charl_tokenizer_encode, and those of the sink. */
charl_status charl__encoder_create(const charl_tokenizer *t, bool special, charl__encoder **out) CHARL_MUST_CHECK;
charl_status charl__encoder_run(charl__encoder *e, const char *text, size_t bytes, charl__token_sink sink,
                                void *ctx) CHARL_MUST_CHECK;
/** NULL is a no-op. */
void charl__encoder_destroy(charl__encoder *e);

/** What a user names as a tokenizer: a type that learns (*out is NULL), else the file or folder of a tokenizer (*type is NULL).
 *  Errors: as charl_tokenizer_load; ERR_CONFIG  neither, listing the types. */
charl_status charl__tokenizer_open(const char *name, const charl__tokenizer_type **type,
                                   charl_tokenizer **out) CHARL_MUST_CHECK;

/** The tokenizer of a data set or a checkpoint. Errors as charl_tokenizer_load. */
charl_status charl__tokenizer_of_hdf5(const char *path, charl_tokenizer **out) CHARL_MUST_CHECK;

/** Whether a text may be encoded in parts that are cut between an ASCII letter or digit and an ASCII space, tab or line end. */
bool charl__tokenizer_cuts_at_spaces(const charl_tokenizer *t);

/** Room for the bytes of `vocab` tokens, `total` together. The caller fills both in. */
charl_status charl__tokens_create(charl_tokenizer *t, int64_t vocab, int64_t total) CHARL_MUST_CHECK;

enum { CHARL__ENCODER_BLOCK = 4096 };

/** While it runs; see charl__encoder_create. */
struct charl__encoder {
    const charl_tokenizer *t;
    bool special;
    charl__token_sink sink;
    void *ctx;
    int32_t block[CHARL__ENCODER_BLOCK]; /* tokens that the sink does not have yet */
    int64_t n;
    struct charl__bpe_work *work; /* of types that merge; NULL before the first text */
};

/** One more token. */
static inline charl_status charl__encoder_put(charl__encoder *e, int32_t token)
{
    e->block[e->n++] = token;
    if (e->n == CHARL__ENCODER_BLOCK) {
        e->n = 0;
        CHARL_TRY(e->sink(e->ctx, e->block, CHARL__ENCODER_BLOCK));
    }
    return CHARL_OK;
}

/** NULL is a no-op. */
void charl__bpe_work_destroy(struct charl__bpe_work *w);

#endif
