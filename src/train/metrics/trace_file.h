#ifndef CHARL_TRAIN_METRICS_TRACE_FILE_H
#define CHARL_TRAIN_METRICS_TRACE_FILE_H
/** A time line as a file of Chrome's trace event format, which Perfetto and chrome://tracing read:
 *
 *      {"traceEvents":[EVENT,...],"displayTimeUnit":"ms","otherData":{...}}
 *
 *  Every rank is a process, every lane a thread; complete events ("X") have microseconds. What overlaps in a lane gets further threads, as
 *  events of one thread nest. Format: "Trace Event Format", Chromium project, 2016.
 */
#include "base/text/text.h"
#include "base/trace.h"
#include "charl/comm.h"

/** Times of spans are moved by this: host time h becomes h - offset_s - drift * (h - host_s) - zero_s. */
typedef struct charl__trace_clock {
    double host_s, offset_s, drift, zero_s;
} charl__trace_clock;

/** Append the events of one rank, with a comma after each. */
charl_status charl__trace_print(const charl__trace *t, const charl__trace_clock *clock, int rank, const char *process,
                                charl__text *out) CHARL_MUST_CHECK;

/** How long gradients were on their way, and how long of it the device computed, in seconds: the unions of the spans of the lanes
 *  all-reduce and communicate, and their intersection with that of the lane compute. Errors: ERR_NOMEM. */
charl_status charl__trace_overlap(const charl__trace *t, double *way_s, double *hidden_s) CHARL_MUST_CHECK;

/** Put the events of all ranks, each with a comma after it, into one file. `other`: the object otherData. On rank 0 *written: CHARL_OK or why
 *  the file could not be written, with the thread's message. Collective. Errors: ERR_COMM, ERR_NOMEM. */
charl_status charl__trace_gather(charl_comm *comm, const charl__text *mine, const char *path, const char *other,
                                 charl_status *written) CHARL_MUST_CHECK;

#endif
