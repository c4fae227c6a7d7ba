#ifndef CHARL_TRAIN_RUNDIR_H
#define CHARL_TRAIN_RUNDIR_H
/** What a run does with the checkpoints of another history that its directory holds. */
#include <stdint.h>

#include "charl/status.h"

/** Remove checkpoints/step-*.h5 and the links last.h5 and best.h5 of `dir`; nothing else. Without
 * this the next resume would take the old run's newest checkpoint for the new one's. A directory
 * without checkpoints is fine. Errors: ERR_DISK. */
charl_status charl__rundir_clear(const char *dir) CHARL_MUST_CHECK;

/** Rename the checkpoints of `dir` with a step later than `after`, other than `except`, to
 * step-*.h5.superseded, and remove best.h5 when it points to a later one. *moved: how many.
 * Errors: ERR_DISK. */
charl_status charl__rundir_supersede(const char *dir, int64_t after, int64_t except,
                                     int *moved) CHARL_MUST_CHECK;

/** Remove the link best.h5 of `dir`, where there is one. Errors: ERR_DISK. */
charl_status charl__rundir_forget_best(const char *dir) CHARL_MUST_CHECK;

/** The step of the checkpoint that best.h5 of `dir` points to; -1 when there is none. */
int64_t charl__rundir_best(const char *dir);

#endif
