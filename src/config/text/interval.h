#ifndef CHARL_CONFIG_TEXT_INTERVAL_H
#define CHARL_CONFIG_TEXT_INTERVAL_H
/** Intervals ("500" steps, "1ep", "30m") and durations ("1-12:00:00", "90s"): text, value and when
 *  one is due. */
#include "config/values.h"

/** A number of tokens: "2B tokens", "300k tok"; k, M, B and T are powers of 1000. False if `text` is none; *out is then unchanged. */
bool charl__tokens_parse(const char *text, int64_t *out);

/** False if `text` is not an interval; *out is then unchanged. "0" and "none" are off. */
bool charl__interval_parse(const char *text, charl__interval *out);

/** Text that parses to the same value, into text[size]; returns text. */
const char *charl__interval_format(charl__interval interval, char *text, size_t size);

/** False if `text` is not a duration of at least a second; *out is then unchanged. "" is 0: none. */
bool charl__duration_parse(const char *text, double *seconds);

/** "[D-]HH:MM:SS", "" for 0, into text[size]; returns text. Fractions are cut off. */
const char *charl__duration_format(double seconds, char *text, size_t size);

enum { CHARL__INTERVAL_AUTO_S = 10 };

/** Whether something is due after step `step` (1 = the first step is done): every `count` steps, or
 *  when the samples of this step complete another `count` epochs, or when `since_s` seconds have
 *  passed since the last time. AUTO: after an epoch, if CHARL__INTERVAL_AUTO_S seconds have passed since. `batch` and `epoch_samples` are positive. */
bool charl__interval_due(charl__interval interval, int64_t step, int64_t batch, int64_t epoch_samples, double since_s);

#endif
