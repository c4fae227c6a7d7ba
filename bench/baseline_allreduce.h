#ifndef CHARL_BENCH_BASELINE_ALLREDUCE_H
#define CHARL_BENCH_BASELINE_ALLREDUCE_H
/** All-reduces of others, to measure charl's against: MPI_Allreduce on host memory, NCCL on NVIDIA
 * GPUs.
 *
 *  Not for training: they add in an order of their own, and wait for peers without a deadline
 * (charl_comm_watch_begin ends that wait when a peer dies). A rival works in place on memory of its
 * own.
 */
#include "charl/comm.h"

typedef struct charl__rival charl__rival;

enum { CHARL__RIVAL_WHY = 192 };

/** Name of rival i, i = 0, 1, ...; NULL behind the last. Rival 0 is MPI_Allreduce. Local. */
const char *charl__rival_name(int i);

/** Rival i for n values of f32. Where it does not work on every rank *out is NULL and why
 * [CHARL__RIVAL_WHY] says the reason. Owned, not longer than c. Blocks. Collective on c; agreed.
 *  Errors: ERR_NOMEM, ERR_DEVICE, ERR_COMM. */
charl_status charl__rival_create(charl_comm *c, int i, int64_t n, charl__rival **out,
                                 char *why) CHARL_MUST_CHECK;
void charl__rival_destroy(charl__rival *r); /* NULL is a no-op */

/** Its first `count` values. Blocks. Local. Errors: ERR_DEVICE. */
charl_status charl__rival_write(charl__rival *r, const float *v, int64_t count) CHARL_MUST_CHECK;
charl_status charl__rival_read(charl__rival *r, float *v, int64_t count) CHARL_MUST_CHECK;

/** v[i] = the sum over ranks, i < count, in place. Collective on its communicator. MPI's blocks, on
 * GPUs it is enqueued. Errors: ERR_DEVICE, ERR_COMM. */
charl_status charl__rival_sum(charl__rival *r, int64_t count) CHARL_MUST_CHECK;

/** Blocks until the sums so far are complete. Local. Errors: ERR_DEVICE. */
charl_status charl__rival_wait(charl__rival *r) CHARL_MUST_CHECK;

#endif
