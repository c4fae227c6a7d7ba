#ifndef CHARL_FILES_COPIES_H
#define CHARL_FILES_COPIES_H
/** Copies of a training's state in memory that outlives its processes, until the machine restarts: checkpoints in a folder of shared memory.
 *
 *      /dev/shm/charl-UID/KEY.RANK/checkpoints/step-00000042.h5
 *
 *  They are written, committed, verified and read as the checkpoints of a run directory are. KEY stands for the run directory; RANK is the first
 *  rank of the node that writes them, since tests divide one machine into nodes. A node has at most two copies, one of which may be half
 *  written. charl-UID is open to its user only. CHARL_SHM_DIR names another place than /dev/shm.
 *
 *  Fault point: copies.room: there is none. */
#include "charl/checkpoint.h"
#include "base/text/text.h"

/** The file in a run directory which says that there are copies. */
#define CHARL__COPIES_MARK ".copies"

enum { CHARL__COPIES_KEY = 17, CHARL__COPIES_PATH = 4096 };

/** The key of a run directory, which must exist. Local. Errors: ERR_DISK. */
charl_status charl__copies_key(const char *run_dir, char key[CHARL__COPIES_KEY]) CHARL_MUST_CHECK;

/** Prepare to write a copy of `step`: make the folder, and remove all copies of the node but the newest. *path: where to write it, freed by the
 *  caller. Blocks. Local. Errors: ERR_DISK  the folder cannot be made, or others could write to it; ERR_NOMEM. */
charl_status charl__copies_begin(const char *key, int rank, int64_t step, char **path) CHARL_MUST_CHECK;

/** The newest copy on this machine that verifies and that `accepts` takes (ERR_CHECKPOINT: it is refused). *step: -1 if there is none. `why` gets
 *  the reasons why copies were refused. Blocks. Local. Errors: ERR_NOMEM; those of accepts. Cost: reads one copy, more after damage. */
charl_status charl__copies_find(const char *key,
                                charl_status (*accepts)(const void *ctx, const charl_checkpoint_reader *r,
                                                        const char *path),
                                const void *ctx, int64_t *step, charl__text *why) CHARL_MUST_CHECK;

/** The path of a copy of `step` on this machine; false: there is none. Local. */
bool charl__copies_has(const char *key, int64_t step, char path[CHARL__COPIES_PATH]);

/** Remove all copies of the run on this machine. What cannot be removed stays. Local. */
void charl__copies_remove(const char *key);

#endif
