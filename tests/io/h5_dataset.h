#ifndef CHARL_TESTS_H5_DATASET_H
#define CHARL_TESTS_H5_DATASET_H
/** Datasets of arrays that a test makes: written with HDF5 alone in charl's layout (datasets/README.md), then imported, which adds checksums,
 *  mean and standard deviation. Public headers only. */
#include <hdf5.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <charl/dataset.h>
#include <charl/import.h>

#include "support/support.h"

typedef struct h5_dataset {
    charl_dataset_kind kind; /* not tokens */
    charl_dtype x_dtype;
    charl_shape x_item; /* one sample */
    bool values;        /* targets are f32 of shape y_item, else i32 classes */
    charl_shape y_item;
    int64_t rows[CHARL_SPLIT_COUNT];
    int64_t classes;                            /* 0: not stored */
    const char *class_names, *columns, *recipe; /* NULL: not stored */
    const void *x, *y;                          /* of all splits, one after another */
    const float *weights;                       /* of the training rows; NULL: none */
} h5_dataset;

static inline hid_t h5_type(charl_dtype dtype)
{
    return dtype == CHARL_U8    ? H5T_NATIVE_UINT8
           : dtype == CHARL_U16 ? H5T_NATIVE_UINT16
           : dtype == CHARL_U32 ? H5T_NATIVE_UINT32
           : dtype == CHARL_I32 ? H5T_NATIVE_INT32
                                : H5T_NATIVE_FLOAT;
}

static inline void h5_put_text(hid_t file, const char *name, const char *text)
{
    const hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
    hid_t attr;

    if (text) {
        assert_true(H5Tset_size(type, strlen(text) + 1) >= 0);
        attr = H5Acreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
        assert_true(attr >= 0 && H5Awrite(attr, type, text) >= 0);
        H5Aclose(attr);
    }
    H5Tclose(type);
    H5Sclose(space);
}

static inline void h5_put_number(hid_t file, const char *name, int64_t value)
{
    const hid_t space = H5Screate(H5S_SCALAR),
                attr = H5Acreate2(file, name, H5T_NATIVE_INT64, space, H5P_DEFAULT, H5P_DEFAULT);

    assert_true(attr >= 0 && H5Awrite(attr, H5T_NATIVE_INT64, &value) >= 0);
    H5Aclose(attr);
    H5Sclose(space);
}

/** The array /SPLIT/NAME of n rows of shape `item`. */
static inline void h5_put_array(hid_t file, charl_split split, const char *name, charl_dtype dtype,
                                const charl_shape *item, int64_t n, const void *data)
{
    hsize_t dims[CHARL_MAX_DIMS + 1] = {(hsize_t)n};
    const hid_t links = H5Pcreate(H5P_LINK_CREATE);
    char path[64];
    hid_t space, set;

    for (int i = 0; i < item->ndim; i++) {
        dims[i + 1] = (hsize_t)item->dim[i];
    }
    space = H5Screate_simple(item->ndim + 1, dims, NULL);
    assert_true(H5Pset_create_intermediate_group(links, 1) >= 0);
    snprintf(path, sizeof path, "/%s/%s", charl_split_name(split), name);
    set = H5Dcreate2(file, path, h5_type(dtype), space, links, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(set >= 0 && H5Dwrite(set, h5_type(dtype), H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0);
    H5Dclose(set);
    H5Sclose(space);
    H5Pclose(links);
}

/** Write the arrays to `path`, without checksums: what another program may have written. */
static inline void h5_write(const char *path, const h5_dataset *d)
{
    const charl_shape one = {0, {0}};
    const size_t x_bytes = (size_t)charl_shape_count(&d->x_item) * charl_dtype_size(d->x_dtype),
                 y_bytes = (d->values ? (size_t)charl_shape_count(&d->y_item) : 1) * sizeof(float);
    const unsigned char *x = d->x, *y = d->y;
    const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);

    assert_true(file >= 0);
    h5_put_text(file, "charl_format", "dataset");
    h5_put_number(file, "charl_version", 1);
    h5_put_text(file, "kind", charl_dataset_kind_name(d->kind));
    h5_put_text(file, "class_names", d->class_names);
    h5_put_text(file, "columns", d->columns);
    h5_put_text(file, "recipe", d->recipe);
    if (d->classes > 0) {
        h5_put_number(file, "classes", d->classes);
    }
    for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
        if (d->rows[s] > 0) {
            h5_put_array(file, (charl_split)s, "x", d->x_dtype, &d->x_item, d->rows[s], x);
            h5_put_array(file, (charl_split)s, "y", d->values ? CHARL_F32 : CHARL_I32, d->values ? &d->y_item : &one,
                         d->rows[s], y);
            x += (size_t)d->rows[s] * x_bytes;
            y += (size_t)d->rows[s] * y_bytes;
        }
    }
    if (d->weights) {
        h5_put_array(file, CHARL_SPLIT_TRAIN, "weights", CHARL_F32, &one, d->rows[CHARL_SPLIT_TRAIN], d->weights);
    }
    assert_true(H5Fclose(file) >= 0);
}

/** The weights [n] of a split as `path` stores them. */
static inline void h5_read_weights(const char *path, charl_split split, int64_t n, float *out)
{
    const hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    char name[64];
    hid_t set, space;

    snprintf(name, sizeof name, "/%s/weights", charl_split_name(split));
    set = H5Dopen2(file, name, H5P_DEFAULT);
    assert_true(set >= 0);
    space = H5Dget_space(set);
    assert_int_equal(H5Sget_simple_extent_npoints(space), n);
    assert_true(H5Dread(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, out) >= 0);
    H5Sclose(space);
    H5Dclose(set);
    H5Fclose(file);
}

/** The arrays as a dataset that charl has stored at `path`. */
static inline charl_status h5_import(const char *path, const h5_dataset *d, bool overwrite)
{
    const charl_import_options opt = {sizeof opt, .overwrite = overwrite};
    char raw[4200];
    const char *files = raw;
    charl_status st;

    snprintf(raw, sizeof raw, "%s.raw", path);
    h5_write(raw, d);
    st = charl_import("hdf5", NULL, &files, 1, path, &opt);
    remove(raw);
    return st;
}

#endif
