#ifndef CHARL_TRAIN_SNAPSHOT_H
#define CHARL_TRAIN_SNAPSHOT_H
/** The state of a trainer: what its checkpoints hold (parallel/state.h), and the way back. */
#include "parallel/state.h"
#include "train/replica.h"

/** Copy parameters and, unless `model` asks for these alone, optimizer norms, moving average and state. s has its flags; checksums are made where
 *  there are several ranks. Call charl__state_fini in any case. Blocks. Collective and agreed where ranks divide the optimizer and keep no parts,
 *  else Local. */
charl_status charl__snapshot_copy(const charl__replica *r, bool model, charl__state *s) CHARL_MUST_CHECK;

/** Bytes of all of it in a file; `apart`: without frozen weights that the base has. Local. Errors: ERR_NOMEM. */
charl_status charl__snapshot_bytes(const charl__replica *r, bool apart, int64_t *bytes) CHARL_MUST_CHECK;

/** Whether checkpoints leave frozen weights to the weights that the run started from. Local. */
bool charl__leaves_base(const charl_config *config);

/** Weights, optimizer state and moving average from a checkpoint that is open. Errors:
 *  ERR_CHECKPOINT when it is another model's, or holds more than this one. Blocks. */
charl_status charl__snapshot_restore(charl__replica *r, charl_checkpoint_reader *reader,
                                     const char *path) CHARL_MUST_CHECK;

/** How random numbers are drawn, as checkpoints name it. */
extern const char charl__rng_name[];

enum { CHARL__SHUFFLE_TEXT = 80 };

/** How samples are shuffled, as checkpoints name it: the same name, the same order of the same rows. Returns `text`. */
const char *charl__shuffle_name(charl_shuffle shuffle, const charl_dataset_info *data, char text[CHARL__SHUFFLE_TEXT]);

#endif
