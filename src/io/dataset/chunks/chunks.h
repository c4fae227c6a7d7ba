#ifndef CHARL_IO_DATASET_CHUNKS_CHUNKS_H
#define CHARL_IO_DATASET_CHUNKS_CHUNKS_H
/** Chunked arrays: decoding chunks with several threads, and caching decoded ones.
 *
 *  HDF5 serves one thread at a time, so it only provides the bytes of a chunk as stored in the file; undoing the filters (gzip, lzf,
 *  shuffle, fletcher32), which is nearly all of the work, needs no HDF5. Chunks with other filters are decoded by HDF5.
 *
 *      grid      chunks per axis, the last axis varying fastest
 *      group     the chunks that contain the same rows: chunk_rows rows of the array
 *
 *  A cache belongs to a data set, which may have several files. It holds decoded chunks, as stored elements, up to a number of bytes;
 *  the least recently used ones are evicted first.
 */
#include <stdbool.h>

#include "charl/shape.h"
#include "io/h5.h"

typedef struct charl__chunk_cache charl__chunk_cache;

/** bytes: maximum size of the cache; threads: how many decode, including the caller's. Both > 0. */
charl_status charl__chunk_cache_create(int64_t bytes, int threads, charl__chunk_cache **out) CHARL_MUST_CHECK;
/** Call after all its chunk arrays are closed. NULL is a no-op. */
void charl__chunk_cache_destroy(charl__chunk_cache *c);

enum { CHARL__MAX_FILTERS = 8, CHARL__FILTER_VALUES = 16 };

typedef struct charl__filter {
    H5Z_filter_t id;
    size_t n_values;
    unsigned values[CHARL__FILTER_VALUES];
} charl__filter;

typedef struct charl__chunks {
    const char *path, *name; /* borrowed: for messages */
    hid_t dataset;           /* borrowed */
    hid_t type;              /* of stored elements; owned */
    size_t element_bytes;
    int ndim;                           /* of the array, including rows */
    int64_t extent[CHARL_MAX_DIMS + 1]; /* of the array */
    int64_t dim[CHARL_MAX_DIMS + 1];    /* of a chunk; dim[0]: rows of a group */
    int64_t grid[CHARL_MAX_DIMS + 1];
    int64_t n, per_group; /* chunks; chunks of a group */
    size_t chunk_bytes;   /* of a decoded one */
    int n_filters;
    charl__filter filter[CHARL__MAX_FILTERS];
    charl_status (*decode)(void *ctx, int64_t index,
                           unsigned char *out); /* of chunks that are not in HDF5; else NULL */
    void *ctx;
    bool by_hdf5;                /* HDF5 undoes the filters */
    charl__chunk_cache *cache;   /* borrowed */
    struct charl__chunk **entry; /* [n]; NULL: not in the cache */
} charl__chunks;

/** Describe the chunks of `dataset`, which has this creation property list. c is the caller's storage, path and name are set; call fini even
 *  after a failure. Errors: ERR_DATA: chunks that are larger than 64 MiB or were never written, filters that cannot be undone. */
charl_status charl__chunks_init(charl__chunks *c, hid_t dataset, hid_t plist, hid_t type) CHARL_MUST_CHECK;
void charl__chunks_fini(charl__chunks *c);

/** Rows of bytes, each a chunk provided by `decode`, which several threads call. path and name are borrowed. fini as above. */
void charl__chunks_of_rows(charl__chunks *c, const char *path, const char *name, int64_t rows, const charl_shape *item,
                           charl_status (*decode)(void *ctx, int64_t index, unsigned char *out), void *ctx);

/** Use a cache; before anything is read. Errors: ERR_NOMEM. */
charl_status charl__chunks_attach(charl__chunks *c, charl__chunk_cache *cache) CHARL_MUST_CHECK;

/** Decode the chunks of the first of n rows, with the threads of the cache: as many rows as fit, at least one. Row i is first + rows[i], or
 *  first + i if rows is NULL. *done is their number. Thread-safe. Errors: as charl__chunks_read. */
charl_status charl__chunks_prepare(charl__chunks *c, const int64_t *rows, int64_t first, int64_t n,
                                   int64_t *done) CHARL_MUST_CHECK;

/** Rows [first, first + n) as stored elements. Thread-safe. Errors: ERR_DATA, ERR_IO, ERR_NOMEM. */
charl_status charl__chunks_read(charl__chunks *c, int64_t first, int64_t n, void *dst) CHARL_MUST_CHECK;

/** The filters of the chunks, "gzip, shuffle"; "" if there are none. */
const char *charl__chunks_filters(const charl__chunks *c, char *text, size_t cap);
#endif
