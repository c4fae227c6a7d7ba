#ifndef CHARL_BASE_ERROR_H
#define CHARL_BASE_ERROR_H
/** The control flow of a fallible function (charl/error.h), and what only the library may do with errors. */
#include <stdint.h>

#include "charl/error.h"

/** Number of this thread's last failure. Each CHARL_FAIL begins a new one; a prefix does not. Local. */
uint64_t charl__error_number(void);

/** Put text in front of the current message, as in "layer fc1: inner extents 3 and 4 differ"; or behind it. */
void charl__error_prefix(const char *fmt, ...) CHARL_PRINTF(1, 2);
void charl__error_append(const char *text);

/** Broken internal invariant: logs an error that asks for a report, then abort(). Never for input. */
void charl__panic(const char *file, int line, const char *what) CHARL_NORETURN;

#define CHARL_INVARIANT(cond)                                                                                          \
    do {                                                                                                               \
        if (!(cond)) {                                                                                                 \
            charl__panic(__FILE__, __LINE__, #cond);                                                                   \
        }                                                                                                              \
    } while (0)

#endif
