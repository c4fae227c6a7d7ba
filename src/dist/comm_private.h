#ifndef CHARL_DIST_COMM_PRIVATE_H
#define CHARL_DIST_COMM_PRIVATE_H
/** Shared by the files of dist: the communicator, waiting with a deadline, windows of shared
 *  memory. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/error.h"
#include "base/numeric/tree.h"
#include "base/owner.h"
#include "charl/comm.h"
#include "dist/transport.h"

enum {
    CHARL__HOST_BYTES = 64,
    CHARL__PHASE_WORDS = 6,
    CHARL__LINE = 128,
    CHARL__PAGE = 4096,
    CHARL__GATHERED = 4,
    CHARL__MESH = 8
};

/* What every rank knows about every other one; sent as bytes at creation. */
typedef struct charl__peer {
    char host[CHARL__HOST_BYTES];
    int64_t pid;
    int64_t task;    /* the thread that is the rank: of a process, its first */
    int64_t started; /* of the task, from /proc: distinguishes it from a later one with the same number */
    int leader;      /* world rank of the first rank of its node */
    int node, local_rank;
} charl__peer;

/* A rank's words in the page that the ranks of a node share. */
typedef struct charl__slot {
    _Alignas(CHARL__LINE) atomic_int_least64_t beat; /* of the watching thread */
    atomic_int_least64_t marks, step;
    atomic_int_least64_t entered;   /* control collectives that the rank has begun */
    atomic_int_least64_t waited_ms; /* when it last looked for others, while waiting for them */
    atomic_int leaving;             /* its exit is not a failure */
    atomic_uint_least64_t phase[CHARL__PHASE_WORDS];
    /* Of ranks on other nodes, whose words above are copies: */
    atomic_int state;              /* letter of /proc as their node sees it; X: gone; 0: unknown */
    atomic_int_least64_t heard_ms; /* time of the last heartbeat of their node; 0: none, or no longer */
} charl__slot;

typedef struct charl__board {
    _Alignas(CHARL__LINE) atomic_int has_reported; /* a rank of this node has printed the error that ends the job */
    atomic_int last;                               /* of charl__comm_last */
    /* Grows while any rank of the job moves, and stops growing when none does: one more than any that was heard where ranks of this node
     * have moved. Written by its first rank; 0 where all nodes hear of each other. */
    atomic_int_least64_t pulse;
    charl__slot slot[]; /* by rank; of this node's each writes its own */
} charl__board;

struct charl_comm {
    charl__owner owner;
    charl__group *world, *node;
    bool is_team; /* its ranks are threads of this process */
    bool has_mpi; /* MPI connects them */
    int rank, size, local_rank, local_size, n_nodes;
    charl__peer *peer;    /* [size] */
    bool *is_visible;     /* [size]: on this node and in this pid namespace */
    int *node_first;      /* [n_nodes + 1]: ranks of node m are node_first[m] .. node_first[m+1] */
    int *counts, *places; /* [size]: of the charl__parts of a gather that blocks */
    double *gathered;     /* [size * CHARL__GATHERED]: values of all ranks */
    int looked;           /* peers of the node that have been checked so far, in turn */
    charl__window page;
    charl__board *board;
    charl__slot *me;
    double timeout_s, still_s;
    int spins;  /* polls before giving up the processor */
    int yields; /* ... if others wait to run; then they sleep */
    double nap_s;
    atomic_int dead; /* rank that the watching thread found dead, or -1 */
    bool is_broken;
    bool is_told;          /* ... because another rank has printed the error that ends the job */
    uint64_t agreed_error; /* charl__error_number of the last failure that all ranks know */
    int tags;              /* of point-to-point messages, assigned so far */
    struct charl__watch *watch;
    struct charl__heartbeat *heartbeat; /* connections to other nodes; NULL except on the first rank of a node */
};

/** The rank whose local rank on this node is `local`. */
int charl__comm_local_peer(const charl_comm *c, int local);

/** Widen the binding of the process unless it must be kept, and limit the OpenCL CPU device, as documented for charl_comm_create. Local. Errors: ERR_COMM,
 *  ERR_NOMEM. */
charl_status charl__comm_claim_processors(const charl_comm *c, bool keep_binding) CHARL_MUST_CHECK;

/* Waiting: start, then pause after every poll that found nothing. A pause fails if a peer is dead
 * or if nothing has made progress for the timeout. late tells whether a rank is being waited
 * for; NULL: a rank that has not entered the control collective. */
typedef struct charl__waiter {
    const char *what;
    bool (*late)(const void *arg, int rank);
    const void *arg;
    bool has_messages; /* under way, which progress only while a rank polls: this rank stays awake for longer */
    double start_s, still_since_s, looked_s;
    int64_t life;
    int64_t polls;
} charl__waiter;

void charl__wait_start(charl_comm *c, charl__waiter *w, const char *what, bool (*late)(const void *, int),
                       const void *arg);
charl_status charl__wait_pause(charl_comm *c, charl__waiter *w) CHARL_MUST_CHECK;

/** For a loop that waits for something other than ranks: show the others that this rank is alive. Fails if a peer is dead, or if
 *  has_deadline has been true, without any progress, for the timeout. */
charl_status charl__wait_look(charl_comm *c, charl__waiter *w, bool has_deadline) CHARL_MUST_CHECK;

/** Fails with ERR_COMM when c is broken. */
charl_status charl__comm_check(charl_comm *c) CHARL_MUST_CHECK;

/** Count the start of a control collective. */
void charl__comm_enter(charl_comm *c);

/** Wait for a request in a group of c's. On failure it is abandoned with its buffers, and c is
 *  broken. */
charl_status charl__comm_finish(charl_comm *c, charl__group *g, charl__request *request,
                                const char *what) CHARL_MUST_CHECK;

/** Milliseconds of the clock that all ranks of a node share. */
int64_t charl__now_ms(void);

static inline charl__slot *charl__slot_of(const charl_comm *c, int rank)
{
    return &c->board->slot[rank];
}

/** Number of peers on its node that a rank checks at a time: all of few, some of many in turn, so that the checks of a node do not grow
 *  with the square of its ranks. */
int charl__looks(const charl_comm *c);

/** How many nodes may report a rank of another node before this one does, so that one message names it: connected nodes have
 *  different numbers. rank -1: it is unknown. Local. */
int charl__turn(const charl_comm *c, int rank);

/** Whether a peer's process has ended: observed on this node, or reported by another. */
bool charl__peer_is_dead(const charl_comm *c, int rank);

/** Whether a rank has waited for others within the last second: so it is not the one that hangs. */
bool charl__peer_is_waiting(const charl_comm *c, int rank);

/** "rank 2 of 4 (host, pid 77)" into text. */
const char *charl__peer_name(const charl_comm *c, int rank, char *text, size_t bytes);

/** Append "; " unless it is the first, then name, state and place of a rank to text. Returns the new
 *  length, or `used` if there is no room left. */
size_t charl__peer_describe(const charl_comm *c, int rank, char *text, size_t bytes, size_t used);

/** A number that grows whenever a rank other than `without` makes progress. The pulse represents ranks of nodes without a connection. */
int64_t charl__life_sum(const charl_comm *c, int without);

/** Its last mark, "step 40, backward", or "start-up"; text of at least 96 bytes. */
const char *charl__peer_place(const charl_comm *c, int rank, char *text, size_t bytes);

/** State letter and start time of the thread that is the rank, from /proc. False when it is gone. */
bool charl__process_read(const charl__peer *p, char *state, int64_t *started);

/** Zeroed shared memory of `bytes` (equal on all ranks of a node), `what` names it in messages.
 *  Collective on c; agreed. Errors: ERR_NOMEM, ERR_COMM. */
charl_status charl__window_create(charl_comm *c, size_t bytes, const char *what, charl__window *w) CHARL_MUST_CHECK;
void charl__window_destroy(const charl_comm *c, charl__window *w);

static inline size_t charl__round_up(size_t value, size_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* All lanes of all ranks, in slice order, and the adds that complete the sum. */
typedef struct charl__lane_map {
    int n, max_of_rank, total; /* of slices */
    int *rank, *index;         /* lane k is lane index[k] of rank[k] */
    int *lo;                   /* its first slice */
    int *first;                /* lanes of rank r: first[r] .. first[r+1] */
    charl__tree_add *adds;
} charl__lane_map;

/** Collective on c; agreed. Release it even after a failure. Errors: ERR_INVALID, ERR_CONFIG, ERR_COMM, ERR_NOMEM. */
charl_status charl__lane_map_init(charl_comm *c, const charl_slices *mine, charl__lane_map *map) CHARL_MUST_CHECK;
void charl__lane_map_fini(charl__lane_map *map); /* {0} is a no-op */

/* The same one level up: a node's ranks own one block of slices too, so a node has lanes like a rank,
 * each the tree over some lanes of its ranks. */
typedef struct charl__node_map {
    int n_nodes, n;  /* n: lanes of all nodes */
    const int *rank; /* ranks of node m: rank[m] .. rank[m+1]; the communicator's */
    int *first;      /* lanes of node m: first[m] .. first[m+1] */
    charl__tree_add *adds;
    int *leaf;              /* node lane k adds lanes leaf[k] .. leaf[k+1] of the ranks */
    charl__tree_add *inner; /* node lane k, by the adds from inner[leaf[k]] on */
} charl__node_map;

/** Local. Release it even after a failure. Errors: ERR_INVALID, ERR_NOMEM. */
charl_status charl__node_map_init(const charl_comm *c, const charl__lane_map *lanes,
                                  charl__node_map *map) CHARL_MUST_CHECK;
void charl__node_map_fini(charl__node_map *map); /* {0} is a no-op */

/** The node of this rank, from 0. */
int charl__comm_node(const charl_comm *c);

#endif
