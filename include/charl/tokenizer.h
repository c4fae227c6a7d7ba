#ifndef CHARL_TOKENIZER_H
#define CHARL_TOKENIZER_H
/** Text to tokens and back.
 *
 *      charl_tokenizer_load("gpt2", &t); // a folder with a published tokenizer, a dataset, or a checkpoint
 *      charl_tokenizer_encode(t, text, bytes, false, &tokens, &n);
 *      charl_tokenizer_decode(t, tokens, n, &copy, &length); // the same bytes
 *
 *  A tokenizer is trained on a text or read from published files, and is immutable. A dataset of tokens contains the
 *  tokenizer that produced it (datasets/README.md), and so does the checkpoint of a model that was trained on it.
 *  Decoding restores the encoded bytes. A published tokenizer that normalizes text (NFC, lower case, U+2581 for spaces)
 *  restores the normalized text, WordPiece with a space between words; an unknown token restores its own name.
 *  Encoding with one of SentencePiece may put a space in front of the text, which decoding takes from the first token.
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
 *      chars       the characters of the training text, in the order of their code points
 *      bpe         byte pair encoding over bytes, within the words of GPT-2's pattern, trained on a text
 *      pretrained  as published: byte pair encoding (GPT-2, GPT-4, Llama, Mistral, Qwen and others), Unigram (T5,
 *                  XLM-R), WordPiece (BERT) */
const char *charl_tokenizer_type_name(int i);

/** Train a tokenizer on a text. The same text gives the same tokenizer on every machine.
 *
 *  type   "bytes", "chars" or "bpe"
 *  vocab  bpe only: maximum number of tokens, 256 to 2^20; training ends earlier if no pair of tokens occurs twice
 *         within words
 *  out    owned
 *
 *  Blocks. Local. Errors: ERR_DATA    chars: the text is not UTF-8; the message says at which byte
 *                         ERR_CONFIG  unknown type, or vocab out of range; bpe in a build without libpcre2
 *                         ERR_NOMEM
 *  Cost: bpe: a few bytes of memory per byte of distinct words. */
charl_status charl_tokenizer_create(const char *type, const char *text, size_t bytes, int64_t vocab,
                                    charl_tokenizer **out) CHARL_MUST_CHECK;

/** Load the tokenizer of a file, or of the file in a folder that contains one. *out is owned.
 *
 *      a dataset or a checkpoint      the tokenizer that it contains
 *      tokenizer.json                 Hugging Face's tokenizers: byte-level BPE, BPE and Unigram of SentencePiece,
 *                                     WordPiece of BERT
 *      tokenizer.model                BPE or Unigram of SentencePiece, or a rank file
 *      tekken.json                    Mistral's
 *      vocab.txt                      WordPiece of BERT, in lower case unless a tokenizer_config.json says otherwise
 *      vocab.json and merges.txt      GPT-2's files, given by the name of either; also encoder.json and vocab.bpe
 *      a rank file of tiktoken        the encoding, and with it pattern and special tokens, is the one that the file
 *                                     name begins with (r50k_base, gpt2, p50k_base, cl100k_base, o200k_base, llama3,
 *                                     qwen), otherwise the one with the same number of ranks. Name a file with another
 *                                     number of ranks cl100k_base-NAME.tiktoken
 *
 *  Blocks. Local. Errors: ERR_DATA    none of these, or damaged (a checkpoint: ERR_CHECKPOINT); or the file uses a
 *                                     feature that is not supported, which the message names
 *                         ERR_IO      the file cannot be read
 *                         ERR_CONFIG  built without a library that it needs (libpcre2, libutf8proc)
 *                         ERR_NOMEM */
charl_status charl_tokenizer_load(const char *path, charl_tokenizer **out) CHARL_MUST_CHECK;

/** NULL is a no-op. */
void charl_tokenizer_destroy(charl_tokenizer *t);

/** Name of the tokenizer's type, borrowed. Local. */
const char *charl_tokenizer_get_type(const charl_tokenizer *t);
/** Number of tokens. Local. */
int64_t charl_tokenizer_get_vocab(const charl_tokenizer *t);

/** The bytes of a token, borrowed and not NUL-terminated; NULL if `token` is out of range. A character may be spread
 *  over several tokens. A published vocabulary may have unused numbers: *bytes is 0. Local. */
const char *charl_tokenizer_get_token(const charl_tokenizer *t, int64_t token, size_t *bytes);

/** The special token with this text, or -1. Local. Cost: linear in the vocabulary. */
int64_t charl_tokenizer_find_special(const charl_tokenizer *t, const char *text);
/** The special token that ends a text: the first of <|endoftext|>, <|end_of_text|>, DeepSeek's end of sentence, </s>
 *  and <eos> that the vocabulary has, or -1. Local. */
int64_t charl_tokenizer_get_end_of_text(const charl_tokenizer *t);

/** Encode a text into a new array of tokens; release it with charl_free.
 *
 *  special  true: recognize the texts of special tokens; false: encode them like other text, as is right for untrusted
 *           text
 *
 *  Blocks. Local. Errors: ERR_DATA   chars: not UTF-8, or a character that is not in the vocabulary; the message says
 *                                    at which byte. pretrained: a byte without a token (some vocabularies lack the
 *                                    bytes that UTF-8 does not use)
 *                         ERR_NOMEM
 *  Cost: linear in the text, n log n in the length of a word. */
charl_status charl_tokenizer_encode(const charl_tokenizer *t, const char *text, size_t bytes, bool special,
                                    int32_t **tokens, int64_t *n) CHARL_MUST_CHECK;

/** Decode n tokens into a new array of *bytes bytes and a NUL; release it with charl_free.
 *
 *  Blocks. Local. Errors: ERR_INVALID  a token is out of range   ERR_NOMEM */
charl_status charl_tokenizer_decode(const charl_tokenizer *t, const int32_t *tokens, int64_t n, char **text,
                                    size_t *bytes) CHARL_MUST_CHECK;

/** Print the tokenizer as a tokenizer.json, which Hugging Face's `tokenizers` and charl_tokenizer_load read; both
 *  produce the same tokens. A tokenizer of type chars can be read by `tokenizers` only. Release *out with charl_free.
 *
 *  Blocks. Local. Errors: ERR_CONFIG  a special token has the same text as another token, which the format cannot
 *                                     express
 *                         ERR_NOMEM
 *  Cost: about 40 bytes per token and merge. */
charl_status charl_tokenizer_print_json(const charl_tokenizer *t, char **out) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
