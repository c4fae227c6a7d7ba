#ifndef CHARL_CLI_CHARL_COMMANDS_H
#define CHARL_CLI_CHARL_COMMANDS_H
/** The commands of `charl`: tables of groups, functions of single commands. */
#include "charl/comm.h"
#include "charl/train.h"
#include "cli/cli.h"

extern const charl__cli_command charl__data_commands[];
extern const charl__cli_command charl__checkpoint_commands[];
extern const charl__cli_command charl__bench_commands[];

int charl__checkpoint_export_main(const char *path, int argc, char **argv);
int charl__checkpoint_average_main(const char *path, int argc, char **argv);
int charl__data_import_main(const char *path, int argc, char **argv);
/** Print what the dataset at `path` holds; returns an exit code. */
int charl__data_show(const char *path);

int charl__bench_allreduce_main(const char *path, int argc, char **argv);
int charl__bench_scaling_main(const char *path, int argc, char **argv);
int charl__bench_step_main(const char *path, int argc, char **argv);

int charl__devices_main(const char *path, int argc, char **argv);
int charl__tune_main(const char *path, int argc, char **argv);
int charl__selftest_main(const char *path, int argc, char **argv);
int charl__eval_main(const char *path, int argc, char **argv);
int charl__predict_main(const char *path, int argc, char **argv);
int charl__generate_main(const char *path, int argc, char **argv);

/** Start MPI, run `work` on the communicator of all ranks and end MPI. Returns its exit code, or
 * that of a failure to start that all ranks share; a rank that fails alone does not return. config
 * may be NULL: defaults. */
int charl__with_ranks(const charl_config *config, int (*work)(void *ctx, charl_comm *comm),
                      void *ctx, int *argc, char ***argv);

/** Say the thread's last failure on rank 0 and return its exit code; where the ranks are torn, do
 * not return. */
int charl__ranks_fail(charl_comm *comm, charl_status st);

/** For charl_train_events.started: kernels are compiled. */
charl_status charl__ranks_started(void *ctx, const charl_train_info *info);

/** For charl_train_events.lost, with the communicator as ctx. */
void charl__ranks_lost(void *comm, charl_status st);

/** For charl_train_events.warned, with the communicator as ctx: rank 0 says it. */
void charl__ranks_warn(void *comm, const char *text);

#endif
