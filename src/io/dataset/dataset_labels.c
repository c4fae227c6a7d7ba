/* Targets that are text: the names of classes, numbered in byte order. All are read when the array is opened. Also targets whose
 * numbers have names, in an enumeration or in attributes. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/dataset/dataset_file.h"
#include "io/dataset/text_labels.h"

#define BLANKS " \t\r\n"

enum { BLOCK = 4096, MOST_FLAGS = 4096 };

/* Add n texts from row `first` on. */
static charl_status read_block(const charl__file *f, charl__array *a, hid_t file_space, int64_t first, int64_t n,
                               charl__text_labels *labels)
{
    charl_status st = CHARL_OK;
    const bool is_variable = H5Tis_variable_str(a->type) > 0;
    const size_t size = is_variable ? sizeof(char *) : H5Tget_size(a->type);
    const hsize_t start[2] = {(hsize_t)first}, count[2] = {(hsize_t)n, 1};
    hid_t space = H5I_INVALID_HID;
    bool filled = false;
    char *block = NULL, *one = NULL;

    CHARL_TRY_CLEANUP(charl__alloc_array(n, size, &block));
    CHARL_TRY_CLEANUP(charl__alloc(size + 1, &one));
    CHARL_H5_OPEN_CLEANUP(CHARL_ERR_DATA, space, H5Screate_simple(1, count, NULL), "%s: %s", f->path, a->name);
    CHARL_H5_CLEANUP(CHARL_ERR_DATA, H5Sselect_hyperslab(file_space, H5S_SELECT_SET, start, NULL, count, NULL),
                     "%s: %s", f->path, a->name);
    CHARL_H5_CLEANUP(CHARL_ERR_DATA, H5Dread(a->dataset, a->type, space, file_space, H5P_DEFAULT, block),
                     "%s: %s: the texts cannot be read", f->path, a->name);
    filled = true;
    for (int64_t i = 0; i < n; i++) {
        const char *text = one;

        if (is_variable) {
            memcpy(&text, block + (size_t)i * size, sizeof text);
            text = text ? text : "";
        } else {
            size_t length = size;

            memcpy(one, block + (size_t)i * size, size);
            one[size] = '\0';
            length = strlen(one);
            while (H5Tget_strpad(a->type) == H5T_STR_SPACEPAD && length > 0 && one[length - 1] == ' ') {
                one[--length] = '\0';
            }
        }
        CHARL_TRY_CLEANUP(charl__error_in(charl__text_labels_add(labels, text), CHARL_ERR_DATA,
                                          "%s: %s: row %lld: ", f->path, a->name, (long long)(first + i)));
    }
cleanup:
    if (filled && is_variable) {
        H5Dvlen_reclaim(a->type, space, H5P_DEFAULT, block);
    }
    charl__h5_close(&space);
    charl_free(one);
    charl_free(block);
    return st;
}

charl_status charl__labels_read(charl__file *f, charl__array *a, hid_t space)
{
    CHARL_SCOPED(charl__text_labels_fini) charl__text_labels labels = {0};
    CHARL_SCOPED(charl__text_fini) charl__text lines = {0};
    hsize_t dims[H5S_MAX_RANK] = {0};
    const int ndim = H5Sget_simple_extent_dims(space, dims, NULL);

    CHARL_REQUIRE((ndim == 1 || (ndim == 2 && dims[1] == 1)) && dims[0] > 0 && dims[0] < INT32_MAX, CHARL_ERR_DATA,
                  "%s: %s holds text, but is not a list: texts are the names of classes, one for each row", f->path,
                  a->name);
    a->rows = (int64_t)dims[0];
    a->item = (charl_shape){0};
    a->item_bytes = sizeof *a->labels;
    a->dtype = CHARL_I32;
    a->stored = (charl__element){CHARL__ELEMENT_SIGNED, sizeof *a->labels, false};
    for (int64_t i = 0; i < a->rows; i += BLOCK) {
        CHARL_TRY(read_block(f, a, space, i, a->rows - i < BLOCK ? a->rows - i : BLOCK, &labels));
    }
    CHARL_TRY(charl__text_labels_decide(&labels, &lines));
    a->labels = labels.label;
    labels.label = NULL;
    a->class_names = charl__text_steal(&lines);
    return CHARL_OK;
}

void charl__labels_free_numbers(charl__meaning *m)
{
    for (int64_t i = 0; i < m->n_classes; i++) {
        charl_free(m->classes[i].name);
    }
    charl_free(m->classes);
    m->classes = NULL;
    m->n_classes = 0;
}

static charl_status add_number(charl__meaning *m, double stored, const char *name, size_t length)
{
    CHARL_TRY(charl__grow(m->n_classes, sizeof *m->classes, &m->classes));
    m->classes[m->n_classes] = (charl__class_number){.stored = stored};
    CHARL_TRY(charl__alloc(length + 1, &m->classes[m->n_classes++].name));
    memcpy(m->classes[m->n_classes - 1].name, name, length);
    m->classes[m->n_classes - 1].name[length] = '\0';
    return CHARL_OK;
}

static charl_status read_enum(charl__array *a)
{
    const int n = H5Tget_nmembers(a->type);

    for (unsigned i = 0; i < (unsigned)(n > 0 ? n : 0); i++) {
        uint64_t bytes = 0; /* as stored */
        char *name = H5Tget_member_name(a->type, i);
        charl_status st = CHARL_OK;

        if (name && H5Tget_member_value(a->type, i, &bytes) >= 0) {
            st = add_number(&a->meaning, charl__element_number(&a->stored, &bytes, 0), name, strlen(name));
        }
        H5free_memory(name);
        CHARL_TRY(st);
    }
    return CHARL_OK;
}

/* netCDF: flag_values = 0, 1, 2 and flag_meanings = "clear cloudy snow". */
static charl_status read_flags(const charl__file *f, charl__array *a)
{
    const charl__h5_site site = {CHARL_ERR_DATA, f->path};
    CHARL_SCOPED_FREE double *value = NULL;
    CHARL_SCOPED(charl__text_fini) charl__text names = {0};
    bool is_float;
    const char *p;
    int n = 0, k = 0;

    CHARL_TRY(charl__alloc_array(MOST_FLAGS, sizeof *value, &value));
    CHARL_TRY(charl__meaning_numbers(f, a, "flag_values", value, MOST_FLAGS, &n));
    CHARL_TRY(charl__h5_get_any(&site, a->dataset, "flag_meanings", &names, &is_float));
    for (p = charl__text_string(&names); *(p += strspn(p, BLANKS)); k++) {
        const size_t length = strcspn(p, BLANKS);

        if (k < n) {
            CHARL_TRY(add_number(&a->meaning, value[k], p, length));
        }
        p += length;
    }
    CHARL_REQUIRE(k == n, CHARL_ERR_DATA,
                  "%s: %s: flag_values has %d numbers, and flag_meanings %d names; HINT correct one of the "
                  "attributes",
                  f->path, a->name, n, k);
    return CHARL_OK;
}

static int by_stored(const void *a, const void *b)
{
    const double x = ((const charl__class_number *)a)->stored, y = ((const charl__class_number *)b)->stored;

    return (x > y) - (x < y);
}

charl_status charl__labels_of_numbers(const charl__file *f, charl__array *a)
{
    charl__meaning *m = &a->meaning;
    CHARL_SCOPED(charl__text_fini) charl__text lines = {0};
    bool are_places = true;

    if (H5Tget_class(a->type) == H5T_ENUM) {
        CHARL_TRY(a->stored.kind != CHARL__ELEMENT_BOOL ? read_enum(a) : CHARL_OK);
    } else if (a->stored.kind != CHARL__ELEMENT_FLOAT && charl__h5_has(a->dataset, "flag_values") &&
               charl__h5_has(a->dataset, "flag_meanings") && !charl__h5_has(a->dataset, "flag_masks")) {
        CHARL_TRY(read_flags(f, a));
    }
    if (m->n_classes == 0) {
        return CHARL_OK;
    }
    qsort(m->classes, (size_t)m->n_classes, sizeof *m->classes, by_stored);
    for (int64_t i = 0; i < m->n_classes; i++) {
        CHARL_REQUIRE(i == 0 || m->classes[i].stored != m->classes[i - 1].stored, CHARL_ERR_DATA,
                      "%s: %s: the number %g has two names, %s and %s", f->path, a->name, m->classes[i].stored,
                      m->classes[i - 1].name, m->classes[i].name);
        are_places = are_places && m->classes[i].stored == (double)i;
        CHARL_TRY(charl__text_printf(&lines, "%s%s", i > 0 ? "\n" : "", m->classes[i].name));
    }
    a->class_names = charl__text_steal(&lines);
    if (are_places) {
        charl__labels_free_numbers(m);
    }
    return CHARL_OK;
}

int32_t charl__labels_place(const charl__meaning *m, double stored)
{
    const charl__class_number key = {.stored = stored},
                              *at = bsearch(&key, m->classes, (size_t)m->n_classes, sizeof key, by_stored);

    return at ? (int32_t)(at - m->classes) : stored == -1 || stored == -100 ? (int32_t)stored : -2;
}
