#ifndef CHARL_TRAIN_METER_H
#define CHARL_TRAIN_METER_H
/** What the steps since the last row took: the times of a row, without pauses for validation and
 * checkpoints.
 */
#include <stdint.h>

#include "charl/train.h"

struct charl__trainer;

/* Readings of the clocks that only grow. */
typedef struct charl__meter_times {
    double clock_s, data_s, comm_s, exposed_s;
} charl__meter_times;

typedef struct charl__meter {
    int64_t steps;            /* since the last row: counted by the caller */
    charl__meter_times begin; /* ... when they began, later by the length of pauses */
    charl__meter_times pause; /* when the pause began */
    double first_s;           /* after the first steps: throughput of the run */
    int64_t first_step;
} charl__meter;

/** Begin to count, before the first step. */
void charl__meter_start(const struct charl__trainer *t, charl__meter *m);

/** Around what is no step. */
void charl__meter_pause(const struct charl__trainer *t, charl__meter *m);
void charl__meter_go_on(const struct charl__trainer *t, charl__meter *m);

/** The means over the steps since the last row, into row: rates, times and the estimated end. From
 * here on the next row's are counted. */
void charl__meter_row(const struct charl__trainer *t, charl__meter *m, charl_train_row *row);

#endif
