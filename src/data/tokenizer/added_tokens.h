#ifndef CHARL_DATA_TOKENIZER_ADDED_TOKENS_H
#define CHARL_DATA_TOKENIZER_ADDED_TOKENS_H
/** Tokens that are found in a text before it is split into words: special ones such as <|endoftext|>, and others that were added to a
 *  vocabulary. Start from {0}. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/** A node of a trie of their texts; children form a list. */
typedef struct charl__added_node {
    unsigned char byte;
    bool special;           /* of the token that ends here */
    bool lstrip, rstrip;    /* it takes the white space before it, after it, with it */
    int32_t token;          /* that ends here, -1 for none */
    int32_t child, sibling; /* -1: none */
} charl__added_node;

typedef struct charl__added_tokens {
    charl__added_node *nodes; /* node 0 is the root */
    int32_t count;
    bool first[256]; /* bytes that a token begins with */
} charl__added_tokens;

/** Add a token with a non-empty text. Of `how`, token, special, lstrip and rstrip are read.
 *  Errors: ERR_DATA  another token has this text; ERR_NOMEM. */
charl_status charl__added_tokens_add(charl__added_tokens *a, const charl__added_node *how, const unsigned char *text,
                                     size_t bytes) CHARL_MUST_CHECK;

/** The first token in text[from, bytes), the longest of those that begin there. Special ones are only found if requested; otherwise they are text
 *  in which no other token is found.
 *  Returns where it begins, or `bytes` if there is none; it is text[return value, *end), with the white space that it takes. */
size_t charl__added_tokens_find(const charl__added_tokens *a, bool special, const unsigned char *text, size_t bytes,
                                size_t from, size_t *end, int32_t *token);

void charl__added_tokens_fini(charl__added_tokens *a);

#endif
