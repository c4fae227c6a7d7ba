/* HDF5 files in which every sample, or every class, is a separate array and its target is an attribute of that array or of a group that
 * contains it. A first pass finds the arrays and their targets, a second one writes them. */
#include "data/import/import_hdf5_groups.h"

#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/dataset/dataset_file.h"
#include "io/dataset/dataset_write.h"
#include "io/dataset/order/split.h"
#include "io/dataset/text_labels.h"
#include "io/image_layout.h"
#include "data/import/importer.h"
#include "charl/import.h"

enum { BLOCK_BYTES = 1 << 20, THREADS = 2, NAMES_SHOWN = 80 };

typedef struct found {
    int64_t file; /* of groups.paths */
    char *name;
    int64_t rows; /* samples in it */
} found;

typedef struct groups {
    const charl__paths *paths;
    const charl__hdf5_settings *o;
    const charl_import_options *common;
    const char *attribute;
    found *array;
    int64_t n, rows;
    int64_t without; /* groups that lack the pattern's array */
    charl_dtype dtype;
    charl_shape item;           /* of a sample */
    bool numbers;               /* a target is a float: all are treated as numbers */
    charl__text_labels targets; /* of arrays */
} groups;

/* The target of the array `name`: from the attribute of the array, or of the closest group that has one. */
static charl_status read_target(groups *g, charl__file *f, const char *name, charl__text *target)
{
    CHARL_H5_SCOPE;
    const charl__h5_site site = {CHARL_ERR_DATA, f->path};
    CHARL_SCOPED(charl__h5_close) hid_t object = H5I_INVALID_HID;
    CHARL_SCOPED_FREE char *at = NULL;
    bool is_there = false, is_float = false;

    CHARL_TRY(charl__strdup(name, &at));
    while (!is_there) {
        char *slash = strrchr(at, '/');

        CHARL_H5_OPEN(CHARL_ERR_DATA, object, H5Oopen(f->h5, at[0] ? at : "/", H5P_DEFAULT), "%s: %s", f->path, at);
        is_there = charl__h5_has(object, g->attribute);
        if (is_there) {
            CHARL_TRY(charl__h5_get_any(&site, object, g->attribute, target, &is_float));
        }
        charl__h5_close(&object);
        CHARL_REQUIRE(is_there || slash, CHARL_ERR_DATA,
                      "%s: neither %s nor a group that it is in has an attribute \"%s\"", f->path, name, g->attribute);
        if (slash) {
            *slash = '\0';
        }
    }
    g->numbers = g->numbers || is_float;
    return CHARL_OK;
}

/* The shape of a sample: rows of the array, or all of it. */
static charl_status shape_of(const groups *g, const charl__array *a, const charl__file *f, charl_shape *item)
{
    *item = a->item;
    if (g->o->stacked) {
        return CHARL_OK;
    }
    CHARL_REQUIRE(a->item.ndim + 1 < CHARL_MAX_DIMS, CHARL_ERR_DATA,
                  "%s: %s has %d dimensions, a sample has at most %d", f->path, a->name, a->item.ndim + 1,
                  CHARL_MAX_DIMS - 1);
    CHARL_REQUIRE(a->rows <= CHARL__MAX_ITEM_BYTES / (int64_t)a->item_bytes, CHARL_ERR_DATA,
                  "%s: %s has more than %d bytes, too many for a sample; HINT --stacked if its rows are samples",
                  f->path, a->name, CHARL__MAX_ITEM_BYTES);
    item->ndim = a->item.ndim + 1;
    item->dim[0] = a->rows;
    memcpy(item->dim + 1, a->item.dim, (size_t)a->item.ndim * sizeof *item->dim);
    return CHARL_OK;
}

static charl_status add_array(groups *g, int64_t file, charl__file *f, const char *name)
{
    CHARL_SCOPED(charl__array_fini) charl__array a = CHARL__ARRAY_CLOSED;
    CHARL_SCOPED(charl__text_fini) charl__text target = {0};
    charl_shape item;
    found *new;

    CHARL_TRY(charl__array_init(&a, f, name, CHARL__ROLE_SAMPLES));
    CHARL_TRY(shape_of(g, &a, f, &item));
    CHARL_REQUIRE(!charl__array_is_channels_last(&a, &item), CHARL_ERR_DATA,
                  "%s: samples of %s are [%lld, %lld, %lld], with the channels last; charl reads images as [channels, "
                  "height, width]; HINT in Python: x.transpose(2, 0, 1) of each",
                  f->path, name, (long long)item.dim[0], (long long)item.dim[1], (long long)item.dim[2]);
    if (g->n == 0) {
        g->dtype = a.dtype;
        g->item = item;
    }
    CHARL_REQUIRE(a.dtype == g->dtype && charl_shape_equal(&item, &g->item), CHARL_ERR_DATA,
                  "%s: the samples of %s and %s have different types or shapes", f->path, g->array[0].name, name);
    CHARL_TRY(read_target(g, f, name, &target));
    CHARL_TRY(charl__grow(g->n, sizeof *g->array, &g->array));
    new = &g->array[g->n];
    *new = (found){.file = file, .rows = g->o->stacked ? a.rows : 1};
    CHARL_TRY(charl__error_in(charl__text_labels_add(&g->targets, charl__text_string(&target)), CHARL_ERR_DATA,
                              "%s: %s: ", f->path, name));
    CHARL_TRY(charl__strdup(name, &new->name));
    g->n++;
    g->rows += new->rows;
    return CHARL_OK;
}

/* The kind of object that H5Oopen opens: a group, an array, or something else. */
static charl_status kind_of(const charl__file *f, const char *name, H5I_type_t *kind)
{
    CHARL_H5_SCOPE;
    CHARL_SCOPED(charl__h5_close) hid_t object = H5I_INVALID_HID;

    CHARL_H5_OPEN(CHARL_ERR_DATA, object, H5Oopen(f->h5, name, H5P_DEFAULT), "%s: %s", f->path, name);
    *kind = H5Iget_type(object);
    return CHARL_OK;
}

typedef struct links {
    charl__paths names;
    charl_status st;
} links;

static charl_status add_name(charl__paths *names, const char *name)
{
    CHARL_TRY(charl__grow(names->n, sizeof *names->path, &names->path));
    CHARL_TRY(charl__strdup(name, &names->path[names->n]));
    names->n++;
    return CHARL_OK;
}

static herr_t add_link(hid_t group, const char *name, const H5L_info_t *info, void *ctx)
{
    links *all = ctx;

    (void)group;
    (void)info;
    all->st = add_name(&all->names, name);
    return all->st == CHARL_OK ? 0 : -1;
}

/* Names of the links of a group, in byte order. */
static charl_status list_links(const charl__file *f, const char *group, charl__paths *out)
{
    CHARL_H5_SCOPE;
    charl_status st = CHARL_OK;
    hid_t id = H5I_INVALID_HID;
    links all = {.st = CHARL_OK};
    herr_t done;

    CHARL_H5_OPEN_CLEANUP(CHARL_ERR_DATA, id, H5Gopen2(f->h5, group, H5P_DEFAULT), "%s: %s", f->path, group);
    done = H5Literate(id, H5_INDEX_NAME, H5_ITER_INC, NULL, add_link, &all);
    *out = all.names;
    CHARL_TRY_CLEANUP(all.st);
    CHARL_H5_CLEANUP(CHARL_ERR_DATA, done, "%s: %s", f->path, group);
cleanup:
    charl__h5_close(&id);
    return st;
}

/* The arrays below `group` ("" or "/a/b") that match the rest of the pattern, component by component: the recursion is as deep as the pattern
 * is long, whatever links a file has. */
static charl_status walk(groups *g, int64_t file, charl__file *f, const char *group, const char *pattern)
{
    const size_t length = strcspn(pattern, "/");
    const bool is_last = pattern[length] == '\0';
    CHARL_SCOPED(charl__paths_fini) charl__paths names = {0};
    CHARL_SCOPED(charl__text_fini) charl__text part = {0}, name = {0};

    CHARL_TRY(charl__text_append(&part, pattern, length));
    if (strpbrk(charl__text_string(&part), "*?[")) {
        CHARL_TRY(list_links(f, group[0] ? group : "/", &names));
    } else {
        CHARL_TRY(add_name(&names, charl__text_string(&part)));
    }
    for (int64_t i = 0; i < names.n; i++) {
        H5I_type_t kind = H5I_BADID;
        bool is_there;

        if (fnmatch(charl__text_string(&part), names.path[i], FNM_NOESCAPE) != 0) {
            continue;
        }
        charl__text_clear(&name);
        CHARL_TRY(charl__text_printf(&name, "%s/%s", group, names.path[i]));
        CHARL_TRY(charl__file_find(f, charl__text_string(&name), &is_there));
        if (!is_there) {
            g->without++;
            continue;
        }
        CHARL_TRY(kind_of(f, charl__text_string(&name), &kind));
        if (is_last && kind == H5I_DATASET) {
            CHARL_TRY(add_array(g, file, f, charl__text_string(&name)));
        } else if (!is_last && kind == H5I_GROUP) {
            CHARL_TRY(walk(g, file, f, charl__text_string(&name), pattern + length + 1));
        }
    }
    return CHARL_OK;
}

static charl_status find_arrays(groups *g)
{
    const char *pattern = g->o->x + (g->o->x[0] == '/');
    CHARL_SCOPED(charl__file_fini) charl__file f = {.fd = -1, .h5 = H5I_INVALID_HID};

    for (int64_t i = 0; i < g->paths->n; i++) {
        CHARL_TRY(charl__file_init(&f, g->paths->path[i]));
        CHARL_TRY(walk(g, i, &f, "", pattern));
        charl__file_fini(&f);
        f = (charl__file){.fd = -1, .h5 = H5I_INVALID_HID};
    }
    CHARL_REQUIRE(g->n > 0, CHARL_ERR_DATA, "%s: no array matches %s", g->paths->path[0], g->o->x);
    if (g->without > 0) {
        charl__import_note(g->common, "left out: %lld group%s without an array %s", (long long)g->without,
                           g->without == 1 ? "" : "s", g->o->x);
    }
    return CHARL_OK;
}

/* y of every array: its number as f32, or its class. *names: of the classes in order, empty if they are numbers. */
static charl_status number_targets(groups *g, uint32_t **y, charl__text *names)
{
    CHARL_TRY(charl__alloc_array(g->n, sizeof **y, y));
    if (!g->numbers) {
        CHARL_TRY(charl__text_labels_decide(&g->targets, names));
    }
    for (int64_t i = 0; i < g->n; i++) {
        const char *text = g->targets.set.names[g->numbers ? g->targets.label[i] : 0];
        char *end = NULL;
        const float v = g->numbers ? strtof(text, &end) : 0;

        CHARL_REQUIRE(!g->numbers || (end > text && *end == '\0' && isfinite(v)), CHARL_ERR_DATA,
                      "%s: targets are numbers, but one is \"%.*s\"", g->paths->path[0], NAMES_SHOWN, text);
        memcpy(&(*y)[i], g->numbers ? (const void *)&v : &g->targets.label[i], sizeof v);
    }
    return CHARL_OK;
}

/* Pass the samples of an array to the writer, `block` at a time. */
static charl_status copy_array(const groups *g, const found *a, charl__chunk_cache *cache, uint32_t target,
                               charl__writer *w)
{
    const int64_t bytes = charl_shape_count(&g->item) * (int64_t)charl_dtype_size(g->dtype);
    const int64_t block = bytes < BLOCK_BYTES ? BLOCK_BYTES / bytes : 1;
    CHARL_SCOPED(charl__file_fini) charl__file f = {.fd = -1, .h5 = H5I_INVALID_HID};
    CHARL_SCOPED(charl__array_fini) charl__array array = CHARL__ARRAY_CLOSED;
    CHARL_SCOPED_FREE char *x = NULL;
    CHARL_SCOPED_FREE uint32_t *y = NULL;

    CHARL_TRY(charl__alloc_array(block, (size_t)bytes, &x));
    CHARL_TRY(charl__alloc_array(block, sizeof *y, &y));
    for (int64_t i = 0; i < block; i++) {
        y[i] = target;
    }
    CHARL_TRY(charl__file_init(&f, g->paths->path[a->file]));
    CHARL_TRY(charl__array_init(&array, &f, a->name, CHARL__ROLE_SAMPLES));
    CHARL_REQUIRE(array.rows * (int64_t)array.item_bytes == a->rows * bytes, CHARL_ERR_DATA,
                  "%s: the file changed while it was being read", f.path);
    CHARL_TRY(charl__file_seal(&f, &array, 1, cache));
    for (int64_t i = 0; i < a->rows; i += block) {
        const int64_t n = a->rows - i < block ? a->rows - i : block;
        const int64_t rows = g->o->stacked ? n : array.rows;

        CHARL_TRY(charl__array_read(&f, &array, g->o->stacked ? i : 0, rows, x));
        CHARL_TRY(charl__writer_put(w, x, y, n));
    }
    return CHARL_OK;
}

/* Choose validation rows from every class: the last arrays often all have the same class. */
static charl_status choose_val(const groups *g, const uint32_t *y, uint8_t **val)
{
    CHARL_SCOPED_FREE int32_t *labels = NULL;
    int64_t row = 0;

    CHARL_TRY(charl__alloc_array(g->rows, sizeof *labels, &labels));
    for (int64_t i = 0; i < g->n; i++) {
        for (int64_t k = 0; k < g->array[i].rows; k++) {
            labels[row++] = (int32_t)y[i];
        }
    }
    CHARL_TRY(charl__split_choose(g->paths->path[0], g->numbers ? NULL : labels, g->rows, g->common, val));
    return CHARL_OK;
}

charl_status charl__import_hdf5_groups(const charl__paths *files, const charl__hdf5_settings *hdf5, const char *out,
                                       const charl_import_options *opt)
{
    charl_status st = CHARL_OK;
    groups g = {.paths = files, .o = hdf5, .common = opt, .attribute = hdf5->y + 1, .targets.may_be_ids = true};
    charl__text names = {0};
    uint32_t *y = NULL; /* [arrays] i32 or f32 */
    uint8_t *val = NULL;
    charl__chunk_cache *cache = NULL;
    charl__writer *w = NULL;
    charl__writer_spec spec;

    CHARL_TRY_CLEANUP(find_arrays(&g));
    CHARL_TRY_CLEANUP(number_targets(&g, &y, &names));
    CHARL_TRY_CLEANUP(choose_val(&g, y, &val));
    spec = (charl__writer_spec){.kind = g.numbers          ? CHARL_DATASET_REGRESSION
                                        : g.item.ndim >= 2 ? CHARL_DATASET_IMAGES
                                                           : CHARL_DATASET_TABLE,
                                .x_dtype = g.dtype,
                                .x_item = g.item,
                                .values = g.numbers,
                                .scales = g.numbers,
                                .rows = g.rows,
                                .val = val};
    CHARL_TRY_CLEANUP(charl__chunk_cache_create(CHARL_DATASET_CACHE_BYTES, THREADS, &cache));
    CHARL_TRY_CLEANUP(charl__writer_create(out, &spec, opt, &w));
    CHARL_TRY_CLEANUP(charl__writer_text(w, "class_names", charl__text_string(&names)));
    for (int64_t i = 0; i < g.n; i++) {
        CHARL_TRY_CLEANUP(copy_array(&g, &g.array[i], cache, y[i], w));
    }
    CHARL_TRY_CLEANUP(charl__writer_finish(w));
cleanup:
    charl__writer_destroy(w);
    charl__chunk_cache_destroy(cache);
    for (int64_t i = 0; i < g.n; i++) {
        charl_free(g.array[i].name);
    }
    charl_free(g.array);
    charl__text_labels_fini(&g.targets);
    charl__text_fini(&names);
    charl_free(val);
    charl_free(y);
    return st;
}
