#ifndef CHARL_DIST_TRANSPORT_H
#define CHARL_DIST_TRANSPORT_H
/** How ranks communicate: by MPI if they are processes, through their common memory if
 *  they are threads of one process. Everything else in dist uses these few operations only, so that it works
 *  in the same way with both. None of them waits unless documented: charl__comm_finish waits.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "charl/comm.h"
#include "dist/mpi.h"

typedef struct charl__transport charl__transport;

/* Ranks that communicate: those of the job, those of a node. */
typedef struct charl__group {
    const charl__transport *transport;
    int rank, size;
} charl__group;

/* One part for every rank of a group; the arrays are of the group's size. */
typedef struct charl__parts {
    void *data;
    size_t unit;           /* bytes of a value: 1, 2 or 4 */
    const int *count, *at; /* values */
} charl__parts;

typedef enum charl__operation {
    CHARL__BROADCAST,
    CHARL__ALLGATHER,
    CHARL__ALLTOALL,
    CHARL__REDUCE,
    CHARL__SEND,
    CHARL__RECEIVE
} charl__operation;

/* Values for one rank, or from one: the other end names them by the same tag. Between two ranks
 * messages of a tag keep their order. */
typedef struct charl__message {
    void *data;
    size_t unit; /* as of charl__parts */
    int count, rank, tag;
} charl__message;

/* An operation in flight. It, its memory and its arrays must stay valid until it is complete.
 */
typedef struct charl__request {
    charl__operation operation;
    charl__message message; /* of SEND and RECEIVE */
    bool is_over;           /* test has found it complete */
    MPI_Request mpi;
    /* for threads: the data for the others */
    charl__parts send, receive;
    size_t bytes;
    charl_comm_op op;
    const int64_t *values; /* of this rank, reduced to send.data */
    int root;
    double visible_s; /* of a message: time at which the other sees it; 0: at once */
    int seen;         /* ranks that have shown or taken the operation; the next poll continues after them */
    int64_t number;   /* of the operation in its group */
    bool is_taken;    /* everything from the others is here, or does not fit: */
    charl_status status;
    atomic_bool is_read;         /* the message has been received */
    struct charl__request *next; /* message for the same rank, sent later */
} charl__request;

/* Memory shared by the ranks of a node; private memory where a node has one rank. */
typedef struct charl__window {
    unsigned char *base; /* aligned to 4096 */
    void *owned;         /* private */
    bool is_shared;
    MPI_Win mpi;
    struct charl__common *common; /* of threads */
} charl__window;

/* In every operation but send and receive all ranks of the group take part, in the same order. */
struct charl__transport {
    /* Part of what the operating system limits separately, for messages. */
    bool takes_dev_shm;
    /* The ranks of `from` that can share memory. Blocks. Owned by the caller. */
    charl_status (*near)(charl_comm *c, charl__group *from, charl__group **out);
    /* Those of equal color, ordered by (key, rank in `from`). Blocks. Owned by the caller. */
    charl_status (*split)(charl_comm *c, charl__group *from, int color, int key, charl__group **out);
    /* Collective, except when broken. */
    void (*destroy)(charl__group *g, bool is_broken);
    /* data of root to all. */
    charl_status (*broadcast)(charl__group *g, void *data, size_t bytes, int root, charl__request *r);
    /* Every rank's own part of `all` to the others. */
    charl_status (*allgather)(charl__group *g, const charl__parts *all, charl__request *r);
    /* Part k of `send` to rank k, from which part k of `receive` comes. */
    charl_status (*alltoall)(charl__group *g, const charl__parts *send, const charl__parts *receive, charl__request *r);
    /* out[i] = over all ranks' mine[i]. */
    charl_status (*reduce)(charl__group *g, charl_comm_op op, const int64_t *mine, int64_t *out, int count,
                           charl__request *r);
    /* To one rank, from one rank. A message of an unexpected length is ERR_COMM. */
    charl_status (*send)(charl__group *g, const charl__message *m, charl__request *r);
    charl_status (*receive)(charl__group *g, const charl__message *m, charl__request *r);
    /* After a failure: from then on no other rank uses the memory of this rank's operations. NULL: none does anyway. */
    void (*withdraw)(charl__group *g);
    /* Whether r is complete; may be called again for a complete one. */
    charl_status (*test)(charl__group *g, charl__request *r, bool *is_complete);
    /* `bytes` shared by all ranks of g, to w->base; not touched yet. Blocks. */
    charl_status (*share)(charl_comm *c, charl__group *g, size_t bytes, charl__window *w);
    void (*unshare)(charl__window *w, bool is_broken);
};

/** All processes that MPI started. Owned by the caller. Errors: ERR_COMM, ERR_NOMEM. */
charl_status charl__mpi_world(charl__group **out) CHARL_MUST_CHECK;
/** MPI's communicator of a group of processes; MPI_COMM_NULL for threads. Borrowed. */
MPI_Comm charl__mpi_comm(const charl__group *g);

/** All ranks of a team, seen from one. Owned by the caller, no longer than the team.
 *  Errors: ERR_NOMEM, ERR_INVALID. */
charl_status charl__team_world(charl_team *team, int rank, charl__group **out) CHARL_MUST_CHECK;

/** Fails with ERR_COMM if `count` values arrived and m were expected. */
charl_status charl__message_check(const charl__group *g, const charl__message *m, int count) CHARL_MUST_CHECK;

/** NULL is a no-op. */
void charl__group_destroy(charl__group *g, bool is_broken);
/** After a failure, before the memory of operations that may be under way is used for something else. NULL is a no-op. */
void charl__group_withdraw(charl__group *g);

/** The arrays of a charl__parts for `size` ranks with parts of one size, one after another. */
static inline void charl__parts_equal(int size, size_t each, int *count, int *at)
{
    for (int r = 0; r < size; r++) {
        count[r] = (int)each;
        at[r] = r * (int)each;
    }
}

#define CHARL_MPI(call)                                                                                                \
    do {                                                                                                               \
        const int mpi_err = (call);                                                                                    \
        if (mpi_err != MPI_SUCCESS) {                                                                                  \
            char mpi_text[MPI_MAX_ERROR_STRING] = "unknown";                                                           \
            int mpi_length = 0;                                                                                        \
            charl__mpi.Error_string(mpi_err, mpi_text, &mpi_length);                                                   \
            CHARL_FAIL(CHARL_ERR_COMM, "%s: %s", #call, mpi_text);                                                     \
        }                                                                                                              \
    } while (0)

#endif
