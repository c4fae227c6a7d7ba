/* Several files joined to one set: their rows follow each other, split by split. Each file is a separate data set, whose arrays are borrowed. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "io/dataset/dataset_private.h"
#include "io/dataset/dataset_read.h"
#include "io/schema.h"
#include "io/scoped.h"

/* The texts, which must be equal in all files. */
static charl_status merge_texts(charl_dataset *ds)
{
    for (int i = 0; i < CHARL__SCHEMA_TEXTS; i++) {
        const char *first = *charl__schema_text_of(ds->joined[0]->stored, i);

        for (int j = 1; j < ds->n_joined; j++) {
            CHARL_REQUIRE(strcmp(first, *charl__schema_text_of(ds->joined[j]->stored, i)) == 0, CHARL_ERR_DATA,
                          "%s and %s differ in their %s; HINT import them in one go", ds->joined[0]->file.path,
                          ds->joined[j]->file.path, charl__schema_texts[i].name);
        }
        CHARL_TRY(charl__schema_set(charl__schema_text_of(ds->stored, i), first));
    }
    return CHARL_OK;
}

/* Mean and deviation of one kind, of a set. */
typedef struct stats {
    float **mean, **std;
    int64_t *n;
} stats;

static stats stats_of(charl_dataset *ds, bool targets)
{
    return targets ? (stats){&ds->stored->target_mean, &ds->stored->target_std, &ds->stored->n_target_stats}
                   : (stats){&ds->stored->mean, &ds->stored->std, &ds->stored->n_stats};
}

/* Statistics of samples or targets over the training rows of all files: E[x] and E[x^2] - E[x]^2. None if a file has none. */
static charl_status merge_stats(charl_dataset *ds, bool targets)
{
    const stats all = stats_of(ds, targets);
    const int64_t n = *stats_of(ds->joined[0], targets).n;
    double rows = 0;

    for (int j = 0; j < ds->n_joined; j++) {
        if (n == 0 || *stats_of(ds->joined[j], targets).n != n) {
            return CHARL_OK;
        }
        rows += (double)ds->joined[j]->views[CHARL_SPLIT_TRAIN].rows;
    }
    CHARL_TRY(charl__alloc_array(n, sizeof **all.mean, all.mean));
    CHARL_TRY(charl__alloc_array(n, sizeof **all.std, all.std));
    for (int64_t c = 0; c < n; c++) {
        double mean = 0, square = 0;

        for (int j = 0; j < ds->n_joined; j++) {
            const double share = (double)ds->joined[j]->views[CHARL_SPLIT_TRAIN].rows / rows;

            mean += (double)(*stats_of(ds->joined[j], targets).mean)[c] * share;
        }
        for (int j = 0; j < ds->n_joined; j++) {
            const stats one = stats_of(ds->joined[j], targets);
            const double off = (double)(*one.mean)[c] - mean, std = (double)(*one.std)[c],
                         share = (double)ds->joined[j]->views[CHARL_SPLIT_TRAIN].rows / rows;

            square += (std * std + off * off) * share;
        }
        (*all.mean)[c] = (float)mean;
        (*all.std)[c] = (float)sqrt(square);
    }
    *all.n = n;
    return CHARL_OK;
}

static charl_status join_arrays(charl_dataset *ds)
{
    for (int j = 0; j < ds->n_joined; j++) {
        charl_dataset *d = ds->joined[j];

        for (int i = 0; i < CHARL__ARRAYS; i++) {
            if (d->arrays[i].rows > 0) {
                CHARL_TRY(charl__array_join(&ds->arrays[i], &d->file, &d->arrays[i]));
            }
        }
    }
    for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
        charl__view *v = &ds->views[s];
        charl__array *x = &ds->arrays[2 * s], *y = &ds->arrays[2 * s + 1], *w = &ds->arrays[CHARL__WEIGHTS + s];

        if (x->rows == 0) {
            continue;
        }
        CHARL_REQUIRE(y->rows == 0 || y->rows == x->rows, CHARL_ERR_DATA,
                      "%s: some of the files have targets, others none", ds->file.path);
        CHARL_REQUIRE(w->rows == 0 || w->rows == x->rows, CHARL_ERR_DATA,
                      "%s: some of the files have weights, others none", ds->file.path);
        v->x = x;
        v->y = y->rows > 0 ? y : NULL;
        v->w = w->rows > 0 ? w : NULL;
        v->items = v->rows = x->rows;
    }
    return CHARL_OK;
}

/* Image files are counted over all files of the set, not per file. */
static charl_status note_pictures(charl_dataset *ds)
{
    for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
        const charl__array *x = ds->views[s].x;
        const int64_t pictures = x ? charl__array_pictures(x) : 0;

        if (pictures > 0) {
            CHARL_TRY(charl__text_printf(&ds->file.note, "%s%s is decoded from %lld image files whenever it is read",
                                         ds->file.note.length ? "\n" : "", x->name, (long long)pictures));
        }
    }
    return CHARL_OK;
}

/* Open the files; each keeps its part of the memory for chunks. */
static charl_status open_files(charl_dataset *ds, char *const *paths, int n, const charl_dataset_options *opt)
{
    enum { LEAST_BYTES = 16 << 20 };
    charl_dataset_options one = *opt;
    bool counted = true; /* no file stores the number of classes */
    const int64_t share = (opt->cache_bytes > 0 ? opt->cache_bytes : CHARL_DATASET_CACHE_BYTES) / n;

    one.val_split = 0;
    one.fold = one.folds = 0;
    one.sampling = CHARL_SAMPLING_ONCE;
    one.cache_bytes = opt->cache_bytes > 0 || share > LEAST_BYTES ? share + 1 : LEAST_BYTES;
    for (int j = 0; j < n; j++) {
        const charl_dataset *first = ds->joined[0];
        charl_dataset *d;

        CHARL_TRY(charl_dataset_open(paths[j], &one, &ds->joined[j]));
        ds->n_joined = j + 1;
        d = ds->joined[j];
        first = ds->joined[0];
        CHARL_REQUIRE(!charl__kind_has_tokens(d->kind), CHARL_ERR_DATA,
                      d->kind == CHARL_DATASET_TOKENS
                          ? "%s holds %s; several sets of tokens are opened as a mix, or imported in one go"
                          : "%s holds %s, which are merged when they are imported",
                      paths[j], charl_dataset_kind_name(d->kind));
        CHARL_REQUIRE(d->kind == first->kind, CHARL_ERR_DATA, "%s holds %s, %s holds %s", paths[j],
                      charl_dataset_kind_name(d->kind), paths[0], charl_dataset_kind_name(first->kind));
        if (d->labels) { /* labels are named when the labels of all files are known */
            CHARL_TRY(charl__dataset_name_labels(d, false));
        }
        counted = counted && d->labels;
        ds->classes = d->classes > ds->classes ? d->classes : ds->classes;
    }
    ds->classes = counted ? 0 : ds->classes;
    ds->kind = ds->joined[0]->kind;
    return CHARL_OK;
}

charl_status charl__dataset_open_joined(const char *pattern, char *const *paths, int n,
                                        const charl_dataset_options *opt, charl_dataset **out)
{
    CHARL_SCOPED(charl__dataset_left) charl_dataset *ds = NULL;

    *out = NULL;
    CHARL_TRY(charl__dataset_create(&ds));
    CHARL_TRY(charl__strdup(pattern, &ds->file.path));
    CHARL_TRY(charl__alloc_array(n, sizeof(charl_dataset *), &ds->joined));
    CHARL_TRY(open_files(ds, paths, n, opt));
    CHARL_TRY(merge_texts(ds));
    CHARL_TRY(merge_stats(ds, false));
    CHARL_TRY(merge_stats(ds, true));
    CHARL_TRY(join_arrays(ds));
    CHARL_TRY(note_pictures(ds));
    CHARL_TRY(charl__dataset_complete(ds, opt));
    *out = ds;
    ds = NULL;
    return CHARL_OK;
}
