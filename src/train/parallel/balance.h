#ifndef CHARL_TRAIN_PARALLEL_BALANCE_H
#define CHARL_TRAIN_PARALLEL_BALANCE_H
/** dist.balance = speed: slices go to ranks in proportion to the speed they are measured at.
 *
 *  Some steps are measured: the time of the rank's own graphs, without anything that waits for
 *  others. Then the ranks tell each other, all come to the same division (train/parallel/apportion.h), and
 *  where it shortens the step enough it takes the place of the one there is, between two steps.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/numeric/tree.h"

enum { CHARL__BALANCE_SAMPLES = 5 };

typedef struct charl__balance {
    bool on;
    double slowness;                       /* CHARL_SLOW: the factor of this rank, 1 for none */
    int64_t skip;                          /* steps that are not measured any more */
    int64_t settle;                        /* of them after the next division */
    int n;                                 /* steps measured */
    double sample[CHARL__BALANCE_SAMPLES]; /* s */
    double begin_s, waited_s;
    int count[CHARL_MAX_SLICES];   /* slices of every rank */
    double cost[CHARL_MAX_SLICES]; /* s that one of them takes; 0: not known yet */
} charl__balance;

struct charl__trainer;

/** After the slices are taken, evenly. Local. Errors: ERR_CONFIG for a malformed CHARL_SLOW. */
charl_status charl__balance_init(struct charl__trainer *t) CHARL_MUST_CHECK;

/** Around the graphs of a training step. They wait for the device when the step is measured, and
 *  do nothing otherwise. */
charl_status charl__balance_begin(struct charl__trainer *t) CHARL_MUST_CHECK;
charl_status charl__balance_end(struct charl__trainer *t) CHARL_MUST_CHECK;

/** Enough steps have been measured: the same answer on every rank. */
bool charl__balance_is_due(const struct charl__trainer *t);
/** Divide the batch anew if that pays. The device has finished its steps, and nothing of the last
 *  one is still to be read. Collective; agreed. */
charl_status charl__balance_divide(struct charl__trainer *t) CHARL_MUST_CHECK;

#endif
