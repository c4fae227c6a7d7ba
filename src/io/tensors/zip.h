#ifndef CHARL_IO_TENSORS_ZIP_H
#define CHARL_IO_TENSORS_ZIP_H
/** The files in a zip archive, stored or deflated, as written by numpy.savez and numpy.savez_compressed. */
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/** Location of a file in an archive. */
typedef struct charl__zip_member {
    char name[256];
    int64_t begin, packed, bytes; /* first byte in the archive, compressed size and uncompressed size */
    bool deflated;
} charl__zip_member;

/** The directory of an archive; *members is new, charl_free. Errors: `code` for an archive that is damaged, or a file in it with another
 *  compression; ERR_IO, ERR_NOMEM. */
charl_status charl__zip_list(const char *path, charl_status code, charl__zip_member **members,
                             int64_t *n) CHARL_MUST_CHECK;

#endif
