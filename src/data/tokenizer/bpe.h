#ifndef CHARL_DATA_TOKENIZER_BPE_H
#define CHARL_DATA_TOKENIZER_BPE_H
/** Byte pair encoding: in each word of a text the pair of tokens with the lowest rank is merged first, the leftmost of equal ones first,
 *  until no pair has a rank. */
#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/merge_table.h"
#include "data/tokenizer/splitter.h"
#include "data/tokenizer/tokenizer_private.h"

/** The data for encoding; immutable. */
struct charl__bpe {
    charl__splitter *splitter;
    charl__merge_table merges;
    int32_t byte_token[256];
    bool lacks_bytes;               /* byte_token of some is -1, for example of bytes that UTF-8 does not use */
    bool characters;                /* characters are merged, not bytes; byte_token encodes those without a token */
    uint32_t prefix;                /* characters: CHARL__PRETRAINED_PREFIX and its kin */
    bool whole_words;               /* a word that is a token is encoded as that token, whatever the merges say */
    charl__token_index index;       /* whole_words, characters: the tokens that words and characters can be */
    bool cuts_at_spaces;            /* charl__tokenizer_cuts_at_spaces; set by charl__bpe_find_cuts */
    bool nfc;                       /* the text is converted to Unicode's normal form C */
    charl__added_tokens added;      /* found in the unnormalized text */
    charl__added_tokens normalized; /* found in the normalized text */
};

/** A model without tokens; the caller fills in the rest. Errors: ERR_NOMEM. */
charl_status charl__bpe_create(charl__bpe **out) CHARL_MUST_CHECK;
void charl__bpe_destroy(charl__bpe *b);
/** Find out where a text can be divided, after everything else is filled in. Errors: ERR_NOMEM. */
charl_status charl__bpe_find_cuts(charl__bpe *b) CHARL_MUST_CHECK;

/** The encoding of a type of tokenizer with merges. */
charl_status charl__bpe_encode(charl__encoder *e, const unsigned char *text, size_t bytes) CHARL_MUST_CHECK;

/** Learn at most vocab - 256 merges from a text: state is u32 [*n / 2, 2]. As charl__tokenizer_type.learn. */
charl_status charl__bpe_learn(const unsigned char *text, size_t bytes, int64_t vocab, void **state,
                              int64_t *n) CHARL_MUST_CHECK;

/** A priority queue: the largest priority first, among equals the smallest key. Start from {0}. */
typedef struct charl__queued {
    int64_t priority;
    uint64_t key;
} charl__queued;

typedef struct charl__heap {
    charl__queued *items;
    int64_t count, capacity;
} charl__heap;

charl_status charl__heap_push(charl__heap *h, int64_t priority, uint64_t key) CHARL_MUST_CHECK;
/** False if it is empty. */
bool charl__heap_pop(charl__heap *h, charl__queued *out);
void charl__heap_fini(charl__heap *h);

#endif
