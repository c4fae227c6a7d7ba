/* Targets that are text: the names of classes, numbered in the order of their bytes. All are read when the array is opened. */
#include <string.h>

#include "base/alloc.h"
#include "io/dataset/dataset_file.h"
#include "io/dataset/text_labels.h"

enum { BLOCK = 4096 };

/* Take in n texts from row `first` on. */
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
        st = charl__text_labels_add(labels, text);
        if (st == CHARL_ERR_DATA) {
            charl__error_prefix("%s: %s: row %lld: ", f->path, a->name, (long long)(first + i));
        }
        CHARL_TRY_CLEANUP(st);
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
    charl_status st = CHARL_OK;
    charl__text_labels labels = {0};
    charl__text lines = {0};
    hsize_t dims[H5S_MAX_RANK] = {0};
    const int ndim = H5Sget_simple_extent_dims(space, dims, NULL);

    CHARL_REQUIRE_CLEANUP(
        (ndim == 1 || (ndim == 2 && dims[1] == 1)) && dims[0] > 0 && dims[0] < INT32_MAX, CHARL_ERR_DATA,
        "%s: %s holds text, but is not a list: texts are the names of classes, one for each row", f->path, a->name);
    a->rows = (int64_t)dims[0];
    a->item = (charl_shape){0};
    a->item_bytes = sizeof *a->labels;
    a->dtype = CHARL_I32;
    a->stored = (charl__element){CHARL__ELEMENT_SIGNED, sizeof *a->labels, false};
    for (int64_t i = 0; i < a->rows; i += BLOCK) {
        CHARL_TRY_CLEANUP(read_block(f, a, space, i, a->rows - i < BLOCK ? a->rows - i : BLOCK, &labels));
    }
    CHARL_TRY_CLEANUP(charl__text_labels_decide(&labels, &lines));
    a->labels = labels.label;
    labels.label = NULL;
    a->class_names = charl__text_steal(&lines);
cleanup:
    charl__text_fini(&lines);
    charl__text_labels_fini(&labels);
    return st;
}

charl_status charl__labels_of_enum(const charl__file *f, charl__array *a, hid_t type)
{
    charl_status st = CHARL_OK;
    const int n = H5Tget_nmembers(type);
    charl__text lines = {0};

    for (int value = 0; value < n; value++) {
        char *name = NULL;

        for (unsigned i = 0; i < (unsigned)n && !name; i++) {
            uint64_t bytes = 0; /* as they are stored */

            if (H5Tget_member_value(type, i, &bytes) >= 0 && charl__element_number(&a->stored, &bytes, 0) == value) {
                name = H5Tget_member_name(type, i);
            }
        }
        if (!name) {
            CHARL_FAIL_CLEANUP(
                CHARL_ERR_DATA,
                "%s: %s is an enumeration without the number %d; HINT number its %d names from 0 on, and store "
                "the array again",
                f->path, a->name, value, n);
        }
        st = charl__text_printf(&lines, "%s%s", value > 0 ? "\n" : "", name);
        H5free_memory(name);
        CHARL_TRY_CLEANUP(st);
    }
    a->class_names = charl__text_steal(&lines);
cleanup:
    charl__text_fini(&lines);
    return st;
}
