#ifndef CHARL_ENVIRONMENT_H
#define CHARL_ENVIRONMENT_H
/** The environment of a program: charl's environment variables (docs/env.md), the launcher and the machine; and points
 *  at which a test can make it fail.
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

/** Check the values of all variables, warn in the log about unknown variables that begin with CHARL_, and enable
 *  CHARL_FAULT for this rank. Call it first in main; without it malformed values are ignored. Blocks. Local.
 *  Errors: ERR_CONFIG  the message names the variable and the values that it accepts. */
charl_status charl_environment_check(void) CHARL_MUST_CHECK;

/** Name of variable i = 0, 1, ..., and its meaning in one line, which may be NULL; NULL past the last. Static storage.
 *  Local. Thread-safe. */
const char *charl_environment_variable(int i, const char **meaning);

/** Describe version, compiler, machine, variables and devices as one line of JSON that ends in a newline: for the
 *  record of a run, and for bug reports. The list of devices is empty if there is none. *out: owned by the caller
 *  (charl_free). Blocks. Local. Errors: ERR_NOMEM. */
charl_status charl_environment_json(char **out) CHARL_MUST_CHECK;

/** Rank of this process, and number of ranks, from the variables of the launcher (Open MPI, PMIx, PMI, Slurm), so
 *  before MPI starts. 0 and 1 without a launcher. Local. Thread-safe. */
int charl_launcher_rank(void);
int charl_launcher_size(void);

/** Pass a fault point: CHARL_FAULT=POINT.FAULT@RANK:N makes a rank fail here (docs/env.md lists the faults), to test
 *  recovery. Cost: a comparison unless CHARL_FAULT is set. Local. Blocks if the fault does.
 *
 *      CHARL_TRY(charl_fault("myloop.step"));       CHARL_FAULT=myloop.step.kill@1:5 kills rank 1 in its fifth step
 *
 *  Errors: ERR_DEVICE  the fault is `fail`. */
charl_status charl_fault(const char *point) CHARL_MUST_CHECK;

/** Add rules to the ones in CHARL_FAULT; the counts of all rules begin at 1 again. Not Thread-safe. Blocks. Local.
 *  Errors: ERR_CONFIG  `rules` is malformed, or there would be more than 16 rules; nothing has changed. */
charl_status charl_fault_add(const char *rules) CHARL_MUST_CHECK;

/** Refuse rules of CHARL_FAULT whose point charl does not have, for programs without points of their own. Call it after
 *  charl_environment_check. Blocks. Local. Errors: ERR_CONFIG  the message names the point and the nearest one. */
charl_status charl_fault_check(void) CHARL_MUST_CHECK;

/** Refuse rules of CHARL_FAULT that were not tested, at the end of a job of `ranks` ranks that succeeded: rules that
 *  count (point:N, point:N+) whose point this process never passed, or that name a rank that the job does not have.
 *  is_team: the ranks are threads of this process. Blocks. Local. Errors: ERR_CONFIG  the message names the point. */
charl_status charl_fault_finish(int ranks, bool is_team) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
