#ifndef CHARL_BASE_LOG_H
#define CHARL_BASE_LOG_H
/** How the library logs; charl/log.h is how a program receives it. Thread-safe. */
#include "charl/log.h"

/** Whether a message of this level would be received: check before expensive preparations. */
bool charl__log_enabled(charl_log_level level);

/** Longer messages are cut at 2047 bytes. */
void charl__log(charl_log_level level, const char *fmt, ...) CHARL_PRINTF(2, 3);

/** The level called `name`. False if there is none; *out is then unchanged. Local. */
bool charl__log_level_find(const char *name, charl_log_level *out);

#endif
