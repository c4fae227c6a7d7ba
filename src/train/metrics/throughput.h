#ifndef CHARL_TRAIN_METRICS_THROUGHPUT_H
#define CHARL_TRAIN_METRICS_THROUGHPUT_H
/** What the steps since the last row took: the times of a row, without pauses for validation and
 *  checkpoints.
 */
#include <stdint.h>

#include "charl/train.h"

struct charl__trainer;

/* Readings of the clocks that only grow. */
typedef struct charl__throughput_times {
    double clock_s, data_s, comm_s, exposed_s;
} charl__throughput_times;

typedef struct charl__throughput {
    int64_t steps;                 /* since the last row: counted by the caller */
    charl__throughput_times begin; /* ... when they began, later by the length of pauses */
    charl__throughput_times pause; /* when the pause began */
    double first_s;                /* after the first steps: throughput of the run */
    int64_t first_step;
} charl__throughput;

/** Begin to count, before the first step. */
void charl__throughput_start(const struct charl__trainer *t, charl__throughput *m);

/** Around what is no step. */
void charl__throughput_pause(const struct charl__trainer *t, charl__throughput *m);
void charl__throughput_resume(const struct charl__trainer *t, charl__throughput *m);

/** The means over the steps since the last row, into row: rates, times and the estimated end. From
 *  here on the next row's are counted. */
void charl__throughput_row(const struct charl__trainer *t, charl__throughput *m, charl_train_row *row);

#endif
