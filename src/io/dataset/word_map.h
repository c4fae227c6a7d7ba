#ifndef CHARL_IO_DATASET_WORD_MAP_H
#define CHARL_IO_DATASET_WORD_MAP_H
/** A map from 64-bit words to numbers from 0, and pieces of text numbered with its help. Start from
 *  {0}. */
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct charl__word_map {
    uint64_t *keys;
    int32_t *values;         /* -1: the place is free */
    int64_t capacity, count; /* capacity is 0 or a power of two, at least half of it free */
} charl__word_map;

/** -1 if the key is not there. */
int32_t charl__word_map_find(const charl__word_map *m, uint64_t key);
/** Add a key that is not there. Errors: ERR_NOMEM. */
charl_status charl__word_map_add(charl__word_map *m, uint64_t key, int32_t value) CHARL_MUST_CHECK;
void charl__word_map_fini(charl__word_map *m);

/** Two numbers as one key, ordered like the pair. */
static inline uint64_t charl__pair(uint32_t a, uint32_t b)
{
    return (uint64_t)a << 32 | b;
}

/** A piece of text, borrowed. */
typedef struct charl__piece {
    const unsigned char *at;
    size_t bytes;
    int64_t value; /* the user's, 0 for a new piece */
} charl__piece;

typedef struct charl__pieces {
    charl__piece *items; /* in order of first occurrence */
    int64_t count, capacity;
    charl__word_map map; /* hash, plus one for every piece that has it already -> item */
} charl__pieces;

/** *out = number of the piece with these bytes, which is added if it is new. Errors: ERR_NOMEM. */
charl_status charl__pieces_number(charl__pieces *p, const unsigned char *at, size_t bytes,
                                  int32_t *out) CHARL_MUST_CHECK;
/** The number of the piece with these bytes, -1: there is none. */
int32_t charl__pieces_find(const charl__pieces *p, const unsigned char *at, size_t bytes);
void charl__pieces_fini(charl__pieces *p);

#endif
