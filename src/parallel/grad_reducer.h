#ifndef CHARL_PARALLEL_GRAD_REDUCER_H
#define CHARL_PARALLEL_GRAD_REDUCER_H
/** Connects a rank's device with the communicator: gradients in buckets during the backward pass,
 *  small sums at once.
 *
 *  If the device uses host memory in place, the gradient arenas are in the window that the ranks
 *  share and nothing is copied (except sums, if parameters are used several times: each rank adds them
 *  up itself). Otherwise that window is pinned, and lanes are downloaded and sums uploaded in
 *  chunks, several in flight at once. Gradients that are sent in bf16 are converted on the device,
 *  after the launches that finish a bucket and before those that read the sums
 *  (parallel/grad_compress.h).
 *
 *  With an all-reduce that gathers, such a device has its parameters in the memory of the
 *  all-reduce too, for all ranks of a node (parallel/optimizer_shard.h); the last bucket of a step is then begun
 *  when the graph has run, so that a rank that has all sums knows that no rank still reads the parameters.
 */
#include "autograd/graph.h"
#include "charl/comm.h"
#include "dist/allreduce/parts.h"
#include "tensor/params.h"

typedef struct charl__grad_reducer charl__grad_reducer;

/** For a set that has its layout and values; allocates its gradients. The options are passed to the
 *  all-reduce of the set's reduce_dtype, and so are the owners, which may be NULL. A single rank that sums in f32 needs no reducer:
 *  *out is then NULL. Collective on comm: every rank gets the same status. */
charl_status charl__grad_reducer_create(charl_comm *comm, const charl_allreduce_options *options,
                                        const charl_slices *slices, charl_params *set, const charl__owners *owners,
                                        charl__grad_reducer **out) CHARL_MUST_CHECK;
void charl__grad_reducer_destroy(charl__grad_reducer *s); /* NULL is a no-op */
/** Elements of a bucket of `mb` megabytes, or of more, to limit the number of buckets. */
int64_t charl__grad_reducer_bucket(const charl_params *set, double mb);
/** Check that g, compiled, reports the same buckets on every rank: they would add up different
 *  ranges. `bucket` is that of charl__grad_reducer_ready_all. Collective. Errors: ERR_CONFIG. */
charl_status charl__grad_reducer_check(charl__grad_reducer *s, const charl_graph *g, int64_t bucket) CHARL_MUST_CHECK;

/* Hooks of a graph; ctx is the reducer. */
charl_status charl__grad_reducer_ready(void *ctx, int64_t begin, int64_t count) CHARL_MUST_CHECK;
/** Report every gradient, in buckets of so many elements, if no graph reports them. */
charl_status charl__grad_reducer_ready_all(charl__grad_reducer *s, int64_t bucket) CHARL_MUST_CHECK;
charl_status charl__grad_reducer_collective(void *ctx, charl_tensor *lanes, charl_tensor *sum) CHARL_MUST_CHECK;

/** Wait for the device to finish the buckets reported since the last step and begin their sums.
 *  Collective, but waits for no other rank. s NULL: one rank, nothing to do. */
charl_status charl__grad_reducer_begin(charl__grad_reducer *s) CHARL_MUST_CHECK;
/** Complete the sums begun; launches enqueued afterwards see them. Collective. */
charl_status charl__grad_reducer_finish(charl__grad_reducer *s) CHARL_MUST_CHECK;
/** If the devices do the additions, wait for the steps enqueued, and fail if one of them
 *  lost a rank; call it before anything is done with the weights. Collective. Errors: ERR_COMM. */
charl_status charl__grad_reducer_verify(charl__grad_reducer *s) CHARL_MUST_CHECK;
/** After the connection between the ranks was lost: fail unless the sums of all steps enqueued are right. If the devices do the additions, wait for
 *  them, 2 seconds at most: a device may wait for the lost rank. Local. Errors: ERR_COMM, ERR_DEVICE. */
charl_status charl__grad_reducer_settle(charl__grad_reducer *s) CHARL_MUST_CHECK;
/** out[i] = the tree over all lanes [n_lanes, count] of all ranks. s NULL: one rank, out = lanes.
 *  Collective. */
charl_status charl__grad_reducer_sum(charl__grad_reducer *s, const float *lanes, int64_t count,
                                     float *out) CHARL_MUST_CHECK;
/** v[i] = sum over ranks of small integers, exact: control. s NULL: unchanged. Collective. */
charl_status charl__grad_reducer_control(charl__grad_reducer *s, float *v, int count) CHARL_MUST_CHECK;

/** Wait for a range of its all-reduce. Collective. */
charl_status charl__grad_reducer_wait(charl__grad_reducer *s, int64_t ticket) CHARL_MUST_CHECK;
/** How many of the `count` elements from `begin` on are summed at a time: a longer bucket is divided into pieces, each of which has its owners. */
int64_t charl__grad_reducer_piece(const charl__grad_reducer *s, int64_t begin, int64_t count);
/** Borrowed. */
charl_allreduce *charl__grad_reducer_allreduce(const charl__grad_reducer *s);
/** Whether charl__grad_reducer_gather works: the devices gather the parameters themselves. */
bool charl__grad_reducer_gathers_in_place(const charl__grad_reducer *s);
/** Send every rank's part (charl__allreduce_part) of n ranges of the parameters to all ranks, after the commands in the compute queue; launches enqueued
 *  from now on see them. Async on one node. Collective. Errors: ERR_COMM, ERR_DEVICE. */
charl_status charl__grad_reducer_gather(charl__grad_reducer *s, const charl__param_range *range,
                                        int n) CHARL_MUST_CHECK;
/** Whether the parameters are in the gathered memory of the all-reduce, created by
 *  options.gathers. A set with such parameters must be moved, or destroyed, before the
 *  reducer is destroyed. */
bool charl__grad_reducer_shares_values(const charl__grad_reducer *s);

/** What a reducer is and has done. If the devices do the additions, only waited_s is known, from the steps that charl__grad_reducer_verify inspects;
 *  busy_s is that value too. */
typedef struct charl__grad_reducer_info {
    const char *name; /* of the all-reduce; "" for a reducer that is NULL */
    bool is_invariant;
    /* Seconds in which gradients or sums within a step were in flight, and the part of them in which this rank's device had nothing left to
     * compute: communication that is not hidden. Both accumulate. */
    double busy_s, waited_s;
} charl__grad_reducer_info;
charl__grad_reducer_info charl__grad_reducer_get_info(const charl__grad_reducer *s);

#endif
