/* Undoing filters. A filter converts the bytes in one buffer to bytes in the other; two buffers alternate, and the last result is the
 * chunk. At most one filter of a chunk compresses, so no result is longer than the stored bytes, or the chunk and its checksums. */
#include "io/dataset/chunks/chunk_filters.h"

#include <string.h>
#include <zlib.h>
#ifdef CHARL_HAVE_LZF
#include <lzf.h>
#endif

#include "base/alloc.h"

enum { LZF = 32000, CHECKSUM = 4 };

const char *charl__filter_name(H5Z_filter_t id)
{
    static const struct {
        H5Z_filter_t id;
        const char *name;
    } names[] = {
        {H5Z_FILTER_DEFLATE, "gzip"},
        {H5Z_FILTER_SHUFFLE, "shuffle"},
        {H5Z_FILTER_FLETCHER32, "fletcher32"},
        {H5Z_FILTER_SZIP, "szip"},
        {H5Z_FILTER_NBIT, "n-bit"},
        {H5Z_FILTER_SCALEOFFSET, "scale-offset"},
        {LZF, "lzf"},
        {32001, "blosc"},
        {32004, "lz4"},
        {32008, "bitshuffle"},
        {32013, "zfp"},
        {32015, "zstd"},
        {32026, "blosc2"},
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i].id == id) {
            return names[i].name;
        }
    }
    return NULL;
}

bool charl__filter_is_own(H5Z_filter_t id)
{
#ifdef CHARL_HAVE_LZF
    if (id == LZF) {
        return true;
    }
#endif
    return id == H5Z_FILTER_DEFLATE || id == H5Z_FILTER_SHUFFLE || id == H5Z_FILTER_FLETCHER32;
}

static bool is_compressor(H5Z_filter_t id)
{
    return id != H5Z_FILTER_SHUFFLE && id != H5Z_FILTER_FLETCHER32;
}

/* Fletcher's checksum of 16-bit words, high byte first, modulo 65535; an odd byte at the end is a high one.
 * J. G. Fletcher, An Arithmetic Checksum for Serial Transmissions, IEEE Trans. Comm. 30, 1982. */
static void fletcher32(const unsigned char *p, size_t bytes, uint64_t sum[2])
{
    enum { WORDS = 1 << 14 }; /* after this many words sums are reduced: far from overflow */

    sum[0] = sum[1] = 0;
    for (size_t i = 0; i < bytes;) {
        const size_t end = bytes - i > 2 * WORDS ? i + 2 * WORDS : bytes;

        for (; i < end; i += 2) {
            sum[0] += (uint64_t)p[i] << 8 | (i + 1 < bytes ? p[i + 1] : 0U);
            sum[1] += sum[0];
        }
        sum[0] %= 65535;
        sum[1] %= 65535;
    }
}

/* Whether the checksum after the bytes matches them. Halves are compared modulo 65535: HDF5 writes 0 as 65535. */
static bool is_right(const unsigned char *p, size_t bytes)
{
    const unsigned char *stored = p + bytes;
    uint64_t sum[2];

    fletcher32(p, bytes, sum);
    return (stored[0] | (unsigned)stored[1] << 8) % 65535U == sum[0] &&
           (stored[2] | (unsigned)stored[3] << 8) % 65535U == sum[1];
}

/* Bytes i of all elements are stored together; only for whole elements, the rest follows unchanged. */
static void unshuffle(const unsigned char *in, size_t bytes, size_t element, unsigned char *out)
{
    const size_t n = element > 0 ? bytes / element : 0;

    for (size_t b = 0; b < element; b++) {
        const unsigned char *p = in + b * n;

        for (size_t i = 0; i < n; i++) {
            out[i * element + b] = p[i];
        }
    }
    memcpy(out + n * element, in + n * element, bytes - n * element);
}

static bool undo(const charl__filter *f, const unsigned char *in, size_t *bytes, unsigned char *out, size_t cap,
                 const char **reason)
{
    uLongf inflated = (uLongf)cap;

    switch (f->id) {
    case H5Z_FILTER_FLETCHER32:
        *reason = "its checksum differs: the file is damaged";
        if (*bytes < CHECKSUM || !is_right(in, *bytes - CHECKSUM)) {
            return false;
        }
        *bytes -= CHECKSUM;
        memcpy(out, in, *bytes);
        return true;
    case H5Z_FILTER_SHUFFLE:
        unshuffle(in, *bytes, f->n_values > 0 ? f->values[0] : 1, out);
        return true;
    case H5Z_FILTER_DEFLATE:
        *reason = "it cannot be inflated: the file is damaged";
        if (uncompress(out, &inflated, in, (uLong)*bytes) != Z_OK) {
            return false;
        }
        *bytes = (size_t)inflated;
        return true;
    default:
        break;
    }
#ifdef CHARL_HAVE_LZF
    if (f->id == LZF) {
        *reason = "it is no lzf data: the file is damaged";
        *bytes = lzf_decompress(in, (unsigned)*bytes, out, (unsigned)cap);
        return *bytes > 0;
    }
#endif
    *reason = "unknown filter";
    return false;
}

size_t charl__filters_room(const charl__chunks *c)
{
    return c->chunk_bytes + (size_t)c->n_filters * CHECKSUM;
}

bool charl__filters_undo(const charl__chunks *c, uint32_t skipped, unsigned char *stored, size_t bytes,
                         unsigned char *out, const char **reason)
{
    const size_t room_out = charl__filters_room(c),
                 cap = bytes > room_out ? bytes : room_out; /* what does not compress well grows */
    unsigned char *room[2] = {NULL, NULL}, *in = stored;
    bool good = true;

    for (int i = c->n_filters - 1, left = __builtin_popcount(~skipped & ((1U << c->n_filters) - 1)), turn = 0;
         good && i >= 0; i--) {
        unsigned char *to = out;

        if (skipped >> i & 1U) {
            continue;
        }
        if (--left > 0) {
            *reason = "memory ran out";
            good = room[turn] || charl__alloc(cap, &room[turn]) == CHARL_OK;
            to = room[turn];
            turn = !turn;
        }
        *reason = "it is longer than its chunk: the file is damaged";
        good = good && (to != out || bytes <= room_out || is_compressor(c->filter[i].id)) &&
               undo(&c->filter[i], in, &bytes, to, to == out ? room_out : cap, reason);
        in = to;
    }
    if (good && bytes != c->chunk_bytes) {
        *reason = "it has another size than its chunk: the file is damaged";
        good = false;
    }
    if (good && in == stored) {
        memcpy(out, in, bytes);
    }
    charl_free(room[0]);
    charl_free(room[1]);
    return good;
}
