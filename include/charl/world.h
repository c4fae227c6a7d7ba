#ifndef CHARL_WORLD_H
#define CHARL_WORLD_H
/** The ranks and the device of a program, opened in one call; and the end of a program that has failed.
 *
 *      charl_world world;
 *
 *      CHARL_CHECK(charl_world_open(&argc, &argv, NULL, &world)); // first of all
 *      if (world.rank == 0) {
 *          printf("%d ranks, %s\n", world.size, charl_device_get_info(world.device)->name);
 *      }
 *      charl_world_close(&world);
 *
 *  A program that mpirun or srun has started is one of several ranks; any other is rank 0 of 1, and needs no MPI.
 *  CHARL_CHECK(call) is for programs that end when a call fails. Those that go on use the macros of charl/error.h.
 */
#include "charl/comm.h"
#include "charl/device.h"

CHARL_BEGIN_DECLS

typedef struct charl_world {
    charl_comm *comm;
    charl_device *device;
    int rank, size; /* of comm */
} charl_world;

/** All members may be zero. */
typedef struct charl_world_options {
    size_t struct_size;                 /* sizeof(charl_world_options) */
    const charl_comm_options *comm;     /* NULL: defaults */
    const charl_device_request *device; /* local_rank and local_size come from comm; NULL: the best device, which
                                           several ranks may share */
} charl_world_options;

/** Check the environment (charl_environment_check), start MPI if a launcher has started the process, connect the ranks,
 *  and open this rank's device. Before any thread is started and before the first OpenCL call. options may be NULL.
 *  Owned: charl_world_close.
 *
 *  Blocks. Collective on all processes of the job. Errors: those of charl_environment_check,
 *  charl_comm_init_if_launched, charl_comm_create and charl_device_open; a device that one rank cannot open is an
 *  error on every rank. */
charl_status charl_world_open(int *argc, char ***argv, const charl_world_options *options,
                              charl_world *out) CHARL_MUST_CHECK;

/** Close the device, after everything on it is destroyed, and leave the ranks. Of a struct of zeros it is a no-op.
 *  Blocks. Collective. */
void charl_world_close(charl_world *world);

/** End the process if `st` is a failure: write the program's name, charl_error_message(), a hint on a line of its own,
 *  file and line to stderr, and exit with code 1, by charl_comm_exit of the world that is open. The other ranks get
 *  ERR_COMM. For CHARL_CHECK; Local. Thread-safe. */
void charl_check(charl_status st, const char *file, int line);

#define CHARL_CHECK(call) charl_check((call), __FILE__, __LINE__)

CHARL_END_DECLS

#endif
