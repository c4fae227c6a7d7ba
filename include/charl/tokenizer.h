#ifndef CHARL_TOKENIZER_H
#define CHARL_TOKENIZER_H
/** Text to tokens and back.
 *
 *      charl_tokenizer_load("gpt2", &t);                            // a folder with a published tokenizer, a data set,
 *      a checkpoint charl_tokenizer_encode(t, text, bytes, false, &tokens, &n);
 *      charl_tokenizer_decode(t, tokens, n, &copy, &length);        // the same bytes
 *
 *  A tokenizer is learnt from a text or read from published files, and then never changes. A data set of tokens carries
 *  the one that made it (datasets/README.md), and so does the checkpoint of a model that was trained on it. Decoding
 *  gives the bytes that were encoded; only a published tokenizer that normalizes text (NFC) gives the normalized text.
 *
 *  Text is bytes with a length, not a string. Every function but destroy is thread-safe. Nothing here is collective.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "charl/status.h"

CHARL_BEGIN_DECLS

typedef struct charl_tokenizer charl_tokenizer;

/** Name of type i = 0, 1, ...; NULL past the last. Local.
 *
 *      bytes       token i is byte i
 *      chars       the characters of the text it was learnt from, in the order of their code points
 *      bpe         byte pair encoding over bytes, inside the words of GPT-2's pattern, learnt from a text
 *      pretrained  byte pair encoding as published: GPT-2, GPT-4, Llama 3, Qwen and others */
const char *charl_tokenizer_type_name(int i);
/** One line about type i; NULL past the last. Local. */
const char *charl_tokenizer_type_help(int i);

/** Learn from a text. The same text gives the same tokenizer on every machine.
 *
 *  type   "bytes", "chars" or "bpe"
 *  vocab  bpe only: tokens at most, 256 to 2^20; fewer when no pair of tokens is left that occurs
 *         twice inside words
 *  out    owned
 *
 *  Blocks. Local. Errors: ERR_DATA    chars: the text is not UTF-8; the message says at which byte
 *                         ERR_CONFIG  bad type or vocab; bpe in a charl that was built without libpcre2
 *                         ERR_NOMEM
 *  Cost: bpe: a few bytes of memory per byte of different words. */
charl_status charl_tokenizer_create(const char *type, const char *text, size_t bytes, int64_t vocab,
                                    charl_tokenizer **out) CHARL_MUST_CHECK;

/** The tokenizer in a file, or in the file of a folder that holds it. *out is owned.
 *
 *      a data set or a checkpoint     the tokenizer that it carries
 *      tokenizer.json                 byte-level BPE of Hugging Face's tokenizers
 *      vocab.json and merges.txt      of GPT-2; either is named; also encoder.json and vocab.bpe
 *      a rank file of tiktoken        its pattern and special tokens are those of the encoding that its name begins
 *                                     with (r50k_base, gpt2, p50k_base, cl100k_base, o200k_base, llama3), else of the
 *                                     one with as many ranks. A vocabulary of other size is called
 *                                     cl100k_base-NAME.tiktoken
 *
 *  Blocks. Local. Errors: ERR_DATA    none of these, or damaged (a checkpoint: ERR_CHECKPOINT); the file asks for what
 *                                     is not supported, named in the message
 *                         ERR_IO      it cannot be read
 *                         ERR_CONFIG  this charl was built without a library that it needs (libpcre2, libjansson,
 *                         libutf8proc) ERR_NOMEM */
charl_status charl_tokenizer_load(const char *path, charl_tokenizer **out) CHARL_MUST_CHECK;

/** Another owner of the same tokenizer: each calls destroy. Local. */
charl_tokenizer *charl_tokenizer_share(const charl_tokenizer *t);

/** NULL is a no-op. */
void charl_tokenizer_destroy(charl_tokenizer *t);

/** Name of its type, borrowed. Local. */
const char *charl_tokenizer_get_type(const charl_tokenizer *t);
/** Number of tokens. Local. */
int64_t charl_tokenizer_get_vocab(const charl_tokenizer *t);

/** The bytes that a token stands for, borrowed and not terminated; NULL for no token. A character
 *  may be spread over several tokens. A published vocabulary may have numbers without a token: no bytes. Local. */
const char *charl_tokenizer_get_token(const charl_tokenizer *t, int64_t token, size_t *bytes);

/** Whether a token is special, such as <|endoftext|>: it separates texts and is no part of them. Local. */
bool charl_tokenizer_is_special(const charl_tokenizer *t, int64_t token);
/** The special token with this text, -1 for none. Local. Cost: reads the vocabulary. */
int64_t charl_tokenizer_find_special(const charl_tokenizer *t, const char *text);
/** The special token that ends a text: the first there is of <|endoftext|>, <|end_of_text|>, DeepSeek's end of
 *  sentence, </s> and <eos>; -1 for none. Local. */
int64_t charl_tokenizer_get_end_of_text(const charl_tokenizer *t);

/** The tokens of a text as a new array, charl_free.
 *
 *  special  the texts of special tokens stand for these tokens; false: they are text like any other, as in text of
 *           unknown origin
 *
 *  Blocks. Local. Errors: ERR_DATA   chars: not UTF-8, or a character that the vocabulary does not
 *                                    have; the message says at which byte. pretrained: a byte without a token: some
 *                                    vocabularies lack those that UTF-8 does not use
 *                         ERR_NOMEM
 *  Cost: linear in the text, but n log n inside a word. */
charl_status charl_tokenizer_encode(const charl_tokenizer *t, const char *text, size_t bytes, bool special,
                                    int32_t **tokens, int64_t *n) CHARL_MUST_CHECK;

/** The text of n tokens as a new array of `bytes` bytes and a NUL, charl_free.
 *
 *  Blocks. Local. Errors: ERR_INVALID  a number that is no token   ERR_NOMEM */
charl_status charl_tokenizer_decode(const charl_tokenizer *t, const int32_t *tokens, int64_t n, char **text,
                                    size_t *bytes) CHARL_MUST_CHECK;

/** The tokenizer as the text of a tokenizer.json, which Hugging Face's `tokenizers` and charl_tokenizer_load read: they
 *  give the same tokens. The tokenizers that charl_tokenizer_load refuses are never written, but for those of type
 *  chars, which only `tokenizers` reads.
 *  *out is the caller's, charl_free. Blocks. Local. Errors: ERR_CONFIG  a special token has the text of another token,
 *  which the format cannot tell apart; ERR_NOMEM. Cost: some 40 bytes per token and merge. */
charl_status charl_tokenizer_print_json(const charl_tokenizer *t, char **out) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
