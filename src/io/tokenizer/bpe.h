#ifndef CHARL_IO_TOKENIZER_BPE_H
#define CHARL_IO_TOKENIZER_BPE_H
/** Parts of byte pair encoding: words of a text, and a queue of merges. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/** The words of a text, one after the other: what GPT-2's pattern calls one, in Unicode's classes
 * of letters, numbers and spaces. Bytes that are not UTF-8 are words of their own, so that the
 * words always make up the text. */
typedef struct charl__words {
    void *code, *match; /* of the pattern */
    const unsigned char *text;
    size_t bytes, at;
    size_t valid; /* from `at` to here it is UTF-8 */
} charl__words;

/** Start with the whole text, borrowed. fini also after a failure. Errors: ERR_CONFIG when charl
 * was built without libpcre2, ERR_NOMEM. */
charl_status charl__words_init(charl__words *w, const unsigned char *text, size_t bytes) CHARL_MUST_CHECK;
/** The next word; false at the end. */
bool charl__words_next(charl__words *w, const unsigned char **word, size_t *bytes);
void charl__words_fini(charl__words *w);

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
/** False when it is empty. */
bool charl__heap_pop(charl__heap *h, charl__queued *out);
void charl__heap_fini(charl__heap *h);

#endif
