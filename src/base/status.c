/* Statuses and the thread-local record of the last failure.
 *
 * Message and call path are kept separately: users want the first, developers both. Fixed buffers:
 * reporting that memory ran out must not need memory.
 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "charl/version.h"

enum { MESSAGE_BYTES = 2048, PATH_BYTES = 1024 };

static _Thread_local char last_message[MESSAGE_BYTES];
static _Thread_local char last_path[PATH_BYTES];
static _Thread_local uint64_t last_number;

const char *charl_version(void)
{
    return CHARL_VERSION;
}

charl_status charl_version_check_headers(int major, int minor, int patch)
{
    CHARL_REQUIRE(
        major == CHARL_VERSION_MAJOR &&
            (CHARL_VERSION_MAJOR == 0 ? minor == CHARL_VERSION_MINOR : minor <= CHARL_VERSION_MINOR),
        CHARL_ERR_INVALID,
        "this program was compiled with the headers of charl %d.%d.%d, but the library that it has loaded is charl %s: "
        "compile it again, or install version %d.%d",
        major, minor, patch, CHARL_VERSION, major, minor);
    return CHARL_OK;
}

const char *charl_status_name(charl_status st)
{
    static const char *const names[] = {
#define X(id, text) #id,
        CHARL_STATUS_LIST(X)
#undef X
    };
    return (unsigned)st < CHARL_STATUS_COUNT ? names[st] : "ERR_UNKNOWN";
}

const char *charl_status_text(charl_status st)
{
    static const char *const texts[] = {
#define X(id, text) text,
        CHARL_STATUS_LIST(X)
#undef X
    };
    return (unsigned)st < CHARL_STATUS_COUNT ? texts[st] : "unknown status";
}

const char *charl_error_message(void)
{
    return last_message;
}

const char *charl_error_path(void)
{
    return last_path;
}

void charl_error_clear(void)
{
    last_message[0] = '\0';
    last_path[0] = '\0';
}

void charl_error_trace(const char *file, int line, const char *func)
{
    const char *slash = strrchr(file, '/');
    const size_t used = strlen(last_path);

    snprintf(last_path + used, sizeof last_path - used, "\n  at %s (%s:%d)", func, slash ? slash + 1 : file, line);
}

charl_status charl_error_set(charl_status st, const char *file, int line, const char *func, const char *fmt, ...)
{
    char text[MESSAGE_BYTES]; /* an argument may point into last_message */
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    memcpy(last_message, text, sizeof last_message);
    last_number++;
    last_path[0] = '\0';
    charl_error_trace(file, line, func);
    return st;
}

charl_status charl_fail(charl_status st, const char *fmt, ...)
{
    char text[MESSAGE_BYTES];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return charl_error_set(st, "the program", 0, "charl_fail", "%s", text);
}

uint64_t charl__error_number(void)
{
    return last_number;
}

static void put_prefix(const char *fmt, va_list ap)
{
    char text[MESSAGE_BYTES];
    const int n = vsnprintf(text, sizeof text, fmt, ap);

    if (n >= 0 && (size_t)n < sizeof text) {
        snprintf(text + n, sizeof text - (size_t)n, "%s", last_message);
        memcpy(last_message, text, sizeof last_message);
    }
}

void charl__error_prefix(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    put_prefix(fmt, ap);
    va_end(ap);
}

charl_status charl__error_in(charl_status st, charl_status code, const char *fmt, ...)
{
    va_list ap;

    if (st == code) {
        va_start(ap, fmt);
        put_prefix(fmt, ap);
        va_end(ap);
    }
    return st;
}

void charl__error_append(const char *text)
{
    const size_t used = strlen(last_message);

    snprintf(last_message + used, sizeof last_message - used, "%s", text);
}

charl_status charl__not_given(const char *file, int line, const char *func, size_t i, const char *names)
{
    for (; i > 0; i--) {
        names = strchr(names, ',') + 1;
    }
    names += strspn(names, " ");
    return charl_error_set(CHARL_ERR_INVALID, file, line, func, "%s: %.*s is NULL", func, (int)strcspn(names, " ,"),
                           names);
}

void charl__panic(const char *file, int line, const char *what)
{
    charl__log(CHARL_LOG_ERROR,
               "internal error: %s does not hold (%s:%d)\nThis is a defect of charl: please report it "
               "with the command that led here",
               what, file, line);
    abort();
}
