#ifndef CHARL_STATUS_H
#define CHARL_STATUS_H
/** How every fallible charl function reports failure.
 *
 *  A function that can fail returns charl_status. The details, a message and the path that the error
 *  took through the library, are kept for each thread until its next failure.
 *  The library never exits or asserts on input, and prints only if CHARL_LOG is set (charl/log.h).
 *  No function of this header allocates. Thread-safe.
 *
 *  A pointer must not be NULL unless the function says that it may be. If it is, the function returns ERR_INVALID with
 *  a message that names the argument. A function that returns a value instead of a status returns 0, false or NULL,
 *  unless it says otherwise, and one that returns nothing does nothing.
 */
#include "charl/api.h"

CHARL_BEGIN_DECLS

/* Order is severity: where ranks disagree, charl_comm_agree reports the largest. */
#define CHARL_STATUS_LIST(X)                                                                                           \
    X(OK, "success")                                                                                                   \
    X(ERR_INVALID, "argument breaks the documented contract")                                                          \
    X(ERR_SHAPE, "operand shapes do not agree")                                                                        \
    X(ERR_DTYPE, "operand element types do not agree")                                                                 \
    X(ERR_STALE, "value used after it was overwritten")                                                                \
    X(ERR_CONFIG, "bad configuration")                                                                                 \
    X(ERR_DATA, "data missing or malformed")                                                                           \
    X(ERR_IO, "file could not be read")                                                                                \
    X(ERR_CHECKPOINT, "checkpoint missing, damaged or incompatible")                                                   \
    X(ERR_NOMEM, "host or device memory exhausted")                                                                    \
    X(ERR_DEVICE, "OpenCL runtime failure or no device")                                                               \
    X(ERR_KERNEL, "kernel failed to build")                                                                            \
    X(ERR_NONFINITE, "loss or gradient is not finite")                                                                 \
    X(ERR_BUSY, "run directory in use by another job")                                                                 \
    X(ERR_DISK, "file could not be written")                                                                           \
    X(ERR_COMM, "MPI failure, or a rank died or fell silent")                                                          \
    X(ERR_AUDIT, "ranks computed different values of the same data")

typedef enum charl_status {
#define X(id, text) CHARL_##id,
    CHARL_STATUS_LIST(X)
#undef X
        CHARL_STATUS_COUNT
} charl_status;

#if defined(__GNUC__)
#define CHARL_MUST_CHECK __attribute__((warn_unused_result))
#define CHARL_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define CHARL_NORETURN __attribute__((noreturn))
#else
#define CHARL_MUST_CHECK
#define CHARL_PRINTF(f, a)
#define CHARL_NORETURN
#endif

/** Symbolic name, such as "ERR_SHAPE". Never NULL; static storage. Local. */
const char *charl_status_name(charl_status st);

/** One-line meaning. Never NULL; static storage. Local. */
const char *charl_status_text(charl_status st);

/** Message of the last failure on this thread: what went wrong, with values. "" if there is none. Borrowed until the
 *  next failure. Local. */
const char *charl_error_message(void);

/** Path of the last failure on this thread, innermost function first: "\n  at function (file:line)"
 *  repeated. Borrowed until the next failure. Local. */
const char *charl_error_path(void);

/** Fail in a function that charl calls, such as the shape rule of an operator or a callback of charl_predict: set
 *  the message of this thread (printf) and return st. Local. */
charl_status charl_fail(charl_status st, const char *fmt, ...) CHARL_PRINTF(2, 3);

/** Forget the last failure of this thread. Local. */
void charl_error_clear(void);

CHARL_END_DECLS

#endif
