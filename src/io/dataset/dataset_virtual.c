/* Virtual arrays: HDF5 presents rows of other arrays, usually in other files, as one. HDF5 reads zeros if a source is missing, reopens sources
 * while others read, and decodes them with one thread, so the sources are opened here and checked like any array, and rows are read
 * from them. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "io/dataset/dataset_file.h"

/* One mapping, as stored by HDF5. */
typedef struct mapping {
    char *file, *name;
    hid_t shown, taken; /* the part of the virtual array that it fills, and the part of the source */
} mapping;

static void mapping_fini(mapping *m)
{
    charl__h5_close(&m->shown);
    charl__h5_close(&m->taken);
    charl_free(m->file);
    charl_free(m->name);
    m->file = m->name = NULL;
}

static charl_status mapping_read(const charl__file *f, const charl__array *a, hid_t plist, size_t i, mapping *m)
{
    const ssize_t file = H5Pget_virtual_filename(plist, i, NULL, 0), name = H5Pget_virtual_dsetname(plist, i, NULL, 0);

    *m = (mapping){.shown = H5I_INVALID_HID, .taken = H5I_INVALID_HID};
    CHARL_REQUIRE(file > 0 && name > 0 && name < CHARL__ARRAY_NAME - 1, CHARL_ERR_DATA,
                  "%s: %s is virtual, and source %zu has no name", f->path, a->name, i);
    CHARL_TRY(charl__alloc((size_t)file + 1, &m->file));
    CHARL_TRY(charl__alloc((size_t)name + 1, &m->name));
    H5Pget_virtual_filename(plist, i, m->file, (size_t)file + 1);
    H5Pget_virtual_dsetname(plist, i, m->name, (size_t)name + 1);
    CHARL_H5_OPEN(CHARL_ERR_DATA, m->shown, H5Pget_virtual_vspace(plist, i), "%s: %s", f->path, a->name);
    CHARL_H5_OPEN(CHARL_ERR_DATA, m->taken, H5Pget_virtual_srcspace(plist, i), "%s: %s", f->path, a->name);
    return CHARL_OK;
}

/* Where HDF5 looks for a source: beside the virtual array's file, else in the working directory; "." is the file itself. */
static charl_status find_file(const charl__file *f, const charl__array *a, const char *name, charl__text *path)
{
    const char *slash = strrchr(f->path, '/');

    if (strcmp(name, ".") == 0) {
        return charl__text_printf(path, "%s", f->path);
    }
    if (name[0] != '/' && slash) {
        CHARL_TRY(charl__text_printf(path, "%.*s/%s", (int)(slash - f->path), f->path, name));
        if (access(charl__text_string(path), F_OK) == 0) {
            return CHARL_OK;
        }
        charl__text_clear(path);
    }
    CHARL_REQUIRE(access(name, F_OK) == 0, CHARL_ERR_DATA, "%s: %s is virtual, and its source %s is missing", f->path,
                  a->name, name);
    return charl__text_printf(path, "%s", name);
}

static charl_status open_source(charl__array *a, charl__file *f, charl__role role, const mapping *m,
                                charl__array_source **out)
{
    char name[CHARL__ARRAY_NAME];
    CHARL_SCOPED(charl__text_fini) charl__text path = {0};
    charl__array_source *s = NULL;

    snprintf(name, sizeof name, "%s%s", m->name[0] == '/' ? "" : "/", m->name);
    CHARL_TRY(find_file(f, a, m->file, &path));
    for (int i = 0; i < a->n_sources; i++) {
        *out = a->source[i];
        if (strcmp((*out)->file.path, charl__text_string(&path)) == 0 && strcmp((*out)->array.name, name) == 0) {
            return CHARL_OK;
        }
    }
    CHARL_TRY(charl__grow(a->n_sources, sizeof *a->source, &a->source));
    CHARL_TRY(charl__alloc(sizeof *s, &s));
    s->array = (charl__array)CHARL__ARRAY_CLOSED;
    a->source[a->n_sources++] = s; /* from here on charl__array_close_sources releases it */
    CHARL_TRY(charl__file_init(&s->file, charl__text_string(&path)));
    s->file.is_source = true;
    CHARL_TRY(charl__array_init(&s->array, &s->file, name, role));
    CHARL_REQUIRE(s->array.dtype == a->dtype, CHARL_ERR_DATA,
                  "%s: %s is virtual and holds %s, but its source %s%s holds %s; HINT give both the same type", f->path,
                  a->name, charl_dtype_name(a->dtype), s->file.path, name, charl_dtype_name(s->array.dtype));
    *out = s;
    return CHARL_OK;
}

/* The elements of `a` that a selection includes: [*first, *first + *n) in row-major order. False: they are not contiguous. The
 * extents of a source in the selection are only a guess of HDF5. */
static bool find_run(const charl__array *a, hid_t space, int64_t *first, int64_t *n)
{
    const hssize_t points = H5Sget_select_npoints(space);
    hsize_t low[H5S_MAX_RANK] = {0}, high[H5S_MAX_RANK];
    bool one = true; /* the axes before this one select a single index each */

    if (H5Sget_select_type(space) == H5S_SEL_ALL) {
        *first = 0;
        *n = a->rows * charl_shape_count(&a->item);
        return true;
    }
    if (H5Sget_simple_extent_ndims(space) != a->item.ndim + 1 || points < 1 ||
        H5Sget_select_bounds(space, low, high) < 0) {
        return false;
    }
    *first = 0;
    *n = 1;
    for (int i = 0; i <= a->item.ndim; i++) {
        const int64_t extent = i == 0 ? a->rows : a->item.dim[i - 1];

        if (!one && (low[i] != 0 || (int64_t)high[i] != extent - 1)) {
            return false;
        }
        one = one && low[i] == high[i];
        *first = *first * extent + (int64_t)low[i];
        *n *= (int64_t)(high[i] - low[i] + 1);
    }
    return *n == points; /* otherwise there are gaps */
}

static charl_status add_part(charl__array *a, const charl__file *f, charl__array_source *s, const mapping *m)
{
    const int64_t item = charl_shape_count(&a->item), own = charl_shape_count(&s->array.item);
    int64_t shown, taken, n, n_taken;

    CHARL_REQUIRE(
        find_run(a, m->shown, &shown, &n) && find_run(&s->array, m->taken, &taken, &n_taken) && n == n_taken &&
            shown % item == 0 && n % item == 0 && taken % own == 0 && item % own == 0,
        CHARL_ERR_DATA,
        "%s: %s is virtual, and shows other than whole rows of %s%s, one after another; HINT copy them into an "
        "array",
        f->path, a->name, s->file.path, s->array.name);
    CHARL_REQUIRE(taken + n <= s->array.rows * own, CHARL_ERR_DATA,
                  "%s: %s is virtual, and shows rows of %s%s up to %lld, which has %lld", f->path, a->name,
                  s->file.path, s->array.name, (long long)((taken + n) / own), (long long)s->array.rows);
    CHARL_TRY(charl__grow(a->n_parts, sizeof *a->part, &a->part));
    a->part[a->n_parts++] = (charl__array_part){.file = &s->file,
                                                .array = &s->array,
                                                .first = shown / item,
                                                .rows = n / item,
                                                .from = taken / own,
                                                .per = item / own};
    return CHARL_OK;
}

static int by_first(const void *a, const void *b)
{
    const charl__array_part *x = a, *y = b;

    return (x->first > y->first) - (x->first < y->first);
}

charl_status charl__array_open_virtual(charl__array *a, charl__file *f, charl__role role, hid_t plist)
{
    CHARL_SCOPED(mapping_fini) mapping m = {.shown = H5I_INVALID_HID, .taken = H5I_INVALID_HID};
    size_t count = 0;
    int64_t rows = 0;

    CHARL_REQUIRE(!f->is_source, CHARL_ERR_DATA,
                  "%s: %s, the source of a virtual array, is virtual itself; HINT copy it into an array", f->path,
                  a->name);
    CHARL_H5(CHARL_ERR_DATA, H5Pget_virtual_count(plist, &count), "%s: %s", f->path, a->name);
    for (size_t i = 0; i < count; i++) {
        charl__array_source *s = NULL;

        CHARL_TRY(mapping_read(f, a, plist, i, &m));
        CHARL_TRY(open_source(a, f, role, &m, &s));
        CHARL_TRY(add_part(a, f, s, &m));
        mapping_fini(&m);
    }
    if (a->n_parts > 0) {
        qsort(a->part, (size_t)a->n_parts, sizeof *a->part, by_first);
    }
    for (int i = 0; i < a->n_parts && a->part[i].first == rows; i++) {
        rows += a->part[i].rows;
    }
    CHARL_REQUIRE(rows == a->rows, CHARL_ERR_DATA,
                  "%s: %s is virtual, and row %lld has no source or several; HDF5 would read zeros", f->path, a->name,
                  (long long)rows);
    return CHARL_OK;
}

void charl__array_close_sources(charl__array *a)
{
    for (int i = 0; i < a->n_sources; i++) {
        charl__array_fini(&a->source[i]->array);
        charl__file_fini(&a->source[i]->file);
        charl_free(a->source[i]);
    }
    charl_free(a->source);
    a->source = NULL;
    a->n_sources = 0;
}
