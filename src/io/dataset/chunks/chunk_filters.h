#ifndef CHARL_IO_DATASET_CHUNKS_CHUNK_FILTERS_H
#define CHARL_IO_DATASET_CHUNKS_CHUNK_FILTERS_H
/** Filters that charl undoes itself, without HDF5: gzip, shuffle, fletcher32 and, where charl is built with liblzf, lzf. */
#include "io/dataset/chunks/chunks.h"

/** "gzip" for a filter that HDF5 or h5py has a name for; NULL for others. */
const char *charl__filter_name(H5Z_filter_t id);

/** Whether charl__filters_undo supports it. */
bool charl__filter_is_own(H5Z_filter_t id);

/** Bytes that charl__filters_undo may write for intermediate results. */
size_t charl__filters_room(const charl__chunks *c);

/** Undo filters from last to first on the `bytes` bytes at `stored`, which are modified; filter i is skipped if bit i of `skipped` is set.
 *  The result is c->chunk_bytes bytes in `out`, which has room for them. False: it is not possible, and *reason says why. Thread-safe. */
bool charl__filters_undo(const charl__chunks *c, uint32_t skipped, unsigned char *stored, size_t bytes,
                         unsigned char *out, const char **reason);

#endif
