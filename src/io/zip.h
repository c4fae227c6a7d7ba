#ifndef CHARL_IO_ZIP_H
#define CHARL_IO_ZIP_H
/** The files in a zip archive, stored or deflated, as numpy.savez and numpy.savez_compressed write them. */
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/** Where a file lies in an archive. */
typedef struct charl__zip_member {
    char name[256];
    int64_t begin, packed, bytes; /* first byte in the archive, and bytes there and unpacked */
    bool deflated;
} charl__zip_member;

/** The directory of an archive; *members is new, charl_free. Errors: `code` for an archive that is damaged, or a file in it that is packed
 *  in another way; ERR_IO, ERR_NOMEM. */
charl_status charl__zip_list(const char *path, charl_status code, charl__zip_member **members,
                             int64_t *n) CHARL_MUST_CHECK;

#endif
