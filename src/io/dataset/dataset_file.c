/* Opens a dataset file and checks its arrays. A file is rejected here rather than in the middle
 * of training: everything that HDF5 would hide (never-written data reads as zeros, external
 * data and links point anywhere) is checked. */
#include "io/dataset/dataset_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/dataset/dataset_hint.h"
#include "io/dataset/pictures/pictures.h"
#include "io/dataset/schema/data_schema.h"
#include "io/image_layout.h"
#include "io/kind.h"

enum { CACHE_BYTES = 64 << 20, MAX_TEXT = 65536, MAX_LINKS = 16 };

static charl__h5_site site_of(const charl__file *f)
{
    return (charl__h5_site){CHARL_ERR_DATA, f->path};
}

/* O_NONBLOCK: opening a FIFO must not wait for a writer. It has no effect on a regular file. */
static charl_status open_descriptor(charl__file *f, struct stat *info)
{
    CHARL_TRY(charl__acquire("file descriptor"));
    f->fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->fd < 0) {
        charl__drop();
        CHARL_FAIL(CHARL_ERR_DATA, "%s: cannot be opened: %s", f->path, strerror(errno));
    }
    CHARL_REQUIRE(fstat(f->fd, info) == 0, CHARL_ERR_IO, "%s: %s", f->path, strerror(errno));
    CHARL_REQUIRE(S_ISREG(info->st_mode), CHARL_ERR_DATA, "%s: not a regular file", f->path);
    CHARL_REQUIRE(info->st_size > 0, CHARL_ERR_DATA, "%s: the file is empty", f->path);
    f->bytes = info->st_size;
    CHARL_TRY(charl__file_stamp_read(f));
    return CHARL_OK;
}

/* A file that the program has open itself must be opened with the same properties. */
static hid_t open_file(const char *path, hid_t fapl)
{
    const hid_t id = H5Fopen(path, H5F_ACC_RDONLY, fapl);

    return id >= 0 ? id : H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
}

static charl_status open_hdf5(charl__file *f, const struct stat *info)
{
    CHARL_SCOPED(charl__h5_close) hid_t fapl = H5I_INVALID_HID;
    struct stat seen;
    void *handle = NULL;

    CHARL_REQUIRE(H5Fis_hdf5(f->path) > 0, CHARL_ERR_DATA, "%s: not an HDF5 file", f->path);
    CHARL_H5_OPEN(CHARL_ERR_DATA, fapl, H5Pcreate(H5P_FILE_ACCESS), "%s", f->path);
    /* Read-only and never shared with a writer: locks could only fail, as on some network
     * file systems. */
    CHARL_H5(CHARL_ERR_DATA, H5Pset_file_locking(fapl, false, true), "%s", f->path);
    CHARL_H5(CHARL_ERR_DATA, H5Pset_fclose_degree(fapl, H5F_CLOSE_STRONG), "%s", f->path);
    CHARL_H5_OPEN(CHARL_ERR_DATA, f->h5, open_file(f->path, fapl), "%s: damaged or truncated", f->path);
    CHARL_H5(CHARL_ERR_IO, H5Fget_vfd_handle(f->h5, H5P_DEFAULT, &handle), "%s", f->path);
    CHARL_REQUIRE(fstat(*(int *)handle, &seen) == 0 && seen.st_dev == info->st_dev && seen.st_ino == info->st_ino,
                  CHARL_ERR_IO, "%s: the file was replaced while it was being opened", f->path);
    return CHARL_OK;
}

charl_status charl__file_init(charl__file *f, const char *path)
{
    CHARL_H5_SCOPE;
    struct stat info;

    *f = (charl__file){.fd = -1, .h5 = H5I_INVALID_HID};
    pthread_mutex_init(&f->looking, NULL);
    atomic_store(&f->looks, CHARL__BLOCK_READ);
    f->good = CHARL__BLOCK_READ;
    CHARL_TRY(charl__strdup(path, &f->path));
    CHARL_TRY(charl__kind_explain(open_descriptor(f, &info), path, CHARL__KIND_DATASET | CHARL__KIND_OF_HDF5,
                                  "a dataset", CHARL_ERR_DATA));
    return charl__kind_explain(open_hdf5(f, &info), path, CHARL__KIND_DATASET, "a dataset", CHARL_ERR_DATA);
}

void charl__file_fini(charl__file *f)
{
    CHARL_H5_SCOPE;

    charl__h5_close(&f->h5);
    if (f->fd >= 0) {
        close(f->fd);
        charl__drop();
        f->fd = -1;
    }
    charl__text_fini(&f->note);
    charl_free(f->path);
    f->path = NULL;
    pthread_mutex_destroy(&f->looking);
}

/* Target of a soft link at `prefix`, followed by the rest of the name. */
static charl_status follow(const charl__file *f, const char *prefix, const H5L_info_t *link, const char *rest,
                           char target[CHARL__ARRAY_NAME])
{
    char value[CHARL__ARRAY_NAME];
    const int parent = (int)(strrchr(prefix, '/') - prefix);
    int n;

    CHARL_REQUIRE(link->u.val_size <= sizeof value && H5Lget_val(f->h5, prefix, value, sizeof value, H5P_DEFAULT) >= 0,
                  CHARL_ERR_DATA, "%s: the soft link %s cannot be read", f->path, prefix);
    n = value[0] == '/' ? snprintf(target, CHARL__ARRAY_NAME, "%s%s", value, rest)
                        : snprintf(target, CHARL__ARRAY_NAME, "%.*s/%s%s", parent, prefix, value, rest);
    CHARL_REQUIRE(n > 0 && n < CHARL__ARRAY_NAME, CHARL_ERR_DATA,
                  "%s: the soft link %s leads to a name that is too long", f->path, prefix);
    return CHARL_OK;
}

static charl_status find(charl__file *f, const char *name, int depth, bool *found)
{
    char prefix[CHARL__ARRAY_NAME], target[CHARL__ARRAY_NAME];
    H5L_info_t link;

    CHARL_REQUIRE(name[0] == '/' && strlen(name) < sizeof prefix, CHARL_ERR_DATA,
                  "%s: %s: not an absolute name of less than %zu bytes", f->path, name, sizeof prefix);
    CHARL_REQUIRE(depth < MAX_LINKS, CHARL_ERR_DATA, "%s: %s: more than %d soft links in a chain", f->path, name,
                  MAX_LINKS);
    for (const char *end = name; *end;) {
        const char *next = strchr(end + 1, '/');

        end = next ? next : name + strlen(name);
        memcpy(prefix, name, (size_t)(end - name));
        prefix[end - name] = '\0';
        if (H5Lexists(f->h5, prefix, H5P_DEFAULT) <= 0) {
            return CHARL_OK;
        }
        CHARL_H5(CHARL_ERR_DATA, H5Lget_info(f->h5, prefix, &link, H5P_DEFAULT), "%s: %s", f->path, prefix);
        if (link.type == H5L_TYPE_SOFT) {
            CHARL_TRY(follow(f, prefix, &link, end, target));
            return find(f, target, depth + 1, found);
        }
        CHARL_REQUIRE(link.type == H5L_TYPE_HARD, CHARL_ERR_DATA,
                      "%s: %s is an external link; only data inside the file are read", f->path, prefix);
    }
    *found = true;
    return CHARL_OK;
}

charl_status charl__file_find(charl__file *f, const char *name, bool *found)
{
    CHARL_H5_SCOPE;

    *found = false;
    return find(f, name, 0, found);
}

/* The type in which elements are delivered. */
static charl_status judge_type(charl__file *f, charl__array *a, charl__role role, hid_t type)
{
    char text[CHARL__ELEMENT_TEXT];

    CHARL_REQUIRE(charl__element_of(type, &a->stored, text), CHARL_ERR_DATA,
                  "%s: %s holds %s; charl reads integers, floats of 16, 32 and 64 bits, bfloat16 and bool", f->path,
                  a->name, text);
    CHARL_TRY(charl__meaning_read(f, a, role));
    a->dtype = a->meaning.classes  ? CHARL_I32
               : a->meaning.scaled ? CHARL_F32
                                   : charl__element_dtype(&a->stored, role == CHARL__ROLE_TARGETS);
    a->converted = a->meaning.says || !charl__element_is_native(&a->stored, a->dtype);
    return CHARL_OK;
}

static charl_status judge_shape(const charl__file *f, charl__array *a, hid_t space)
{
    hsize_t dims[H5S_MAX_RANK];
    int ndim = H5Sget_simple_extent_ndims(space);
    uint64_t bytes = charl_dtype_size(a->dtype);

    CHARL_REQUIRE(ndim >= 1 && ndim <= CHARL_MAX_DIMS, CHARL_ERR_DATA,
                  "%s: %s has %d dimensions, 1 to %d are supported", f->path, a->name, ndim, CHARL_MAX_DIMS);
    CHARL_H5(CHARL_ERR_DATA, H5Sget_simple_extent_dims(space, dims, NULL), "%s: %s", f->path, a->name);
    if (charl__h5_has(a->dataset, "MATLAB_class")) {
        CHARL_REQUIRE(
            ndim == 2, CHARL_ERR_DATA,
            "%s: %s: MATLAB stores the extents of its arrays in reverse, and which of %d are rows is not known; HINT "
            "in Python: numpy.save('x.npy', h5py.File('%s')['%s'][:].T) if the first extent in MATLAB is that of the "
            "samples, without .T if it is the last one",
            f->path, a->name, ndim, f->path, a->name);
        a->matlab[0] = (int64_t)dims[0];
        a->matlab[1] = (int64_t)dims[1];
        if (dims[0] == 1 || dims[1] == 1) { /* a row or a column */
            dims[0] *= dims[1];
            ndim = 1;
        } else {
            dims[0] = (hsize_t)a->matlab[1];
            dims[1] = (hsize_t)a->matlab[0];
        }
    }
    a->item.ndim = ndim - 1;
    for (int i = 0; i < ndim; i++) {
        CHARL_REQUIRE(dims[i] > 0, CHARL_ERR_DATA, "%s: %s is empty (extent %d is 0)", f->path, a->name, i);
    }
    for (int i = 1; i < ndim; i++) {
        CHARL_REQUIRE(dims[i] <= CHARL__MAX_ITEM_BYTES / bytes, CHARL_ERR_DATA,
                      "%s: %s: one row is larger than %d bytes", f->path, a->name, CHARL__MAX_ITEM_BYTES);
        a->item.dim[i - 1] = (int64_t)dims[i];
        bytes *= dims[i];
    }
    a->item_bytes = (size_t)bytes;
    CHARL_REQUIRE(dims[0] <= (uint64_t)(INT64_MAX / 2) / bytes, CHARL_ERR_DATA, "%s: %s: the extents overflow", f->path,
                  a->name);
    a->rows = (int64_t)dims[0];
    return CHARL_OK;
}

static charl_status judge_chunks(const charl__file *f, charl__array *a, hid_t plist)
{
    CHARL_TRY(charl__alloc(sizeof *a->chunks, &a->chunks));
    a->chunks->path = f->path;
    a->chunks->name = a->name;
    CHARL_TRY(charl__chunks_init(a->chunks, a->dataset, plist, a->type));
    return CHARL_OK;
}

/* Location of the bytes. Sets a->offset if they can be read without HDF5. */
static charl_status judge_storage(charl__file *f, charl__array *a, charl__role role, hid_t plist)
{
    const H5D_layout_t layout = H5Pget_layout(plist);
    H5D_space_status_t allocated = H5D_SPACE_STATUS_ERROR;
    haddr_t offset;

    if (layout == H5D_VIRTUAL) {
        return charl__array_open_virtual(a, f, role, plist);
    }
    CHARL_REQUIRE(H5Pget_external_count(plist) == 0, CHARL_ERR_DATA,
                  "%s: %s is external: its data lie in another file; copy them into one file", f->path, a->name);
    if (layout == H5D_CHUNKED && !a->matlab[0]) {
        CHARL_TRY(judge_chunks(f, a, plist));
    }
    if (layout != H5D_CONTIGUOUS) {
        return CHARL_OK; /* compact data are part of the metadata */
    }
    CHARL_H5(CHARL_ERR_DATA, H5Dget_space_status(a->dataset, &allocated), "%s: %s", f->path, a->name);
    offset = H5Dget_offset(a->dataset);
    if (offset == HADDR_UNDEF) {
        CHARL_TRY(charl__pictures_open(f, a, &a->pictures));
        if (a->pictures) {
            return CHARL_OK;
        }
    }
    CHARL_REQUIRE(offset != HADDR_UNDEF && allocated == H5D_SPACE_STATUS_ALLOCATED, CHARL_ERR_DATA,
                  "%s: %s was never written; it would read as zeros", f->path, a->name);
    CHARL_REQUIRE(offset <= (uint64_t)f->bytes && H5Dget_storage_size(a->dataset) <= (uint64_t)f->bytes - offset,
                  CHARL_ERR_DATA, "%s: %s reaches beyond the end of the file, which is truncated", f->path, a->name);
    CHARL_REQUIRE(H5Dget_storage_size(a->dataset) ==
                      (uint64_t)a->rows * (a->item_bytes / charl_dtype_size(a->dtype)) * (uint64_t)a->stored.bytes,
                  CHARL_ERR_DATA, "%s: %s: malformed storage", f->path, a->name);
    a->offset = a->matlab[0] ? -1 : (int64_t)offset;
    return CHARL_OK;
}

/* Notes about unusual properties of an array and their cost. */
static charl_status note_cost(charl__file *f, const charl__array *a)
{
    char filters[128];

    if (a->chunks && a->chunks->by_hdf5) {
        CHARL_TRY(charl__text_printf(
            &f->note,
            "%s%s is compressed with %s, which is decoded by one thread; `charl data import hdf5` "
            "writes it uncompressed",
            f->note.length ? "\n" : "", a->name, charl__chunks_filters(a->chunks, filters, sizeof filters)));
    }
    if (a->pictures) {
        CHARL_TRY(charl__text_printf(&f->note, "%s%s is decoded from %lld image files whenever it is read",
                                     f->note.length ? "\n" : "", a->name, (long long)a->rows));
    }
    return CHARL_OK;
}

static charl_status open_array(charl__array *a, charl__file *f, charl__role role)
{
    CHARL_SCOPED(charl__h5_close) hid_t space = H5I_INVALID_HID;
    CHARL_SCOPED(charl__h5_close) hid_t plist = H5I_INVALID_HID;
    CHARL_SCOPED(charl__h5_close) hid_t access = H5I_INVALID_HID;

    CHARL_H5_OPEN(CHARL_ERR_DATA, access, H5Pcreate(H5P_DATASET_ACCESS), "%s", f->path);
    CHARL_H5(CHARL_ERR_DATA, H5Pset_chunk_cache(access, 10007, CACHE_BYTES, 0.75), "%s", f->path);
    CHARL_H5_OPEN(CHARL_ERR_DATA, a->dataset, H5Dopen2(f->h5, a->name, access), "%s: %s is not a dataset", f->path,
                  a->name);
    CHARL_H5_OPEN(CHARL_ERR_DATA, a->type, H5Dget_type(a->dataset), "%s: %s", f->path, a->name);
    CHARL_H5_OPEN(CHARL_ERR_DATA, space, H5Dget_space(a->dataset), "%s: %s", f->path, a->name);
    CHARL_H5_OPEN(CHARL_ERR_DATA, plist, H5Dget_create_plist(a->dataset), "%s: %s", f->path, a->name);
    if (role == CHARL__ROLE_TARGETS && H5Tget_class(a->type) == H5T_STRING) {
        CHARL_TRY(charl__labels_read(f, a, space));
        charl__h5_close(&a->type);
        charl__h5_close(&a->dataset);
        return CHARL_OK;
    }
    CHARL_TRY(judge_type(f, a, role, a->type));
    CHARL_TRY(judge_shape(f, a, space));
    CHARL_TRY(role == CHARL__ROLE_SAMPLES ? charl__meaning_layout(f, a) : CHARL_OK);
    CHARL_TRY(judge_storage(f, a, role, plist));
    CHARL_TRY(note_cost(f, a));
    return CHARL_OK;
}

/* /crc + name: one CRC-32C per MiB of the array's bytes. Meaningless for elements that HDF5
 * converts. */
static charl_status load_checksums(charl__array *a, charl__file *f)
{
    CHARL_SCOPED(charl__array_fini) charl__array crc = CHARL__ARRAY_CLOSED;
    const int64_t bytes = a->rows * (int64_t)a->item_bytes;
    const int64_t blocks = (bytes + CHARL__BLOCK_BYTES - 1) / CHARL__BLOCK_BYTES;
    char name[CHARL__ARRAY_NAME + 8];
    bool found = false;

    snprintf(name, sizeof name, "/crc%s", a->name);
    if (a->converted || a->labels || strlen(name) >= CHARL__ARRAY_NAME) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__file_find(f, name, &found));
    if (!found) {
        return CHARL_OK;
    }
    crc.offset = -1;
    memcpy(crc.name, name, strlen(name) + 1);
    CHARL_TRY(open_array(&crc, f, CHARL__ROLE_SAMPLES));
    CHARL_REQUIRE(crc.dtype == CHARL_U32 && crc.item.ndim == 0 && crc.rows == blocks, CHARL_ERR_DATA,
                  "%s: %s must hold %lld checksums (u32) for %s", f->path, name, (long long)blocks, a->name);
    CHARL_TRY(charl__alloc_array(blocks, sizeof *a->block_crc, &a->block_crc));
    CHARL_TRY(charl__alloc_array(blocks, sizeof *a->block_state, &a->block_state));
    CHARL_TRY(charl__array_read(f, &crc, 0, blocks, a->block_crc));
    a->n_blocks = blocks;
    return CHARL_OK;
}

charl_status charl__array_init(charl__array *a, charl__file *f, const char *name, charl__role role)
{
    CHARL_H5_SCOPE;
    bool found = false;
    char hint[CHARL__DATASET_HINT];

    *a = (charl__array)CHARL__ARRAY_CLOSED;
    CHARL_TRY(charl__file_find(f, name, &found));
    CHARL_REQUIRE(found, CHARL_ERR_DATA, "%s: there is no array %s%s", f->path, name,
                  charl__dataset_hint_arrays(f->h5, hint));
    memcpy(a->name, name, strlen(name) + 1);
    CHARL_TRY(open_array(a, f, role));
    CHARL_TRY(load_checksums(a, f));
    return CHARL_OK;
}

void charl__array_move_channels(charl__array *a)
{
    a->item = charl__channels_first(&a->item);
    a->interleaved = a->converted = true;
}

void charl__array_fini(charl__array *a)
{
    CHARL_H5_SCOPE;

    if (a->chunks) {
        charl__chunks_fini(a->chunks);
        charl_free(a->chunks);
        a->chunks = NULL;
    }
    charl__pictures_close(a->pictures);
    a->pictures = NULL;
    charl__h5_close(&a->type);
    charl__h5_close(&a->dataset);
    charl__array_close_sources(a);
    charl_free(a->part);
    a->part = NULL;
    a->n_parts = 0;
    charl_free(a->labels);
    charl_free(a->class_names);
    charl__labels_free_numbers(&a->meaning);
    a->labels = NULL;
    a->class_names = NULL;
    charl_free(a->block_crc);
    charl_free(a->block_state);
    a->block_crc = NULL;
    a->block_state = NULL;
    a->n_blocks = 0;
}

charl_status charl__file_seal(charl__file *f, charl__array *arrays, int n, charl__chunk_cache *cache)
{
    CHARL_H5_SCOPE;
    bool needed = false;

    for (int i = 0; i < n; i++) {
        for (int j = 0; j < arrays[i].n_sources; j++) {
            charl__array_source *source = arrays[i].source[j];

            CHARL_TRY(charl__file_seal(&source->file, &source->array, 1, cache));
        }
        if (arrays[i].offset >= 0 || arrays[i].n_sources > 0 || arrays[i].pictures) {
            charl__h5_close(&arrays[i].type);
            charl__h5_close(&arrays[i].dataset);
        } else if (arrays[i].dataset >= 0) {
            needed = true;
        }
        if (arrays[i].chunks) {
            CHARL_TRY(charl__chunks_attach(arrays[i].chunks, cache));
        }
    }
    if (!needed) {
        charl__h5_close(&f->h5);
    }
    f->arrays = arrays;
    f->n_arrays = n;
    return CHARL_OK;
}

static charl_status read_floats(charl__file *f, const char *object, const char *name, float **out, int64_t *n)
{
    CHARL_H5_SCOPE;
    CHARL_SCOPED(charl__h5_close) hid_t attr = H5I_INVALID_HID;
    CHARL_SCOPED(charl__h5_close) hid_t type = H5I_INVALID_HID;
    CHARL_SCOPED(charl__h5_close) hid_t space = H5I_INVALID_HID;
    hssize_t count;

    *out = NULL;
    *n = 0;
    if (H5Aexists_by_name(f->h5, object, name, H5P_DEFAULT) <= 0) {
        return CHARL_OK;
    }
    CHARL_H5_OPEN(CHARL_ERR_DATA, attr, H5Aopen_by_name(f->h5, object, name, H5P_DEFAULT, H5P_DEFAULT),
                  "%s: %s: attribute %s", f->path, object, name);
    CHARL_H5_OPEN(CHARL_ERR_DATA, type, H5Aget_type(attr), "%s: attribute %s", f->path, name);
    CHARL_H5_OPEN(CHARL_ERR_DATA, space, H5Aget_space(attr), "%s: attribute %s", f->path, name);
    count = H5Sget_simple_extent_npoints(space);
    CHARL_REQUIRE(H5Tget_class(type) == H5T_FLOAT && count > 0 && count <= MAX_TEXT, CHARL_ERR_DATA,
                  "%s: %s: attribute %s is not a list of floats", f->path, object, name);
    CHARL_TRY(charl__alloc_array(count, sizeof **out, out));
    CHARL_H5(CHARL_ERR_DATA, H5Aread(attr, H5T_NATIVE_FLOAT, *out), "%s: %s: attribute %s", f->path, object, name);
    *n = count;
    return CHARL_OK;
}

/* All of the 1-D array `name`, of type `dtype`, and `spare` zeroed elements. *out stays NULL if
 * there is no such array. */
static charl_status read_whole(charl__file *f, const char *name, charl_dtype dtype, int64_t spare, void *out,
                               int64_t *n)
{
    CHARL_SCOPED(charl__array_fini) charl__array a = CHARL__ARRAY_CLOSED;
    CHARL_SCOPED_FREE void *data = NULL;
    bool found = false;

    CHARL_TRY(charl__file_find(f, name, &found));
    if (!found) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__array_init(&a, f, name, CHARL__ROLE_SAMPLES));
    CHARL_REQUIRE(a.dtype == dtype && a.item.ndim == 0, CHARL_ERR_DATA, "%s: %s must be a list of %s", f->path, name,
                  charl_dtype_name(dtype));
    CHARL_TRY(charl__alloc_array(a.rows + spare, a.item_bytes, &data));
    CHARL_TRY(charl__array_read(f, &a, 0, a.rows, data));
    *n = a.rows;
    *(void **)out = data;
    data = NULL;
    return CHARL_OK;
}

charl_status charl__file_stats(charl__file *f, const char *object, const char *name, float **out, int64_t *n)
{
    char array[CHARL__ARRAY_NAME];

    CHARL_TRY(read_floats(f, object, name, out, n));
    if (*out) {
        return CHARL_OK;
    }
    snprintf(array, sizeof array, "/stats/%s", name);
    CHARL_TRY(read_whole(f, array, CHARL_F32, 0, out, n));
    CHARL_REQUIRE(*n <= INT_MAX, CHARL_ERR_DATA, "%s: %s has %lld values", f->path, array, (long long)*n);
    return CHARL_OK;
}

charl_status charl__file_text(charl__file *f, const char *object, const char *name, char **out)
{
    CHARL_H5_SCOPE;
    const charl__h5_site site = site_of(f);
    CHARL_SCOPED(charl__h5_close) hid_t id = H5I_INVALID_HID;
    CHARL_SCOPED_FREE char *text = NULL;

    CHARL_TRY(charl__alloc(MAX_TEXT, &text));
    CHARL_H5_OPEN(CHARL_ERR_DATA, id, H5Oopen(f->h5, object, H5P_DEFAULT), "%s: %s", f->path, object);
    if (charl__h5_has(id, name)) {
        CHARL_TRY(charl__h5_get_text(&site, id, name, text, MAX_TEXT));
    }
    CHARL_TRY(charl__schema_set(out, text));
    return CHARL_OK;
}

charl_status charl__file_names(charl__file *f, const char *name, char **out)
{
    char array[CHARL__ARRAY_NAME];
    CHARL_SCOPED_FREE char *text = NULL;
    int64_t bytes = 0;

    snprintf(array, sizeof array, "/names/%s", name);
    CHARL_TRY(read_whole(f, array, CHARL_U8, 1, &text, &bytes));
    if (!text) {
        CHARL_TRY(charl__file_text(f, "/", name, &text));
        bytes = (int64_t)strlen(text);
    }
    CHARL_REQUIRE(!memchr(text, '\0', (size_t)bytes), CHARL_ERR_DATA, "%s: %s is not text", f->path, array);
    charl_free(*out);
    *out = text;
    text = NULL;
    return CHARL_OK;
}
