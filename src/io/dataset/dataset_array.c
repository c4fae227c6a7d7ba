/* Reading rows of one array. Stored elements come from the file (pread at offset + row * bytes, after verifying the checksums of
 * blocks read for the first time), from chunks, or from HDF5: one hyperslab per run of rows. Then they are converted. After each read
 * the file is checked for changes (dataset_change.c). */
#include "io/dataset/dataset_file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/numeric/hash.h"
#include "base/parallel.h"
#include "io/image_layout.h"
#include "io/regular.h"

/* Blocks of an array without checksums that are read for its digest. */
enum { MOST_SUMMED = 1024, MOST_CONVERTED = 256 };

enum { VERIFIED_BYTES = 16 << 20 }; /* of chunks, at a time */

static charl_status read_bytes(const charl__file *f, const charl__array *a, int64_t offset, size_t bytes, void *dst)
{
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
        CHARL_REQUIRE(got >= 0, CHARL_ERR_IO, "%s: %s: cannot be read at byte %lld: %s", f->path, a->name,
                      (long long)at, strerror(errno));
        CHARL_REQUIRE(got > 0, CHARL_ERR_IO, "%s: %s: the file ends at byte %lld; it was shortened", f->path, a->name,
                      (long long)at);
        p += got;
        at += got;
        bytes -= (size_t)got;
    }
    return CHARL_OK;
}

static size_t block_bytes(const charl__array *a, int64_t block)
{
    const int64_t total = a->rows * (int64_t)a->item_bytes;
    const int64_t rest = total - block * CHARL__BLOCK_BYTES;

    return (size_t)(rest < CHARL__BLOCK_BYTES ? rest : CHARL__BLOCK_BYTES);
}

static charl_status compare_block(charl__file *f, charl__array *a, int64_t block, uint32_t crc)
{
    const int64_t item = (int64_t)a->item_bytes;
    const int64_t first = block * CHARL__BLOCK_BYTES / item;
    const int64_t last = (block * CHARL__BLOCK_BYTES + (int64_t)block_bytes(a, block) - 1) / item;
    const bool was_changed = crc != a->block_crc[block] && charl__file_is_changed(f);

    CHARL_REQUIRE(crc == a->block_crc[block] || !was_changed, CHARL_ERR_DATA,
                  "%s: %s: rows %lld to %lld are no longer what was opened (checksum %08x, was "
                  "%08x): the file was written to while it was in use. HINT put the file back as it "
                  "was and run the same command, or start afresh with the new data",
                  f->path, a->name, (long long)first, (long long)last, crc, a->block_crc[block]);
    CHARL_REQUIRE(crc == a->block_crc[block], CHARL_ERR_DATA,
                  "%s: %s: damaged: checksum of rows %lld to %lld is %08x, stored is %08x", f->path, a->name,
                  (long long)first, (long long)last, crc, a->block_crc[block]);
    return CHARL_OK;
}

charl_status charl__array_check_block(charl__file *f, charl__array *a, int64_t block)
{
    CHARL_SCOPED_FREE unsigned char *buffer = NULL;

    CHARL_TRY(charl__alloc(CHARL__BLOCK_BYTES, &buffer));
    CHARL_TRY(read_bytes(f, a, block * CHARL__BLOCK_BYTES, block_bytes(a, block), buffer));
    if (charl__fault("data.flip")) {
        buffer[0] ^= 1;
    }
    CHARL_TRY(compare_block(f, a, block, charl__crc32c(0, buffer, block_bytes(a, block))));
    return CHARL_OK;
}

/* Two threads may check the same block at once: both find the same. */
static charl_status check_blocks(charl__file *f, charl__array *a, int64_t first, int64_t last)
{
    for (int64_t b = first; b <= last; b++) {
        if (atomic_load(&a->block_state[b]) == CHARL__BLOCK_UNKNOWN) {
            CHARL_TRY(charl__array_check_block(f, a, b));
            atomic_store(&a->block_state[b], CHARL__BLOCK_CHECKED);
        }
    }
    return CHARL_OK;
}

static void set_blocks(charl__array *a, int64_t first, int64_t last, unsigned state)
{
    for (int64_t b = first; b <= last; b++) {
        atomic_store(&a->block_state[b], state);
    }
}

/* Read bytes of an array with checksums. If a change of the file was detected meanwhile, the checked
 * data may be older than the data read: repeat. */
static charl_status read_checked(charl__file *f, charl__array *a, int64_t offset, int64_t bytes, void *dst)
{
    const int64_t first = offset / CHARL__BLOCK_BYTES;
    const int64_t last = (offset + bytes - 1) / CHARL__BLOCK_BYTES;
    int generation;

    for (;;) {
        generation = atomic_load(&f->generation);
        CHARL_TRY(check_blocks(f, a, first, last));
        CHARL_TRY(read_bytes(f, a, offset, (size_t)bytes, dst));
        set_blocks(a, first, last, atomic_load(&f->looks));
        if (atomic_load(&f->generation) == generation) {
            break;
        }
        set_blocks(a, first, last, CHARL__BLOCK_UNKNOWN);
    }
    return CHARL_OK;
}

/* Stored elements of a part of the array, through HDF5. */
static charl_status read_slab(charl__file *f, charl__array *a, int ndim, const hsize_t *start, const hsize_t *count,
                              void *dst)
{
    CHARL_H5_LOCKED;
    CHARL_SCOPED(charl__h5_close) hid_t file_space = H5I_INVALID_HID;
    CHARL_SCOPED(charl__h5_close) hid_t mem_space = H5I_INVALID_HID;

    CHARL_H5_OPEN(CHARL_ERR_DATA, file_space, H5Dget_space(a->dataset), "%s: %s", f->path, a->name);
    CHARL_H5_OPEN(CHARL_ERR_DATA, mem_space, H5Screate_simple(ndim, count, NULL), "%s: %s", f->path, a->name);
    CHARL_H5(CHARL_ERR_DATA, H5Sselect_hyperslab(file_space, H5S_SELECT_SET, start, NULL, count, NULL), "%s: %s",
             f->path, a->name);
    CHARL_H5(CHARL_ERR_DATA, H5Dread(a->dataset, a->type, mem_space, file_space, H5P_DEFAULT, dst),
             "%s: %s: rows from %lld on cannot be read", f->path, a->name, (long long)start[0]);
    return CHARL_OK;
}

static charl_status read_hdf5(charl__file *f, charl__array *a, int64_t first, int64_t n, void *dst)
{
    hsize_t start[CHARL_MAX_DIMS + 1] = {(hsize_t)first};
    hsize_t count[CHARL_MAX_DIMS + 1] = {(hsize_t)n};

    for (int i = 0; i < a->item.ndim; i++) {
        count[i + 1] = (hsize_t)a->item.dim[i];
    }
    return read_slab(f, a, a->item.ndim + 1, start, count, dst);
}

/* Rows of a MATLAB matrix, which is stored by columns, or of one of its rows or columns. */
static charl_status read_matlab(charl__file *f, charl__array *a, int64_t first, int64_t n, void *dst)
{
    const bool is_row = a->matlab[1] == 1;
    const int64_t columns = charl_shape_count(&a->item);
    const size_t bytes = (size_t)a->stored.bytes;
    const hsize_t start[2] = {is_row ? (hsize_t)first : 0, is_row ? 0 : (hsize_t)first},
                  count[2] = {is_row ? (hsize_t)n : (hsize_t)columns, is_row ? 1 : (hsize_t)n};
    CHARL_SCOPED_FREE unsigned char *block = NULL;

    CHARL_TRY(charl__alloc_array(n * columns, bytes, &block));
    CHARL_TRY(read_slab(f, a, 2, start, count, block));
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < columns; k++) {
            memcpy((unsigned char *)dst + (size_t)(i * columns + k) * bytes, block + (size_t)(k * n + i) * bytes,
                   bytes);
        }
    }
    return CHARL_OK;
}

/* Elements of rows as they are stored. */
static charl_status read_stored(charl__file *f, charl__array *a, int64_t first, int64_t n, void *dst)
{
    const int64_t row = charl_shape_count(&a->item) * a->stored.bytes;

    if (a->offset >= 0) {
        return read_bytes(f, a, first * row, (size_t)(n * row), dst);
    }
    if (a->zeros) {
        memset(dst, 0, (size_t)(n * row));
        return CHARL_OK;
    }
    if (a->labels) {
        memcpy(dst, a->labels + first, (size_t)(n * row));
        return CHARL_OK;
    }
    if (a->matlab[0]) {
        return read_matlab(f, a, first, n, dst);
    }
    return a->chunks && a->chunks->cache ? charl__chunks_read(a->chunks, first, n, dst)
                                         : read_hdf5(f, a, first, n, dst);
}

static charl_status convert(const charl__file *f, const charl__array *a, int64_t first, const void *stored, int64_t n,
                            void *dst)
{
    const int64_t per_row = charl_shape_count(&a->item);
    char text[CHARL__ELEMENT_TEXT];
    int64_t bad;

    if (a->meaning.says) {
        CHARL_TRY(charl__meaning_decode(f, a, first, stored, n, dst));
    }
    if (a->meaning.scaled || a->meaning.classes) {
        return CHARL_OK;
    }
    bad = charl__element_convert(&a->stored, a->dtype, stored, n * per_row, dst);
    CHARL_REQUIRE(bad == n * per_row, CHARL_ERR_DATA,
                  a->dtype == CHARL_F32 ? "%s: %s: %s in row %lld (element %lld) cannot be represented exactly in f32; "
                                          "HINT store the array as f32 if it may be rounded"
                                        : "%s: %s: %s in row %lld (element %lld) is too large for a label",
                  f->path, a->name, charl__element_text(&a->stored, stored, bad, text),
                  (long long)(first + bad / per_row), (long long)(bad % per_row));
    return CHARL_OK;
}

/* Rows as delivered, unchecked. */
static charl_status read_rows(charl__file *f, charl__array *a, int64_t first, int64_t n, void *dst)
{
    const int64_t row = charl_shape_count(&a->item) * a->stored.bytes,
                  part = row < CHARL__BLOCK_BYTES ? CHARL__BLOCK_BYTES / row : 1;
    unsigned char *out = dst;
    CHARL_SCOPED_FREE unsigned char *stored = NULL, *moved = NULL;

    if (!a->converted) {
        return read_stored(f, a, first, n, dst);
    }
    CHARL_TRY(charl__alloc((size_t)((n < part ? n : part) * row), &stored));
    if (a->interleaved) {
        CHARL_TRY(charl__alloc((size_t)((n < part ? n : part) * row), &moved));
    }
    while (n > 0) {
        const int64_t k = n < part ? n : part;

        CHARL_TRY(read_stored(f, a, first, k, stored));
        if (moved) {
            charl__move_channels(&a->item, (size_t)a->stored.bytes, stored, k, moved);
        }
        CHARL_TRY(convert(f, a, first, moved ? moved : stored, k, out));
        out += (size_t)k * a->item_bytes;
        first += k;
        n -= k;
    }
    return CHARL_OK;
}

charl_status charl__array_join(charl__array *a, charl__file *f, charl__array *more)
{
    const int64_t rows = a->rows;

    CHARL_REQUIRE(a->n_parts == 0 || (a->dtype == more->dtype && charl_shape_equal(&a->item, &more->item)),
                  CHARL_ERR_DATA, "%s: rows of %s differ in type or shape from those of %s", f->path, more->name,
                  a->n_parts ? a->part[0].file->path : "");
    CHARL_TRY(charl__grow(a->n_parts, sizeof *a->part, &a->part));
    if (a->n_parts == 0) {
        struct charl__array_part *part = a->part;

        *a = (charl__array){.part = part,
                            .dtype = more->dtype,
                            .item = more->item,
                            .item_bytes = more->item_bytes,
                            .offset = -1,
                            .dataset = H5I_INVALID_HID,
                            .type = H5I_INVALID_HID};
        memcpy(a->name, more->name, sizeof a->name);
    }
    a->part[a->n_parts++] = (charl__array_part){.file = f, .array = more, .first = rows, .rows = more->rows, .per = 1};
    a->rows = rows + more->rows;
    return CHARL_OK;
}

charl_status charl__array_pack(charl__array *a, charl__file *f, charl__array *more)
{
    const int64_t count = a->n_parts > 0 ? a->item.dim[0] : 0, own = charl_shape_count(&more->item);

    CHARL_REQUIRE(own <= CHARL__MAX_ITEM_BYTES / (int64_t)sizeof(float) - count, CHARL_ERR_DATA,
                  "%s: %s: one row of all arrays together is larger than %d bytes", f->path, more->name,
                  CHARL__MAX_ITEM_BYTES);
    CHARL_TRY(charl__grow(a->n_parts, sizeof *a->part, &a->part));
    if (a->n_parts == 0) {
        struct charl__array_part *part = a->part;

        *a = (charl__array)CHARL__ARRAY_CLOSED;
        a->part = part;
        a->packed = true;
        a->dtype = CHARL_F32;
        a->rows = more->rows;
        memcpy(a->name, more->name, sizeof a->name);
    }
    a->part[a->n_parts++] = (charl__array_part){.file = f, .array = more, .first = count, .rows = more->rows, .per = 1};
    a->item = (charl_shape){1, {count + own}};
    a->item_bytes = (size_t)(count + own) * sizeof(float);
    return CHARL_OK;
}

/* The part that contains a row. */
static const charl__array_part *part_of(const charl__array *a, int64_t row)
{
    int low = 0, high = a->n_parts;

    while (high - low > 1) {
        const int middle = (low + high) / 2;

        *(a->part[middle].first <= row ? &low : &high) = middle;
    }
    return &a->part[low];
}

/* Rows of a packed array. */
static charl_status read_packed(const charl__array *a, int64_t first, int64_t n, float *dst)
{
    const int64_t width = a->item.dim[0], part = width < CHARL__BLOCK_BYTES ? CHARL__BLOCK_BYTES / width : 1;
    const int64_t most = n < part ? n : part; /* rows at a time */
    CHARL_SCOPED_FREE double *values = NULL;
    CHARL_SCOPED_FREE unsigned char *rows = NULL;

    CHARL_TRY(charl__alloc_array(width, sizeof *values, &values));
    CHARL_TRY(charl__alloc_array(most * width, sizeof(double), &rows)); /* of any type */
    for (int p = 0; p < a->n_parts; p++) {
        charl__array *one = a->part[p].array;
        const int64_t count = charl_shape_count(&one->item);

        for (int64_t done = 0, k; done < n; done += k) {
            k = n - done < most ? n - done : most;
            CHARL_TRY(charl__array_read(a->part[p].file, one, first + done, k, rows));
            for (int64_t i = 0; i < k; i++) {
                float *out = dst + (done + i) * width + a->part[p].first;

                charl_dtype_decode(one->dtype, rows + (size_t)i * one->item_bytes, count, values);
                for (int64_t j = 0; j < count; j++) {
                    out[j] = (float)values[j];
                }
            }
        }
    }
    return CHARL_OK;
}

static charl_status read_parts(charl__array *a, int64_t first, int64_t n, void *dst)
{
    if (a->packed) {
        return read_packed(a, first, n, dst);
    }
    while (n > 0) {
        const charl__array_part *p = part_of(a, first);
        const int64_t left = p->first + p->rows - first, k = left < n ? left : n;

        CHARL_TRY(charl__array_read(p->file, p->array, p->from + (first - p->first) * p->per, k * p->per, dst));
        dst = (unsigned char *)dst + (size_t)k * a->item_bytes;
        first += k;
        n -= k;
    }
    return CHARL_OK;
}

/* Each part prepares its own rows; the common prepared prefix of the list counts. */
static charl_status prepare_parts(charl__array *a, const int64_t *rows, int64_t first, int64_t n, int64_t *done)
{
    CHARL_SCOPED_FREE int64_t *own = NULL, *at = NULL;

    *done = n;
    CHARL_TRY(charl__alloc_array(n, sizeof *own, &own));
    CHARL_TRY(charl__alloc_array(n, sizeof *at, &at));
    for (int p = 0; p < a->n_parts; p++) {
        const charl__array_part *part = &a->part[p];
        int64_t k = 0, prepared = 0;

        for (int64_t i = 0; part->array->chunks && part->per == 1 && i < *done; i++) {
            const int64_t row = first + (rows ? rows[i] : i) - part->first;

            if (row >= 0 && row < part->rows) {
                at[k] = i;
                own[k++] = part->from + row;
            }
        }
        if (k > 0) {
            CHARL_TRY(charl__array_prepare(part->array, own, 0, k, &prepared));
            *done = prepared < k ? at[prepared] : *done;
        }
    }
    return CHARL_OK;
}

charl_status charl__array_prepare(charl__array *a, const int64_t *rows, int64_t first, int64_t n, int64_t *done)
{
    if (a->n_parts > 0 && !a->packed && n > 1) {
        return prepare_parts(a, rows, first, n, done);
    }
    *done = n;
    return a->chunks && a->chunks->cache ? charl__chunks_prepare(a->chunks, rows, first, n, done) : CHARL_OK;
}

/* The first of n floats that is infinite or NaN, whose exponent is all ones, or n: an integer test
 * that no compiler option can remove. */
static int64_t find_nonfinite(const void *data, int64_t n)
{
    const unsigned char *p = data;

    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;

        memcpy(&bits, p + (size_t)i * sizeof bits, sizeof bits);
        if ((bits & 0x7f800000U) == 0x7f800000U) {
            return i;
        }
    }
    return n;
}

static charl_status check_finite(const charl__file *f, const charl__array *a, int64_t first, int64_t n,
                                 const void *data)
{
    const int64_t per_item = charl_shape_count(&a->item);
    const int64_t at = find_nonfinite(data, n * per_item);

    CHARL_REQUIRE(at == n * per_item, CHARL_ERR_DATA, "%s: %s: row %lld holds a NaN or an infinity (element %lld)",
                  f->path, a->name, (long long)(first + at / per_item), (long long)(at % per_item));
    return CHARL_OK;
}

static charl_status check_fractions(const charl__file *f, const charl__array *a, int64_t first, int64_t n,
                                    const float *data)
{
    const int64_t per_item = charl_shape_count(&a->item);

    for (int64_t i = 0; i < n * per_item; i++) {
        CHARL_REQUIRE(data[i] >= 0 && data[i] <= 1, CHARL_ERR_DATA,
                      "%s: %s: row %lld holds %g (element %lld), but targets of this loss lie between 0 and 1; HINT "
                      "store classes as integers, where -1 marks what does not count, and use the loss cross_entropy",
                      f->path, a->name, (long long)(first + i / per_item), (double)data[i], (long long)(i % per_item));
    }
    return CHARL_OK;
}

charl_status charl__array_read(charl__file *f, charl__array *a, int64_t first, int64_t n, void *dst)
{
    const int64_t offset = first * (int64_t)a->item_bytes;
    const int64_t bytes = n * (int64_t)a->item_bytes;

    CHARL_REQUIRE(first >= 0 && n >= 0 && n <= a->rows - first, CHARL_ERR_INVALID, "%s: %s: rows [%lld, +%lld) of %lld",
                  f->path, a->name, (long long)first, (long long)n, (long long)a->rows);
    if (n == 0) {
        return CHARL_OK;
    }
    if (a->n_parts > 0) {
        CHARL_TRY(read_parts(a, first, n, dst));
        return a->fractions ? check_fractions(f, a, first, n, dst) : CHARL_OK;
    }
    if (a->offset >= 0 && a->n_blocks > 0) {
        CHARL_TRY(read_checked(f, a, offset, bytes, dst));
    } else {
        for (int64_t done = 0, k; done < n;) {
            CHARL_TRY(charl__array_prepare(a, NULL, first + done, n - done, &k));
            CHARL_TRY(read_rows(f, a, first + done, k, (unsigned char *)dst + (size_t)done * a->item_bytes));
            done += k;
        }
        atomic_store(&f->read_unchecked, atomic_load(&f->looks));
    }
    if (a->dtype == CHARL_F32) {
        CHARL_TRY(check_finite(f, a, first, n, dst));
    }
    if (a->fractions) {
        CHARL_TRY(check_fractions(f, a, first, n, dst));
    }
    CHARL_TRY(charl__file_look(f, false));
    return CHARL_OK;
}

/* The CRC of a block is accumulated over rows, because through HDF5 only whole rows can be read. */
static charl_status fold_checksums(charl__file *f, charl__array *a, const unsigned char *p, int64_t at, int64_t bytes,
                                   uint32_t *crc)
{
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
    return CHARL_OK;
}

charl_status charl__array_verify(charl__file *f, charl__array *a)
{
    CHARL_SCOPED_FREE unsigned char *buffer = NULL;
    const int64_t item = (int64_t)a->item_bytes;
    const int64_t most = a->chunks ? VERIFIED_BYTES : CHARL__BLOCK_BYTES, step = item < most ? most / item : 1;
    uint32_t crc = 0;

    for (int i = 0; i < a->n_sources; i++) {
        CHARL_TRY(charl__array_verify(&a->source[i]->file, &a->source[i]->array));
    }
    for (int i = 0; i < a->n_parts && a->n_sources == 0; i++) {
        CHARL_TRY(charl__array_verify(a->part[i].file, a->part[i].array));
    }
    if (a->n_parts > 0) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__alloc_array(step, a->item_bytes, &buffer));
    for (int64_t row = 0, n; row < a->rows; row += n) {
        n = a->rows - row < step ? a->rows - row : step;
        CHARL_TRY(charl__array_prepare(a, NULL, row, n, &n));
        CHARL_TRY(read_rows(f, a, row, n, buffer));
        if (a->n_blocks > 0) {
            CHARL_TRY(fold_checksums(f, a, buffer, row * item, n * item, &crc));
        }
        if (a->dtype == CHARL_F32) {
            CHARL_TRY(check_finite(f, a, row, n, buffer));
        }
    }
    return CHARL_OK;
}

/* Evenly spaced blocks of an array to be summed. */
typedef struct block_sum {
    const charl__file *f;
    const charl__array *a;
    int64_t blocks, sampled; /* of the array, and sampled */
    uint32_t *crc;           /* [sampled] */
    atomic_bool failed;
} block_sum;

static int64_t sampled_block(const block_sum *s, int64_t i)
{
    return s->sampled < s->blocks ? i * (s->blocks - 1) / (s->sampled - 1) : i;
}

/* One block, in a thread that could not return a message: without an allocation. */
static void sum_block(void *ctx, int64_t i)
{
    enum { PART_BYTES = 1 << 16 };
    block_sum *s = ctx;
    const int64_t begin = sampled_block(s, i) * CHARL__BLOCK_BYTES;
    const int64_t end = begin + (int64_t)block_bytes(s->a, sampled_block(s, i));
    unsigned char part[PART_BYTES];
    uint32_t crc = 0;

    for (int64_t at = begin; at < end; at += PART_BYTES) {
        const int64_t bytes = end - at < PART_BYTES ? end - at : PART_BYTES;
        const int64_t floats = s->a->dtype == CHARL_F32 ? bytes / (int64_t)sizeof(float) : 0;

        if (charl__regular_read(s->f->fd, part, bytes, s->a->offset + at) != bytes ||
            find_nonfinite(part, floats) < floats) {
            atomic_store(&s->failed, true);
            return;
        }
        crc = charl__crc32c(crc, part, (size_t)bytes);
    }
    s->crc[i] = crc;
}

/* The error in one of these blocks: reads its rows again. */
static charl_status find_failure(charl__file *f, charl__array *a, const block_sum *s)
{
    const int64_t item = (int64_t)a->item_bytes;
    CHARL_SCOPED_FREE void *rows = NULL;

    CHARL_TRY(charl__alloc_array(CHARL__BLOCK_BYTES / item + 2, a->item_bytes, &rows));
    for (int64_t i = 0; i < s->sampled; i++) {
        const int64_t begin = sampled_block(s, i) * CHARL__BLOCK_BYTES;
        const int64_t last = begin + (int64_t)block_bytes(a, sampled_block(s, i)) - 1;

        CHARL_TRY(charl__array_read(f, a, begin / item, last / item - begin / item + 1, rows));
    }
    CHARL_FAIL(CHARL_ERR_IO, "%s: %s: could not be read at first", f->path, a->name);
}

/* The checksums of an array that is stored as it is read; all block checksums are kept. */
static charl_status sum_bytes(charl__file *f, charl__array *a, uint32_t *out)
{
    charl_status st = CHARL_OK;
    block_sum s = {.f = f, .a = a};

    s.blocks = (a->rows * (int64_t)a->item_bytes + CHARL__BLOCK_BYTES - 1) / CHARL__BLOCK_BYTES;
    s.sampled = s.blocks < MOST_SUMMED ? s.blocks : MOST_SUMMED;
    CHARL_TRY_CLEANUP(charl__alloc_array(s.sampled, sizeof *s.crc, &s.crc));
    charl__parallel(s.sampled, sum_block, &s);
    if (atomic_load(&s.failed)) {
        CHARL_TRY_CLEANUP(find_failure(f, a, &s));
    }
    *out = charl__crc32c(0, s.crc, (size_t)s.sampled * sizeof *s.crc);
    if (s.sampled == s.blocks) {
        CHARL_TRY_CLEANUP(charl__alloc_array(s.blocks, sizeof *a->block_state, &a->block_state));
        set_blocks(a, 0, s.blocks - 1, CHARL__BLOCK_CHECKED);
        a->block_crc = s.crc;
        a->n_blocks = s.blocks;
        a->is_summed = true;
        s.crc = NULL;
    }
cleanup:
    charl_free(s.crc);
    return st;
}

/* For rows that are not stored as delivered: all, or evenly spaced ones. */
static charl_status sum_rows(charl__file *f, charl__array *a, uint32_t *out)
{
    charl_status st = CHARL_OK;
    const int64_t item = (int64_t)a->item_bytes;
    int64_t step = item < CHARL__BLOCK_BYTES ? CHARL__BLOCK_BYTES / item : 1;
    int64_t pieces, sampled;
    void *buffer = NULL;
    uint32_t crc = 0;

    step = step < a->rows ? step : a->rows;
    pieces = (a->rows + step - 1) / step;
    sampled = pieces * step * item <= (int64_t)MOST_CONVERTED * CHARL__BLOCK_BYTES
                  ? pieces
                  : MOST_CONVERTED * CHARL__BLOCK_BYTES / (step * item);
    sampled = sampled < 2 && pieces > 1 ? 2 : sampled;
    CHARL_TRY_CLEANUP(charl__alloc_array(step, a->item_bytes, &buffer));
    for (int64_t i = 0; i < sampled; i++) {
        const int64_t row = (sampled < pieces ? i * (pieces - 1) / (sampled - 1) : i) * step;
        const int64_t n = a->rows - row < step ? a->rows - row : step;

        CHARL_TRY_CLEANUP(charl__array_read(f, a, row, n, buffer));
        crc = charl__crc32c(crc, buffer, (size_t)(n * item));
    }
cleanup:
    charl_free(buffer);
    *out = crc;
    return st;
}

/* The sources, and which of their rows are used. */
static charl_status sum_virtual(charl__array *a, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < a->n_sources; i++) {
        uint32_t crc;

        CHARL_TRY(charl__array_sum(&a->source[i]->file, &a->source[i]->array, &crc));
        *out = charl__crc32c(*out, &crc, sizeof crc);
    }
    for (int i = 0; i < a->n_parts; i++) {
        const charl__array_part *p = &a->part[i];
        const int64_t rows[] = {p->first, p->rows, p->from, p->per};

        *out = charl__crc32c(*out, rows, sizeof rows);
        for (int j = 0; j < a->n_sources; j++) {
            if (p->array == &a->source[j]->array) {
                *out = charl__crc32c(*out, &j, sizeof j);
            }
        }
    }
    return CHARL_OK;
}

charl_status charl__array_sum(charl__file *f, charl__array *a, uint32_t *out)
{
    if (a->n_sources > 0) {
        return sum_virtual(a, out);
    }
    if (a->n_parts > 0) {
        *out = 0;
        for (int i = 0; i < a->n_parts; i++) {
            uint32_t crc;

            CHARL_TRY(charl__array_sum(a->part[i].file, a->part[i].array, &crc));
            *out = charl__crc32c(*out, &crc, sizeof crc);
        }
        return CHARL_OK;
    }
    if (a->n_blocks > 0) {
        *out = charl__crc32c(0, a->block_crc, (size_t)a->n_blocks * sizeof *a->block_crc);
        return CHARL_OK;
    }
    return a->offset >= 0 && !a->converted ? sum_bytes(f, a, out) : sum_rows(f, a, out);
}
