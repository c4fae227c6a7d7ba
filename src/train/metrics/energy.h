#ifndef CHARL_TRAIN_METRICS_ENERGY_H
#define CHARL_TRAIN_METRICS_ENERGY_H
/** The energy that the devices of a run use. Each device is read by the first of the ranks that have it: ranks may share a GPU, and
 *  processors' counters are those of the machine. */
#include "charl/device.h"
#include "charl/status.h"

struct charl__trainer;

typedef struct charl__energy {
    charl_energy_meter meter; /* of this rank's device */
    int devices;              /* different ones, of all ranks */
    bool counts;              /* this rank reads its device */
    bool is_measured;         /* all devices can be read; the same on all ranks */
    double told_j;            /* of `meter`, what total_j has */
    double total_j;           /* of all devices since the beginning */
} charl__energy;

/** Begin. Collective. Errors: ERR_NOMEM, ERR_COMM. */
charl_status charl__energy_begin(struct charl__trainer *t) CHARL_MUST_CHECK;

/** Bring total_j up to date; unless `now`, the device is asked once in a second at most. Collective. Errors: ERR_COMM. */
charl_status charl__energy_sum(struct charl__trainer *t, bool now) CHARL_MUST_CHECK;

#endif
