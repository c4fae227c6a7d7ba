#ifndef CHARL_DATA_TOKENIZER_MERGE_TABLE_H
#define CHARL_DATA_TOKENIZER_MERGE_TABLE_H
/** Two hash tables of byte pair encoding: from a pair of tokens to its merge, and from bytes to the token with these bytes. Start from {0}. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define CHARL__NO_RANK UINT32_MAX

typedef struct charl__merge {
    uint64_t key;  /* of the pair; UINT64_MAX: the slot is free */
    uint32_t rank; /* the lowest is merged first */
    int32_t token; /* that the pair becomes */
} charl__merge;

typedef struct charl__merge_table {
    charl__merge *slots;
    int64_t capacity, count; /* capacity is a power of two, 1 << (64 - shift), at least half of it free */
    int shift;
} charl__merge_table;

/** The slot of a pair, or a free one. The table has at least one slot. */
static inline const charl__merge *charl__merge_find(const charl__merge_table *m, int32_t left, int32_t right)
{
    const uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    uint64_t at =
        (key ^ key >> 32) * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)(uint32_t)left * UINT64_C(0xbf58476d1ce4e5b9);

    at >>= m->shift;
    while (m->slots[at].key != key && m->slots[at].key != UINT64_MAX) {
        at = (at + 1) & (uint64_t)(m->capacity - 1);
    }
    return &m->slots[at];
}

/** Room for n merges. Errors: ERR_NOMEM. */
charl_status charl__merge_table_init(charl__merge_table *m, int64_t n) CHARL_MUST_CHECK;
/** Add a merge, for which there must be room; *known: the pair is there already and is not changed. */
void charl__merge_add(charl__merge_table *m, int32_t left, int32_t right, uint32_t rank, int32_t token, bool *known);
void charl__merge_table_fini(charl__merge_table *m);

/** Tokens by their bytes, which the caller owns. */
typedef struct charl__token_index {
    int32_t *slots; /* -1: free */
    int64_t capacity;
    const unsigned char *bytes; /* of all tokens */
    const int64_t *starts;      /* token i is bytes [starts[i], starts[i + 1]) */
} charl__token_index;

/** An index with room for n tokens. Errors: ERR_NOMEM. */
charl_status charl__token_index_init(charl__token_index *x, int64_t n, const unsigned char *bytes,
                                     const int64_t *starts) CHARL_MUST_CHECK;
/** Add a token, for which there must be room; returns an earlier one with the same bytes, which stays, or -1. */
int32_t charl__token_index_add(charl__token_index *x, int32_t token);
/** The token with these bytes, -1 for none. */
int32_t charl__token_index_find(const charl__token_index *x, const unsigned char *at, size_t bytes);
void charl__token_index_fini(charl__token_index *x);

#endif
