#ifndef CHARL_ENVIRONMENT_H
#define CHARL_ENVIRONMENT_H
/** What a program finds when it starts: the variables of charl (docs/env.md), the launcher, the machine; and points at
 *  which a test can make it fail.
 *
 *      int main(int argc, char **argv)
 *      {
 *          if (charl_environment_check() != CHARL_OK) {
 *              if (charl_launcher_rank() == 0) ... charl_error_message() ...      once, not once a rank
 *          }
 */
#include <stdbool.h>

#include "charl/status.h"

CHARL_BEGIN_DECLS

/** Check the values of all variables, warn in the log about unknown ones that begin with CHARL_, and put CHARL_FAULT
 *  into force for this rank. Without it a malformed value is ignored. Call it before anything else. Local. Blocks.
 *  Errors: ERR_CONFIG  names the variable and what it accepts. */
charl_status charl_environment_check(void) CHARL_MUST_CHECK;

/** Name of variable i = 0, 1, ..., and *meaning in one line; NULL past the last. Static storage. Local. Thread-safe. */
const char *charl_environment_variable(int i, const char **meaning);

/** Version, compiler, machine, variables and devices as one line of JSON, ending in a newline: for the record of a run
 *  and for reports of defects. The caller owns it (charl_free). A machine without a device has an empty list. Local.
 *  Blocks.
 *  Errors: ERR_NOMEM. */
charl_status charl_environment_json(char **out) CHARL_MUST_CHECK;

/** Rank that the launcher gave this process, and the number of its ranks: known before MPI starts. 0 and 1 without a
 *  launcher. From the variables of Open MPI, PMIx, PMI and Slurm. Local. Thread-safe. */
int charl_launcher_rank(void);
int charl_launcher_size(void);

/** Pass a point of the program, where CHARL_FAULT=POINT.FAULT@RANK:N can make a rank fail (docs/env.md has the faults):
 *  for tests of what must survive. Costs next to nothing where CHARL_FAULT is not set. Local. Blocks if a fault asks
 *  for it.
 *
 *      CHARL_TRY(charl_fault("myloop.step"));       CHARL_FAULT=myloop.step.kill@1:5 kills rank 1 in its fifth step
 *
 *  Errors: ERR_DEVICE  the fault is `fail`. */
charl_status charl_fault(const char *point) CHARL_MUST_CHECK;

/** Refuse points in CHARL_FAULT that charl does not have, which would never fire: for programs that have none of their
 *  own. After
 *  charl_environment_check. Local. Blocks. Errors: ERR_CONFIG  names the point and the nearest one, or all. */
charl_status charl_fault_check(void) CHARL_MUST_CHECK;

/** At the end of a job of `ranks` ranks that succeeded: refuse rules of CHARL_FAULT that count (point:N, point:N+) if
 *  this process never passed the point, or if they name a rank that the job does not have. What such a rule was to test
 *  was not tested. is_team: the ranks are threads
 *  of this process. Local. Blocks. Errors: ERR_CONFIG  names the point. */
charl_status charl_fault_finish(int ranks, bool is_team) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
