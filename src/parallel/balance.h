#ifndef CHARL_PARALLEL_BALANCE_H
#define CHARL_PARALLEL_BALANCE_H
/** charl_data_parallel_options.balance: slices go to ranks in proportion to their measured speed.
 *
 *  Some steps are measured: the time of the rank's own graphs, without anything that waits for
 *  others. Then the ranks tell each other, and all come to the same division (parallel/apportion.h).
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/numeric/tree.h"
#include "charl/data_parallel.h"

enum { CHARL__BALANCE_SAMPLES = 5 };

typedef struct charl__balance {
    bool on;
    double slowness;                       /* CHARL_SLOW: the factor of this rank, 1 for none */
    int64_t skip;                          /* steps that are not measured any more */
    int64_t settle;                        /* of them after the next division */
    int n;                                 /* steps measured */
    double sample[CHARL__BALANCE_SAMPLES]; /* s */
    double begin_s, waited_s;
    bool divides;                  /* count is not what the ranks have yet */
    int count[CHARL_MAX_SLICES];   /* slices of every rank, by the last decision */
    double cost[CHARL_MAX_SLICES]; /* s that one of them takes; 0: not known yet */
    double ms[CHARL_MAX_SLICES];   /* that the passes of a step took on every rank, before the last decision */
} charl__balance;

/** Local. Errors: ERR_CONFIG for a malformed CHARL_SLOW. */
charl_status charl__balance_init(charl_data_parallel *dp, bool on) CHARL_MUST_CHECK;
/** Count the slices of every rank. Collective; agreed. Errors: ERR_INVALID  they do not follow one another. */
charl_status charl__balance_count(charl_data_parallel *dp) CHARL_MUST_CHECK;

/** Around the passes of a step. They wait for the device when the step is measured, and
 *  do nothing otherwise. */
charl_status charl__balance_begin(charl_data_parallel *dp) CHARL_MUST_CHECK;
charl_status charl__balance_end(charl_data_parallel *dp) CHARL_MUST_CHECK;

/** Enough steps have been measured: the same answer on every rank. */
bool charl__balance_is_due(const charl_data_parallel *dp);

#endif
