/* How the arrays of a data set lie in their files, in words. */
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
    if (a->n_parts == 0 && a->chunks) {
        charl__h5_lock();
        bytes = (double)H5Dget_storage_size(a->chunks->dataset);
        charl__h5_unlock();
    } else if (a->n_parts == 0) {
        bytes = (double)a->rows * (double)charl_shape_count(&a->item) * (double)a->stored.bytes;
    }
    return bytes;
}

static double whole_bytes(const charl__array *a)
{
    const charl__array *one = a->n_parts > 0 ? a->part[0].array : a;

    return (double)a->rows * (double)charl_shape_count(&a->item) * (double)one->stored.bytes;
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
    const charl__array *one = a->n_parts > 0 ? a->part[0].array : a;
    const double stored = one->pictures ? 0 : stored_bytes(a), whole = whole_bytes(a);

    CHARL_TRY(charl__text_printf(out, "%s%s ", out->length > 0 ? "\n" : "", a->name));
    if (a->n_parts > 1) {
        CHARL_TRY(charl__text_printf(out, "in %d files, ", a->n_parts));
    }
    if (one->pictures) {
        return charl__text_printf(out, "in picture files, decoded when they are read");
    }
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
    charl_status st = CHARL_OK;
    charl__text text = {0};

    *out = NULL;
    for (int p = 0; p < (ds->part ? ds->n_parts : 1); p++) {
        const charl_dataset *one = ds->part ? ds->part[p] : ds;
        const charl__array *before = NULL;

        for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
            const charl__array *x = one->views[s].x;

            if (x && x != before) { /* splits may share an array */
                CHARL_TRY_CLEANUP(put_array(x, &text));
                before = x;
            }
        }
    }
    *out = charl__text_steal(&text);
cleanup:
    charl__text_fini(&text);
    return st;
}
