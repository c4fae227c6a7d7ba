/* Reading rows of one array. Directly: pread at offset + row * item_bytes, after the checksums of
 * the blocks touched for the first time. Through HDF5: one hyperslab per run of rows, under the
 * file's lock. */
#include "io/dataset/dataset_file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/hash.h"

static charl_status read_bytes(const charl__file *f, const charl__array *a, int64_t offset,
                               size_t bytes, void *dst)
{
    charl_status st = CHARL_OK;
    unsigned char *p = dst;
    int64_t at = a->offset + offset;

    while (bytes > 0) {
        ssize_t got = pread(f->fd, p, bytes, (off_t)at);

        if (charl__fault("data.eio")) {
            got = -1;
            errno = EIO;
        }
        if (got < 0 && errno == EINTR) {
            continue;
        }
        CHARL_REQUIRE(got >= 0, CHARL_ERR_IO, "%s: %s: cannot be read at byte %lld: %s", f->path,
                      a->name, (long long)at, strerror(errno));
        CHARL_REQUIRE(got > 0, CHARL_ERR_IO, "%s: %s: the file ends at byte %lld; it was shortened",
                      f->path, a->name, (long long)at);
        p += got;
        at += got;
        bytes -= (size_t)got;
    }
cleanup:
    return st;
}

static size_t block_bytes(const charl__array *a, int64_t block)
{
    const int64_t total = a->rows * (int64_t)a->item_bytes;
    const int64_t rest = total - block * CHARL__BLOCK_BYTES;

    return (size_t)(rest < CHARL__BLOCK_BYTES ? rest : CHARL__BLOCK_BYTES);
}

static charl_status compare_block(const charl__file *f, charl__array *a, int64_t block,
                                  uint32_t crc)
{
    charl_status st = CHARL_OK;

    CHARL_REQUIRE(crc == a->block_crc[block], CHARL_ERR_DATA,
                  "%s: %s: damaged: checksum of rows %lld to %lld is %08x, stored is %08x", f->path,
                  a->name, (long long)(block * CHARL__BLOCK_BYTES / (int64_t)a->item_bytes),
                  (long long)((block * CHARL__BLOCK_BYTES + (int64_t)block_bytes(a, block) - 1) /
                              (int64_t)a->item_bytes),
                  crc, a->block_crc[block]);
    atomic_store(&a->block_ok[block], 1);
cleanup:
    return st;
}

/* Two threads may check the same block at once: both find the same. */
static charl_status check_blocks(const charl__file *f, charl__array *a, int64_t offset,
                                 int64_t bytes)
{
    charl_status st = CHARL_OK;
    unsigned char *buffer = NULL;
    const int64_t last = (offset + bytes - 1) / CHARL__BLOCK_BYTES;

    for (int64_t b = offset / CHARL__BLOCK_BYTES; b <= last; b++) {
        if (atomic_load(&a->block_ok[b])) {
            continue;
        }
        if (!buffer) {
            CHARL_TRY(charl_alloc(CHARL__BLOCK_BYTES, &buffer));
        }
        CHARL_TRY(read_bytes(f, a, b * CHARL__BLOCK_BYTES, block_bytes(a, b), buffer));
        if (charl__fault("data.flip")) {
            buffer[0] ^= 1;
        }
        CHARL_TRY(compare_block(f, a, b, charl__crc32c(0, buffer, block_bytes(a, b))));
    }
cleanup:
    charl_free(buffer);
    return st;
}

static charl_status read_hdf5(charl__file *f, charl__array *a, int64_t first, int64_t n, void *dst)
{
    charl_status st = CHARL_OK;
    hid_t file_space = H5I_INVALID_HID;
    hid_t mem_space = H5I_INVALID_HID;
    hsize_t start[CHARL_MAX_DIMS + 1] = {(hsize_t)first};
    hsize_t count[CHARL_MAX_DIMS + 1] = {(hsize_t)n};
    const hid_t type = a->dtype == CHARL_U8    ? H5T_NATIVE_UINT8
                       : a->dtype == CHARL_U16 ? H5T_NATIVE_UINT16
                       : a->dtype == CHARL_U32 ? H5T_NATIVE_UINT32
                       : a->dtype == CHARL_I32 ? H5T_NATIVE_INT32
                       : a->dtype == CHARL_I64 ? H5T_NATIVE_INT64
                                               : H5T_NATIVE_FLOAT;

    pthread_mutex_lock(&f->lock);
    charl__h5_begin();
    for (int i = 0; i < a->item.ndim; i++) {
        count[i + 1] = (hsize_t)a->item.dim[i];
    }
    CHARL_H5_OPEN(CHARL_ERR_DATA, file_space, H5Dget_space(a->dataset), "%s: %s", f->path, a->name);
    CHARL_H5_OPEN(CHARL_ERR_DATA, mem_space, H5Screate_simple(a->item.ndim + 1, count, NULL),
                  "%s: %s", f->path, a->name);
    CHARL_H5(CHARL_ERR_DATA,
             H5Sselect_hyperslab(file_space, H5S_SELECT_SET, start, NULL, count, NULL), "%s: %s",
             f->path, a->name);
    CHARL_H5(CHARL_ERR_DATA, H5Dread(a->dataset, type, mem_space, file_space, H5P_DEFAULT, dst),
             "%s: %s: rows %lld to %lld cannot be read", f->path, a->name, (long long)first,
             (long long)(first + n - 1));
cleanup:
    charl__h5_close(&mem_space);
    charl__h5_close(&file_space);
    pthread_mutex_unlock(&f->lock);
    return st;
}

/* The exponent of an infinity or NaN is all ones: an integer test that no compiler option can
 * remove. */
static charl_status check_finite(const charl__file *f, const charl__array *a, int64_t first,
                                 int64_t n, const void *data)
{
    charl_status st = CHARL_OK;
    const int64_t per_item = (int64_t)(a->item_bytes / sizeof(uint32_t));
    const unsigned char *p = data;

    for (int64_t i = 0; i < n * per_item; i++) {
        uint32_t bits;

        memcpy(&bits, p + (size_t)i * sizeof bits, sizeof bits);
        CHARL_REQUIRE((bits & 0x7f800000U) != 0x7f800000U, CHARL_ERR_DATA,
                      "%s: %s: row %lld holds a NaN or an infinity (element %lld)", f->path,
                      a->name, (long long)(first + i / per_item), (long long)(i % per_item));
    }
cleanup:
    return st;
}

charl_status charl__array_read(charl__file *f, charl__array *a, int64_t first, int64_t n, void *dst)
{
    charl_status st = CHARL_OK;
    const int64_t offset = first * (int64_t)a->item_bytes;
    const int64_t bytes = n * (int64_t)a->item_bytes;

    CHARL_REQUIRE(first >= 0 && n >= 0 && n <= a->rows - first, CHARL_ERR_INVALID,
                  "%s: %s: rows [%lld, +%lld) of %lld", f->path, a->name, (long long)first,
                  (long long)n, (long long)a->rows);
    if (n == 0) {
        goto cleanup;
    }
    if (a->offset >= 0) {
        if (a->n_blocks > 0) {
            CHARL_TRY(check_blocks(f, a, offset, bytes));
        }
        CHARL_TRY(read_bytes(f, a, offset, (size_t)bytes, dst));
    } else {
        CHARL_TRY(read_hdf5(f, a, first, n, dst));
    }
    if (a->dtype == CHARL_F32) {
        CHARL_TRY(check_finite(f, a, first, n, dst));
    }
cleanup:
    return st;
}

/* The CRC of a block is accumulated over rows, because through HDF5 only whole rows can be read. */
static charl_status fold_checksums(const charl__file *f, charl__array *a, const unsigned char *p,
                                   int64_t at, int64_t bytes, uint32_t *crc)
{
    charl_status st = CHARL_OK;

    while (bytes > 0) {
        const int64_t block = at / CHARL__BLOCK_BYTES;
        const int64_t end = block * CHARL__BLOCK_BYTES + (int64_t)block_bytes(a, block);
        const int64_t part = end - at < bytes ? end - at : bytes;

        *crc = charl__crc32c(*crc, p, (size_t)part);
        p += part;
        at += part;
        bytes -= part;
        if (at == end) {
            CHARL_TRY(compare_block(f, a, block, *crc));
            *crc = 0;
        }
    }
cleanup:
    return st;
}

charl_status charl__array_verify(charl__file *f, charl__array *a)
{
    charl_status st = CHARL_OK;
    unsigned char *buffer = NULL;
    const int64_t item = (int64_t)a->item_bytes;
    const int64_t step = item < CHARL__BLOCK_BYTES ? CHARL__BLOCK_BYTES / item : 1;
    uint32_t crc = 0;

    CHARL_TRY(charl_alloc_array(step, a->item_bytes, &buffer));
    for (int64_t row = 0; row < a->rows; row += step) {
        const int64_t n = a->rows - row < step ? a->rows - row : step;

        if (a->offset >= 0) {
            CHARL_TRY(read_bytes(f, a, row * item, (size_t)(n * item), buffer));
        } else {
            CHARL_TRY(read_hdf5(f, a, row, n, buffer));
        }
        if (a->n_blocks > 0) {
            CHARL_TRY(fold_checksums(f, a, buffer, row * item, n * item, &crc));
        }
        if (a->dtype == CHARL_F32) {
            CHARL_TRY(check_finite(f, a, row, n, buffer));
        }
    }
cleanup:
    charl_free(buffer);
    return st;
}
