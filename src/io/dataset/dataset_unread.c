/* The parts of the files of a data set that its readers have not needed, by the states of its blocks. */
#include <stdlib.h>

#include "base/alloc.h"
#include "io/dataset/dataset_private.h"

/* Ranges of one file. */
typedef struct ranges {
    charl_byte_range *at;
    int64_t n;
} ranges;

static charl_status add(ranges *r, int64_t first, int64_t count)
{
    if (r->n > 0 && r->at[r->n - 1].first + r->at[r->n - 1].count == first) {
        r->at[r->n - 1].count += count;
        return CHARL_OK;
    }
    CHARL_TRY(charl__grow(r->n, sizeof *r->at, &r->at));
    r->at[r->n++] = (charl_byte_range){first, count};
    return CHARL_OK;
}

static charl_status add_blocks(ranges *r, const charl__array *a)
{
    const int64_t all = a->rows * (int64_t)a->item_bytes;

    if (a->offset < 0 || a->is_summed || a->converted) {
        return CHARL_OK;
    }
    for (int64_t b = 0; b < a->n_blocks; b++) {
        const int64_t at = b * CHARL__BLOCK_BYTES, left = all - at;

        if (atomic_load(&a->block_state[b]) == CHARL__BLOCK_UNKNOWN) {
            CHARL_TRY(add(r, a->offset + at, left < CHARL__BLOCK_BYTES ? left : CHARL__BLOCK_BYTES));
        }
    }
    return CHARL_OK;
}

static int by_place(const void *a, const void *b)
{
    const charl_byte_range *x = a, *y = b;

    return (x->first > y->first) - (x->first < y->first);
}

typedef charl_status visitor(void *ctx, const char *path, const charl_byte_range *unread, int64_t n);

static charl_status visit_file(charl_dataset *ds, visitor *visit, void *ctx)
{
    charl_status st = CHARL_OK;
    ranges r = {0};

    for (int i = 0; i < CHARL__ARRAYS; i++) {
        const charl__array *a = &ds->arrays[i];

        CHARL_REQUIRE_CLEANUP(
            !a->pictures && a->n_sources == 0, CHARL_ERR_CONFIG,
            "%s: the rows of %s are in other files, which a proof cannot hold; HINT train on a data set that "
            "holds its rows",
            ds->file.path, a->name);
    }
    for (int i = 0; i < 2 * CHARL_SPLIT_COUNT; i++) {
        CHARL_TRY_CLEANUP(add_blocks(&r, &ds->arrays[i]));
    }
    if (r.n > 0) {
        qsort(r.at, (size_t)r.n, sizeof *r.at, by_place);
    }
    CHARL_TRY_CLEANUP(visit(ctx, ds->file.path, r.at, r.n));
cleanup:
    charl_free(r.at);
    return st;
}

charl_status charl_dataset_unread(charl_dataset *ds, visitor *visit, void *ctx)
{
    CHARL_GIVEN(ds, visit);
    for (int i = 0; i < ds->n_parts; i++) {
        CHARL_TRY(charl_dataset_unread(ds->part[i], visit, ctx));
    }
    for (int i = 0; i < ds->n_joined; i++) {
        CHARL_TRY(charl_dataset_unread(ds->joined[i], visit, ctx));
    }
    return ds->n_parts == 0 && ds->n_joined == 0 ? visit_file(ds, visit, ctx) : CHARL_OK;
}
