#ifndef CHARL_LOG_H
#define CHARL_LOG_H
/** Messages that are not failures: what was chosen, what is slow, what was ignored.
 *
 *  Without a callback they are dropped, unless the environment variable CHARL_LOG names a level: then they are
 *  written to stderr. A program that wants them installs a callback:
 *
 *      static void on_log(void *ctx, charl_log_level level, const char *message)
 *      {
 *          fprintf(ctx, "%s: %s\n", charl_log_level_name(level), message);
 *      }
 *
 *      charl_log_set_callback(on_log, stderr);
 *      charl_log_set_level(CHARL_LOG_INFO);
 *
 *  The callback gets one message at a time, from whichever thread logs it, so it needs no lock; it must not
 *  call charl. Failures are not logged: they are statuses (charl/status.h). Thread-safe.
 */
#include <stdbool.h>

#include "charl/status.h"

CHARL_BEGIN_DECLS

typedef enum charl_log_level {
    CHARL_LOG_ERROR,
    CHARL_LOG_WARN,
    CHARL_LOG_INFO,
    CHARL_LOG_DEBUG,
    CHARL_LOG_LEVEL_COUNT
} charl_log_level;

/** `message` is borrowed for the call: one line or several, without a newline at the end, at most 2047 bytes. */
typedef void (*charl_log_fn)(void *ctx, charl_log_level level, const char *message);

/** Call `fn` for every message that passes the level. NULL: back to the default, CHARL_LOG or nothing. `ctx` is
 *  borrowed until the next call. Returns when no message is on its way to the callback before. Local. */
void charl_log_set_callback(charl_log_fn fn, void *ctx);

/** Most verbose level that passes. Default: CHARL_LOG, else CHARL_LOG_WARN. Local. */
void charl_log_set_level(charl_log_level level);
charl_log_level charl_log_get_level(void);

/** "error" ...; "?" outside the enum. Static. Local. */
const char *charl_log_level_name(charl_log_level level);

CHARL_END_DECLS

#endif
