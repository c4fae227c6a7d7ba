#ifndef CHARL_BASE_OWNER_H
#define CHARL_BASE_OWNER_H
/** Ownership of objects by threads: detects use by a second thread, or by a forked process, before it computes wrong values or blocks forever.
 *
 *  An object of one thread belongs to the thread that uses it first (charl__owner_check, a comparison). One that threads may use in turn
 *  belongs to a thread from charl__owner_enter to charl__owner_leave. Neither survives a fork: the threads of drivers and loaders stay
 *  in the parent.
 */
#include <stdatomic.h>
#include <stdint.h>

#include "base/error.h"

typedef struct charl__owner {
    _Atomic(uint64_t) thread; /* a number unique to every thread of every process; 0: no owner */
    long pid;                 /* of the process that created the object */
} charl__owner;

/** Created by this process, without an owner. */
void charl__owner_init(charl__owner *o);
/** Make the calling thread the owner, to hand an object over: the previous owner must not be in a call. */
void charl__owner_acquire(charl__owner *o);
/** Errors: ERR_INVALID  another thread or process owns it; `what` names the object, as in "device". */
charl_status charl__owner_check(charl__owner *o, const char *what) CHARL_MUST_CHECK;
charl_status charl__owner_enter(charl__owner *o, const char *what) CHARL_MUST_CHECK;
void charl__owner_leave(charl__owner *o);
void charl__owner_left(charl__owner *const *o);
/** For an object with a lock of its own. Errors: ERR_INVALID  another process created it. */
charl_status charl__owner_check_process(const charl__owner *o, const char *what) CHARL_MUST_CHECK;

/** The calling thread owns the object until the function returns, or the function returns ERR_INVALID now. For public functions that call no
 *  other one of the same object. */
#define CHARL_OWNED(o, what)                                                                                           \
    CHARL_TRY(charl__owner_enter((o), (what)));                                                                        \
    __attribute__((cleanup(charl__owner_left))) charl__owner *const owned = (o)

#endif
