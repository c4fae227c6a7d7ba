#ifndef CHARL_BASE_HANDLES_H
#define CHARL_BASE_HANDLES_H
/** Files and directories in local variables:
 *
 *      CHARL_SCOPED(charl__directory_left) DIR *d = NULL;
 *
 *      CHARL_TRY(charl__directory_open(path, &d));
 *      CHARL_REQUIRE(d, CHARL_ERR_IO, "%s: %s", path, strerror(errno));
 */
#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"

/** *out is NULL, and errno is set, if there is no such directory or it cannot be read. Errors: ERR_NOMEM. */
CHARL_MUST_CHECK static inline charl_status charl__directory_open(const char *path, DIR **out)
{
    *out = NULL;
    CHARL_TRY(charl__acquire("directory"));
    *out = opendir(path);
    if (!*out) {
        charl__drop();
    }
    return CHARL_OK;
}

static inline void charl__directory_left(DIR *const *d)
{
    if (*d) {
        (void)closedir(*d);
        charl__drop();
    }
}

/** A file that was read, so that nothing is lost if closing fails; and a descriptor, -1: none. Neither is counted. */
static inline void charl__file_left(FILE *const *f)
{
    if (*f) {
        (void)fclose(*f);
    }
}
static inline void charl__descriptor_left(const int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
    }
}

#endif
