#ifndef CHARL_DIST_ALLREDUCE_ALLREDUCE_H
#define CHARL_DIST_ALLREDUCE_ALLREDUCE_H
/** What an all-reduce algorithm is: a row of the registry (docs/adding-a-type.md). */
#include "base/registry/registry.h"
#include "device/device.h"
#include "dist/comm_private.h"

enum { CHARL__RANGES = 512 }; /* ranges on their way */

typedef struct charl__range {
    int64_t offset, count;
    bool gathers; /* of what ranks have written, instead of sums */
} charl__range;

typedef struct charl__algorithm {
    charl_row row;  /* without keys */
    int preference; /* auto takes the algorithm with the lowest one that works, 1, 2, ... */
    bool is_invariant;
    bool has_bf16, has_gather, has_scatter;
    /* NULL, or why it does not work on this communicator. */
    const char *(*unavailable)(const charl_comm *c);
    /* Allocate lanes, sum, with options.gathers gathered, and ar->own; collective and agreed. */
    charl_status (*create)(charl_allreduce *ar);
    void (*destroy)(charl_allreduce *ar);
    /* ar->range[ticket % RANGES] is new; may be NULL */
    charl_status (*begin)(charl_allreduce *ar, int64_t ticket);
    charl_status (*progress)(charl_allreduce *ar); /* advance ar->completed without waiting */
    bool (*late)(const void *ar, int rank);        /* whether ar->completed waits for rank; may be NULL */
    /* Algorithms that run on the devices; NULL for the others. */
    charl_status (*join)(charl_allreduce *ar);        /* what is computed from now on sees the sums */
    charl_status (*verify)(charl_allreduce *ar);      /* the ranges completed are right */
    void (*abandon)(charl_allreduce *ar);             /* end what waits on the device */
    bool (*is_exchanging)(const charl_allreduce *ar); /* whether messages are under way */
} charl__algorithm;

struct charl_allreduce {
    const charl__algorithm *algorithm;
    charl_comm *c;
    charl__lane_map map;
    charl__window window; /* everything, or only the sum and lanes of this rank */
    int my_lanes;
    int64_t n, stride;
    charl_allreduce_options options;
    size_t element; /* bytes of a value of lanes and sum */
    void *lanes, *sum;
    float *gathered;                          /* stride floats, or NULL */
    charl__buffer *device_lanes, *device_sum; /* of algorithms that run on the devices */
    charl__buffer *device_values;             /* ... which gather these; retained; or NULL */
    bool shares;                              /* ... beside launches of the compute queue */
    charl__event *written;                    /* ... what the last range waits for, or NULL */
    bool waits;                               /* in charl_allreduce_wait */
    int64_t begun, completed;
    charl__range range[CHARL__RANGES];
    void *own;
};

/** All algorithms, charl__allreduce_NAME in a file of this folder, and NULL. Made by CMake. */
extern const void *const charl__allreduces[];
extern const charl__algorithm charl__allreduce_peer;

/** Part r of `size` of a range, in whole blocks of CHARL__PART values, which is what an optimizer
 *  cannot divide: [*from, *to) relative to the range's offset. */
enum { CHARL__PART = 64 };
void charl__range_part(int64_t count, int r, int size, int64_t *from, int64_t *to);

/** Element i of lanes or a sum that begin at base. */
static inline void *charl__element(const charl_allreduce *ar, void *base, int64_t i)
{
    return (unsigned char *)base + (size_t)i * ar->element;
}

/** Bytes of a lane or a sum; of the gathered memory. */
static inline size_t charl__lane_bytes(const charl_allreduce *ar)
{
    return (size_t)ar->stride * ar->element;
}
static inline size_t charl__gathered_bytes(const charl_allreduce *ar)
{
    return ar->options.gathers ? (size_t)ar->stride * sizeof(float) : 0;
}

/** out = the tree over leaf[0 .. m), n values each of the type that is reduced, by adds[0 .. m-1).
 */
void charl__allreduce_add(const charl_allreduce *ar, const charl__tree_add *adds, int m, void *const *leaf, int64_t n,
                          void *out);

/** Messages under way, in an array that the caller has made large enough. */
typedef struct charl__messages {
    charl__request *request;
    int n;
} charl__messages;

/** Add one; nothing where it has no values. Errors: those of the transport. */
charl_status charl__messages_send(const charl_allreduce *ar, charl__messages *q,
                                  const charl__message *m) CHARL_MUST_CHECK;
charl_status charl__messages_receive(const charl_allreduce *ar, charl__messages *q,
                                     const charl__message *m) CHARL_MUST_CHECK;
/** Whether all have ended; stops at the first that has not. Whether one from or to a rank has not, or has failed. */
charl_status charl__messages_test(const charl_allreduce *ar, charl__messages *q, bool *out) CHARL_MUST_CHECK;
bool charl__messages_await(const charl_allreduce *ar, const charl__messages *q, int rank);

/* How far the ranks of a node are, in memory that they share: one record per local rank, written by
 * its owner only, counters that grow for ever. */
typedef struct charl__flags {
    _Alignas(CHARL__LINE) atomic_int_least64_t ready;        /* ranges begun: what they need is written */
    _Alignas(CHARL__LINE) atomic_int_least64_t done;         /* ranges of which this rank did its share */
    _Alignas(CHARL__LINE) charl__range range[CHARL__RANGES]; /* what was begun: must be equal on all ranks */
} charl__flags;

/** This rank begins ar->range[ticket % RANGES]. */
void charl__flags_begin(const charl_allreduce *ar, charl__flags *flags, int64_t ticket);

/** The least of the node's ranks, with what they wrote before it. */
int64_t charl__flags_ready(const charl_allreduce *ar, const charl__flags *flags);
int64_t charl__flags_done(const charl_allreduce *ar, const charl__flags *flags);

/** Check that the node's ranks, all ready, began the same range. Errors: ERR_COMM; ar->c is broken.
 */
charl_status charl__flags_compare(const charl_allreduce *ar, const charl__flags *flags,
                                  int64_t ticket) CHARL_MUST_CHECK;

/** Whether range ar->completed waits for a rank of this node. */
bool charl__flags_late(const charl_allreduce *ar, const charl__flags *flags, int rank);

#endif
