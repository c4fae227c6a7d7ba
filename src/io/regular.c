/* Opening and reading regular files. */
#include "io/regular.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "io/progress.h"

/* Errors that prevent the process from opening any file do not concern this one. */
static charl_status open_failed(const char *path, int err)
{
    char text[128];

    if (strerror_r(err, text, sizeof text) != 0) {
        snprintf(text, sizeof text, "error %d", err);
    }
    CHARL_REQUIRE(err != EMFILE, CHARL_ERR_NOMEM,
                  "%s: cannot be opened: %s; HINT raise the limit with `ulimit -n`: all files of a model stay open",
                  path, text);
    CHARL_REQUIRE(err != ENFILE && err != ENOMEM, CHARL_ERR_NOMEM, "%s: cannot be opened: %s", path, text);
    CHARL_FAIL(CHARL_ERR_CHECKPOINT, "%s: cannot be opened: %s", path, text);
    return CHARL_OK;
}

charl_status charl__regular_open(const char *path, int *fd, int64_t *bytes)
{
    charl_status st = CHARL_OK;
    struct stat s;

    *fd = -1;
    CHARL_TRY_CLEANUP(charl__acquire("file descriptor"));
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*fd < 0) {
        const int err = errno;

        charl__drop();
        CHARL_TRY_CLEANUP(open_failed(path, err));
    }
    CHARL_REQUIRE_CLEANUP(fstat(*fd, &s) == 0 && S_ISREG(s.st_mode), CHARL_ERR_CHECKPOINT, "%s: is not a regular file",
                          path);
    CHARL_REQUIRE_CLEANUP(s.st_size > 0, CHARL_ERR_CHECKPOINT, "%s: is empty", path);
    *bytes = (int64_t)s.st_size;
cleanup:
    if (st != CHARL_OK) {
        charl__regular_close(fd);
    }
    return st;
}

void charl__regular_close(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        charl__drop();
        *fd = -1;
    }
}

int64_t charl__regular_read(int fd, void *dst, int64_t bytes, int64_t at)
{
    int64_t done = 0;

    while (done < bytes) {
        const int64_t most = bytes - done < CHARL__PIECE ? bytes - done : CHARL__PIECE;
        const bool fail = charl__fault("io.read");
        const ssize_t n = fail ? -1 : pread(fd, (char *)dst + done, (size_t)most, (off_t)(at + done));

        if (n < 0 && !fail && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n < 0 ? -1 : done;
        }
        done += n;
        charl__progress_made();
    }
    return done;
}

charl_status charl__regular_compare(const char *a, const char *b, bool *same)
{
    CHARL_SCOPED(charl__regular_close) int first = -1;
    CHARL_SCOPED(charl__regular_close) int second = -1;
    char bytes[2][8192];
    int64_t size[2] = {0, 0}, at = 0;

    CHARL_TRY(charl__regular_open(a, &first, &size[0]));
    CHARL_TRY(charl__regular_open(b, &second, &size[1]));
    *same = size[0] == size[1];
    while (*same && at < size[0]) {
        const int64_t n = charl__regular_read(first, bytes[0], sizeof bytes[0], at);

        *same =
            n > 0 && charl__regular_read(second, bytes[1], n, at) == n && memcmp(bytes[0], bytes[1], (size_t)n) == 0;
        at += n;
    }
    return CHARL_OK;
}

charl_status charl__regular_read_all(const char *path, int64_t most, charl__text *out)
{
    int64_t bytes = 0;
    CHARL_SCOPED(charl__regular_close) int fd = -1;

    CHARL_TRY(charl__regular_open(path, &fd, &bytes));
    CHARL_REQUIRE(bytes <= most, CHARL_ERR_CHECKPOINT, "%s: has %" PRId64 " bytes, at most %" PRId64 " are read", path,
                  bytes, most);
    CHARL_TRY(charl__text_reserve(out, (size_t)bytes));
    CHARL_REQUIRE(charl__regular_read(fd, out->data + out->length, bytes, 0) == bytes, CHARL_ERR_CHECKPOINT,
                  "%s: cannot be read", path);
    out->length += (size_t)bytes;
    out->data[out->length] = '\0';
    return CHARL_OK;
}
