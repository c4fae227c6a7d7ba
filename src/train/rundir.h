#ifndef CHARL_TRAIN_RUNDIR_H
#define CHARL_TRAIN_RUNDIR_H
/** The names and files of a run directory that follow from its checkpoints: links, exports, what retention keeps, and what becomes of the
 *  checkpoints of another history. */
#include <stdint.h>

#include "base/text/text.h"
#include "charl/checkpoint.h"
#include "files/run.h"
#include "files/run_lock.h"

/** What a run directory should hold now that the checkpoint policy.step is in it. */
typedef struct charl__rundir_plan {
    charl__run_policy policy;
    const char *export_format; /* of last.FORMAT and best.FORMAT; "none": no exports */
    const charl__lock *lock;   /* run.lock as it is */
    bool forgets_best;         /* remove best.h5 and its exports first */
} charl__rundir_plan;

/** Make it so: last.h5 names policy.step and best.h5 policy.best_step (-1: it is left as it is), retention is applied, and an export is written
 *  again unless it names the line of run.lock that records its checkpoint. What is right already is not touched, so that this completes a save
 *  that was cut short. `warnings` gets a line for each part that failed. Cost: reads the exports; the model for each one that is written. */
void charl__rundir_update(const char *dir, const charl__rundir_plan *plan, charl__text *warnings);

/** Remove checkpoints/step-*.h5, the links last.h5 and best.h5 of `dir` and the exports beside them, but for the file `keep` and
 *  links to it (NULL: none); nothing else. Without this the next resume would take the old run's newest checkpoint for the new
 *  one's. A directory without checkpoints is fine. Errors: ERR_DISK. */
charl_status charl__rundir_clear(const char *dir, const char *keep) CHARL_MUST_CHECK;

/** Remove the parts in the checkpoints of `dir` that none of them names. Errors: ERR_DISK, ERR_NOMEM. */
charl_status charl__rundir_sweep(const char *dir) CHARL_MUST_CHECK;

/** Rename the checkpoints of `dir` with a step later than `after` to step-*.h5.superseded, and remove last.h5 and best.h5, with their
 *  exports, when they point to a later one. *moved: how many. Errors: ERR_DISK. */
charl_status charl__rundir_supersede(const char *dir, int64_t after, int *moved) CHARL_MUST_CHECK;

/** Complete charl__rundir_supersede where a process was killed in it: before checkpoints are looked for. Errors: ERR_DISK. */
charl_status charl__rundir_supersede_rest(const char *dir) CHARL_MUST_CHECK;

/** Remove last.FORMAT and best.FORMAT, which nothing keeps up to date any more. *dropped: how many there were. Errors: ERR_DISK. */
charl_status charl__rundir_drop_exports(const char *dir, const char *format, int *dropped) CHARL_MUST_CHECK;

/** The run that `dir` belongs to: the 32 hexadecimal digits in its file run_id; "" where there is
 *  none. */
void charl__rundir_read_id(const char *dir, char out[33]);
/** Errors: ERR_DISK, ERR_NOMEM. */
charl_status charl__rundir_write_id(const char *dir, const char *id) CHARL_MUST_CHECK;

#endif
