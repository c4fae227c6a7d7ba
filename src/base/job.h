#ifndef CHARL_BASE_JOB_H
#define CHARL_BASE_JOB_H
/** One function that runs in a thread of its own while the caller continues.
 *
 *      charl__job_start(true, write_file, &request, &job);
 *      ... until charl__job_is_done(job) ...
 *      st = charl__job_end(job);                   its status, with its message
 *
 *  The thread takes no signals: they belong to the thread that waits for them. A job is started and
 *  ended by one thread.
 */
#include <stdbool.h>

#include "base/error.h"

typedef struct charl__job charl__job;

/** Run work(ctx); `background` false: before this returns. ctx is borrowed until the end. *out is
 *  owned: charl__job_end. Errors: ERR_NOMEM, also where no thread can be started. */
charl_status charl__job_start(bool background, charl_status (*work)(void *ctx), void *ctx,
                              charl__job **out) CHARL_MUST_CHECK;

/** Whether work has returned. Never waits. NULL: true. */
bool charl__job_is_done(const charl__job *job);

/** Wait for that, at most so many seconds; returns whether it has. */
bool charl__job_wait(charl__job *job, double seconds);

/** Wait for work and destroy the job. Returns the status of work, whose message becomes this
 *  thread's. NULL: CHARL_OK. */
charl_status charl__job_end(charl__job *job) CHARL_MUST_CHECK;

#endif
