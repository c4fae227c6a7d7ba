#ifndef CHARL_COMM_H
#define CHARL_COMM_H
/** Ranks that train together: who they are, how they agree, and how gradients are summed.
 *
 *      charl_comm *comm = NULL;
 *
 *      check(charl_comm_init(&argc, &argv)); // first of all
 *      check(charl_comm_create(NULL, &comm));
 *      int64_t ranks = 1;
 *      check(charl_comm_reduce_i64(comm, CHARL_COMM_SUM, &ranks, 1));
 *      printf("rank %d of %lld\n", charl_comm_rank(comm), (long long)ranks);
 *      charl_comm_destroy(comm);
 *      charl_comm_fini();
 *
 *  Ranks are numbered by (node, rank within the node), so a node owns a contiguous block of the
 *  batch. A communicator is used from one thread: the one that called charl_comm_init or, in a
 *  team, the one that created it. Only charl_comm_mark and charl_comm_exit are Thread-safe.
 *
 *  No call waits forever. If a rank dies, or is silent for the timeout, the others get ERR_COMM with a
 *  message that names it. The communicator is then broken: every later call fails, and the process ends with
 *  charl_comm_exit. Without a launcher the program is rank 0 of 1.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "charl/shape.h"
#include "charl/slices.h"
#include "charl/status.h"

CHARL_BEGIN_DECLS

struct charl_device; /* charl/device.h */

typedef struct charl_comm charl_comm;
typedef struct charl_allreduce charl_allreduce;
typedef struct charl_reducer charl_reducer;
typedef struct charl_team charl_team;

enum { CHARL_COMM_NODES = 4 };

typedef struct charl_comm_options {
    size_t struct_size; /* sizeof(charl_comm_options) */
    double timeout_s;   /* seconds of silence after which a rank counts as lost, at most 86400; 0: 60 */
    /* Seconds after which the watchdog thread reports that no rank has moved, as it reports a death: all hang in
     * calls without a deadline, of MPI or of a device. Must exceed the longest time that a rank
     * computes without charl_comm_mark. 0: never. */
    double still_s;
    /* {0}: the ranks that share memory form a node. For tests, {3, 1} divides them: the first 3 form
     * a node, and each later rank a node of its own; the last number applies to all later nodes. */
    int ranks_per_node[CHARL_COMM_NODES];
    charl_team *team;  /* NULL: the ranks are the processes that MPI started */
    int rank;          /* of the calling thread, in team */
    bool keep_binding; /* of the process to processors, as the launcher chose it; see charl_comm_create */
} charl_comm_options;

/** What the watchdog thread reports: a rank died, or no rank has moved for still_s. */
typedef struct charl_comm_death {
    int rank;            /* -1: no rank has moved */
    int64_t step;        /* of the rank's last charl_comm_mark; of this rank's for -1 */
    const char *message; /* borrowed: "rank 2 of 4 (host, pid 77) died at or near step 40, backward" */
} charl_comm_death;

/** Called from the watchdog thread, once at most. */
typedef void (*charl_comm_on_death)(void *ctx, const charl_comm_death *death);

typedef enum charl_comm_op { CHARL_COMM_SUM, CHARL_COMM_MIN, CHARL_COMM_MAX, CHARL_COMM_OP_COUNT } charl_comm_op;

/** Open the MPI library and start MPI. Call it once per process, before any thread is started and before the first
 *  OpenCL call. Without an MPI library the process is the only rank.
 *
 *  Blocks. Collective on all processes of the job.
 *  Errors: ERR_CONFIG   the launcher started several processes, but there is no MPI library, or its MPI is another one
 *                       and sees one process
 *          ERR_INVALID  MPI is started already
 *          ERR_COMM, ERR_NOMEM */
charl_status charl_comm_init(int *argc, char ***argv) CHARL_MUST_CHECK;

/** As charl_comm_init, except that a process which no launcher has started does not start MPI, which takes a third of
 *  a second: it is the only rank. For programs that do not call MPI themselves. Blocks. Collective on all processes
 *  of the job. Errors: as charl_comm_init. */
charl_status charl_comm_init_if_launched(int *argc, char ***argv) CHARL_MUST_CHECK;

/** Name and version of the MPI library in one line, such as "Open MPI v4.1.4", or "no MPI library (libmpi.so.40)". May
 *  be called before charl_comm_init. Borrowed until the next call on this thread. Local. */
const char *charl_comm_mpi_version(void);

/** End MPI. Destroy every communicator first. After ERR_COMM call charl_comm_exit instead. Does nothing if MPI was not
 *  started or has ended. Blocks. Collective on all processes. */
void charl_comm_fini(void);

/** Exit with `code`, without ending MPI and without waiting for other ranks: for a failure
 *  that not all ranks share. Writes `message` to stderr (NULL: nothing). If several ranks of a node call it, only the
 *  first writes, and the others wait 0.3 s so that it can. In the watchdog thread it then gives the thread of the rank
 *  5 s to exit by itself, for it may still be saving something. c may be NULL. Local. Thread-safe. */
void charl_comm_exit(charl_comm *c, int code, const char *message) CHARL_NORETURN;

/** Create `size` ranks, 1 to CHARL_MAX_SLICES, that are threads of this process, without MPI: each thread creates its
 *  own communicator, with the team and its rank in the options, and uses it as a process does. When all ranks of all
 *  teams wait for each other, time jumps, so timeouts pass at once. Owned: destroy it after all its communicators.
 *  Blocks. Local. Errors: ERR_INVALID, ERR_NOMEM. */
charl_status charl_team_create(int size, charl_team **out) CHARL_MUST_CHECK;
/** NULL is a no-op. Local. */
void charl_team_destroy(charl_team *team);

/** Create the communicator of all ranks of the job, between charl_comm_init and charl_comm_fini, or of a team. options
 *  may be NULL. Owned by the caller.
 *
 *  Call it before any thread is started and before the first OpenCL call: except in a team it also gives the rank its
 *  share of the processors. Where mpirun has bound one or two ranks to a core each by itself, which starves their other
 *  threads, the process may use all processors of the node that it is allowed to. PoCL's CPU device is limited to the
 *  rank's share of them, by the variables POCL_MAX_PTHREAD_COUNT and POCL_CPU_MAX_CU_COUNT, unless they are set.
 *
 *  Blocks. Collective.
 *  Errors: ERR_CONFIG   the ranks run different versions of charl, or are more than CHARL_MAX_SLICES
 *          ERR_INVALID  MPI is not started or has ended, or an option is out of range
 *          ERR_NOMEM    also: no room in /dev/shm
 *          ERR_COMM */
charl_status charl_comm_create(const charl_comm_options *options, charl_comm **out) CHARL_MUST_CHECK;

/** Free the communicator, and what was created on it first. NULL is a no-op. Blocks. Collective on c, except when c is
 *  broken. */
void charl_comm_destroy(charl_comm *c);

/** This rank, from 0, and the number of ranks. Local. */
int charl_comm_rank(const charl_comm *c);
int charl_comm_size(const charl_comm *c);
/** This rank within its node, from 0, and the number of ranks of its node. Local. */
int charl_comm_local_rank(const charl_comm *c);
int charl_comm_local_size(const charl_comm *c);
/** The number of nodes. Local. */
int charl_comm_node_count(const charl_comm *c);

/** Host name and process ID of any rank; "" and -1 for a rank that does not exist. Borrowed. Local. */
const char *charl_comm_host(const charl_comm *c, int rank);
int64_t charl_comm_pid(const charl_comm *c, int rank);

/** Whether the ranks are threads of this process. Local. */
bool charl_comm_is_team(const charl_comm *c);

/** Whether a failure made the communicator unusable. Local. */
bool charl_comm_is_broken(const charl_comm *c);

/** Mark the communicator as broken, because this rank failed alone, outside of a collective, and cannot
 *  continue: from now on no call waits for another rank. Local. */
void charl_comm_break(charl_comm *c);

/** Set the seconds of silence after which a rank counts as lost, above 0 and at most 86400; other values are ignored.
 *  Local. */
void charl_comm_set_timeout(charl_comm *c, double timeout_s);

/** Bytes free in /dev/shm, where the ranks of a node share memory; INT64_MAX without /dev/shm. Local. */
int64_t charl_comm_shared_available(void);

/** Record step and phase of this rank, so that the other ranks can report them if it fails, and show that
 *  it is alive. Up to 48 bytes of phase are kept; phase NULL: both stay as they were. Cost: a few stores. Local.
 *  Thread-safe. */
void charl_comm_mark(charl_comm *c, int64_t step, const char *phase);

/** Start a watchdog thread, which calls on_death when a rank has died, also while this rank computes: within about
 *  0.2 s for a rank of this node, some seconds later for another node whose own ranks do not report it. ctx is
 *  borrowed. Local.
 *  Errors: ERR_NOMEM, ERR_INVALID  a watchdog runs already. */
charl_status charl_comm_watch_begin(charl_comm *c, charl_comm_on_death on_death, void *ctx) CHARL_MUST_CHECK;

/** End the watchdog thread. No-op if none runs. Blocks. Local. */
void charl_comm_watch_end(charl_comm *c);

/** Agree on one status: the worst of all ranks (on a tie the lowest rank's), with its message
 *  after "rank 2 of 4 (host, pid 77): ". Call it wherever one rank's failure would leave the others
 *  waiting. Blocks. Collective on c. Errors: that status; ERR_COMM. */
charl_status charl_comm_agree(charl_comm *c, charl_status mine) CHARL_MUST_CHECK;

/** Wait until every rank has called this. Blocks. Collective on c. Errors: ERR_COMM. */
charl_status charl_comm_barrier(charl_comm *c) CHARL_MUST_CHECK;

/** Copy `bytes` of data from rank `root` to all ranks. Blocks. Collective on c. Errors: ERR_INVALID, ERR_COMM. */
charl_status charl_comm_broadcast(charl_comm *c, void *data, size_t bytes, int root) CHARL_MUST_CHECK;

/** Gather `bytes` of every rank on all ranks: all[r * bytes ...] = mine of rank r. `all` has size * bytes, less than
 *  2 GiB. Blocks. Collective on c. Errors: ERR_INVALID, ERR_COMM. */
charl_status charl_comm_allgather(charl_comm *c, const void *mine, size_t bytes, void *all) CHARL_MUST_CHECK;

/** Reduce over the ranks, in place: v[i] = op of v[i] of all ranks, i < count. For control data only: the bits of a
 *  sum of doubles depend on the number of ranks. Blocks. Collective on c. Errors: ERR_INVALID, ERR_COMM. */
charl_status charl_comm_reduce_i64(charl_comm *c, charl_comm_op op, int64_t *v, int count) CHARL_MUST_CHECK;
charl_status charl_comm_reduce_f64(charl_comm *c, charl_comm_op op, double *v, int count) CHARL_MUST_CHECK;

/** Options of an all-reduce; zeros are the defaults. */
typedef struct charl_allreduce_options {
    size_t struct_size;          /* sizeof(charl_allreduce_options) */
    const char *algorithm;       /* see charl_allreduce_create; NULL: "auto" */
    charl_dtype reduce_dtype;    /* of lanes and sum: CHARL_F32, or CHARL_BF16, where every node of
                                    the tree is added in f32 and rounded */
    bool gathers;                /* parts of the gradients are gathered, as a sharded optimizer does */
    bool scatters;               /* rank r of R gets the sums of its part only: of a range's B blocks of 64 values
                                    those from B r / R to B (r + 1) / R; half the traffic, no memory for sums */
    bool within_nodes;           /* each node gathers and scatters among its own ranks: r and R count these. Needs the
                                    same number of ranks on every node; no effect on one node */
    struct charl_device *device; /* of this rank, for algorithms that run on the devices; NULL:
                                    host memory only. Borrowed */
} charl_allreduce_options;

/** Create an all-reduce of n gradients over the batch. It adds them in a fixed binary tree over the slices
 *  (charl/slices.h), so the sums are bit-identical for any number of ranks and any algorithm except "mpi".
 *
 *  A step: write this rank's lanes of a range [offset, offset + count), begin the range, and continue;
 *  later wait for it and read the sum. All ranks begin the same ranges in the same order. The lanes
 *  of a range may be written again after its wait. Its sum is valid from its wait until a range that overlaps it
 *  is begun, so read it before.
 *
 *  mine     the slices of this rank; together the ranks cover the batch in rank order
 *  options  may be NULL. algorithm is "auto", the fastest that works here, or one that charl_allreduce_algorithm_name
 *           lists; the environment variable CHARL_ALLREDUCE overrides it. With "peer", lanes and sum are device
 *           memory, and it does not gather
 *
 *  Owned by the caller; destroy it before c. Blocks. Collective on c.
 *  Errors: ERR_CONFIG   unknown algorithm or type, or one that does not work here
 *          ERR_INVALID  slices that do not fit together, or n, type or algorithm differ between ranks
 *          ERR_NOMEM    also when /dev/shm is too small; the message says what it needs
 *          ERR_DEVICE, ERR_COMM
 *  Cost, with elements of e bytes: shm reads e*n*lanes bytes over all ranks and writes e*n;
 *  hierarchical sends 2*e*n*(N-1)/N bytes from each of N nodes with one lane each, p2p as many from
 *  each rank; peer writes and reads e*n*(p-1)/p bytes per GPU, twice, with p ranks on a node, and sends as many bytes
 *  between nodes as hierarchical. */
charl_status charl_allreduce_create(charl_comm *c, int64_t n, const charl_slices *mine,
                                    const charl_allreduce_options *options, charl_allreduce **out) CHARL_MUST_CHECK;

/** Name of algorithm i = 0, 1, ...; NULL after the last. "local" is for one rank. Static storage. Local. */
const char *charl_allreduce_algorithm_name(int i);

/** Name of algorithm i as above, and in *why NULL, or the reason why it cannot run on c; why may be NULL.
 *  Static storage. Local. */
const char *charl_allreduce_algorithm(const charl_comm *c, int i, const char **why);

/** Free an all-reduce. NULL is a no-op. Blocks. Collective on its communicator, except when that is broken. */
void charl_allreduce_destroy(charl_allreduce *ar);

/** Copy `count` values of reduce_dtype, from value `offset` on, from host memory to lane j of this rank, or from the
 *  completed sums to host memory. Lanes and sums may be device memory. Blocks. Local.
 *  Errors: ERR_INVALID  outside of the lane or sum; ERR_DEVICE. */
charl_status charl_allreduce_write_lane(charl_allreduce *ar, int j, int64_t offset, int64_t count,
                                        const void *src) CHARL_MUST_CHECK;
charl_status charl_allreduce_read_sum(const charl_allreduce *ar, int64_t offset, int64_t count,
                                      void *dst) CHARL_MUST_CHECK;

/** Start the all-reduce of a range, of which this rank has written its lanes. At most 512 ranges may be in
 *  flight. *ticket, 0, 1, ..., is for charl_allreduce_wait. Async. Collective on c, but does not wait for other
 *  ranks. Errors: ERR_INVALID, ERR_DEVICE, ERR_COMM. */
charl_status charl_allreduce_begin(charl_allreduce *ar, int64_t offset, int64_t count,
                                   int64_t *ticket) CHARL_MUST_CHECK;

/** Wait until the range is complete. Blocks. Collective on c. Errors: ERR_INVALID, ERR_DEVICE, ERR_COMM. */
charl_status charl_allreduce_wait(charl_allreduce *ar, int64_t ticket) CHARL_MUST_CHECK;

/** Create a reducer: the sum of charl_allreduce_create for few values at low latency, many times per step, such as
 *  batch-norm sums, loss and counts. Owned by the caller; destroy it before c. Blocks. Collective on c.
 *  Errors: ERR_INVALID  slices that do not fit together; ERR_NOMEM, ERR_COMM. */
charl_status charl_reducer_create(charl_comm *c, const charl_slices *mine, charl_reducer **out) CHARL_MUST_CHECK;

/** Free a reducer. NULL is a no-op. Blocks. Collective on its communicator, except when that is broken. */
void charl_reducer_destroy(charl_reducer *r);

/** Sum over the lanes of all ranks in the tree of charl_allreduce_create: out[i] for i < count.
 *
 *  lanes  [n_lanes of this rank, count]  read
 *  out    [count]                        written; may be lanes
 *
 *  Blocks. Collective on c. Deterministic. Errors: ERR_INVALID, ERR_COMM. */
charl_status charl_reducer_sum(charl_reducer *r, const float *lanes, int64_t count, float *out) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
