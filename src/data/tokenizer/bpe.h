#ifndef CHARL_DATA_TOKENIZER_BPE_H
#define CHARL_DATA_TOKENIZER_BPE_H
/** Encoding of words. A text is normalized, added tokens are found in it, the rest is split into words, and a model encodes each word:
 *
 *      merges     byte pair encoding: the pair of tokens with the lowest rank is merged first, the leftmost of equal ones first, until no pair has
 *                 a rank
 *      unigram    the tokens with the highest sum of scores
 *      wordpiece  at each place the longest token
 */
#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/merge_table.h"
#include "data/tokenizer/normalize.h"
#include "data/tokenizer/splitter.h"
#include "data/tokenizer/tokenizer_private.h"

enum { CHARL__NORMALIZERS = 16 };

typedef enum charl__word_model {
    CHARL__MODEL_MERGES,
    CHARL__MODEL_UNIGRAM,
    CHARL__MODEL_WORDPIECE,
} charl__word_model;

/** The tokens of unigram and wordpiece, by their bytes: node 0 is the empty text, `next` has (node, byte) -> node. */
typedef struct charl__trie {
    charl__merge_table next;
    int32_t *token; /* [nodes] that ends at a node, -1 for none */
    int32_t nodes;
} charl__trie;

/** Scratch of unigram and wordpiece: the tokens of a word, and the best way to each of its bytes. */
typedef struct charl__trie_work {
    int32_t *token;
    struct charl__trie_way {
        double score;
        int32_t from, token; /* the last token, and where it begins; from -1: none leads here */
    } * way;
    size_t capacity;
    double score; /* of the words so far, with `sentence` */
} charl__trie_work;

/** The data for encoding; immutable. */
struct charl__bpe {
    charl__splitter *splitter;
    charl__word_model model;
    charl__merge_table merges;
    charl__trie trie;     /* unigram, wordpiece */
    double *score;        /* unigram: [vocab] */
    double unknown_score; /* unigram */
    bool single;          /* unigram: sums of scores are rounded to f32, as in SentencePiece */
    bool sentence; /* unigram: scores are summed over all words between added tokens, so that they are rounded alike */
    int32_t unknown;   /* the token of what has no other; -1: none */
    bool fuse_unknown; /* one for several in a row */
    int32_t byte_token[256];
    bool lacks_bytes;         /* byte_token of some is -1, for example of bytes that UTF-8 does not use */
    bool characters;          /* characters are merged, not bytes; byte_token encodes those without a token */
    uint32_t prefix;          /* characters: CHARL__PRETRAINED_PREFIX and its kin */
    bool whole_words;         /* a word that is a token is encoded as that token, whatever the merges say */
    charl__token_index index; /* whole_words, characters: the tokens that words and characters can be */
    bool cuts_at_spaces;      /* charl__tokenizer_cuts_at_spaces; set by charl__bpe_find_cuts */
    charl__normalizer normalizer[CHARL__NORMALIZERS]; /* their texts are in the state */
    int normalizers;
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

/** Build the trie of the tokens i with heads[4 * i] & mask. Errors: ERR_NOMEM. */
charl_status charl__trie_init(charl__trie *trie, const charl_tokenizer *t, const unsigned char *heads,
                              unsigned mask) CHARL_MUST_CHECK;
void charl__trie_fini(charl__trie *trie);
/** The tokens of a word: w->token[0, *n). Errors: ERR_NOMEM; ERR_DATA  the word has 2^31 bytes. */
charl_status charl__unigram_encode(const struct charl__bpe *b, charl__trie_work *w, const unsigned char *word,
                                   size_t bytes, int64_t *n) CHARL_MUST_CHECK;
charl_status charl__wordpiece_encode(const struct charl__bpe *b, charl__trie_work *w, const unsigned char *word,
                                     size_t bytes, int64_t *n) CHARL_MUST_CHECK;
void charl__trie_work_fini(charl__trie_work *w);

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
