#ifndef CHARL_IO_REGULAR_H
#define CHARL_IO_REGULAR_H
/** Reading weights files: regular files only, with pread. */
#include <stdbool.h>
#include <stdint.h>

#include "base/text/text.h"
#include "charl/status.h"

/** Open a regular, non-empty file for reading, without blocking on a FIFO. *fd is
 *  counted: close it with charl__regular_close; -1 on failure.
 *  Errors: ERR_CHECKPOINT; ERR_NOMEM for a shortage that does not concern this file. */
charl_status charl__regular_open(const char *path, int *fd, int64_t *bytes) CHARL_MUST_CHECK;

/** Close *fd unless it is -1, and set it to -1. */
void charl__regular_close(int *fd);

/** Read `bytes` bytes at `at`, retrying after signals and short transfers. Returns the number of bytes read, fewer at
 *  the end of the file, or -1. Fault point: io.read. */
int64_t charl__regular_read(int fd, void *dst, int64_t bytes, int64_t at);

/** Whether two regular files have the same bytes; what cannot be read differs. Errors: those of charl__regular_open. */
charl_status charl__regular_compare(const char *a, const char *b, bool *same) CHARL_MUST_CHECK;

/** Append a whole regular file of at most `most` bytes to `out`. Errors: ERR_CHECKPOINT, naming the file; ERR_NOMEM. */
charl_status charl__regular_read_all(const char *path, int64_t most, charl__text *out) CHARL_MUST_CHECK;

#endif
