#ifndef CHARL_TRAIN_REPLAY_H
#define CHARL_TRAIN_REPLAY_H
/** What a comparison of runs needs of their replays (charl/replay.h). */
#include "charl/replay.h"
#include "task/session.h"

enum { CHARL__REPLAY_LAST_START = -1 };

/** The configuration that step `step` of the run in directory `run` was trained with, as charl_replay finds it, or with CHARL__REPLAY_LAST_START
 *  that of its config.ini; with n overrides. Owned by the caller, NULL on failure. Blocks. Local.
 *  Errors: ERR_CHECKPOINT  it is no run directory; ERR_CONFIG  written by another version; ERR_NOMEM. */
charl_status charl__replay_config(const char *run, int64_t step, const charl_config_override *overrides,
                                  int n_overrides, charl_config **out) CHARL_MUST_CHECK;

/** What charl__replay_variant does otherwise than charl_replay. */
typedef struct charl__replay_variant {
    /* options->overrides may change the training: nothing is compared with run.lock, and options->checkpoint is one that the run never had */
    bool changes;
    bool evaluates; /* where the run did; the best checkpoint and early stopping are then those of the replay */
    const char *
        folder; /* NULL, or write the checkpoint of every step of options->only to this run directory, with what options->checkpoint does */
} charl__replay_variant;

/** charl_replay that writes other checkpoints. Errors: as charl_replay. */
charl_status charl__replay_variant_of(const char *run, const charl_replay_options *options,
                                      const charl__replay_variant *variant) CHARL_MUST_CHECK;

/** Open the training data of a recorded run, `s->config`. An error says how to name another place of the data.
 *  Errors: as charl__session_open_data. */
charl_status charl__replay_open_data(charl__session *s) CHARL_MUST_CHECK;

#endif
