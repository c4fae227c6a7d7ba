/* One sink behind a mutex; the level is an atomic, so a message that nobody wants costs one load.
 */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/env.h"

enum { MESSAGE_BYTES = 2048, LEVEL_UNSET = -1 };

static const char *const level_names[CHARL__LOG_COUNT] = {"error", "warn", "info", "debug"};

static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER;
static charl__log_sink sink;
static void *sink_ctx;
static atomic_bool has_sink;
static atomic_int max_level = LEVEL_UNSET;

const char *charl__log_level_name(charl__log_level level)
{
    return (unsigned)level < CHARL__LOG_COUNT ? level_names[level] : "?";
}

bool charl__log_level_find(const char *name, charl__log_level *out)
{
    for (int i = 0; i < CHARL__LOG_COUNT; i++) {
        if (strcmp(name, level_names[i]) == 0) {
            *out = (charl__log_level)i;
            return true;
        }
    }
    return false;
}

void charl__log_sink_set(charl__log_sink new_sink, void *ctx)
{
    pthread_mutex_lock(&sink_lock);
    sink = new_sink;
    sink_ctx = ctx;
    atomic_store(&has_sink, new_sink != NULL);
    pthread_mutex_unlock(&sink_lock);
}

void charl__log_level_set(charl__log_level level)
{
    atomic_store(&max_level, (int)level);
}

static int level_now(void)
{
    int level = atomic_load(&max_level);

    if (level == LEVEL_UNSET) {
        const char *name = charl__env(CHARL_ENV_LOG);
        charl__log_level found = CHARL__LOG_WARN;

        if (name) {
            (void)charl__log_level_find(name, &found); /* charl__env_check reports a bad one */
        }
        /* A level set meanwhile by another thread wins. */
        if (atomic_compare_exchange_strong(&max_level, &level, (int)found)) {
            level = (int)found;
        }
    }
    return level;
}

bool charl__log_enabled(charl__log_level level)
{
    return atomic_load(&has_sink) && (int)level <= level_now();
}

void charl__log(charl__log_level level, const char *fmt, ...)
{
    char text[MESSAGE_BYTES];
    va_list ap;

    if (!charl__log_enabled(level)) {
        return;
    }
    va_start(ap, fmt);
    if (vsnprintf(text, sizeof text, fmt, ap) < 0) {
        snprintf(text, sizeof text, "(a message that could not be formatted)");
    }
    va_end(ap);
    pthread_mutex_lock(&sink_lock);
    if (sink) {
        sink(sink_ctx, level, text);
    }
    pthread_mutex_unlock(&sink_lock);
}
