#ifndef CHARL_TASK_WEIGHTS_WEIGHTS_BASE_H
#define CHARL_TASK_WEIGHTS_WEIGHTS_BASE_H
/** The base of a checkpoint: the initial weights of its run, if it does not contain those that were not trained. */
#include "charl/checkpoint.h"

/** Find what the checkpoint at `path`, open as r, leaves to its base, so that r can read it. `from` is the current location of the base; NULL: [init]
 *  from of the checkpoint's configuration. No-op if the checkpoint contains all weights, or the base has been found. A base
 *  may be a checkpoint with its own base. Blocks. Local.
 *  Errors: ERR_CHECKPOINT  there is no such file, or not with these weights; ERR_CONFIG, ERR_NOMEM.
 *  Cost: the names of the base; its values are read on demand. */
charl_status charl__weights_find_base(charl_checkpoint_reader *r, const char *path, const char *from) CHARL_MUST_CHECK;

/** Open the checkpoint `path` and find its base. Errors: as charl_checkpoint_open and charl__weights_find_base. */
charl_status charl__weights_open(const char *path, const char *from, charl_checkpoint_reader **out) CHARL_MUST_CHECK;

#endif
