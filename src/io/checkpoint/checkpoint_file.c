/* Finding and checking the objects of a file. Links out of the file and filters are refused unread. */
#include "io/checkpoint/checkpoint_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "io/regular.h"

charl_status charl__ckpt_file_open(charl__ckpt_file *f, const char *path, int fd, int64_t bytes)
{
    CHARL_SCOPED(charl__h5_close) hid_t fapl = H5I_INVALID_HID;

    *f = (charl__ckpt_file){
        .path = path, .site = {CHARL_ERR_CHECKPOINT, path}, .io = {.fd = fd}, .file = H5I_INVALID_HID, .bytes = bytes};
    CHARL_TRY(charl__h5_driver_fapl(&f->io, &fapl));
    CHARL_H5_OPEN(CHARL_ERR_CHECKPOINT, f->file, H5Fopen(path, H5F_ACC_RDONLY, fapl), "%s: is damaged", path);
    return CHARL_OK;
}

charl_status charl__ckpt_file_close(charl__ckpt_file *f, charl_status st)
{
    charl__h5_close(&f->file);
    return f->io.error == ENOMEM ? charl__h5_io_check(&f->io, f->path, -1) : st;
}

charl_status charl__ckpt_check_link(charl__ckpt_file *f, const char *path, bool *exists)
{
    H5L_info_t info;
    const bool found = H5Lget_info(f->file, path, &info, H5P_DEFAULT) >= 0;

    CHARL_REQUIRE(found || exists, CHARL_ERR_CHECKPOINT, "%s: /%s is missing", f->path, path);
    CHARL_REQUIRE(!found || info.type == H5L_TYPE_HARD, CHARL_ERR_CHECKPOINT,
                  "%s: /%s is a soft or external link, which is not allowed", f->path, path);
    if (exists) {
        *exists = found;
    }
    return CHARL_OK;
}

charl_status charl__ckpt_check_group(charl__ckpt_file *f, const char *path, int64_t count)
{
    const char *slash = path[0] == '/' ? "" : "/";
    CHARL_SCOPED(charl__h5_close) hid_t group = H5I_INVALID_HID;
    H5G_info_t info;

    if (slash[0]) {
        CHARL_TRY(charl__ckpt_check_link(f, path, NULL));
    }
    CHARL_H5_OPEN(CHARL_ERR_CHECKPOINT, group, H5Gopen2(f->file, path, H5P_DEFAULT), "%s: %s%s is not a readable group",
                  f->path, slash, path);
    CHARL_H5(CHARL_ERR_CHECKPOINT, H5Gget_info(group, &info), "%s: group %s%s", f->path, slash, path);
    CHARL_REQUIRE(info.nlinks == (hsize_t)count, CHARL_ERR_CHECKPOINT,
                  "%s: group %s%s holds %llu objects, %lld are expected", f->path, slash, path,
                  (unsigned long long)info.nlinks, (long long)count);
    return CHARL_OK;
}

charl_status charl__ckpt_check_root(charl__ckpt_file *f, const char *format, int64_t lowest, int64_t *version)
{
    char found[64];
    int64_t value = 0;

    CHARL_TRY(charl__h5_get_text(&f->site, f->file, "charl_format", found, sizeof found));
    CHARL_REQUIRE(strcmp(found, CHARL__CKPT_PART_FORMAT) != 0 || strcmp(format, found) == 0, CHARL_ERR_CHECKPOINT,
                  "%s: is a part of a checkpoint; HINT name the checkpoint, the file beside it that ends in .h5",
                  f->path);
    CHARL_REQUIRE(strcmp(found, format) == 0, CHARL_ERR_CHECKPOINT, "%s: not a %s: its charl_format is '%s'", f->path,
                  format, found);
    CHARL_TRY(charl__h5_get_i64(&f->site, f->file, "charl_version", &value));
    CHARL_REQUIRE(value >= lowest && value <= CHARL_CHECKPOINT_VERSION, CHARL_ERR_CHECKPOINT,
                  "%s: has format version %lld, this charl reads versions %lld to %d", f->path, (long long)value,
                  (long long)lowest, CHARL_CHECKPOINT_VERSION);
    *version = value;
    CHARL_REQUIRE(charl__h5_has(f->file, "complete"), CHARL_ERR_CHECKPOINT,
                  "%s: is incomplete: it was not written to its end", f->path);
    CHARL_TRY(charl__h5_get_i64(&f->site, f->file, "complete", &value));
    CHARL_REQUIRE(value == 1, CHARL_ERR_CHECKPOINT, "%s: is incomplete", f->path);
    return CHARL_OK;
}

static charl_status check_storage(charl__ckpt_file *f, hid_t dataset, const char *path)
{
    CHARL_SCOPED(charl__h5_close) hid_t dcpl = H5I_INVALID_HID;

    CHARL_H5_OPEN(CHARL_ERR_CHECKPOINT, dcpl, H5Dget_create_plist(dataset), "%s: /%s: storage properties", f->path,
                  path);
    CHARL_REQUIRE(H5Pget_layout(dcpl) == H5D_CONTIGUOUS, CHARL_ERR_CHECKPOINT, "%s: /%s is not stored contiguously",
                  f->path, path);
    CHARL_REQUIRE(H5Pget_nfilters(dcpl) == 0, CHARL_ERR_CHECKPOINT, "%s: /%s has a filter", f->path, path);
    CHARL_REQUIRE(H5Pget_external_count(dcpl) == 0, CHARL_ERR_CHECKPOINT,
                  "%s: /%s is stored in another file, which is not allowed", f->path, path);
    return CHARL_OK;
}

static charl_status check_type(charl__ckpt_file *f, hid_t dataset, const char *path, charl_dtype dtype)
{
    CHARL_SCOPED(charl__h5_close) hid_t stored = H5I_INVALID_HID;
    CHARL_SCOPED(charl__h5_close) hid_t expected = H5I_INVALID_HID;

    CHARL_TRY(charl__ckpt_type(dtype, &expected));
    CHARL_H5_OPEN(CHARL_ERR_CHECKPOINT, stored, H5Dget_type(dataset), "%s: /%s: element type", f->path, path);
    CHARL_REQUIRE(H5Tequal(stored, expected) > 0, CHARL_ERR_CHECKPOINT, "%s: /%s: the element type is not %s", f->path,
                  path, charl_dtype_name(dtype));
    return CHARL_OK;
}

charl_status charl__ckpt_get_shape(charl__ckpt_file *f, hid_t dataset, const char *path, charl_shape *out)
{
    CHARL_SCOPED(charl__h5_close) hid_t space = H5I_INVALID_HID;
    hsize_t dims[CHARL_MAX_DIMS] = {0};
    int ndim;

    *out = (charl_shape){0};
    CHARL_H5_OPEN(CHARL_ERR_CHECKPOINT, space, H5Dget_space(dataset), "%s: /%s: shape", f->path, path);
    ndim = H5Sget_simple_extent_ndims(space);
    CHARL_REQUIRE(H5Sget_simple_extent_type(space) != H5S_NULL && ndim >= 0 && ndim <= CHARL_MAX_DIMS,
                  CHARL_ERR_CHECKPOINT, "%s: /%s: the shape is not one of a tensor", f->path, path);
    CHARL_H5(CHARL_ERR_CHECKPOINT, H5Sget_simple_extent_dims(space, dims, NULL), "%s: /%s: shape", f->path, path);
    out->ndim = ndim;
    for (int i = 0; i < ndim; i++) {
        CHARL_REQUIRE(dims[i] <= (hsize_t)INT64_MAX, CHARL_ERR_CHECKPOINT, "%s: /%s: impossible extent", f->path, path);
        out->dim[i] = (int64_t)dims[i];
    }
    return CHARL_OK;
}

charl_status charl__ckpt_locate(charl__ckpt_file *f, hid_t dataset, const char *path, int64_t bytes, int64_t *offset)
{
    haddr_t at;

    *offset = 0;
    if (bytes > 0) {
        at = H5Dget_offset(dataset);
        CHARL_REQUIRE(at != HADDR_UNDEF, CHARL_ERR_CHECKPOINT, "%s: /%s was never written", f->path, path);
        CHARL_REQUIRE(H5Dget_storage_size(dataset) == (hsize_t)bytes && at > 0 && bytes <= f->bytes &&
                          at <= (haddr_t)(f->bytes - bytes),
                      CHARL_ERR_CHECKPOINT, "%s: /%s does not lie inside the file", f->path, path);
        *offset = (int64_t)at;
    }
    return CHARL_OK;
}

charl_status charl__ckpt_open_dataset(charl__ckpt_file *f, const char *path, charl_dtype dtype, hid_t *out)
{
    CHARL_TRY(charl__ckpt_check_link(f, path, NULL));
    CHARL_H5_OPEN(CHARL_ERR_CHECKPOINT, *out, H5Dopen2(f->file, path, H5P_DEFAULT), "%s: /%s is not a readable dataset",
                  f->path, path);
    CHARL_TRY(check_storage(f, *out, path));
    CHARL_TRY(check_type(f, *out, path, dtype));
    return CHARL_OK;
}

charl_status charl__ckpt_read_lines(charl__ckpt_file *f, const char *path, char **text, size_t *length,
                                    char sha256[CHARL__SHA256_TEXT])
{
    CHARL_SCOPED(charl__h5_close) hid_t dataset = H5I_INVALID_HID;
    charl_shape shape;
    char want[CHARL__SHA256_TEXT];
    int64_t bytes, offset;

    CHARL_TRY(charl__ckpt_open_dataset(f, path, CHARL_U8, &dataset));
    CHARL_TRY(charl__ckpt_get_shape(f, dataset, path, &shape));
    bytes = charl__ckpt_bytes(CHARL_U8, &shape);
    CHARL_REQUIRE(shape.ndim == 1 && bytes > 0 && bytes <= CHARL__CKPT_MANIFEST, CHARL_ERR_CHECKPOINT,
                  "%s: the %s has an impossible size", f->path, path);
    CHARL_TRY(charl__ckpt_locate(f, dataset, path, bytes, &offset));
    CHARL_TRY(charl__alloc((size_t)bytes + 1, text));
    CHARL_H5(CHARL_ERR_CHECKPOINT, H5Dread(dataset, H5T_STD_U8LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, *text),
             "%s: the %s cannot be read", f->path, path);
    charl__sha256_text(*text, (size_t)bytes, sha256);
    CHARL_TRY(charl__h5_get_text(&f->site, dataset, "sha256", want, sizeof want));
    CHARL_REQUIRE(strcmp(want, sha256) == 0, CHARL_ERR_CHECKPOINT, "%s: the %s is damaged: its SHA-256 differs",
                  f->path, path);
    CHARL_REQUIRE((*text)[bytes - 1] == '\n' && !memchr(*text, '\0', (size_t)bytes), CHARL_ERR_CHECKPOINT,
                  "%s: the %s is malformed", f->path, path);
    *length = (size_t)bytes;
    return CHARL_OK;
}

charl_status charl__ckpt_seal(const char *path, int fd, int64_t bytes, char out[CHARL__CKPT_SEAL])
{
    CHARL_SCOPED_FREE void *block = NULL;
    unsigned char digest[CHARL__SHA256_BYTES];
    char text[CHARL__SHA256_TEXT];
    charl__sha256 sha;

    CHARL_TRY(charl__alloc(CHARL__CKPT_BLOCK, &block));
    charl__sha256_init(&sha);
    for (int64_t at = 0; at < bytes; at += CHARL__CKPT_BLOCK) {
        const int64_t n = bytes - at < CHARL__CKPT_BLOCK ? bytes - at : CHARL__CKPT_BLOCK;

        CHARL_REQUIRE(charl__regular_read(fd, block, n, at) == n, CHARL_ERR_CHECKPOINT, "%s: cannot be read", path);
        charl__sha256_update(&sha, block, (size_t)n);
    }
    charl__sha256_final(&sha, digest);
    snprintf(out, CHARL__CKPT_SEAL, "charl-sha256 %s\n", charl__sha256_format(digest, text));
    return CHARL_OK;
}

charl_status charl__ckpt_check_seal(charl__ckpt_file *f)
{
    const int64_t length = CHARL__CKPT_SEAL - 1, bytes = f->bytes - length;
    char want[CHARL__CKPT_SEAL], found[CHARL__CKPT_SEAL] = "";

    CHARL_TRY(charl__ckpt_seal(f->path, f->io.fd, bytes, want));
    CHARL_REQUIRE(charl__regular_read(f->io.fd, found, length, bytes) == length && strcmp(found, want) == 0,
                  CHARL_ERR_CHECKPOINT, "%s: is damaged: its SHA-256 differs from the one in its last line", f->path);
    return CHARL_OK;
}
