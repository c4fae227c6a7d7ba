/* Open addressing with linear probing; a map is never emptied. */
#include "io/dataset/word_map.h"

#include <string.h>

#include "base/alloc.h"
#include "base/numeric/hash.h"

enum { FIRST = 64 };

/* Finalizer of splitmix64: similar keys are far apart. */
static uint64_t mix(uint64_t h)
{
    h ^= h >> 30;
    h *= UINT64_C(0xbf58476d1ce4e5b9);
    h ^= h >> 27;
    h *= UINT64_C(0x94d049bb133111eb);
    return h ^ (h >> 31);
}

/* The slot of `key`, or the free one where it would be. */
static int64_t place_of(const charl__word_map *m, uint64_t key)
{
    int64_t i = (int64_t)(mix(key) & (uint64_t)(m->capacity - 1));

    while (m->values[i] >= 0 && m->keys[i] != key) {
        i = (i + 1) & (m->capacity - 1);
    }
    return i;
}

int32_t charl__word_map_find(const charl__word_map *m, uint64_t key)
{
    return m->capacity > 0 ? m->values[place_of(m, key)] : -1;
}

static charl_status grow(charl__word_map *m)
{
    CHARL_SCOPED(charl__word_map_fini)
    charl__word_map larger = {.capacity = m->capacity > 0 ? 2 * m->capacity : FIRST, .count = m->count};

    CHARL_TRY(charl__alloc_array(larger.capacity, sizeof *larger.keys, &larger.keys));
    CHARL_TRY(charl__alloc_array(larger.capacity, sizeof *larger.values, &larger.values));
    memset(larger.values, 0xff, (size_t)larger.capacity * sizeof *larger.values);
    for (int64_t i = 0; i < m->capacity; i++) {
        if (m->values[i] >= 0) {
            const int64_t to = place_of(&larger, m->keys[i]);

            larger.keys[to] = m->keys[i];
            larger.values[to] = m->values[i];
        }
    }
    charl__word_map_fini(m);
    *m = larger;
    larger = (charl__word_map){0};
    return CHARL_OK;
}

charl_status charl__word_map_add(charl__word_map *m, uint64_t key, int32_t value)
{
    int64_t i;

    if (2 * (m->count + 1) > m->capacity) {
        CHARL_TRY(grow(m));
    }
    i = place_of(m, key);
    m->keys[i] = key;
    m->values[i] = value;
    m->count++;
    return CHARL_OK;
}

void charl__word_map_fini(charl__word_map *m)
{
    charl_free(m->keys);
    charl_free(m->values);
    *m = (charl__word_map){0};
}

/* *key: that of the piece, or one that is free. */
static int32_t find_piece(const charl__pieces *p, const unsigned char *at, size_t bytes, uint64_t *key)
{
    int32_t found;

    *key = charl__fnv1a64(at, bytes);
    while ((found = charl__word_map_find(&p->map, *key)) >= 0 &&
           (p->items[found].bytes != bytes || memcmp(p->items[found].at, at, bytes) != 0)) {
        ++*key;
    }
    return found;
}

int32_t charl__pieces_find(const charl__pieces *p, const unsigned char *at, size_t bytes)
{
    uint64_t key;

    return find_piece(p, at, bytes, &key);
}

charl_status charl__pieces_number(charl__pieces *p, const unsigned char *at, size_t bytes, int32_t *out)
{
    uint64_t key;

    *out = find_piece(p, at, bytes, &key);
    if (*out >= 0) {
        return CHARL_OK;
    }
    CHARL_REQUIRE(p->count < INT32_MAX, CHARL_ERR_NOMEM, "too many different words");
    if (p->count == p->capacity) {
        const int64_t capacity = p->capacity > 0 ? 2 * p->capacity : FIRST;

        CHARL_TRY(charl__realloc((size_t)capacity * sizeof *p->items, &p->items));
        p->capacity = capacity;
    }
    CHARL_TRY(charl__word_map_add(&p->map, key, (int32_t)p->count));
    p->items[p->count] = (charl__piece){.at = at, .bytes = bytes};
    *out = (int32_t)p->count++;
    return CHARL_OK;
}

void charl__pieces_fini(charl__pieces *p)
{
    charl_free(p->items);
    charl__word_map_fini(&p->map);
    *p = (charl__pieces){0};
}
