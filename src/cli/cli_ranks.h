#ifndef CHARL_CLI_CLI_RANKS_H
#define CHARL_CLI_CLI_RANKS_H
/** Commands that run on the ranks of an MPI job: `charl eval`, `charl predict`, `charl tune` and
 *  charl-bench. */
#include <charl/comm.h>
#include <charl/config.h>
#include <charl/train.h>

/** Start MPI, run `work` on the communicator of all ranks and end MPI. Returns its exit code, or
 *  the code of a failure to start that all ranks share; a rank that fails alone does not return. config
 *  may be NULL: defaults. */
int charl__with_ranks(const charl_config *config, int (*work)(void *ctx, charl_comm *comm), void *ctx, int *argc,
                      char ***argv);

/** Print the thread's last failure on rank 0 and return its exit code; if only some ranks have failed, do
 *  not return. */
int charl__ranks_fail(charl_comm *comm, charl_status st);

/** For charl_train_events.started: kernels are compiled. */
charl_status charl__ranks_started(void *ctx, const charl_train_info *info);

/** For charl_train_events.lost, with the communicator as ctx. */
void charl__ranks_lost(void *comm, charl_status st);

/** For charl_train_events.warned, with the communicator as ctx: rank 0 prints it. */
void charl__ranks_warn(void *comm, const char *text);

#endif
