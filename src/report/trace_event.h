#ifndef CHARL_REPORT_TRACE_EVENT_H
#define CHARL_REPORT_TRACE_EVENT_H
/** Lines of a time line in the Trace Event Format, as train/metrics/trace_file.c writes them: one event each, and a last one of what is said of
 *  the whole file. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/text.h"

enum { CHARL__TRACE_MAX_PIDS = 1 << 22 }; /* of a file: more than Linux has */

typedef struct charl__trace_event charl__trace_event;

/** An event, behind which a comma may stand. *out: owned by the caller (close). Errors: ERR_DATA  it is none. */
charl_status charl__trace_event_read(const char *line, size_t length, charl__trace_event **out) CHARL_MUST_CHECK;
/** NULL is a no-op. */
void charl__trace_event_close(charl__trace_event *e);

/** At least 0, less than CHARL__TRACE_MAX_PIDS. */
int64_t charl__trace_event_pid(const charl__trace_event *e);
/** Microseconds since the first moment of its file; 0 for what has no time. */
double charl__trace_event_time(const charl__trace_event *e);
/** Whether its name is this one. */
bool charl__trace_event_is(const charl__trace_event *e, const char *name);

/** Another process and time, and `run` before the name of a process unless it is empty. Errors: ERR_NOMEM. */
charl_status charl__trace_event_move(charl__trace_event *e, int64_t pid, double us, const char *run) CHARL_MUST_CHECK;
/** Append the event, without a comma or a line end. Times keep nanoseconds for eleven days. Errors: ERR_NOMEM. */
charl_status charl__trace_event_print(const charl__trace_event *e, charl__text *out) CHARL_MUST_CHECK;

/** The last line: *zero_s, seconds since 1970 of the first moment, and *run, "" if it names none: owned by the caller (charl_free).
 *  Errors: ERR_DATA  it is none; ERR_NOMEM. */
charl_status charl__trace_end_read(const char *line, size_t length, double *zero_s, char **run) CHARL_MUST_CHECK;

#endif
