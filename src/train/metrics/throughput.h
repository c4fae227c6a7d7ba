#ifndef CHARL_TRAIN_METRICS_THROUGHPUT_H
#define CHARL_TRAIN_METRICS_THROUGHPUT_H
/** What the steps since the last row took: the times of a row, without pauses for validation and
 *  checkpoints.
 *
 *  The host runs steps ahead of the device, and may look at a row late. So a step ends when the device has completed it, by the device's
 *  clock: the time of its row's event (charl__event_time), put onto the host's clock.
 */
#include <stdint.h>

#include "charl/train.h"

struct charl__trainer;
struct charl__event;

/* Readings of the clocks that only grow. */
typedef struct charl__throughput_times {
    double clock_s, data_s, comm_s, exposed_s;
} charl__throughput_times;

typedef struct charl__throughput {
    int64_t steps;                  /* since the last row: counted by the caller */
    charl__throughput_times begin;  /* at the end of the step of the last row; clock_s by the device */
    charl__throughput_times paused; /* since then */
    charl__throughput_times pause;  /* when the last pause began ... */
    charl__throughput_times last;   /* ... and how long it was */
    double device_s;                /* begin.clock_s on the device's clock; 0: not known */
    double first_s;                 /* after the first steps: throughput of the run */
    int64_t first_step;
} charl__throughput;

/** Begin to count, before the first step. */
void charl__throughput_start(const struct charl__trainer *t, charl__throughput *m);

/** Around what is no step. */
void charl__throughput_pause(const struct charl__trainer *t, charl__throughput *m);
void charl__throughput_resume(const struct charl__trainer *t, charl__throughput *m);

/** The means over the steps since the last row, into row: rates, times and the estimated end. The last of them ended with `done`, which has
 *  been waited for. From here on the next row's are counted. */
void charl__throughput_row(const struct charl__trainer *t, charl__throughput *m, const struct charl__event *done,
                           charl_train_row *row);

#endif
