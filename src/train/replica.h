#ifndef CHARL_TRAIN_REPLICA_H
#define CHARL_TRAIN_REPLICA_H
/** A rank's part of the batch: everything of a trainer that is made for the slices it has, in the
 * order of these functions. Between them the ranks agree on statuses. */
#include "train/trainer.h"

/** Take slices [first, first + count) of the batch. Local. Errors: ERR_CONFIG, ERR_INVALID. */
charl_status charl__replica_take(charl__trainer *t, int first, int count) CHARL_MUST_CHECK;
/** Feeds and graphs, not compiled; there is a model and a device. Local. Errors: ERR_CONFIG,
 * ERR_NOMEM, ... */
charl_status charl__replica_build(charl__trainer *t) CHARL_MUST_CHECK;
/** Settle on passes, and connect the gradients. Collective; agreed. */
charl_status charl__replica_connect(charl__trainer *t) CHARL_MUST_CHECK;
/** Least elements of a bucket of gradients. Local. */
int64_t charl__replica_bucket(const charl__trainer *t);
/** Compile the graphs and run their launches once. Local. */
charl_status charl__replica_compile(charl__trainer *t) CHARL_MUST_CHECK;
/** Compare over ranks what was compiled. Collective; agreed. */
charl_status charl__replica_check(charl__trainer *t) CHARL_MUST_CHECK;
/** The graphs go. Local. */
void charl__replica_discard(charl__trainer *t);

/** Go on with other slices: discards and builds all of this again between two steps. Weights,
 * optimizer state and cursor stay, and so does every bit of the rest of the run; what the last step
 * left in its graphs does not. Collective; agreed. Errors: as the functions above. */
charl_status charl__replica_exchange(charl__trainer *t, int first, int count) CHARL_MUST_CHECK;

#endif
