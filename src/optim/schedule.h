#ifndef CHARL_OPTIM_SCHEDULE_H
#define CHARL_OPTIM_SCHEDULE_H
/** The registry of learning-rate schedules. */
#include "charl/optim.h"

typedef struct charl__schedule_type {
    charl_row row;                                       /* the settings are a charl_schedule */
    double (*lr)(const charl_schedule *s, int64_t step); /* after the warm-up */
} charl__schedule_type;

/** Schedule i = 0, 1, ...; NULL past the last. By name; NULL if unknown. */
const charl__schedule_type *charl__schedule_at(int i);
const charl__schedule_type *charl__schedule_find(const char *name);

#endif
