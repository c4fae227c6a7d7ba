#ifndef CHARL_FILES_RUN_PATH_H
#define CHARL_FILES_RUN_PATH_H
/** Paths of the checkpoints of a run: DIR/last.h5, DIR/best.h5 and DIR/checkpoints/step-N.h5. */
#include <stdbool.h>
#include <stddef.h>

#include "charl/run.h"

/** Another name of the file with the weights that checkpoints of DIR leave to their base, if it is in another run, which may remove it. */
#define CHARL__RUN_BASE "init.from.h5"

/** Whether both paths have these forms and belong to one run. */
bool charl__run_is_same(const char *a, const char *b);

/** charl_run_checkpoint, with links resolved: DIR/checkpoints/step-N.h5 for DIR and for DIR/last.h5. *out: owned by the caller.
 *  Errors: as charl_run_checkpoint. */
charl_status charl__run_resolve(const char *path, char **out) CHARL_MUST_CHECK;

#endif
