#ifndef CHARL_IO_COMMIT_H
#define CHARL_IO_COMMIT_H
/** Files that appear whole or not at all.
 *
 *  begin creates `<final>.tmp.<host>.<pid>` beside the target and keeps it open and locked; the
 *  caller fills it; end makes it durable: fsync, the caller's check, rename, fsync of the directory.
 *  A crash at any instant leaves the old file or the new one, and at most a stale temporary, which
 *  charl__commit_sweep removes.
 *
 *  Fault points: io.create io.fsync io.rename io.dirfsync (argument: the errno), and
 *  io.crash.written, io.crash.synced, io.crash.verified, io.crash.renamed, io.crash.append (after half of the bytes of charl__commit_append)
 *  and, of links and removals, io.crash.symlink, io.crash.linked, io.crash.removed, io.crash.moved, which kill the process
 *  with SIGKILL. io.statvfs: the argument is the free space; 0: it cannot be told.
 *  io.rlimit: the limit of a file's size is not known in advance.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "io/progress.h"

/** Kill the process with SIGKILL where fault point `name` fires. */
void charl__crash_point(const char *name);

/** The name of a link before it takes the place of another (charl__run_link). */
#define CHARL__LINK_TEMP ".link.tmp"

typedef struct charl__commit {
    char *final;
    char *temp;      /* write to this name, or to fd; NULL once renamed */
    int fd;          /* of the temporary, read and write; -1 when none */
    int64_t written; /* by charl__commit_write */
    charl__writeback writeback;
} charl__commit;

/** Start replacing `final`. `c` needs charl__commit_fini on every path, even after failure.
 *  Errors: ERR_DISK (not writable, the target is not a regular file, another writer is at work),
 *  ERR_NOMEM. */
charl_status charl__commit_begin(const char *final, charl__commit *c) CHARL_MUST_CHECK;

/** Refuse to replace what is read: `output` is an existing regular file, and one of the n `inputs` is the same file, whatever its name.
 *  NULLs, as output too, and names of no file are skipped. Call it before work begins. Errors: ERR_CONFIG, naming both. */
charl_status charl__commit_check_inputs(const char *output, const char *const *inputs, int64_t n) CHARL_MUST_CHECK;

/** Append to the temporary, through signals and short transfers. Fault point: io.write. Errors:
 *  ERR_DISK. */
charl_status charl__commit_write(charl__commit *c, const void *data, size_t bytes) CHARL_MUST_CHECK;

/** Make the temporary the final file. `verify` (may be NULL) sees the temporary after its fsync;
 *  its failure is the result. On failure before the rename nothing has changed; after it (fsync of
 *  the directory) the new file is in place but not known to be durable. Errors: ERR_DISK, what
 *  verify returns. */
charl_status charl__commit_end(charl__commit *c, charl_status (*verify)(const char *temp, void *user),
                               void *user) CHARL_MUST_CHECK;

/** Close; unless committed, remove the temporary. */
void charl__commit_fini(charl__commit *c);

/** Replace `path` with `bytes` bytes in one go: begin, write, end. Errors: ERR_DISK, ERR_NOMEM. */
charl_status charl__commit_bytes(const char *path, const void *data, size_t bytes) CHARL_MUST_CHECK;

/** Append to a file that has `at` bytes; what it has after them, such as a record that a power cut has torn, is cut off first. Durable on
 *  return. A crash leaves the first `at` bytes as they are, and of the new ones any part, or zeros: the reader has to recognize a torn record.
 *  On failure the file has `at` bytes again, if the disk lets it. Errors: ERR_DISK, also when the file is a link, no regular file, or shorter
 *  than `at`. */
charl_status charl__commit_append(const char *path, int64_t at, const void *data, size_t bytes) CHARL_MUST_CHECK;

/** Make what was written to a file durable, by whatever descriptor; one that does not exist is fine. Errors: ERR_DISK. */
charl_status charl__commit_sync(const char *path) CHARL_MUST_CHECK;

/** Open a file to append lines to it; `afresh` empties it first. A link is not followed, and
 *  nothing is emptied that has another name too: either could be a user's file. Errors: ERR_DISK,
 *  also when it is not a regular file. */
charl_status charl__log_open(const char *path, bool afresh, FILE **out) CHARL_MUST_CHECK;

/** Append a record to such a file, `path`: all of it, or nothing of it. Fault point: io.log. Errors: ERR_DISK. */
charl_status charl__log_append(FILE *f, const char *path, const void *data, size_t bytes) CHARL_MUST_CHECK;

/** Remove temporaries that dead processes of this host left in `dir`; with `exclusive` (the caller
 *  holds the directory's lock, so no other job can be writing there) those of other hosts too.
 * *removed may be NULL. Errors: ERR_DISK when the directory cannot be read, ERR_NOMEM. */
charl_status charl__commit_sweep(const char *dir, bool exclusive, int *removed) CHARL_MUST_CHECK;

/** Prove that files can be created, synced, renamed and removed in `dir`. Errors: ERR_DISK,
 *  ERR_NOMEM. */
charl_status charl__commit_probe(const char *dir) CHARL_MUST_CHECK;

/** fsync of a directory: makes renames and removals in it durable. Errors: ERR_DISK, ERR_NOMEM. */
charl_status charl__commit_sync_dir(const char *dir) CHARL_MUST_CHECK;

/** What follows the last / of a path. Borrowed from it. */
const char *charl__base_name(const char *path);
/** The directory part of `path` ("." if none), owned by the caller. Errors: ERR_NOMEM. */
charl_status charl__commit_dir(const char *path, char **out) CHARL_MUST_CHECK;

/** "dir/name", owned by the caller. Errors: ERR_NOMEM. */
charl_status charl__commit_join(const char *dir, const char *name, char **out) CHARL_MUST_CHECK;

/** Bytes free for this user on the file system of `path` or of its directory, of one in memory no more than 15/16 of the memory that is
 *  available; -1 if it cannot be told. */
int64_t charl__disk_free(const char *path);

/** Bytes that a file may have by the limit of this process (ulimit -f); -1: any number. */
int64_t charl__disk_largest(void);

/** Record "`path`: `op` failed: <errno text> (N bytes needed, M free)" and return ERR_DISK.
 *  `needed` < 0: unknown. Where the folder of `path` does not exist, the message says so and how to make it. */
charl_status charl__disk_error(const char *path, const char *op, int err, int64_t needed);

#endif
