/* One callback, protected by a mutex; the level is atomic, so a filtered message costs one load. */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/env.h"

enum { MESSAGE_BYTES = 2048, LEVEL_UNSET = -1 };

static const char *const level_names[CHARL_LOG_LEVEL_COUNT] = {"error", "warn", "info", "debug"};

static pthread_mutex_t callback_lock = PTHREAD_MUTEX_INITIALIZER;
static charl_log_fn callback; /* NULL: the default */
static void *callback_ctx;
static atomic_bool has_callback;
static atomic_int max_level = LEVEL_UNSET;

const char *charl_log_level_name(charl_log_level level)
{
    return (unsigned)level < CHARL_LOG_LEVEL_COUNT ? level_names[level] : "?";
}

bool charl__log_level_find(const char *name, charl_log_level *out)
{
    if (!name) {
        return false;
    }
    for (int i = 0; i < CHARL_LOG_LEVEL_COUNT; i++) {
        if (strcmp(name, level_names[i]) == 0) {
            *out = (charl_log_level)i;
            return true;
        }
    }
    return false;
}

void charl_log_set_callback(charl_log_fn fn, void *ctx)
{
    pthread_mutex_lock(&callback_lock);
    callback = fn;
    callback_ctx = ctx;
    atomic_store(&has_callback, fn != NULL);
    pthread_mutex_unlock(&callback_lock);
}

void charl_log_set_level(charl_log_level level)
{
    atomic_store(&max_level, (int)level);
}

static int level_now(void)
{
    int level = atomic_load(&max_level);

    if (level == LEVEL_UNSET) {
        const char *name = charl__env(CHARL_ENV_LOG);
        charl_log_level found = CHARL_LOG_WARN;

        if (name) {
            (void)charl__log_level_find(name, &found); /* charl_environment_check reports an invalid one */
        }
        /* A level that another thread has set in the meantime wins. */
        if (atomic_compare_exchange_strong(&max_level, &level, (int)found)) {
            level = (int)found;
        }
    }
    return level;
}

charl_log_level charl_log_get_level(void)
{
    return (charl_log_level)level_now();
}

bool charl__log_enabled(charl_log_level level)
{
    return (atomic_load(&has_callback) || charl__env(CHARL_ENV_LOG)) && (int)level <= level_now();
}

void charl__log(charl_log_level level, const char *fmt, ...)
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
    pthread_mutex_lock(&callback_lock);
    if (callback) {
        callback(callback_ctx, level, text);
    } else if (charl__env(CHARL_ENV_LOG)) {
        fprintf(stderr, "charl: %s: %s\n", charl_log_level_name(level), text);
    }
    pthread_mutex_unlock(&callback_lock);
}
