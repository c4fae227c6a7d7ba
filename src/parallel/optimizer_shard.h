#ifndef CHARL_PARALLEL_OPTIMIZER_SHARD_H
#define CHARL_PARALLEL_OPTIMIZER_SHARD_H
/** dist.shard = optimizer, gradients and parameters: ranks divide the optimizer among them.
 *
 *  A rank keeps the state of its part of every bucket of gradients, and updates it; this is the part
 *  that it sums itself. Then the ranks exchange their parameters. If the device uses
 *  host memory in place, the parameters are in memory that the ranks of a node share: all see an
 *  update when it is done, and a node stores them once. Otherwise a rank's part is downloaded,
 *  and the others' are uploaded.
 *
 *  With gradients, a rank gets only the sums of its parts, in its first lane. The units of summation are then divided into parts, and
 *  may be smaller than a bucket. The optimizer exchanges the data for the norm of all gradients (optim/norm_parts.c).
 *
 *  An optimizer that updates whole tensors (charl_data_parallel_options.optimizer) has them assigned to ranks instead: a range of the arena then belongs
 *  to one rank (charl__owners), and its shard consists of such ranges.
 *  With parameters, a rank keeps only its parts of the parameters too, and graphs gather those that they need (parallel/param_gather.h).
 *
 *  Shared parameters must not change while another rank reads them. A step is safe: a rank writes
 *  when it has the sums of all buckets, and a rank begins the last of them after its graph has run
 *  (parallel/grad_reducer.h). charl__shard_exchange_ema waits until no rank reads them.
 */
#include "optim/optimizer.h"
#include "parallel/data_parallel.h"

enum { CHARL__SHARD_PIECES = 384 }; /* most pieces that are divided among ranks, each in whole blocks */

/** Create dp->shard, for dp->reducer, whose all-reduce gathers, and dp->params, which have their layout and receive the ranges that this rank updates. Local.
 *  Errors: ERR_NOMEM. */
charl_status charl__shard_create(charl_data_parallel *dp) CHARL_MUST_CHECK;
void charl__shard_destroy(charl__shard *s); /* NULL is a no-op */

/** Call after an update has been enqueued: exchanges parameters, and updates their working copy, on all ranks. No-op
 *  without a shard. Blocks. Collective. Errors: ERR_COMM, ERR_DEVICE. */
charl_status charl__shard_publish(charl_data_parallel *dp) CHARL_MUST_CHECK;

/** Exchange the weights and their moving average, on all ranks. No-op if o has none. Blocks. Collective. Errors: ERR_COMM, ERR_DEVICE. */
charl_status charl__shard_exchange_ema(charl_data_parallel *dp, charl_optimizer *o) CHARL_MUST_CHECK;

/** State k of optimizer o, for k = number of states its average, or for o NULL the parameters of a divided set, from all ranks:
 *  *out, laid out like the parameters, if it is wanted, on rank 0 or, where nodes divide alone, on their first ranks; NULL elsewhere. Owned by the
 *  caller. `mine` is this rank's status so far. Blocks. Collective; agreed. */
charl_status charl__shard_collect(const charl_data_parallel *dp, const charl_optimizer *o, charl_status mine, int k,
                                  bool wanted, float **out) CHARL_MUST_CHECK;

/** Bytes on a device, and those that are offloaded. */
typedef struct charl__kept {
    int64_t device, host;
} charl__kept;
/** The most bytes of values, state, average and directions that a rank of `ranks` keeps for `set`, which has its layout, and an optimizer. Local. Errors: ERR_NOMEM. */
charl_status charl__shard_bytes(const charl_params *set, const charl_optimizer_config *config, charl_shard shard,
                                int ranks, charl__kept *out) CHARL_MUST_CHECK;

/** Assign the tensors of `set`, which has its layout, to ranks, so that each has about the same work with an optimizer of this type. The assignment depends on
 *  shapes, their order and the number of ranks only. *out: an earlier assignment, or zeros. Local. Errors: ERR_NOMEM. */
charl_status charl__owners_create(const charl_params *set, const char *optimizer, int ranks,
                                  charl__owners *out) CHARL_MUST_CHECK;
void charl__owners_fini(charl__owners *owners);

/** The first elements [*from, *to) of the n of a state of `p` after *to, which is 0 at first, that this rank has; false: there are no more. Local. */
bool charl__shard_own(const charl_data_parallel *dp, const charl_param *p, int64_t n, int64_t *from, int64_t *to);

/** Bytes of optimizer state, of sums of gradients and of parameters that this rank need not keep. o NULL: 0. Local. */
int64_t charl__shard_saves(const charl_data_parallel *dp, const charl_optimizer *o);

#endif
