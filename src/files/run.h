#ifndef CHARL_FILES_RUN_H
#define CHARL_FILES_RUN_H
/** The run directory: DIR/checkpoints/step-00000042.h5, DIR/last.h5, DIR/best.h5, DIR/.lock. */
#include "charl/checkpoint.h"
#include "charl/run.h"

typedef struct charl__run charl__run;

/** Acquire the run directory for this process: create it if missing, lock it, check that it is
 *  writable, remove temporaries of dead processes. The lock ends with charl__run_close or with the
 *  process, however it dies.
 *
 *  Blocks (not for the lock). Local: one rank of a job calls it.
 *  Errors: ERR_BUSY  held by another job (names host, process and since when); ERR_DISK  not writable, or .lock is a
 *  link or not a file of its own; ERR_NOMEM */
charl_status charl__run_open(const char *dir, charl__run **out) CHARL_MUST_CHECK;

/** Check that this process still holds the run directory: call it before every write to it. A .lock
 *  that was removed is created again. If .lock belongs to another job, or the run directory was
 *  removed or replaced, it fails, and nothing may be written. Blocks (not for the lock). Local.
 *  Errors: ERR_BUSY, ERR_DISK, ERR_NOMEM. Cost: three stat. */
charl_status charl__run_check(charl__run *run) CHARL_MUST_CHECK;

/** Removes directories that charl__run_open created and in which nothing was written. NULL is a no-op. Local. */
void charl__run_close(charl__run *run);

/** A warning about the lock for the user, or "": file systems without locks cannot exclude a second
 *  job. Borrowed. Local. */
const char *charl__run_get_note(const charl__run *run);

/** DIR/checkpoints/step-%08lld.h5; owned by the caller, free with charl_free. Blocks. Local.
 *  Errors: ERR_NOMEM. */
charl_status charl__run_path(const char *dir, int64_t step, char **out) CHARL_MUST_CHECK;

/** Steps of the checkpoints of a run directory. */
typedef struct charl__run_steps {
    int64_t *steps; /* [count] ascending; NULL: none */
    int64_t count;
} charl__run_steps;

/** The steps whose checkpoints are in DIR/checkpoints, by their names: the contents are not read. A
 *  missing directory has none. list->steps is owned by the caller: free it with charl_free.
 *
 *  Blocks. Local. Errors: ERR_CHECKPOINT  the directory cannot be read; ERR_NOMEM. */
charl_status charl__run_list(const char *dir, charl__run_steps *list) CHARL_MUST_CHECK;

/** The result of charl__run_find. */
typedef struct charl__run_found {
    char *path;    /* NULL: there is no usable checkpoint */
    int64_t step;  /* -1 then */
    char *warning; /* NULL, or one line per newer checkpoint that was refused, with the reason */
    int n_refused;
} charl__run_found;

/** The newest checkpoint of the run that verifies, of those before step `before` (INT64_MAX: all).
 *  No lock needed. An absent directory has none.
 *
 *  Blocks. Local. `found` needs charl__run_found_fini on every path.
 *  Errors: ERR_NOMEM; ERR_CHECKPOINT if the directory exists but cannot be read. A refused file
 *  is not an error: see found->warning; the caller decides whether to continue without it. Cost:
 *  reads one checkpoint, more after damage. */
charl_status charl__run_find(const char *dir, int64_t before, charl__run_found *found) CHARL_MUST_CHECK;
void charl__run_found_fini(charl__run_found *found);

/** Check that `path` is a complete checkpoint of step `step`. Blocks. Local.
 *  Errors: as charl_checkpoint_verify; ERR_CHECKPOINT for another step. Cost: reads the file once.
 */
charl_status charl__run_verify(const char *path, int64_t step) CHARL_MUST_CHECK;

/** Which checkpoints are kept. A step of -1 means none. */
typedef struct charl__run_policy {
    int64_t step;         /* just saved; later ones belong to another history and are not touched */
    int64_t keep_last;    /* at least 2 are kept */
    int64_t keep_every;   /* also every step divisible by this; 0: none */
    int64_t resumed_step; /* never removed */
    int64_t best_step;    /* never removed */
} charl__run_policy;

/** Remove what the policy does not keep, except the checkpoint that DIR/best.h5 names. Call it only after a save
 *  succeeded. *removed may be NULL. Blocks. Local. Errors: ERR_DISK, ERR_NOMEM. */
charl_status charl__run_retain(const char *dir, const charl__run_policy *policy, int *removed) CHARL_MUST_CHECK;

/** Point the symbolic link DIR/`name` ("last.h5", "best.h5") to the checkpoint of `step`,
 *  atomically. A directory means the checkpoint that last.h5 names, and retention keeps the one that best.h5 names; a run resumes without
 *  them. Blocks. Local. Errors: ERR_DISK (also when `name` exists and is not a symbolic link), ERR_NOMEM.
 */
/** The step of a file with exactly the name that charl__run_path gives, or -1. */
int64_t charl__run_step(const char *name);
charl_status charl__run_link(const char *dir, const char *name, int64_t step) CHARL_MUST_CHECK;

/** The step of the checkpoint that the symbolic link DIR/`name` names, whether or not the checkpoint exists; -1 if it
 *  names none. Local. */
int64_t charl__run_linked(const char *dir, const char *name);
#endif
