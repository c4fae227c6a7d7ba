#ifndef CHARL_TRAIN_METRICS_STEP_TRACE_H
#define CHARL_TRAIN_METRICS_STEP_TRACE_H
/** A window of steps that is traced: when it begins and ends, and what is made of it, a time line of all ranks (trace_file.h) or a profile.
 *
 *  Tracing changes no result. Outside of the window it costs nothing but the timestamps that the device takes for every command.
 */
#include "base/trace.h"
#include "parallel/phase.h"
#include "train/metrics/throughput.h"

struct charl__trainer;

/** This rank's clock minus that of rank 0, at one time of this rank's. */
typedef struct charl__clock_offset {
    double host_s, offset_s, error_s;
} charl__clock_offset;

typedef struct charl__step_trace {
    int64_t first, last; /* 0: nothing is traced */
    bool is_on;
    charl__clock_offset begin;
    const char *phase; /* the host is in; NULL: none */
    bool is_aside;     /* ... for no step */
    double phase_begun, step_begun, begun;
    double aside_s, step_s; /* for no step in the window; of a step, when the window is over */
} charl__step_trace;

/** Check the window that options name. Local. Errors: ERR_CONFIG. */
charl_status charl__step_trace_check(const struct charl__trainer *t) CHARL_MUST_CHECK;
/** Choose the window, when the step to start from is known. Local. */
void charl__step_trace_plan(struct charl__trainer *t);

/** Around a step. Collective at the ends of the window. Errors: ERR_DEVICE, ERR_COMM, ERR_NOMEM. A file that cannot be written is a
 *  warning. */
charl_status charl__step_trace_begin(struct charl__trainer *t, charl__throughput *m) CHARL_MUST_CHECK;
charl_status charl__step_trace_end(struct charl__trainer *t, charl__throughput *m) CHARL_MUST_CHECK;
/** The run stops inside of the window: what there is. Collective. */
charl_status charl__step_trace_close(struct charl__trainer *t, charl__throughput *m) CHARL_MUST_CHECK;
/** The host begins something else; NULL: nothing in particular. `is_aside`: it belongs to no step. */
void charl__step_trace_phase(struct charl__trainer *t, const char *phase, bool is_aside);

/** The profile of these steps, to the event of rank 0. Collective; agreed. Errors: ERR_DEVICE, ERR_NOMEM. */
charl_status charl__profile_report(struct charl__trainer *t) CHARL_MUST_CHECK;

#endif
