#ifndef CHARL_FILES_JOB_H
#define CHARL_FILES_JOB_H
/** Runs one function in a background thread while the caller continues.
 *
 *      charl__job_start(true, write_file, &request, &job);
 *      ... until charl__job_is_done(job) ...
 *      st = charl__job_end(job);                   status and message of write_file
 *
 *  The thread blocks all signals, so that another thread handles them. The thread that starts a job must
 *  also end it.
 */
#include <stdbool.h>

#include "base/error.h"

typedef struct charl__job charl__job;

/** Run work(ctx) in a new thread, or in the calling thread before returning if `background` is false. ctx is
 *  borrowed until charl__job_end. *out is owned: release it with charl__job_end. Errors: ERR_NOMEM, also if
 *  no thread can be started. */
charl_status charl__job_start(bool background, charl_status (*work)(void *ctx), void *ctx,
                              charl__job **out) CHARL_MUST_CHECK;

/** Whether work has returned. Does not wait. NULL: true. */
bool charl__job_is_done(const charl__job *job);

/** Wait at most `seconds` for work to return; returns whether it has. */
bool charl__job_wait(charl__job *job, double seconds);

/** Wait for work to return and destroy the job. Returns the status of work; its error message becomes the
 *  calling thread's. NULL: CHARL_OK. */
charl_status charl__job_end(charl__job *job) CHARL_MUST_CHECK;

/** The same, ignoring the result: this thread's error is not changed. NULL is a no-op. */
void charl__job_discard(charl__job *job);

#endif
