/* data.sampling: the probability with which each training row is drawn. */
#include <math.h>

#include "base/alloc.h"
#include "io/dataset/dataset_private.h"
#include "io/dataset/dataset_read.h"

enum { BLOCK = 65536, SCALE_BITS = 31 };

typedef struct draw {
    charl_dataset *ds;
    int64_t rows;
    int64_t *count; /* [classes] balanced: rows of each */
    double largest; /* weight */
} draw;

/* Call `each` with the labels or weights of blocks of rows. */
static charl_status scan(draw *d, charl_status (*each)(draw *d, int64_t first, int64_t n, const void *values))
{
    charl_status st = CHARL_OK;
    int64_t *rows = NULL;
    union {
        int32_t *label;
        float *weight;
        void *any;
    } values = {NULL};

    CHARL_TRY_CLEANUP(charl__alloc_array(BLOCK, sizeof *rows, &rows));
    CHARL_TRY_CLEANUP(charl__alloc_array(BLOCK, sizeof(float), &values.any));
    for (int64_t first = 0; first < d->rows; first += BLOCK) {
        const int64_t n = d->rows - first < BLOCK ? d->rows - first : BLOCK;

        for (int64_t i = 0; i < n; i++) {
            rows[i] = first + i;
        }
        if (d->count) {
            CHARL_TRY_CLEANUP(charl_dataset_read(d->ds, CHARL_SPLIT_TRAIN, rows, n, NULL, values.label));
        } else {
            CHARL_TRY_CLEANUP(charl__dataset_read_weights(d->ds, CHARL_SPLIT_TRAIN, rows, n, values.weight));
        }
        CHARL_TRY_CLEANUP(each(d, first, n, values.any));
    }
cleanup:
    charl_free(values.any);
    charl_free(rows);
    return st;
}

static double weight_of(const draw *d, const void *values, int64_t i)
{
    const int32_t *label = values;

    return !d->count ? (double)((const float *)values)[i] : label[i] < 0 ? 0 : 1.0 / (double)d->count[label[i]];
}

static charl_status count_classes(draw *d, int64_t first, int64_t n, const void *values)
{
    const int32_t *label = values;

    (void)first;
    for (int64_t i = 0; i < n; i++) {
        if (label[i] >= 0) {
            d->count[label[i]]++;
        }
    }
    return CHARL_OK;
}

static charl_status find_largest(draw *d, int64_t first, int64_t n, const void *values)
{
    (void)first;
    for (int64_t i = 0; i < n; i++) {
        d->largest = fmax(d->largest, weight_of(d, values, i));
    }
    return CHARL_OK;
}

/* Integers whose sums are exact: the largest weight is 2^31, and only 0 becomes 0. */
static charl_status add_up(draw *d, int64_t first, int64_t n, const void *values)
{
    uint64_t *sums = d->ds->draws + first;

    for (int64_t i = 0; i < n; i++) {
        const double share = weight_of(d, values, i) / d->largest;

        sums[i + 1] = sums[i] + (uint64_t)ceil(share * (double)(INT64_C(1) << SCALE_BITS));
    }
    return CHARL_OK;
}

charl_status charl__dataset_draw(charl_dataset *ds, charl_sampling sampling)
{
    charl_status st = CHARL_OK;
    charl__view *v = &ds->views[CHARL_SPLIT_TRAIN];
    draw d = {.ds = ds, .rows = v->rows};

    if (sampling == CHARL_SAMPLING_ONCE) {
        goto cleanup;
    }
    CHARL_REQUIRE_CLEANUP(ds->kind != CHARL_DATASET_TOKENS, CHARL_ERR_CONFIG,
                          "sampling by class or weight is for samples, but %s holds tokens", ds->file.path);
    if (sampling == CHARL_SAMPLING_BALANCED) {
        CHARL_REQUIRE_CLEANUP(v->y && !ds->values && v->y->item.ndim == 0, CHARL_ERR_CONFIG,
                              "sampling = balanced needs samples of one class each, which %s does not have",
                              ds->file.path);
        CHARL_TRY_CLEANUP(charl__alloc_array(ds->classes, sizeof *d.count, &d.count));
        CHARL_TRY_CLEANUP(scan(&d, count_classes));
    } else {
        CHARL_REQUIRE_CLEANUP(v->w, CHARL_ERR_CONFIG,
                              "sampling = weighted needs weights of the samples, which %s does not have; HINT store "
                              "them as /train/weights, or name their array with weights",
                              ds->file.path);
    }
    CHARL_TRY_CLEANUP(charl__alloc_array(d.rows + 1, sizeof *ds->draws, &ds->draws));
    CHARL_TRY_CLEANUP(scan(&d, find_largest));
    CHARL_REQUIRE_CLEANUP(d.largest > 0, CHARL_ERR_DATA, "%s: all weights of the training samples are 0",
                          ds->file.path);
    CHARL_TRY_CLEANUP(scan(&d, add_up));
    ds->sampling = sampling;
    v->w = sampling == CHARL_SAMPLING_WEIGHTED ? NULL : v->w;
cleanup:
    charl_free(d.count);
    return st;
}
