#ifndef CHARL_TRAIN_ONCE_H
#define CHARL_TRAIN_ONCE_H
/** What a command does once, however often it is started: start over (--overwrite, run.resume = never), or go back to a checkpoint
 *  (run.resume = FILE). The first checkpoint after that makes it done, and DIR/.once says so:
 *
 *      job slurm-4711                              a job that has begun this run
 *      from 500 /runs/base/step-00000500.h5        the run continues from this file, of step 500
 */
#include <stdbool.h>
#include <stdint.h>

#include "charl/train.h"

enum { CHARL__ONCE_JOB = 256, CHARL__ONCE_PATH = 4096 };

typedef struct charl__once {
    char job[CHARL_TRAIN_JOBS][CHARL__ONCE_JOB]; /* "": none */
    char from[CHARL__ONCE_PATH];                 /* absolute; "": the run began at step 0 */
    int64_t step;                                /* of `from` */
} charl__once;

/** What DIR/.once says; lines that charl would not write are ignored. */
void charl__once_read(const char *dir, charl__once *out);
/** Write DIR/.once, or remove it where there is nothing to say. Errors: ERR_DISK, ERR_NOMEM. */
charl_status charl__once_write(const char *dir, const charl__once *o) CHARL_MUST_CHECK;

/** Whether this is another start of a job that has begun the run. */
bool charl__once_is_begun(const charl__once *o, const charl_train_job jobs[CHARL_TRAIN_JOBS]);
/** Whether the run continues from the file `path`. */
bool charl__once_is_from(const charl__once *o, const char *path);

/** Note who has begun the run; without any name what is noted stays. Errors: ERR_INVALID for a name that is no line of at most 255 bytes. */
charl_status charl__once_set_jobs(charl__once *o, const charl_train_job jobs[CHARL_TRAIN_JOBS]) CHARL_MUST_CHECK;
/** Note the file that the run continues from; NULL: none. A path that is too long is not noted. */
void charl__once_set_from(charl__once *o, const char *path, int64_t step);

#endif
