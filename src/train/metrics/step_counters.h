#ifndef CHARL_TRAIN_METRICS_STEP_COUNTERS_H
#define CHARL_TRAIN_METRICS_STEP_COUNTERS_H
/** What an ordinary step asks of the host and of the device.
 *
 *  Ordinary is a step that is not logged and is followed by no validation, checkpoint or division,
 *  from the fourth on, when every ring and pool has been round. In such a step the thread that
 *  trains allocates nothing, builds nothing and, on one rank, waits for nothing but the end of
 *  steps so far back that the device has enough to do. The counts are logged at level info.
 */
#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"

struct charl__trainer;

typedef struct charl__step_counters {
    charl__device_counters begin, sum;
    long allocated_begin, allocated;
    double begin_s, s;
    int64_t seen, steps;
} charl__step_counters;

/** Around a step. */
void charl__step_counters_begin(const struct charl__trainer *t, charl__step_counters *y);
void charl__step_counters_end(const struct charl__trainer *t, charl__step_counters *y, bool ordinary);
/** Log the means of all ordinary steps; nothing where there were none. */
void charl__step_counters_report(const charl__step_counters *y);

#endif
