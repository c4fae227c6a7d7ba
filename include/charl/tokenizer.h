#ifndef CHARL_TOKENIZER_H
#define CHARL_TOKENIZER_H
/** Text to tokens and back.
 *
 *  A tokenizer is learnt from a text and then never changes; a data set of tokens carries the one
 * that made it (datasets/README.md), so that what a model generates can be read. Whatever text was
 * encoded, decoding gives the same bytes. A tokenizer is read-only: every function but destroy is
 * thread-safe. Text is bytes with a length, not a string. Nothing here is collective.
 */
#include <stddef.h>
#include <stdint.h>

#include "charl/status.h"

CHARL_BEGIN_DECLS

typedef struct charl_tokenizer charl_tokenizer;

typedef enum charl_tokenizer_kind {
    CHARL_TOKENIZER_BYTES, /* token i is byte i */
    CHARL_TOKENIZER_CHARS, /* the characters of the text, in the order of their code points */
    CHARL_TOKENIZER_BPE,   /* byte pair encoding over bytes, inside the words of GPT-2's pattern */
    CHARL_TOKENIZER_KIND_COUNT
} charl_tokenizer_kind;

/** "bytes", "chars", "bpe"; "?" outside the enum. Local. */
const char *charl_tokenizer_kind_name(charl_tokenizer_kind kind);

/** Learn from a text. The same text gives the same tokenizer on every machine.
 *
 *  vocab  bpe only: tokens at most, 256 to 2^20; fewer when no pair of tokens is left that occurs
 *         twice inside words
 *  out    owned
 *
 *  Blocks. Local. Errors: ERR_DATA    chars: the text is not UTF-8; the message says at which byte
 *                         ERR_CONFIG  bad vocab; bpe in a charl that was built without libpcre2
 *                         ERR_NOMEM
 *  Cost: bpe: a few bytes of memory per byte of different words. */
charl_status charl_tokenizer_create(charl_tokenizer_kind kind, const char *text, size_t bytes, int64_t vocab,
                                    charl_tokenizer **out) CHARL_MUST_CHECK;

/** The tokenizer of a data set. *out is owned.
 *
 *  Blocks. Local. Errors: ERR_DATA  not a data set of tokens, it carries none (as one imported from
 * token numbers), or it is damaged; ERR_IO, ERR_NOMEM */
charl_status charl_tokenizer_load(const char *path, charl_tokenizer **out) CHARL_MUST_CHECK;

/** A copy that shares nothing. Blocks. Local. Errors: ERR_NOMEM. */
charl_status charl_tokenizer_copy(const charl_tokenizer *t, charl_tokenizer **out) CHARL_MUST_CHECK;

/** NULL is a no-op. */
void charl_tokenizer_destroy(charl_tokenizer *t);

/** Local. */
charl_tokenizer_kind charl_tokenizer_get_kind(const charl_tokenizer *t);
/** Number of tokens. Local. */
int64_t charl_tokenizer_get_vocab(const charl_tokenizer *t);

/** The bytes that a token stands for, borrowed and not terminated; NULL for no token. A character
 * of bytes or bpe may be spread over several tokens. Local. */
const char *charl_tokenizer_get_token(const charl_tokenizer *t, int64_t token, size_t *bytes);

/** The tokens of a text as a new array, charl_free.
 *
 *  Blocks. Local. Errors: ERR_DATA    chars: not UTF-8, or a character that the vocabulary does not
 *                                     have; the message says at which byte
 *                         ERR_CONFIG  bpe in a charl that was built without libpcre2
 *                         ERR_NOMEM */
charl_status charl_tokenizer_encode(const charl_tokenizer *t, const char *text, size_t bytes, int32_t **tokens,
                                    int64_t *n) CHARL_MUST_CHECK;

/** The text of n tokens as a new array of `bytes` bytes and a NUL, charl_free.
 *
 *  Blocks. Local. Errors: ERR_INVALID  a number that is no token   ERR_NOMEM */
charl_status charl_tokenizer_decode(const charl_tokenizer *t, const int32_t *tokens, int64_t n, char **text,
                                    size_t *bytes) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
