#ifndef CHARL_BASE_ERROR_H
#define CHARL_BASE_ERROR_H
/** Control flow of fallible functions (charl/error.h), and error functions for the library only. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "charl/error.h"

/** Number of this thread's last failure. Each CHARL_FAIL starts a new one; a prefix does not. Local. */
uint64_t charl__error_number(void);

/** Put text before the current message, as in "layer fc1: inner extents 3 and 4 differ"; or after it. */
void charl__error_prefix(const char *fmt, ...) CHARL_PRINTF(1, 2);
/** `st`; if it is `code`, the text is put before its message. */
charl_status charl__error_in(charl_status st, charl_status code, const char *fmt, ...)
    CHARL_PRINTF(3, 4) CHARL_MUST_CHECK;
void charl__error_append(const char *text);

/** A local variable that is released by `release(&variable)` when its block is left, by any path, so that a function that holds nothing
 *  else can return at once. To hand a value over, set the variable to NULL or {0} first.
 *
 *      CHARL_SCOPED(charl__text_fini) charl__text path = {0};
 *      CHARL_SCOPED_FREE char *name = NULL;
 *
 *  Variables are released in the reverse order of their declarations. */
#define CHARL_SCOPED(release) __attribute__((cleanup(release)))

/** Define `name` as the release function, for CHARL_SCOPED, of an object that a local pointer to `type` points to. */
#define CHARL_SCOPED_POINTER(name, type, release)                                                                      \
    static inline void name(type *const *pointer)                                                                      \
    {                                                                                                                  \
        release(*pointer);                                                                                             \
    }

/** First line of a public function: fail unless each of these arguments is given. An argument is a pointer, or `pointer || n == 0` for an array
 *  that may be empty. The message names the function and the first missing argument. */
#define CHARL_GIVEN(...)                                                                                               \
    do {                                                                                                               \
        const bool charl_given[] = {__VA_ARGS__};                                                                      \
        for (size_t charl_i = 0; charl_i < sizeof charl_given; charl_i++) {                                            \
            if (!charl_given[charl_i]) {                                                                               \
                return charl__not_given(__FILE__, __LINE__, __func__, charl_i, #__VA_ARGS__);                          \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)

/** The failure of CHARL_GIVEN for the i-th of `names`, its arguments as source text. */
charl_status charl__not_given(const char *file, int line, const char *func, size_t i, const char *names);

/** Broken internal invariant: logs an error that asks for a report, then abort(). Never for input. */
void charl__panic(const char *file, int line, const char *what) CHARL_NORETURN;

#define CHARL_INVARIANT(cond)                                                                                          \
    do {                                                                                                               \
        if (!(cond)) {                                                                                                 \
            charl__panic(__FILE__, __LINE__, #cond);                                                                   \
        }                                                                                                              \
    } while (0)

#endif
