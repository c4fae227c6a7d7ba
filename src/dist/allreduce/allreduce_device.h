#ifndef CHARL_DIST_ALLREDUCE_ALLREDUCE_DEVICE_H
#define CHARL_DIST_ALLREDUCE_ALLREDUCE_DEVICE_H
/** All-reduces that run on the devices: begin enqueues a range after the commands in the compute queue,
 *  and nothing waits on the host.
 */
#include "charl/comm.h"
#include "dist/allreduce/parts.h"
#include "device/device.h"

/** Whether `name` is auto or the name of an algorithm. Local. Errors: ERR_CONFIG. */
charl_status charl__allreduce_check_name(const char *name) CHARL_MUST_CHECK;
/** Whether the algorithm `name`, or its replacement here, can give each rank only the sums of its part. Local. */
bool charl__allreduce_can_scatter(const charl_comm *c, const char *name);
/** Where algorithm i works and how, in one line; NULL past the last. */
const char *charl__allreduce_algorithm_help(int i);

/** As charl_allreduce_create. values: with options.gathers, the n floats of device memory that ranges gather in place, for algorithms that
 *  run on the devices; NULL: they do not gather. Retained. owners: who owns which of the n values; NULL: every range is divided. Borrowed. */
charl_status charl__allreduce_create_with(charl_comm *c, int64_t n, const charl_slices *mine,
                                          const charl_allreduce_options *options, charl__buffer *values,
                                          const charl__owners *owners, charl_allreduce **out) CHARL_MUST_CHECK;

/** Whether charl__allreduce_gather gathers the values of charl__allreduce_create_with, after the commands in the compute queue. */
bool charl__allreduce_gathers_in_place(const charl_allreduce *ar);

/** Whether ar runs on the device. Then *lanes holds this rank's lanes, at the all-reduce's stride,
 *  and *sum the completed sums; borrowed. */
bool charl__allreduce_buffers(const charl_allreduce *ar, charl__buffer **lanes, charl__buffer **sum);

/** The event at which the device has written the lanes of the last range begun: borrowed, until the next one is
 *  begun; NULL before the first. */
const charl__event *charl__allreduce_written(const charl_allreduce *ar);

/** Make launches enqueued from now on see the sums of all ranges begun. Requires
 *  charl__allreduce_buffers. Async on one node; on several, blocks until this rank has exchanged its parts with the other nodes
 *  (charl__allreduce_join_waits). charl_allreduce_wait reports lost ranks. Errors: ERR_COMM, ERR_DEVICE. */
charl_status charl__allreduce_join(charl_allreduce *ar) CHARL_MUST_CHECK;

/** Whether no range has gone wrong on the device, of those that it has completed, after the connection between the ranks was lost. Local. */
bool charl__allreduce_is_intact(charl_allreduce *ar);

/** Whether charl__allreduce_join waits for other ranks. */
bool charl__allreduce_join_waits(const charl_allreduce *ar);

/** Before a join that waits: exchange with other nodes while the device computes. Blocks until the device has written the lanes of the last
 *  range begun, however long it computes, but no longer than the communicator's timeout for a rank of this node that makes no progress. (On CPU
 *  devices a kernel that waits for that rank occupies the threads that gradients need.) Errors: ERR_COMM, ERR_DEVICE. */
charl_status charl__allreduce_exchange(charl_allreduce *ar) CHARL_MUST_CHECK;

/** Whether ranges begun from now on are summed while the compute queue has work: with few work-groups, which
 *  leave it the other compute units. Otherwise with as many as make it fast, the default. Must be equal on
 *  all ranks; changes no bit. */
void charl__allreduce_share(charl_allreduce *ar, bool with_launches);

/* Parameters of the kernel; preset by create, changed for tests and measurements: equally on all ranks,
 * while nothing is in flight. */
typedef struct charl__peer_tuning {
    int groups;          /* work-groups, at most as many as create has allocated for */
    int groups_beside;   /* ... of sums that share the device with launches of the compute queue */
    int64_t words_bytes; /* ranges up to this size are sent in marked words, others in tiles */
    int64_t words_left;  /* maximum number of such ranges: their marks, this number, are never reused */
    double patience_s;   /* of the kernel; 0: the communicator's */
} charl__peer_tuning;

/** Borrowed; NULL unless ar is a "peer". */
charl__peer_tuning *charl__peer_tuning_of(charl_allreduce *ar);

/** Name of the algorithm in use. Static storage. Local. */
const char *charl__allreduce_get_name(const charl_allreduce *ar);

/** Whether the sum has the same bits for any number of ranks. Local. */
bool charl__allreduce_is_invariant(const charl_allreduce *ar);

#endif
