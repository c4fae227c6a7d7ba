#ifndef CHARL_DIST_MPI_H
#define CHARL_DIST_MPI_H
/** MPI, opened at run time: one rank needs no MPI library, and a program that was built on one machine uses the MPI of another.
 *
 *  The types and constants are those of the MPI that charl was built with, so the library must have the same binary interface, which its
 *  soname identifies. Once charl__mpi_load has returned NULL, charl__mpi.Comm_rank and so on are its functions, and the constants of <mpi.h> may be
 *  used as if the library were linked.
 */
#include <mpi.h>

/* The functions that dist calls. */
#define CHARL__MPI_FUNCTIONS(X)                                                                                        \
    X(Comm_free)                                                                                                       \
    X(Comm_rank)                                                                                                       \
    X(Comm_set_errhandler)                                                                                             \
    X(Comm_size)                                                                                                       \
    X(Comm_split)                                                                                                      \
    X(Comm_split_type)                                                                                                 \
    X(Error_string)                                                                                                    \
    X(Finalize)                                                                                                        \
    X(Finalized)                                                                                                       \
    X(Get_count)                                                                                                       \
    X(Get_library_version)                                                                                             \
    X(Iallgatherv)                                                                                                     \
    X(Iallreduce)                                                                                                      \
    X(Ialltoallv)                                                                                                      \
    X(Ibcast)                                                                                                          \
    X(Init_thread)                                                                                                     \
    X(Initialized)                                                                                                     \
    X(Irecv)                                                                                                           \
    X(Isend)                                                                                                           \
    X(Test)                                                                                                            \
    X(Win_allocate_shared)                                                                                             \
    X(Win_free)                                                                                                        \
    X(Win_lock_all)                                                                                                    \
    X(Win_shared_query)                                                                                                \
    X(Win_unlock_all)

/* Handles that are addresses of the library's own objects in Open MPI, ompi_mpi_NAME; in other libraries they are numbers. */
#ifdef OPEN_MPI
#define CHARL__MPI_OBJECTS(X)                                                                                          \
    X(byte)                                                                                                            \
    X(comm_null)                                                                                                       \
    X(comm_world)                                                                                                      \
    X(errors_return)                                                                                                   \
    X(float)                                                                                                           \
    X(info_null)                                                                                                       \
    X(int64_t)                                                                                                         \
    X(op_max)                                                                                                          \
    X(op_min)                                                                                                          \
    X(op_sum)                                                                                                          \
    X(uint16_t)                                                                                                        \
    X(uint32_t)
#else
#define CHARL__MPI_OBJECTS(X)
#endif

extern struct charl__mpi_library {
#define X(name) __typeof__(MPI_##name) *name;
    CHARL__MPI_FUNCTIONS(X)
#undef X
#define X(name) __typeof__(ompi_mpi_##name) *at_##name;
    CHARL__MPI_OBJECTS(X)
#undef X
} charl__mpi;

/** Open the library, once per process. Returns NULL, or the reason why it cannot be opened: borrowed, until the process ends. Thread-safe. */
const char *charl__mpi_load(void);

#ifdef OPEN_MPI
#define ompi_mpi_byte (*charl__mpi.at_byte)
#define ompi_mpi_comm_null (*charl__mpi.at_comm_null)
#define ompi_mpi_comm_world (*charl__mpi.at_comm_world)
#define ompi_mpi_errors_return (*charl__mpi.at_errors_return)
#define ompi_mpi_float (*charl__mpi.at_float)
#define ompi_mpi_info_null (*charl__mpi.at_info_null)
#define ompi_mpi_int64_t (*charl__mpi.at_int64_t)
#define ompi_mpi_op_max (*charl__mpi.at_op_max)
#define ompi_mpi_op_min (*charl__mpi.at_op_min)
#define ompi_mpi_op_sum (*charl__mpi.at_op_sum)
#define ompi_mpi_uint16_t (*charl__mpi.at_uint16_t)
#define ompi_mpi_uint32_t (*charl__mpi.at_uint32_t)
#endif

#endif
