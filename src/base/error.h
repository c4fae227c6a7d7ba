#ifndef CHARL_BASE_ERROR_H
#define CHARL_BASE_ERROR_H
/** The control flow of a fallible function.
 *
 *  A function that holds nothing returns at once:
 *
 *      CHARL_TRY(call)                       return the status of a call that failed
 *      CHARL_REQUIRE(cond, code, "fmt", ...) fail unless cond
 *      CHARL_FAIL(code, "fmt", ...)          fail
 *
 *  A function that holds something has a local `charl_status st = CHARL_OK` and a label `cleanup:` that releases
 *  it, and leaves there: CHARL_TRY_CLEANUP, CHARL_REQUIRE_CLEANUP, CHARL_FAIL_CLEANUP.
 */
#include <stdint.h>

#include "charl/status.h"

charl_status charl__error_set(charl_status st, const char *file, int line, const char *func, const char *fmt, ...)
    CHARL_PRINTF(5, 6);
void charl__error_trace(const char *file, int line, const char *func);

/** Number of this thread's last failure. Each CHARL_FAIL begins a new one; a prefix does not. Local. */
uint64_t charl__error_number(void);

/** Put text in front of the current message, as in "layer fc1: inner extents 3 and 4 differ". */
void charl__error_prefix(const char *fmt, ...) CHARL_PRINTF(1, 2);

/** Broken internal invariant: calls the hook that cli installs, then abort(). Never for input. */
void charl__panic(const char *file, int line, const char *what) CHARL_NORETURN;
void charl__panic_hook_set(void (*hook)(const char *message));

#define CHARL_TRY(call)                                                                                                \
    do {                                                                                                               \
        const charl_status charl__status = (call);                                                                     \
        if (charl__status != CHARL_OK) {                                                                               \
            charl__error_trace(__FILE__, __LINE__, __func__);                                                          \
            return charl__status;                                                                                      \
        }                                                                                                              \
    } while (0)

#define CHARL_FAIL(code, ...) return charl__error_set((code), __FILE__, __LINE__, __func__, __VA_ARGS__)

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
            charl__error_trace(__FILE__, __LINE__, __func__);                                                          \
            goto cleanup;                                                                                              \
        }                                                                                                              \
    } while (0)

#define CHARL_FAIL_CLEANUP(code, ...)                                                                                  \
    do {                                                                                                               \
        st = charl__error_set((code), __FILE__, __LINE__, __func__, __VA_ARGS__);                                      \
        goto cleanup;                                                                                                  \
    } while (0)

#define CHARL_REQUIRE_CLEANUP(cond, code, ...)                                                                         \
    do {                                                                                                               \
        if (!(cond)) {                                                                                                 \
            CHARL_FAIL_CLEANUP((code), __VA_ARGS__);                                                                   \
        }                                                                                                              \
    } while (0)

#define CHARL_INVARIANT(cond)                                                                                          \
    do {                                                                                                               \
        if (!(cond)) {                                                                                                 \
            charl__panic(__FILE__, __LINE__, #cond);                                                                   \
        }                                                                                                              \
    } while (0)

#endif
