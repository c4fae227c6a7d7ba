#ifndef CHARL_IO_PROGRESS_H
#define CHARL_IO_PROGRESS_H
/** Signs of life while large files are written and read back: a slow disk that moves is told from
 *  one that hangs.
 *
 *      charl__progress_set(fn, ctx);        this thread's transfers call fn from now on
 *      charl_checkpoint_save(...);
 *      charl__progress_set(NULL, NULL);
 *
 *  Transfers go in pieces of at most CHARL__PIECE bytes. What is written is handed to the disk
 *  piece by piece too, as an fsync of many GB would show nothing for minutes.
 */
#include <stdint.h>

enum { CHARL__PIECE = 32 << 20 };

/** Have the transfers of this thread call fn(ctx) after every piece; NULL: nothing. */
void charl__progress_set(void (*fn)(void *ctx), void *ctx);

/** A piece was transferred. Fault point: io.slow (argument: milliseconds that it takes longer). */
void charl__progress_made(void);

/** What of a file is on its way to the disk. Start from {0}. */
typedef struct charl__writeback {
    int64_t waited, begun; /* all before `waited` has arrived, what follows up to `begun` is on its way */
} charl__writeback;

/** The file has been written up to `end`, in about ascending order: when that is a piece more,
 *  begin to write it to the disk and wait for the piece before. Returns 0 or the errno of a disk
 *  that failed. Where the system cannot do that the fsync at the end does it all. */
int charl__writeback_step(charl__writeback *w, int fd, int64_t end);

#endif
