/* Temporary folders. */
#define _GNU_SOURCE /* mkdtemp, nftw */
#include "files/temporary.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

charl_status charl__temporary_make(charl__text *out)
{
    const char *tmp = getenv("TMPDIR");

    tmp = tmp && tmp[0] ? tmp : "/tmp";
    CHARL_TRY(charl__text_printf(out, "%s/charl-XXXXXX", tmp));
    if (!mkdtemp(out->data)) {
        const int err = errno;

        charl__text_fini(out);
        CHARL_FAIL(CHARL_ERR_DISK, "no folder can be made in %s (TMPDIR): %s", tmp, strerror(err));
    }
    return CHARL_OK;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info;
    (void)kind;
    (void)at;
    return remove(path);
}

void charl__temporary_remove(charl__text *folder)
{
    if (folder->length > 0) {
        (void)nftw(folder->data, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    }
    charl__text_fini(folder);
}
