#include "io/dataset/name_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

charl_status charl__name_set_add(charl__name_set *s, const char *name, int64_t *index)
{
    int32_t number;

    CHARL_TRY(charl__pieces_number(&s->pieces, (const unsigned char *)name, strlen(name), &number));
    if (number == s->n) {
        CHARL_TRY(charl__grow(s->n, sizeof *s->names, &s->names));
        CHARL_TRY(charl__strdup(name, &s->names[s->n]));
        s->pieces.items[number].at = (const unsigned char *)s->names[s->n++];
    }
    *index = number;
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
    CHARL_SCOPED_FREE numbered *sorted = NULL;

    *order = NULL;
    CHARL_TRY(charl__alloc_array(s->n + 1, sizeof *sorted, &sorted));
    CHARL_TRY(charl__alloc_array(s->n + 1, sizeof **order, order));
    for (int64_t i = 0; i < s->n; i++) {
        sorted[i] = (numbered){s->names[i], i};
    }
    qsort(sorted, (size_t)s->n, sizeof *sorted, by_name);
    for (int64_t i = 0; i < s->n; i++) {
        (*order)[i] = sorted[i].index;
    }
    return CHARL_OK;
}

int64_t charl__name_set_find(const charl__name_set *s, const char *name)
{
    return charl__pieces_find(&s->pieces, (const unsigned char *)name, strlen(name));
}

void charl__name_set_fini(charl__name_set *s)
{
    for (int64_t i = 0; i < s->n; i++) {
        charl_free(s->names[i]);
    }
    charl_free(s->names);
    charl__pieces_fini(&s->pieces);
    *s = (charl__name_set){0};
}
