#ifndef CHARL_TRAIN_RANK_CHECK_H
#define CHARL_TRAIN_RANK_CHECK_H
/** What the ranks of a run compare before they compute together, so that a stale copy, a forgotten
 * option or another version on one node is refused by name instead of trained with.
 * docs/distributed.md lists the same. Each takes the caller's status so far, which is agreed too;
 * each is collective and agreed. */
#include "dist/consensus.h"
#include "train/replica.h"

/** Options, configuration, environment and kernel sources: before anything is opened.
 * Errors: ERR_CONFIG naming the ranks, the key and the values; those of charl_comm_agree. */
charl_status charl__rank_check_settings(charl__replica *r, charl_status mine) CHARL_MUST_CHECK;

/** The data that were opened: contents, split, classes, names and statistics. Before kernels are
 * compiled. Errors: ERR_DATA; those of charl_comm_agree. */
charl_status charl__rank_check_data(charl__replica *r, charl_status mine) CHARL_MUST_CHECK;

/** What facts about the state have in common: `path` is the file that it was loaded from, NULL: initial
 *  weights. Local. */
charl__fact charl__rank_check_form(const char *path);

/** The state after a load or a fresh start: `more` (a trainer's counters and the checksums of a
 *  checkpoint, or NULL), the schema, and the parameters on the device. `path` is as above. Blocks. Errors: ERR_CHECKPOINT, or ERR_NONFINITE without a file; those of
 *  charl_comm_agree. Cost: reads the parameters from the device. */
charl_status charl__rank_check_state(charl__replica *r, charl__consensus *more, const char *path,
                                     charl_status mine) CHARL_MUST_CHECK;

#endif
