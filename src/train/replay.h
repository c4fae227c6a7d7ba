#ifndef CHARL_TRAIN_REPLAY_H
#define CHARL_TRAIN_REPLAY_H
/** What a comparison of runs needs of their replays (charl/replay.h). */
#include "charl/replay.h"

/** The configuration that step `step` of the run in directory `run` was trained with, as charl_replay finds it. Owned by the caller, NULL on
 *  failure. Blocks. Local. Errors: ERR_CHECKPOINT  it is no run directory; ERR_CONFIG  written by another version; ERR_NOMEM. */
charl_status charl__replay_config(const char *run, int64_t step, charl_config **out) CHARL_MUST_CHECK;

#endif
