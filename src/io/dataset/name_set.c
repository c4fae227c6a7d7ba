/* Open addressing with linear probing, at most half full. */
#include "io/dataset/name_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/numeric/hash.h"

enum { FIRST_SLOTS = 64 };

/* The slot of `name`, or the empty one where it belongs. */
static int32_t *find_slot(const charl__name_set *s, const char *name)
{
    uint64_t slot = charl__fnv1a64_string(name) & (uint64_t)(s->n_slots - 1);

    while (s->slots[slot] && strcmp(s->names[s->slots[slot] - 1], name) != 0) {
        slot = (slot + 1) & (uint64_t)(s->n_slots - 1);
    }
    return &s->slots[slot];
}

static charl_status reserve_slots(charl__name_set *s)
{
    charl__name_set wider = *s;

    if (2 * s->n < s->n_slots) {
        return CHARL_OK;
    }
    wider.n_slots = s->n_slots ? 2 * s->n_slots : FIRST_SLOTS;
    CHARL_TRY(charl__alloc_array(wider.n_slots, sizeof *wider.slots, &wider.slots));
    for (int64_t i = 0; i < s->n; i++) {
        *find_slot(&wider, s->names[i]) = (int32_t)(i + 1);
    }
    charl_free(s->slots);
    *s = wider;
    return CHARL_OK;
}

charl_status charl__name_set_add(charl__name_set *s, const char *name, int64_t *index)
{
    int32_t *slot;

    CHARL_TRY(reserve_slots(s));
    slot = find_slot(s, name);
    if (!*slot) {
        CHARL_REQUIRE(s->n < INT32_MAX, CHARL_ERR_NOMEM, "too many different names");
        CHARL_TRY(charl__grow(s->n, sizeof *s->names, &s->names));
        CHARL_TRY(charl__strdup(name, &s->names[s->n]));
        *slot = (int32_t)++s->n;
    }
    *index = *slot - 1;
    return CHARL_OK;
}

typedef struct numbered {
    const char *name;
    int64_t index;
} numbered;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const numbered *)a)->name, ((const numbered *)b)->name);
}

charl_status charl__name_set_sort(const charl__name_set *s, int64_t **order)
{
    charl_status st = CHARL_OK;
    numbered *sorted = NULL;

    *order = NULL;
    CHARL_TRY_CLEANUP(charl__alloc_array(s->n + 1, sizeof *sorted, &sorted));
    CHARL_TRY_CLEANUP(charl__alloc_array(s->n + 1, sizeof **order, order));
    for (int64_t i = 0; i < s->n; i++) {
        sorted[i] = (numbered){s->names[i], i};
    }
    qsort(sorted, (size_t)s->n, sizeof *sorted, by_name);
    for (int64_t i = 0; i < s->n; i++) {
        (*order)[i] = sorted[i].index;
    }
cleanup:
    charl_free(sorted);
    return st;
}

int64_t charl__name_set_find(const charl__name_set *s, const char *name)
{
    return s->n_slots ? *find_slot(s, name) - 1 : -1;
}

void charl__name_set_fini(charl__name_set *s)
{
    for (int64_t i = 0; i < s->n; i++) {
        charl_free(s->names[i]);
    }
    charl_free(s->names);
    charl_free(s->slots);
    *s = (charl__name_set){0};
}
