/* Rows are collected into blocks, one buffer per array. */
#include "data/prediction_file.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "io/commit.h"
#include "io/h5_array.h"
#include "io/h5_driver.h"

enum { BLOCK_ROWS = 256, OUTPUT = 0, DEVIATION, PREDICTED, TARGET, N_ARRAYS };

struct charl__prediction_file {
    char *path;
    charl__prediction_spec spec;
    charl__commit commit;
    charl__h5_io io;
    hid_t h5;
    charl__h5_array array[N_ARRAYS];
    unsigned char *block[N_ARRAYS]; /* NULL: there is no such array */
    size_t row_bytes[N_ARRAYS];
    int64_t filled;
};

static charl_status add_array(charl__prediction_file *f, int k, const char *name, charl_dtype dtype, charl_shape item)
{
    charl__h5_array *a = &f->array[k];

    snprintf(a->name, sizeof a->name, "/%s", name);
    a->path = f->path;
    a->dtype = dtype;
    a->item = item;
    a->rows = f->spec.rows;
    f->row_bytes[k] = (size_t)charl_shape_count(&item) * charl_dtype_size(dtype);
    CHARL_TRY(charl__alloc_array(BLOCK_ROWS, f->row_bytes[k], &f->block[k]));
    CHARL_TRY(charl__h5_array_create(a, f->h5));
    return CHARL_OK;
}

/* Strings of equal length, the longest one's; from a list of names or of files. */
static charl_status write_strings(charl__prediction_file *f, const char *name, const char *list,
                                  const charl_image_files *files)
{
    const int64_t n = files ? files->count : charl_names_count(list);
    const hsize_t dims[1] = {(hsize_t)n};
    CHARL_SCOPED(charl__h5_close) hid_t space = H5I_INVALID_HID, type = H5I_INVALID_HID, dataset = H5I_INVALID_HID;
    size_t longest = 1, length;
    CHARL_SCOPED_FREE char *strings = NULL;
    const char *at = list;

    if (n == 0) {
        return CHARL_OK;
    }
    for (int64_t i = 0; i < n; i++) {
        length = files ? strlen(files->paths[i]) : strcspn(at, "\n");
        longest = length > longest ? length : longest;
        at = files ? NULL : at + length + 1;
    }
    CHARL_TRY(charl__alloc_array(n, longest, &strings));
    at = list;
    for (int64_t i = 0; i < n; i++) {
        length = files ? strlen(files->paths[i]) : strcspn(at, "\n");
        memcpy(strings + (size_t)i * longest, files ? files->paths[i] : at, length);
        at = files ? NULL : at + length + 1;
    }
    CHARL_H5_OPEN(CHARL_ERR_DISK, space, H5Screate_simple(1, dims, NULL), "%s", f->path);
    CHARL_H5_OPEN(CHARL_ERR_DISK, type, H5Tcopy(H5T_C_S1), "%s", f->path);
    CHARL_H5(CHARL_ERR_DISK, H5Tset_size(type, longest), "%s", f->path);
    CHARL_H5(CHARL_ERR_DISK, H5Tset_strpad(type, H5T_STR_NULLPAD), "%s", f->path);
    CHARL_H5(CHARL_ERR_DISK, H5Tset_cset(type, H5T_CSET_UTF8), "%s", f->path);
    CHARL_H5_OPEN(CHARL_ERR_DISK, dataset, H5Dcreate2(f->h5, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                  "%s: %s cannot be created", f->path, name);
    CHARL_H5(CHARL_ERR_DISK, H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, strings),
             "%s: %s cannot be written", f->path, name);
    return CHARL_OK;
}

static charl_status open_file(charl__prediction_file *f)
{
    CHARL_H5_SCOPE;
    const charl__prediction_spec *spec = &f->spec;
    const charl__h5_site site = {CHARL_ERR_DISK, f->path};
    const charl_shape scalar = {0, {0}}, targets = {1, {spec->targets}};
    CHARL_SCOPED(charl__h5_close) hid_t fapl = H5I_INVALID_HID;

    CHARL_TRY(charl__commit_begin(f->path, &f->commit));
    f->io.fd = f->commit.fd;
    CHARL_TRY(charl__h5_driver_fapl(&f->io, &fapl));
    CHARL_H5_OPEN(CHARL_ERR_DISK, f->h5, H5Fcreate(f->commit.temp, H5F_ACC_TRUNC, H5P_DEFAULT, fapl),
                  "%s: cannot be created", f->path);
    CHARL_TRY(charl__h5_set_text(&site, f->h5, "charl_format", "predictions"));
    CHARL_TRY(charl__h5_set_i64(&site, f->h5, "step", spec->step));
    CHARL_TRY(add_array(f, OUTPUT, "output", CHARL_F32, (charl_shape){1, {spec->outputs}}));
    if (spec->deviations > 0) {
        CHARL_TRY(add_array(f, DEVIATION, "deviation", CHARL_F32, (charl_shape){1, {spec->deviations}}));
    }
    if (spec->predicted > 0) {
        CHARL_TRY(add_array(f, PREDICTED, "predicted", CHARL_I32,
                            spec->predicted == 1 ? scalar : (charl_shape){1, {spec->predicted}}));
    }
    if (spec->targets > 0) {
        CHARL_TRY(add_array(f, TARGET, spec->labels ? "label" : "target", spec->labels ? CHARL_I32 : CHARL_F32,
                            spec->labels && spec->targets == 1 ? scalar : targets));
    }
    if (spec->files) {
        CHARL_TRY(write_strings(f, "/file", NULL, spec->files));
    }
    if (spec->class_names) {
        CHARL_TRY(write_strings(f, "/class_names", spec->class_names, NULL));
    }
    if (spec->target_names) {
        CHARL_TRY(write_strings(f, "/targets", spec->target_names, NULL));
    }
    return CHARL_OK;
}

charl_status charl__prediction_file_create(const char *path, const charl__prediction_spec *spec,
                                           charl__prediction_file **out)
{
    charl_status st = CHARL_OK;
    charl__prediction_file *f = NULL;

    *out = NULL;
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *f, &f));
    f->spec = *spec;
    f->commit.fd = -1;
    f->h5 = H5I_INVALID_HID;
    for (int k = 0; k < N_ARRAYS; k++) {
        f->array[k].dataset = H5I_INVALID_HID;
    }
    CHARL_TRY_CLEANUP(charl__strdup(path, &f->path));
    CHARL_TRY_CLEANUP(open_file(f));
    *out = f;
    f = NULL;
cleanup:
    charl__prediction_file_destroy(f);
    return st;
}

static charl_status flush(charl__prediction_file *f)
{
    for (int k = 0; k < N_ARRAYS && f->filled > 0; k++) {
        if (f->block[k]) {
            CHARL_TRY(charl__h5_array_append(&f->array[k], f->block[k], f->filled));
        }
    }
    f->filled = 0;
    CHARL_TRY(charl__h5_io_check(&f->io, f->path, -1));
    return CHARL_OK;
}

charl_status charl__prediction_file_put(charl__prediction_file *f, const float *output, const float *deviation,
                                        const int32_t *predicted, const void *target)
{
    const void *const from[N_ARRAYS] = {output, deviation, predicted, target};

    for (int k = 0; k < N_ARRAYS; k++) {
        if (f->block[k]) {
            memcpy(f->block[k] + (size_t)f->filled * f->row_bytes[k], from[k], f->row_bytes[k]);
        }
    }
    if (++f->filled == BLOCK_ROWS) {
        CHARL_TRY(flush(f));
    }
    return CHARL_OK;
}

static void close_handles(charl__prediction_file *f)
{
    for (int k = 0; k < N_ARRAYS; k++) {
        charl__h5_close(&f->array[k].dataset);
    }
    charl__h5_close(&f->h5);
}

charl_status charl__prediction_file_finish(charl__prediction_file *f)
{
    CHARL_TRY(flush(f));
    CHARL_INVARIANT(f->array[OUTPUT].done == f->spec.rows);
    close_handles(f);
    CHARL_TRY(charl__h5_io_check(&f->io, f->path, -1));
    CHARL_TRY(charl__commit_end(&f->commit, NULL, NULL));
    return CHARL_OK;
}

void charl__prediction_file_destroy(charl__prediction_file *f)
{
    if (!f) {
        return;
    }
    close_handles(f);
    if (f->path) {
        charl__commit_fini(&f->commit);
    }
    for (int k = 0; k < N_ARRAYS; k++) {
        charl_free(f->block[k]);
    }
    charl_free(f->path);
    charl_free(f);
}

charl_status charl__samples_write(const char *path, const char *name, const charl_shape *item, const float *data,
                                  int64_t rows)
{
    CHARL_H5_SCOPE;
    CHARL_SCOPED(charl__commit_fini) charl__commit commit = {.fd = -1};
    charl__h5_io io = {.fd = -1};
    charl__h5_array a = {.path = path, .dtype = CHARL_F32, .item = *item, .rows = rows, .dataset = H5I_INVALID_HID};
    CHARL_SCOPED(charl__h5_close) hid_t fapl = H5I_INVALID_HID, h5 = H5I_INVALID_HID;
    charl_status st;

    snprintf(a.name, sizeof a.name, "/%s", name);
    CHARL_TRY(charl__commit_begin(path, &commit));
    io.fd = commit.fd;
    CHARL_TRY(charl__h5_driver_fapl(&io, &fapl));
    CHARL_H5_OPEN(CHARL_ERR_DISK, h5, H5Fcreate(commit.temp, H5F_ACC_TRUNC, H5P_DEFAULT, fapl), "%s: cannot be created",
                  path);
    st = charl__h5_array_create(&a, h5);
    st = st == CHARL_OK ? charl__h5_array_append(&a, data, rows) : st;
    charl__h5_close(&a.dataset);
    CHARL_TRY(st);
    charl__h5_close(&h5);
    CHARL_TRY(charl__h5_io_check(&io, path, -1));
    return charl__commit_end(&commit, NULL, NULL);
}
