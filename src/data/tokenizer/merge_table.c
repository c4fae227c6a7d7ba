/* Open addressing with linear probing. */
#include "data/tokenizer/merge_table.h"

#include <string.h>

#include "base/alloc.h"
#include "base/numeric/hash.h"

static int64_t capacity_for(int64_t n)
{
    int64_t capacity = 64;

    while (capacity < 2 * n) {
        capacity *= 2;
    }
    return capacity;
}

charl_status charl__merge_table_init(charl__merge_table *m, int64_t n)
{
    *m = (charl__merge_table){0};
    CHARL_TRY(charl__alloc_array(capacity_for(n), sizeof *m->slots, &m->slots));
    m->capacity = capacity_for(n);
    m->shift = 64;
    for (int64_t c = m->capacity; c > 1; c /= 2) {
        m->shift--;
    }
    memset(m->slots, 0xff, (size_t)m->capacity * sizeof *m->slots);
    return CHARL_OK;
}

void charl__merge_add(charl__merge_table *m, int32_t left, int32_t right, uint32_t rank, int32_t token, bool *known)
{
    charl__merge *slot = &m->slots[charl__merge_find(m, left, right) - m->slots];

    *known = slot->key != UINT64_MAX;
    if (!*known) {
        *slot = (charl__merge){(uint64_t)(uint32_t)left << 32 | (uint32_t)right, rank, token};
        m->count++;
    }
}

void charl__merge_table_fini(charl__merge_table *m)
{
    charl_free(m->slots);
    *m = (charl__merge_table){0};
}

charl_status charl__token_index_init(charl__token_index *x, int64_t n, const unsigned char *bytes,
                                     const int64_t *starts)
{
    *x = (charl__token_index){.bytes = bytes, .starts = starts};
    CHARL_TRY(charl__alloc_array(capacity_for(n), sizeof *x->slots, &x->slots));
    x->capacity = capacity_for(n);
    memset(x->slots, 0xff, (size_t)x->capacity * sizeof *x->slots);
    return CHARL_OK;
}

/* The slot of the token with these bytes, or the free one where it would be. */
static int32_t *slot_of(const charl__token_index *x, const unsigned char *at, size_t bytes)
{
    const uint64_t hash = charl__fnv1a64(at, bytes);
    int64_t i = (int64_t)((hash ^ hash >> 32) & (uint64_t)(x->capacity - 1));

    for (; x->slots[i] >= 0; i = (i + 1) & (x->capacity - 1)) {
        const int64_t start = x->starts[x->slots[i]];

        if ((size_t)(x->starts[x->slots[i] + 1] - start) == bytes && memcmp(x->bytes + start, at, bytes) == 0) {
            break;
        }
    }
    return &x->slots[i];
}

int32_t charl__token_index_add(charl__token_index *x, int32_t token)
{
    int32_t *slot = slot_of(x, x->bytes + x->starts[token], (size_t)(x->starts[token + 1] - x->starts[token]));
    const int32_t before = *slot;

    if (before < 0) {
        *slot = token;
    }
    return before;
}

int32_t charl__token_index_find(const charl__token_index *x, const unsigned char *at, size_t bytes)
{
    return *slot_of(x, at, bytes);
}

void charl__token_index_fini(charl__token_index *x)
{
    charl_free(x->slots);
    *x = (charl__token_index){0};
}
