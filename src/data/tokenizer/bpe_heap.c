/* A binary heap in an array: the children of item i are 2 i + 1 and 2 i + 2. */
#include "base/alloc.h"
#include "data/tokenizer/bpe.h"

enum { FIRST = 64 };

static bool before(const charl__queued *a, const charl__queued *b)
{
    return a->priority > b->priority || (a->priority == b->priority && a->key < b->key);
}

charl_status charl__heap_push(charl__heap *h, int64_t priority, uint64_t key)
{
    const charl__queued item = {priority, key};
    int64_t i;

    if (h->count == h->capacity) {
        const int64_t capacity = h->capacity > 0 ? 2 * h->capacity : FIRST;

        CHARL_TRY(charl__realloc((size_t)capacity * sizeof *h->items, &h->items));
        h->capacity = capacity;
    }
    for (i = h->count++; i > 0 && before(&item, &h->items[(i - 1) / 2]); i = (i - 1) / 2) {
        h->items[i] = h->items[(i - 1) / 2];
    }
    h->items[i] = item;
    return CHARL_OK;
}

bool charl__heap_pop(charl__heap *h, charl__queued *out)
{
    charl__queued last;
    int64_t i = 0;

    if (h->count == 0) {
        return false;
    }
    *out = h->items[0];
    last = h->items[--h->count];
    for (int64_t child; (child = 2 * i + 1) < h->count; i = child) {
        if (child + 1 < h->count && before(&h->items[child + 1], &h->items[child])) {
            child++;
        }
        if (!before(&h->items[child], &last)) {
            break;
        }
        h->items[i] = h->items[child];
    }
    h->items[i] = last;
    return true;
}

void charl__heap_fini(charl__heap *h)
{
    charl_free(h->items);
    *h = (charl__heap){0};
}
