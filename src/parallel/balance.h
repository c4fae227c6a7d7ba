#ifndef CHARL_PARALLEL_BALANCE_H
#define CHARL_PARALLEL_BALANCE_H
/** charl_data_parallel_options.balance: divides slices among ranks in proportion to their measured speed.
 *
 *  Some steps are measured: the time of the rank's own graphs, without waiting for
 *  others. Then the ranks exchange the times, and all compute the same division (parallel/apportion.h).
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/numeric/tree.h"
#include "charl/data_parallel.h"

enum { CHARL__BALANCE_SAMPLES = 5 };

typedef struct charl__balance {
    bool on;
    double slowness;                       /* CHARL_SLOW: the factor of this rank, 1 for none */
    int64_t skip;                          /* steps without measurement that are left */
    int64_t next_skip;                     /* the same after the next division */
    int n;                                 /* steps measured */
    double sample[CHARL__BALANCE_SAMPLES]; /* s */
    double begin_s, waited_s;
    bool divides;                  /* the ranks do not have `count` yet */
    int count[CHARL_MAX_SLICES];   /* slices of every rank, by the last decision */
    double cost[CHARL_MAX_SLICES]; /* s per slice; 0: unknown so far */
    double ms[CHARL_MAX_SLICES];   /* time of the passes of a step on every rank, before the last decision */
} charl__balance;

/** Local. Errors: ERR_CONFIG for a malformed CHARL_SLOW. */
charl_status charl__balance_init(charl_data_parallel *dp, bool on) CHARL_MUST_CHECK;
/** Count the slices of every rank. Collective; agreed. Errors: ERR_INVALID  they are not consecutive. */
charl_status charl__balance_count(charl_data_parallel *dp) CHARL_MUST_CHECK;

/** Call around the passes of a step. They wait for the device if the step is measured, and
 *  do nothing otherwise. */
charl_status charl__balance_begin(charl_data_parallel *dp) CHARL_MUST_CHECK;
charl_status charl__balance_end(charl_data_parallel *dp) CHARL_MUST_CHECK;

/** Whether enough steps have been measured: the same result on every rank. */
bool charl__balance_is_due(const charl_data_parallel *dp);

#endif
