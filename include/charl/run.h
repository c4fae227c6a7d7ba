#ifndef CHARL_RUN_H
#define CHARL_RUN_H
/** Run directories: where the checkpoints of a training are. docs/training.md describes their files. */
#include <stddef.h>

#include "charl/status.h"

CHARL_BEGIN_DECLS

/** Resolve a path given by a user to a checkpoint: for a run directory DIR/last.h5, or the newest of DIR/checkpoints if
 *  there is no last.h5; any other path is copied unchanged. Does not open the file. Release *out with charl_free.
 *
 *  Blocks. Local. Errors: ERR_CHECKPOINT  the directory cannot be read; ERR_NOMEM. */
charl_status charl_run_checkpoint(const char *path, char **out) CHARL_MUST_CHECK;

/** The inverse of charl_run_checkpoint: the length of DIR in the path of a checkpoint of a run, DIR/last.h5,
 *  DIR/best.h5 or DIR/checkpoints/step-N.h5; the whole length of any other path. 0 for "last.h5", which is in the
 *  current directory. Local. Thread-safe. */
size_t charl_run_length(const char *path);

CHARL_END_DECLS

#endif
