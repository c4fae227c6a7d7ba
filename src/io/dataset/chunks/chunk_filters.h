#ifndef CHARL_IO_DATASET_CHUNKS_CHUNK_FILTERS_H
#define CHARL_IO_DATASET_CHUNKS_CHUNK_FILTERS_H
/** Filters that charl undoes itself, without HDF5: gzip, shuffle, fletcher32 and, where charl is built with liblzf, lzf. */
#include "io/dataset/chunks/chunks.h"

/** "gzip" of a filter that HDF5 or h5py has a name for; NULL for others. */
const char *charl__filter_name(H5Z_filter_t id);

/** Whether charl__filters_undo does. */
bool charl__filter_is_own(H5Z_filter_t id);

/** Bytes that charl__filters_undo may write on the way to the chunk's. */
size_t charl__filters_room(const charl__chunks *c);

/** Undo filters last to first on the `bytes` bytes at `stored`, which are changed; filter i is left out where bit i of `skipped` is set.
 *  The result is c->chunk_bytes bytes in `out`, which has the room. False: it cannot be done, and *reason says why. Thread-safe. */
bool charl__filters_undo(const charl__chunks *c, uint32_t skipped, unsigned char *stored, size_t bytes,
                         unsigned char *out, const char **reason);

#endif
