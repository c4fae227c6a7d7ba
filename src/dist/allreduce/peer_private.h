#ifndef CHARL_DIST_ALLREDUCE_PEER_PRIVATE_H
#define CHARL_DIST_ALLREDUCE_PEER_PRIVATE_H
/** Shared by allreduce_peer.c and peer_nodes.c: an all-reduce whose additions within a node are kernels. */
#include "base/text/text.h"
#include "dist/allreduce/allreduce.h"
#include "dist/allreduce/allreduce_device.h"
#include "dist/allreduce/peer.h"

/* The kernels. One node: WORDS or TILES for a range. Several: SCATTER, then messages, then GATHER. GATHER_VALUES: ranges that gather. */
typedef enum charl__peer_way {
    CHARL__PEER_WORDS,
    CHARL__PEER_TILES,
    CHARL__PEER_SCATTER,
    CHARL__PEER_GATHER,
    CHARL__PEER_GATHER_VALUES,
    CHARL__PEER_WAYS
} charl__peer_way;

/* A rank's progress, for the others' hosts. */
typedef struct charl__peer_page {
    _Alignas(CHARL__LINE) atomic_int_least64_t begun;
    atomic_int_least64_t gathered; /* several nodes: ranges whose last kernel has been enqueued */
} charl__peer_page;

typedef struct charl__peer_nodes charl__peer_nodes;

typedef struct charl__peer_state {
    charl_device *dev;
    bool in_place;                /* the device computes in memory of the host */
    size_t element;               /* bytes of a value of lanes and sum: f32 or bf16 */
    int ranks, rank, first_rank;  /* of this node; this rank among them; the job's number of the first */
    int lanes, first_lane;        /* of this node's ranks; the first one's number in ar->map */
    charl__device_export *export; /* this rank's staging buffer */
    charl__buffer *box[CHARL__MAX_PEERS];
    charl__prepared *way[CHARL__PEER_WAYS]; /* NULL: not needed here */
    charl__buffer *block,
        *values_block;        /* for the kernels: addresses of all buffers; with the values instead of the sum */
    charl__buffer *values;    /* the values that ranges gather; borrowed; NULL: there are none */
    charl__buffer *state;     /* for the kernels: [0] ranks lost, [1] end all waiting */
    atomic_uint *words;       /* state, if the host can read it at any time; or NULL: */
    charl_pinned *seen_owner; /* then it is copied at the end of ranges */
    uint32_t *seen;
    void *host; /* lanes and sum, if the device works in place */
    charl__window page;
    charl__event *end; /* of the ranges before `ended`; NULL until requested */
    int64_t ended;
    charl__text each_rank, owners, adds, results; /* parameters of kernels */
    int local, packs;                             /* work-items of a group; packs of four floats of each in flight */
    charl__peer_tuning tuning;
    int64_t epoch, gather_epoch; /* of the next synchronization */
    int64_t behind;              /* commands of the compute queue that the last kernel has waited for */
    bool is_trusted;             /* it has worked before: a rank that does not arrive is lost */
    charl__node_map node_map;
    charl__peer_nodes *nodes; /* NULL: all ranks are on one node */
} charl__peer_state;

/* A kernel over a range: parts first ... of `parts` are those of this node's ranks. */
typedef struct charl__peer_launch {
    charl__peer_way way;
    charl__range range;
    bool shares; /* the device with launches of the compute queue */
    int first, parts;
    const charl__event *after; /* or NULL */
} charl__peer_launch;

/** Async. Errors: ERR_DEVICE. */
charl_status charl__peer_enqueue(charl_allreduce *ar, const charl__peer_launch *l) CHARL_MUST_CHECK;

/** The queue of GATHER and GATHER_VALUES. */
charl__queue charl__peer_gather_queue(const charl__peer_state *s);

/** Fails if a kernel has timed out, as far as the host knows. Errors: ERR_COMM, ERR_DEVICE. */
charl_status charl__peer_check(charl_allreduce *ar) CHARL_MUST_CHECK;

static inline charl__peer_page *charl__peer_page_of(const charl__peer_state *s, int rank)
{
    return (charl__peer_page *)(void *)s->page.base + (rank - s->first_rank);
}

/** ar->own is ready except for nodes. Local. Errors: ERR_NOMEM. */
charl_status charl__peer_nodes_create(charl_allreduce *ar) CHARL_MUST_CHECK;
void charl__peer_nodes_destroy(charl__peer_nodes *n); /* NULL is a no-op */
/** Enqueue the first half of a range, to start after `written`. May wait for earlier ranges. Errors: ERR_COMM, ERR_DEVICE. */
charl_status charl__peer_nodes_begin(charl_allreduce *ar, int64_t ticket, const charl__event *written) CHARL_MUST_CHECK;
/** Make progress without waiting. Errors: ERR_COMM, ERR_DEVICE. */
charl_status charl__peer_nodes_progress(charl_allreduce *ar) CHARL_MUST_CHECK;
/** Wait until the last kernels of all ranges begun have been enqueued. Errors: ERR_COMM, ERR_DEVICE. */
charl_status charl__peer_nodes_flush(charl_allreduce *ar) CHARL_MUST_CHECK;
/** Ranges whose last kernels have been enqueued. */
int64_t charl__peer_nodes_gathered(const charl__peer_nodes *n);
/** Whether messages are in flight. */
bool charl__peer_nodes_exchange(const charl__peer_nodes *n);
/** Whether messages are awaited from a rank of another node. */
bool charl__peer_nodes_late(const charl_allreduce *ar, int rank);

#endif
