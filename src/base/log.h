#ifndef CHARL_BASE_LOG_H
#define CHARL_BASE_LOG_H
/** Messages for people that are not failures: what was chosen, what is slow, what was ignored.
 *
 *  The library prints nothing. A message goes to the sink that cli installs; without one it is
 * dropped before it is formatted. Messages are handed over one at a time, so a sink needs no lock;
 * it must not log itself. Thread-safe.
 */
#include <stdbool.h>

#include "charl/status.h"

typedef enum charl__log_level {
    CHARL__LOG_ERROR,
    CHARL__LOG_WARN,
    CHARL__LOG_INFO,
    CHARL__LOG_DEBUG,
    CHARL__LOG_COUNT
} charl__log_level;

typedef void (*charl__log_sink)(void *ctx, charl__log_level level, const char *message);

/** Install the sink; NULL drops everything (the default). `ctx` is borrowed until the next call. */
void charl__log_sink_set(charl__log_sink sink, void *ctx);

/** Most talkative level that passes. Default: CHARL_LOG, else warn. */
void charl__log_level_set(charl__log_level level);

/** "error" ...; "?" outside the enum. */
const char *charl__log_level_name(charl__log_level level);

/** Level called `name`. False when there is none; *out is then unchanged. */
bool charl__log_level_find(const char *name, charl__log_level *out);

/** Whether a message of this level would reach a sink: ask before costly preparations. */
bool charl__log_enabled(charl__log_level level);

/** Longer messages are cut at 2047 bytes. */
void charl__log(charl__log_level level, const char *fmt, ...) CHARL_PRINTF(2, 3);

#endif
