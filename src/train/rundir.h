#ifndef CHARL_TRAIN_RUNDIR_H
#define CHARL_TRAIN_RUNDIR_H
/** What a run does with the checkpoints of another history that its directory holds. */
#include <stdint.h>

#include "charl/status.h"

/** Remove checkpoints/step-*.h5 and the links last.h5 and best.h5 of `dir`; nothing else. Without
 *  this the next resume would take the old run's newest checkpoint for the new one's. A directory
 *  without checkpoints is fine. Errors: ERR_DISK. */
charl_status charl__rundir_clear(const char *dir) CHARL_MUST_CHECK;

/** Rename the checkpoints of `dir` with a step later than `after`, other than `except`, to
 *  step-*.h5.superseded, and remove best.h5 when it points to a later one. *moved: how many.
 *  Errors: ERR_DISK. */
charl_status charl__rundir_supersede(const char *dir, int64_t after, int64_t except, int *moved) CHARL_MUST_CHECK;

/** Remove the link best.h5 of `dir`, where there is one. Errors: ERR_DISK. */
charl_status charl__rundir_forget_best(const char *dir) CHARL_MUST_CHECK;

/** The run that `dir` belongs to: the 32 hexadecimal digits in its file run_id; "" where there is
 *  none. */
void charl__rundir_read_id(const char *dir, char out[33]);
/** Errors: ERR_DISK, ERR_NOMEM. */
charl_status charl__rundir_write_id(const char *dir, const char *id) CHARL_MUST_CHECK;

#endif
