#ifndef CHARL_BASE_FAULT_H
#define CHARL_BASE_FAULT_H
/** Named points that can be told to fail, for tests of what must survive.
 *
 *  A specification is point[@rank]:when[:arg], several separated by commas.
 *    when  N   the Nth time the point is passed, once (1 is the first)
 *          N+  the Nth time and ever after
 *          *   always
 *    arg   an integer whose meaning the point defines (an errno, a byte count, a delay in ms); default 0
 *    rank  only on this rank; a process that set no rank is rank 0
 *
 *  The point `alloc` counts acquisitions (base/alloc.h) and takes N only: alloc:17. Off: one atomic load. Thread-safe.
 */
#include <stdbool.h>
#include <stdint.h>

#include "charl/environment.h" /* charl_fault */

/** Whether any rule is in force: saves the trouble of making up names of points. */
bool charl__fault_any(void);

/** Pass the point: true when it must fail now. */
bool charl__fault(const char *point);

/** charl__fault that also gives the argument of the rule that fired. */
bool charl__fault_arg(const char *point, int64_t *arg);

/** Replace all rules and their counters; NULL or "" switches faults off. Unchanged on failure.
 *  Errors: ERR_CONFIG for a malformed specification, too many rules or too long a name. */
charl_status charl__fault_set(const char *spec) CHARL_MUST_CHECK;

/** This process's rank, for rules with @rank. */
void charl__fault_rank_set(int rank);

/** The calling thread's own, where ranks are threads. Each rank passes points for itself. */
void charl__fault_thread_rank_set(int rank);

/** Put CHARL_FAULT into force at the first call (a malformed value is logged and ignored); a no-op
 *  later. */
void charl__fault_load(void);

#endif
