#ifndef CHARL_RUN_H
#define CHARL_RUN_H
/** Run directories: where the checkpoints of a training are. docs/training.md describes their files. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/** Let the run directory `to` begin as `from` was after a step, so that a training with other settings can continue
 *  there: with its checkpoint, which takes no further disk space, and copies of its metrics and its log. run.lock has
 *  its lines up to that step; the training adds that it was resumed, with which configuration.
 *
 *  most    the newest checkpoint of `from` up to this step is taken
 *  config  text of config.ini in `to`, which is written last
 *  *step   of the checkpoint; -1: there is none that run.lock records, or the best one before it is gone, and nothing
 *          was done
 *
 *  Neither may be in use by a training. Blocks. Local.
 *  Errors: ERR_BUSY; ERR_CHECKPOINT  `from` is not a run directory; ERR_DISK  also if both are on different file
 *  systems; ERR_NOMEM. */
charl_status charl_run_fork(const char *from, int64_t most, const char *to, const char *config,
                            int64_t *step) CHARL_MUST_CHECK;

/** Whether a training uses a run directory now. A directory on a file system without locks is never busy.
 *
 *  Blocks (not for the lock). Local. Errors: ERR_NOMEM. */
charl_status charl_run_is_busy(const char *dir, bool *out) CHARL_MUST_CHECK;

/** Checkpoints that charl_run_prune has counted or removed. */
typedef struct charl_run_pruned {
    int64_t checkpoints;
    int64_t bytes; /* on the disk; 0 for those that other run directories share (charl_run_fork) */
} charl_run_pruned;

/** Count the checkpoints of a run other than the newest and those that last.h5 and best.h5 name; with `removes`, remove
 *  them. The run continues from its last checkpoint, and charl_verify still has the record of all.
 *
 *  Blocks. Local. Errors: ERR_BUSY  a training uses it; ERR_CHECKPOINT, ERR_DISK, ERR_NOMEM. */
charl_status charl_run_prune(const char *dir, bool removes, charl_run_pruned *out) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
