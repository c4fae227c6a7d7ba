#ifndef CHARL_BASE_CLOCK_H
#define CHARL_BASE_CLOCK_H
/** Time in seconds. Thread-safe. */
#include <stdbool.h>

/** Seconds since an arbitrary fixed moment; never decreases. For durations and deadlines. Jumps where all members nap, below. */
double charl__clock_s(void);

/** Seconds since 1970-01-01 UTC. For display and for files. */
double charl__clock_wall_s(void);

enum { CHARL__CLOCK_TEXT = 32 };

/** "2026-11-21T10:03:13Z" into text[CHARL__CLOCK_TEXT]; returns text. Fractions are cut off; a time
 *  outside the calendar gives "?". */
const char *charl__clock_format(double wall_s, char *text);

/** Sleep at least `seconds`, even if signals arrive; does nothing unless the value is positive. */
void charl__sleep_s(double seconds);

/** Simulated time, of ranks that are threads (charl_team_create). They are members of the clock, and wait for each other
 *  in naps. When all members nap, only time can wake one, so the clock jumps to the end of the nap that ends first: 60
 *  seconds of silence pass in milliseconds. While a member computes or waits for anything else, the clock runs as
 *  always, so a slow machine uses up no deadline faster than it would without jumps.
 *
 *  Add `count` members, or remove -count. */
void charl__clock_add_members(int count);

/** Whether the calling thread is one of them. */
void charl__clock_set_member(bool is_one);

/** Sleep `real_s`, or less if the clock jumps to `simulated_s` from now. For threads that are no members: charl__sleep_s(real_s). */
void charl__clock_nap_s(double real_s, double simulated_s);

#endif
