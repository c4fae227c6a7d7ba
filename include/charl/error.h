#ifndef CHARL_ERROR_H
#define CHARL_ERROR_H
/** Error handling in functions that can fail, for charl and for programs that use it.
 *
 *  A function that holds nothing returns at once:
 *
 *      CHARL_TRY(call)                       return the status of a call that failed
 *      CHARL_REQUIRE(cond, code, "fmt", ...) fail unless cond
 *      CHARL_FAIL(code, "fmt", ...)          fail
 *
 *  A function that holds something has a local `charl_status st = CHARL_OK` and a label `cleanup:` that releases
 *  it, and leaves there: CHARL_TRY_CLEANUP, CHARL_REQUIRE_CLEANUP, CHARL_FAIL_CLEANUP.
 *
 *      charl_status read_rows(const char *path, float *rows, size_t n)
 *      {
 *          charl_status st = CHARL_OK;
 *          FILE *f = fopen(path, "rb");
 *
 *          CHARL_REQUIRE(f, CHARL_ERR_IO, "%s: cannot be opened", path);
 *          CHARL_REQUIRE_CLEANUP(fread(rows, sizeof *rows, n, f) == n, CHARL_ERR_IO, "%s: is too short", path);
 *      cleanup:
 *          fclose(f);
 *          return st;
 *      }
 *
 *  charl_error_message then says what failed, and charl_error_path through which functions of the program and the
 *  library the error was returned.
 */
#include "charl/status.h"

CHARL_BEGIN_DECLS

/** Record a failure: set this thread's message (printf) and the first line of its path. Returns st. Used by the macros
 *  below. Local. Thread-safe. */
charl_status charl_error_set(charl_status st, const char *file, int line, const char *func, const char *fmt, ...)
    CHARL_PRINTF(5, 6);

/** Append a line to the path of this thread's failure. Used by the macros below. Local. Thread-safe. */
void charl_error_trace(const char *file, int line, const char *func);

#define CHARL_TRY(call)                                                                                                \
    do {                                                                                                               \
        const charl_status charl_try_status = (call);                                                                  \
        if (charl_try_status != CHARL_OK) {                                                                            \
            charl_error_trace(__FILE__, __LINE__, __func__);                                                           \
            return charl_try_status;                                                                                   \
        }                                                                                                              \
    } while (0)

#define CHARL_FAIL(code, ...) return charl_error_set((code), __FILE__, __LINE__, __func__, __VA_ARGS__)

#define CHARL_REQUIRE(cond, code, ...)                                                                                 \
    do {                                                                                                               \
        if (!(cond)) {                                                                                                 \
            CHARL_FAIL((code), __VA_ARGS__);                                                                           \
        }                                                                                                              \
    } while (0)

#define CHARL_TRY_CLEANUP(call)                                                                                        \
    do {                                                                                                               \
        st = (call);                                                                                                   \
        if (st != CHARL_OK) {                                                                                          \
            charl_error_trace(__FILE__, __LINE__, __func__);                                                           \
            goto cleanup;                                                                                              \
        }                                                                                                              \
    } while (0)

#define CHARL_FAIL_CLEANUP(code, ...)                                                                                  \
    do {                                                                                                               \
        st = charl_error_set((code), __FILE__, __LINE__, __func__, __VA_ARGS__);                                       \
        goto cleanup;                                                                                                  \
    } while (0)

#define CHARL_REQUIRE_CLEANUP(cond, code, ...)                                                                         \
    do {                                                                                                               \
        if (!(cond)) {                                                                                                 \
            CHARL_FAIL_CLEANUP((code), __VA_ARGS__);                                                                   \
        }                                                                                                              \
    } while (0)

CHARL_END_DECLS

#endif
