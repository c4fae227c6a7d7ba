/* Progress reports of transfers, and writing files to disk in pieces. */
#define _GNU_SOURCE /* sync_file_range */
#include "io/progress.h"

#include <errno.h>

#include "base/clock.h"
#include "base/fault.h"

static _Thread_local void (*report)(void *ctx);
static _Thread_local void *report_ctx;

void charl__progress_set(void (*fn)(void *ctx), void *ctx)
{
    report = fn;
    report_ctx = ctx;
}

void charl__progress_made(void)
{
    int64_t ms = 0;

    if (charl__fault_arg("io.slow", &ms)) {
        charl__sleep_s((double)ms * 1e-3);
    }
    if (report) {
        report(report_ctx);
    }
}

int charl__writeback_step(charl__writeback *w, int fd, int64_t end)
{
    int err = 0;

    if (end - w->begun < CHARL__PIECE) {
        return 0;
    }
#ifdef SYNC_FILE_RANGE_WRITE
    enum { WAIT = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER };

    if (sync_file_range(fd, w->begun, end - w->begun, SYNC_FILE_RANGE_WRITE) != 0 ||
        (w->begun > w->waited && /* a length of 0 would mean the rest of the file */
         sync_file_range(fd, w->waited, w->begun - w->waited, WAIT) != 0)) {
        err = errno == EIO || errno == ENOSPC || errno == EDQUOT ? errno : 0;
    }
#else
    (void)fd;
#endif
    w->waited = w->begun;
    w->begun = end;
    return err;
}
