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
 *  batch. A communicator is used from one thread, the one that called charl_comm_init, or, in a
 *  team, the one that created it; only charl_comm_mark and charl_comm_exit are Thread-safe. Nothing
 *  waits forever: a rank that dies is reported at once, and one that stays silent for the timeout is
 *  reported as ERR_COMM with its name. After ERR_COMM the communicator is broken: every later call fails, and
 *  the process leaves with charl_comm_exit. Without a launcher the program is rank 0 of 1.
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
    double timeout_s;   /* a rank that is silent for so long counts as lost; 0: 60 */
    /* If all ranks are silent for so long, the watchdog thread reports it like a death: they hang in
     * calls without a deadline, of MPI or of a device. Must exceed the longest time that a rank
     * computes without a mark. 0: never. */
    double still_s;
    /* {0}: the ranks that share memory form a node. For tests, {3, 1} divides them: the first 3 form
     * a node, each later rank another; the last number applies to all later nodes. */
    int ranks_per_node[CHARL_COMM_NODES];
    charl_team *team; /* NULL: the ranks are the processes that MPI started */
    int rank;         /* of the calling thread, in team */
} charl_comm_options;

/** A rank of this node died, or all ranks are silent. */
typedef struct charl_comm_death {
    int rank;            /* -1: all */
    int64_t step;        /* its last mark */
    const char *message; /* borrowed: "rank 2 of 4 (host, pid 77) died at or near step 40, backward" */
} charl_comm_death;

typedef void (*charl_comm_on_death)(void *ctx, const charl_comm_death *death);

typedef enum charl_comm_op { CHARL_COMM_SUM, CHARL_COMM_MIN, CHARL_COMM_MAX, CHARL_COMM_OP_COUNT } charl_comm_op;

/** Open the MPI library and start MPI, before any thread and before the first OpenCL call. Once per process. Without a
 *  library the process is the only rank. Blocks. Collective on all processes of the job. Errors: ERR_COMM; ERR_CONFIG
 *  when the launcher started several programs that do not know of each other. */
charl_status charl_comm_init(int *argc, char ***argv) CHARL_MUST_CHECK;

/** As charl_comm_init, but a process that no launcher has started is the only rank and leaves MPI alone, which would
 *  take a third of a second to start. For programs that do not call MPI themselves. Blocks. Collective on all processes
 *  of the job. Errors: those of charl_comm_init. */
charl_status charl_comm_init_if_launched(int *argc, char ***argv) CHARL_MUST_CHECK;

/** The MPI library and its version, one line, such as "Open MPI v4.1.4", or "no MPI library (libmpi.so.40)". Also
 *  before charl_comm_init. Borrowed until the next call on this thread. Local. */
const char *charl_comm_mpi_version(void);

/** End MPI, after every communicator is destroyed. Blocks. Collective on all processes. Not after
 *  ERR_COMM: use charl_comm_exit. */
void charl_comm_fini(void);

/** Exit immediately with `code`, without ending MPI and without waiting for other ranks: for a failure
 *  that not all ranks share. If several ranks of a node call it, the first writes `message` (NULL:
 *  nothing) and the others give it time to do so. c may be NULL. Local. Thread-safe. */
void charl_comm_exit(charl_comm *c, int code, const char *message) CHARL_NORETURN;

/** Make `size` ranks out of threads of this process, without MPI: each thread creates its own
 *  communicator, with the team in its options, and uses it as a process does. Owned: destroy it after all
 *  its communicators. Local. Blocks. Errors: ERR_INVALID, ERR_NOMEM. */
charl_status charl_team_create(int size, charl_team **out) CHARL_MUST_CHECK;
void charl_team_destroy(charl_team *team);

/** Communicator of all ranks of the job, between charl_comm_init and charl_comm_fini, or of a team. options may be
 *  NULL. Owned by the caller. Blocks. Collective.
 *  Errors: ERR_COMM, ERR_NOMEM (also: no room in /dev/shm); ERR_INVALID  MPI is not started, or has ended. */
charl_status charl_comm_create(const charl_comm_options *options, charl_comm **out) CHARL_MUST_CHECK;

/** Blocks. Collective on c, except when c is broken. NULL is a no-op. */
void charl_comm_destroy(charl_comm *c);

/** Local. */
int charl_comm_rank(const charl_comm *c);
int charl_comm_size(const charl_comm *c);
int charl_comm_local_rank(const charl_comm *c);
int charl_comm_local_size(const charl_comm *c);
int charl_comm_node(const charl_comm *c);
int charl_comm_node_count(const charl_comm *c);

/** Host name and process ID of any rank. Borrowed. Local. */
const char *charl_comm_host(const charl_comm *c, int rank);
int64_t charl_comm_pid(const charl_comm *c, int rank);

/** Whether the ranks are threads of this process. Local. */
bool charl_comm_is_team(const charl_comm *c);

enum { CHARL_COMM_PLACE = 256 };

/** Write who `rank` is and what it last did, "rank 2 of 4 (host, pid 77), step 40, backward", to `text`
 *  of CHARL_COMM_PLACE bytes; without step and phase for a rank on a node that sends no heartbeats. Returns
 *  text. Local. */
const char *charl_comm_place(const charl_comm *c, int rank, char *text, size_t bytes);

/** Whether a failure made the communicator unusable. Local. */
bool charl_comm_is_broken(const charl_comm *c);

/** Mark the communicator as broken, because this rank failed alone, outside of a collective, and cannot
 *  continue: from now on no call waits for another rank. Local. */
void charl_comm_break(charl_comm *c);

/** Set the silence in seconds after which a rank counts as lost, above 0 and at most 86400; other values are ignored.
 *  Local. */
void charl_comm_set_timeout(charl_comm *c, double timeout_s);

/** Bytes free in /dev/shm, where the ranks of a node share memory; INT64_MAX without /dev/shm. Local. */
int64_t charl_comm_shared_available(void);

/** Record step and phase of this rank, so that the other ranks can report them if it fails, and show that
 *  it is alive. phase NULL: as before. Cheap. Local. Thread-safe. */
void charl_comm_mark(charl_comm *c, int64_t step, const char *phase);

/** Let the process use all processors of its node that it is allowed to, unless the user chose a binding:
 *  mpirun binds one or two ranks to one core each, which starves their other threads. Call before any
 *  thread is started. *cpus: processors of this process afterwards. Local. Errors: ERR_COMM. */
charl_status charl_comm_bind(const charl_comm *c, int *cpus) CHARL_MUST_CHECK;

/** Limit the OpenCL CPU device to this rank's share of the node's processors, through the environment, unless the user
 *  did. Call before the first OpenCL call. In a team it does nothing: its ranks share one OpenCL, which
 *  the process limits before it creates them. Local. Errors: ERR_NOMEM. */
charl_status charl_comm_cpu_limit(const charl_comm *c) CHARL_MUST_CHECK;

/** Start a watchdog thread that watches the ranks of this node and calls on_death when one has died, within
 *  about 0.2 s, also while this rank computes. ctx is borrowed. Local.
 *  Errors: ERR_NOMEM, ERR_INVALID  a watchdog runs already. */
charl_status charl_comm_watch_begin(charl_comm *c, charl_comm_on_death on_death, void *ctx) CHARL_MUST_CHECK;

/** End the watchdog thread. No-op if none runs. Local. */
void charl_comm_watch_end(charl_comm *c);

/** Agree on one status: the worst of all ranks (on a tie the lowest rank's), with its message
 *  after "rank 2 of 4 (host): ". Call it wherever one rank's failure would leave the others
 *  waiting. Blocks. Collective on c. Errors: that status; ERR_COMM. */
charl_status charl_comm_agree(charl_comm *c, charl_status mine) CHARL_MUST_CHECK;

/** Mark this thread's last failure as known to all ranks: each of them fails in the same way, because all
 *  decided from the same values. No-op for CHARL_OK or a broken communicator. Returns st. Local. */
charl_status charl_comm_agreed(charl_comm *c, charl_status st);

/** Whether every rank knows of this thread's last failure: charl_comm_agree or a function documented as
 *  agreed returned it, or charl_comm_agreed marked it. If not, other ranks may be waiting for this one:
 *  call charl_comm_break before anything is freed. Local. */
bool charl_comm_is_agreed(const charl_comm *c);

/** Blocks. Collective on c. Errors: ERR_COMM. */
charl_status charl_comm_barrier(charl_comm *c) CHARL_MUST_CHECK;

/** Copy `bytes` of data from rank `root` to all ranks. Blocks. Collective on c. Errors: ERR_INVALID, ERR_COMM. */
charl_status charl_comm_broadcast(charl_comm *c, void *data, size_t bytes, int root) CHARL_MUST_CHECK;

/** all[r * bytes ...] = mine of rank r. Blocks. Collective on c. Errors: ERR_INVALID, ERR_COMM. */
charl_status charl_comm_allgather(charl_comm *c, const void *mine, size_t bytes, void *all) CHARL_MUST_CHECK;

/** v[i] = op over ranks, i < count. For control data only: the bits of a sum of doubles depend on the
 *  number of ranks. Blocks. Collective on c. Errors: ERR_INVALID,
 *  ERR_COMM. */
charl_status charl_comm_reduce_i64(charl_comm *c, charl_comm_op op, int64_t *v, int count) CHARL_MUST_CHECK;
charl_status charl_comm_reduce_f64(charl_comm *c, charl_comm_op op, double *v, int count) CHARL_MUST_CHECK;

/** Options of an all-reduce; zeros are the defaults. */
typedef struct charl_allreduce_options {
    size_t struct_size;          /* sizeof(charl_allreduce_options) */
    const char *algorithm;       /* see charl_allreduce_create; NULL: "auto" */
    charl_dtype reduce_dtype;    /* of lanes and sum: CHARL_F32, or CHARL_BF16, where every node of
                                    the tree is added in f32 and rounded */
    bool gathers;                /* parts of the gradients are gathered, as a sharded optimizer does */
    struct charl_device *device; /* of this rank, for algorithms that run on the devices; NULL:
                                    host memory only. Borrowed */
} charl_allreduce_options;

/** All-reduce of n gradients over the batch, added in the tree of base/numeric/tree.h: bit-identical for any
 *  number of ranks and any algorithm except "mpi".
 *
 *  A step is: write this rank's lanes of a range [offset, offset + count), begin the range, continue;
 *  later wait for it and read the sum. All ranks begin the same ranges in the same order. The lanes
 *  of a range may be written again after its wait. Its sum is valid from its wait to the next begin
 *  of a range that overlaps it; begin therefore implies that the last sums of the range were read.
 *
 *  mine are the slices of this rank; together the ranks cover the batch in rank order. options
 *  may be NULL. Algorithms:
 *
 *      "auto"          the fastest that works here; CHARL_ALLREDUCE overrides the option
 *      a name          charl_allreduce_algorithm_name lists them. With "peer", lanes
 *                      and sum are device memory, and it does not gather
 *
 *  Owned by the caller, not longer than c. Blocks. Collective on c.
 *  Errors: ERR_CONFIG unknown algorithm or type, or it does not work here; ERR_INVALID slices that
 *  do not fit together; ERR_NOMEM, also when /dev/shm is too small (the message says what it needs);
 *  ERR_COMM.
 *  Cost, with elements of e bytes: shm reads e*n*lanes bytes over all ranks and writes e*n;
 *  hierarchical sends 2*e*n*(N-1)/N bytes from each of N nodes with one lane each, p2p as many from
 *  each rank; peer writes and reads 4*n*(p-1)/p bytes per GPU, twice, with p ranks on a node, and sends as many bytes
 *  between nodes as hierarchical. */
charl_status charl_allreduce_create(charl_comm *c, int64_t n, const charl_slices *mine,
                                    const charl_allreduce_options *options, charl_allreduce **out) CHARL_MUST_CHECK;

/** Name of algorithm i = 0, 1, ..., in order of preference; NULL after the last. "local" is for one
 *  rank. Static storage. Local. */
const char *charl_allreduce_algorithm_name(int i);

/** Name of algorithm i as above. *why receives NULL, or the reason why it cannot run on c; why may be NULL.
 *  Static storage. Local. */
const char *charl_allreduce_algorithm(const charl_comm *c, int i, const char **why);

/** Blocks. Collective on its communicator, except when that is broken. NULL is a no-op. */
void charl_allreduce_destroy(charl_allreduce *ar);

/** Name of the algorithm in use. Static storage. Local. */
const char *charl_allreduce_get_name(const charl_allreduce *ar);

/** Whether the sum has the same bits for any number of ranks. Local. */
bool charl_allreduce_is_invariant(const charl_allreduce *ar);

/** Copy `count` values of reduce_dtype, from value `offset` on, from host memory to lane j of this rank, or from the
 *  completed sums to host memory. Lanes and sums may be device memory. Blocks. Local.
 *  Errors: ERR_INVALID  outside of the lane or sum; ERR_DEVICE. */
charl_status charl_allreduce_write_lane(charl_allreduce *ar, int j, int64_t offset, int64_t count,
                                        const void *src) CHARL_MUST_CHECK;
charl_status charl_allreduce_read_sum(const charl_allreduce *ar, int64_t offset, int64_t count,
                                      void *dst) CHARL_MUST_CHECK;

/** Start the all-reduce of a range, of which this rank has written its lanes. At most 512 ranges are in
 *  flight. *ticket, 0, 1, ..., is for charl_allreduce_wait. Async. Collective on c, but does not wait for other
 *  ranks. Errors: ERR_INVALID, ERR_COMM. */
charl_status charl_allreduce_begin(charl_allreduce *ar, int64_t offset, int64_t count,
                                   int64_t *ticket) CHARL_MUST_CHECK;

/** Blocks until the range is complete. Collective on c. Errors: ERR_INVALID, ERR_COMM. */
charl_status charl_allreduce_wait(charl_allreduce *ar, int64_t ticket) CHARL_MUST_CHECK;

/** The same sum for few values, at low latency, many times per step: batch-norm sums, loss, counts.
 *  Owned by the caller, not longer than c. Blocks. Collective on c. Errors: as
 *  charl_allreduce_create. */
charl_status charl_reducer_create(charl_comm *c, const charl_slices *mine, charl_reducer **out) CHARL_MUST_CHECK;

/** Blocks. Collective on its communicator, except when that is broken. NULL is a no-op. */
void charl_reducer_destroy(charl_reducer *r);

/** out[i] = the tree over all lanes of all ranks, i < count.
 *
 *  lanes  [n_lanes of this rank, count]  read
 *  out    [count]                        written; may be lanes
 *
 *  Blocks. Collective on c. Deterministic. Errors: ERR_INVALID, ERR_COMM. */
charl_status charl_reducer_sum(charl_reducer *r, const float *lanes, int64_t count, float *out) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
