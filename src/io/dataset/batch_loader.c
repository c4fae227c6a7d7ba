/* The public loader: the reading thread of loader.h with its own memory, for the rows of a rank's slices. */
#include "charl/loader.h"

#include "base/alloc.h"
#include "base/options.h"
#include "base/owner.h"
#include "io/dataset/loader.h"

enum { DEFAULT_PREFETCH = 2 };

static const int64_t MOST_BYTES = INT64_MAX / 4; /* of a batch: allows rounding up */

struct charl_loader {
    charl__owner owner;
    charl__loader *reader;
    charl_loader_batch batch; /* common to all steps */
    unsigned char *memory;    /* of all slots */
    void *x[CHARL__LOADER_MAX_SLOTS], *y[CHARL__LOADER_MAX_SLOTS];
    int held; /* slot that the caller reads; -1: none */
};

/* Divide the memory into slots. */
static charl_status make_slots(charl_loader *l, const charl_dataset_info *info, int n)
{
    const size_t align = 64;
    const size_t x = (l->batch.x_bytes + align - 1) / align * align;
    const size_t y = (l->batch.y_bytes + align - 1) / align * align;

    CHARL_TRY(charl__alloc_array(n, x + y, &l->memory));
    for (int i = 0; i < n; i++) {
        l->x[i] = l->memory + (size_t)i * (x + y);
        l->y[i] = info->labelled ? (unsigned char *)l->x[i] + x : NULL;
    }
    return CHARL_OK;
}

static charl_status check(const charl_slices *mine, const charl_loader_options *o)
{
    charl_slices same;

    CHARL_TRY(charl_slices_range(mine->total, mine->first, mine->count, &same));
    CHARL_REQUIRE(o->batch_size >= 1 && o->batch_size % mine->total == 0, CHARL_ERR_INVALID,
                  "loader: a batch of %lld rows does not divide into %d slices", (long long)o->batch_size, mine->total);
    CHARL_REQUIRE(mine->count >= 1, CHARL_ERR_INVALID, "loader: this rank has no slice");
    CHARL_REQUIRE(o->prefetch >= 0 && o->prefetch <= CHARL_LOADER_MAX_PREFETCH, CHARL_ERR_INVALID,
                  "prefetch is %d; it is 0 to %d", o->prefetch, CHARL_LOADER_MAX_PREFETCH);
    CHARL_REQUIRE(o->shuffle <= CHARL_SHUFFLE_BLOCKS, CHARL_ERR_INVALID,
                  "shuffle is %d; it is one of the constants of charl_shuffle", (int)o->shuffle);
    CHARL_REQUIRE(o->end_step >= 0, CHARL_ERR_INVALID, "end_step is %lld; it is 0 or more", (long long)o->end_step);
    return CHARL_OK;
}

/* At least 1. */
static int64_t row_bytes(const charl_dataset_info *info)
{
    const int64_t x = charl_shape_count(&info->x_shape) * (int64_t)charl_dtype_size(info->x_dtype),
                  y = charl_shape_count(&info->y_shape) * (int64_t)charl_dtype_size(info->y_dtype);

    return x + (info->labelled ? y : 0) + 1;
}

charl_status charl_loader_create(charl_dataset *ds, const charl_slices *mine, const charl_loader_options *options,
                                 charl_loader **out)
{
    CHARL_GIVEN(ds, options, out);
    CHARL__OPTIONS(charl_loader_options, options);
    static const charl_slices whole = {.total = 1, .count = 1};
    charl_status st = CHARL_OK;
    const charl_slices *part = mine ? mine : &whole;
    charl_loader *l = NULL;
    charl_dataset_info info;
    charl__loader_options o;

    *out = NULL;
    CHARL_REQUIRE_CLEANUP(ds, CHARL_ERR_INVALID, "loader: no data set");
    CHARL_TRY_CLEANUP(check(part, options));
    charl_dataset_get_info(ds, &info);
    CHARL_REQUIRE_CLEANUP(options->batch_size <= MOST_BYTES / row_bytes(&info), CHARL_ERR_NOMEM,
                          "loader: no memory for a batch of %lld rows", (long long)options->batch_size);
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *l, &l));
    charl__owner_init(&l->owner);
    l->held = -1;
    l->batch.rows = options->batch_size / part->total * part->count;
    l->batch.x_bytes = (size_t)(l->batch.rows * charl_shape_count(&info.x_shape)) * charl_dtype_size(info.x_dtype);
    if (info.labelled) {
        l->batch.y_bytes = (size_t)(l->batch.rows * charl_shape_count(&info.y_shape)) * charl_dtype_size(info.y_dtype);
    }
    o = (charl__loader_options){.ds = ds,
                                .split = options->split,
                                .shuffle = options->shuffle,
                                .seed = options->seed,
                                .batch = options->batch_size,
                                .row0 = options->batch_size / part->total * part->first,
                                .rows = l->batch.rows,
                                .first_step = options->first_step,
                                .end_step = options->end_step > 0 ? options->end_step : -1,
                                .n_slots = 1 + (options->prefetch ? options->prefetch : DEFAULT_PREFETCH),
                                .part = {[CHARL__BATCH_X] = l->x, [CHARL__BATCH_Y] = l->y}};
    CHARL_TRY_CLEANUP(make_slots(l, &info, o.n_slots));
    CHARL_TRY_CLEANUP(charl__loader_create(&o, &l->reader));
    *out = l;
    l = NULL;
cleanup:
    charl_loader_destroy(l);
    return st;
}

charl_status charl_loader_next(charl_loader *l, charl_loader_batch *out)
{
    CHARL_GIVEN(l, out);
    *out = (charl_loader_batch){.step = -1};
    CHARL_TRY(charl__owner_check(&l->owner, "loader"));
    if (l->held >= 0) {
        charl__loader_release(l->reader, l->held);
        l->held = -1;
    }
    CHARL_TRY(charl__loader_next(l->reader, &l->batch.step, &l->held));
    *out = l->batch;
    out->x = l->x[l->held];
    out->y = l->y[l->held];
    return CHARL_OK;
}

void charl_loader_destroy(charl_loader *l)
{
    if (l) {
        charl__loader_destroy(l->reader);
        charl_free(l->memory);
        charl_free(l);
    }
}
