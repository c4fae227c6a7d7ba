/* Describes in words how the arrays of a data set are stored. */
#include <stdio.h>

#include "base/text/text.h"
#include "io/dataset/dataset_private.h"

/* Bytes that the rows of an array take in the file. */
static double stored_bytes(const charl__array *a)
{
    double bytes = 0;

    for (int i = 0; i < a->n_parts; i++) {
        bytes += stored_bytes(a->part[i].array);
    }
    if (a->n_parts == 0 && a->pictures) {
        return 0;
    }
    if (a->n_parts == 0 && a->chunks) {
        CHARL_H5_LOCKED;

        bytes = (double)H5Dget_storage_size(a->chunks->dataset);
    } else if (a->n_parts == 0) {
        bytes = (double)a->rows * (double)charl_shape_count(&a->item) * (double)a->stored.bytes;
    }
    return bytes;
}

int64_t charl__array_pictures(const charl__array *a)
{
    int64_t rows = a->n_parts == 0 && a->pictures ? a->rows : 0;

    for (int i = 0; i < a->n_parts; i++) {
        rows += charl__array_pictures(a->part[i].array);
    }
    return rows;
}

/* The first part whose rows are in an HDF5 file; NULL: there is none. */
static const charl__array *first_stored(const charl__array *a)
{
    const charl__array *one = a->n_parts == 0 && !a->pictures ? a : NULL;

    for (int i = 0; i < a->n_parts && !one; i++) {
        one = first_stored(a->part[i].array);
    }
    return one;
}

/* "chunks of 64 x 28 x 28, gzip, shuffle" */
static charl_status put_chunks(const charl__chunks *c, charl__text *out)
{
    char filters[128];

    CHARL_TRY(charl__text_printf(out, "chunks of "));
    for (int i = 0; i < c->ndim; i++) {
        CHARL_TRY(charl__text_printf(out, "%s%lld", i > 0 ? " x " : "", (long long)c->dim[i]));
    }
    charl__chunks_filters(c, filters, sizeof filters);
    CHARL_TRY(charl__text_printf(out, "%s%s", filters[0] ? ", " : "", filters));
    return CHARL_OK;
}

static charl_status put_bytes(double bytes, charl__text *out)
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB"};
    int u = 0;

    for (; bytes >= 999.5 && u < 4; u++) {
        bytes /= 1000;
    }
    return charl__text_printf(out, "%.3g %s", bytes, units[u]);
}

static charl_status put_array(const charl__array *a, charl__text *out)
{
    const charl__array *one = first_stored(a);
    const int64_t pictures = charl__array_pictures(a);
    double stored, whole;

    CHARL_TRY(charl__text_printf(out, "%s%s ", out->length > 0 ? "\n" : "", a->name));
    if (a->n_parts > 1) {
        CHARL_TRY(charl__text_printf(out, "in %d files, ", a->n_parts));
    }
    if (pictures > 0) {
        CHARL_TRY(charl__text_printf(out, "%lld image file%s, decoded when read", (long long)pictures,
                                     pictures == 1 ? "" : "s"));
        if (!one) {
            return CHARL_OK;
        }
        CHARL_TRY(charl__text_printf(out, ", and %lld rows ", (long long)(a->rows - pictures)));
    }
    stored = stored_bytes(a);
    whole = (double)(a->rows - pictures) * (double)charl_shape_count(&a->item) * (double)one->stored.bytes;
    if (one->chunks) {
        CHARL_TRY(put_chunks(one->chunks, out));
    } else {
        CHARL_TRY(charl__text_printf(out, one->offset >= 0 ? "contiguous" : "compact"));
    }
    CHARL_TRY(charl__text_printf(out, ", "));
    CHARL_TRY(put_bytes(stored, out));
    if (stored < whole) {
        CHARL_TRY(charl__text_printf(out, " instead of "));
        CHARL_TRY(put_bytes(whole, out));
    }
    return CHARL_OK;
}

charl_status charl_dataset_storage(const charl_dataset *ds, char **out)
{
    CHARL_GIVEN(ds, out);
    CHARL_SCOPED(charl__text_fini) charl__text text = {0};

    *out = NULL;
    for (int p = 0; p < (ds->part ? ds->n_parts : 1); p++) {
        const charl_dataset *one = ds->part ? ds->part[p] : ds;
        const charl__array *before = NULL;

        for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
            const charl__array *x = one->views[s].x;

            if (x && x != before) { /* splits may share an array */
                CHARL_TRY(put_array(x, &text));
                before = x;
            }
        }
    }
    *out = charl__text_steal(&text);
    return CHARL_OK;
}
