#ifndef CHARL_REPORT_TRACE_EVENT_H
#define CHARL_REPORT_TRACE_EVENT_H
/** Lines of a trace in the Trace Event Format, as written by train/metrics/trace_file.c: one event each, and a last line about
 *  the whole file. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/text.h"

enum { CHARL__TRACE_MAX_PIDS = 1 << 22 }; /* of a file: more than Linux has */

typedef struct charl__trace_event charl__trace_event;

/** Parse an event, which may be followed by a comma. *out: owned by the caller (close). Errors: ERR_DATA  it is not an event. */
charl_status charl__trace_event_read(const char *line, size_t length, charl__trace_event **out) CHARL_MUST_CHECK;
/** NULL is a no-op. */
void charl__trace_event_close(charl__trace_event *e);

/** At least 0, less than CHARL__TRACE_MAX_PIDS. */
int64_t charl__trace_event_pid(const charl__trace_event *e);
/** Microseconds since the first moment of its file; 0 for an event without a time. */
double charl__trace_event_time(const charl__trace_event *e);
/** Whether it has this name. */
bool charl__trace_event_is(const charl__trace_event *e, const char *name);

/** Change process and time, and put `run` before the name of a process unless it is empty. Errors: ERR_NOMEM. */
charl_status charl__trace_event_move(charl__trace_event *e, int64_t pid, double us, const char *run) CHARL_MUST_CHECK;
/** Append the event, without a comma or a line end. Times keep nanoseconds for eleven days. Errors: ERR_NOMEM. */
charl_status charl__trace_event_print(const charl__trace_event *e, charl__text *out) CHARL_MUST_CHECK;

/** Parse the last line: *zero_s, seconds since 1970 of the first moment, and *run, "" if it names none: owned by the caller (charl_free).
 *  Errors: ERR_DATA  it is not the last line; ERR_NOMEM. */
charl_status charl__trace_end_read(const char *line, size_t length, double *zero_s, char **run) CHARL_MUST_CHECK;

#endif
