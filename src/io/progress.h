#ifndef CHARL_IO_PROGRESS_H
#define CHARL_IO_PROGRESS_H
/** Progress reports while large files are written and read back: they distinguish a slow disk from
 *  one that hangs.
 *
 *      charl__progress_set(fn, ctx);        this thread's transfers call fn from now on
 *      charl_checkpoint_save(...);
 *      charl__progress_set(NULL, NULL);
 *
 *  Transfers are made in pieces of at most CHARL__PIECE bytes. Written data are also flushed to disk
 *  in pieces, because an fsync of many GB would report nothing for minutes.
 */
#include <stdint.h>

enum { CHARL__PIECE = 32 << 20 };

/** Make this thread's transfers call fn(ctx) after every piece; NULL: nothing. */
void charl__progress_set(void (*fn)(void *ctx), void *ctx);

/** A piece was transferred. Fault point: io.slow (argument: additional milliseconds). */
void charl__progress_made(void);

/** The state of flushing a file. Start from {0}. */
typedef struct charl__writeback {
    int64_t waited, begun; /* everything before `waited` is on disk, the data up to `begun` are being written */
} charl__writeback;

/** The file has been written up to `end`, in roughly ascending order: after another piece,
 *  start writing it to disk and wait for the previous one. Returns 0 or the errno of a failed
 *  disk. If the system does not support this, the fsync at the end does it all. */
int charl__writeback_step(charl__writeback *w, int fd, int64_t end);

#endif
