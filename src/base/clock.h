#ifndef CHARL_BASE_CLOCK_H
#define CHARL_BASE_CLOCK_H
/** Time in seconds. Thread-safe. */

/** Seconds since an arbitrary fixed moment; never decreases. For durations and deadlines. */
double charl__clock_s(void);

/** Seconds since 1970-01-01 UTC. For display and for files. */
double charl__clock_wall_s(void);

enum { CHARL__CLOCK_TEXT = 32 };

/** "2026-11-21T10:03:13Z" into text[CHARL__CLOCK_TEXT]; returns text. Fractions are cut off; a time
 *  outside the calendar gives "?". */
const char *charl__clock_format(double wall_s, char *text);

/** Sleep at least `seconds`, even if signals arrive; does nothing unless the value is positive. */
void charl__sleep_s(double seconds);

#endif
