#ifndef CHARL_BASE_FAULT_H
#define CHARL_BASE_FAULT_H
/** Named points that can be made to fail, to test recovery.
 *
 *  A specification is point[@rank]:when[:arg], several separated by commas.
 *    when  N   the Nth time the point is passed, once (1 is the first)
 *          N+  the Nth time and every time after it
 *          *   always
 *    arg   an integer whose meaning the point defines (an errno, a byte count, a delay in ms); default 0
 *    rank  only on this rank; a process that set no rank is rank 0
 *
 *  The point `alloc` counts acquisitions (base/alloc.h) and accepts N only: alloc:17. Without rules: one atomic load. Thread-safe.
 */
#include <stdbool.h>
#include <stdint.h>

#include "charl/environment.h" /* charl_fault */

/** Whether any rule is active: avoids formatting names of points in vain. */
bool charl__fault_any(void);

/** Pass the point: true if it must fail now. */
bool charl__fault(const char *point);

/** charl__fault that also gives the argument of the rule that fired. */
bool charl__fault_arg(const char *point, int64_t *arg);

/** Replace all rules and their counters; NULL or "" removes all. Unchanged on failure.
 *  Errors: ERR_CONFIG for a malformed specification, too many rules or too long a name. */
charl_status charl__fault_set(const char *spec) CHARL_MUST_CHECK;

/** This process's rank, for rules with @rank. */
void charl__fault_rank_set(int rank);

/** Rank of the calling thread, if ranks are threads. Each rank passes points separately. */
void charl__fault_thread_rank_set(int rank);

/** Activate CHARL_FAULT on the first call (a malformed value is logged and ignored); a no-op
 *  later. */
void charl__fault_load(void);

#endif
