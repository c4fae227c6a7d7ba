#ifndef CHARL_BENCH_BASELINE_ALLREDUCE_H
#define CHARL_BENCH_BASELINE_ALLREDUCE_H
/** Baselines of charl's all-reduce: MPI_Allreduce on host memory, NCCL on NVIDIA GPUs.
 *
 *  For benchmarks only: the order of their additions depends on the number of ranks, and they wait
 *  for other ranks without a deadline (charl_comm_watch_begin ends that wait when a rank dies). A
 *  baseline works in place on memory of its own.
 */
#include <charl/comm.h>

typedef struct charl__baseline charl__baseline;

enum { CHARL__BASELINE_WHY = 192 };

/** Name of baseline i, i = 0, 1, ...; NULL after the last. Baseline 0 is MPI_Allreduce. Local. */
const char *charl__baseline_name(int i);

/** Baseline i for n values of f32. If a rank cannot use it, *out is NULL on all ranks and why
 *  [CHARL__BASELINE_WHY] is the reason. Owned; c must outlive it. Blocks. Collective on c; agreed.
 *  Errors: ERR_NOMEM, ERR_DEVICE, ERR_COMM. */
charl_status charl__baseline_create(charl_comm *c, int i, int64_t n, charl__baseline **out, char *why) CHARL_MUST_CHECK;
void charl__baseline_destroy(charl__baseline *r); /* NULL is a no-op */

/** Write or read its first `count` values. Blocks. Local. Errors: ERR_DEVICE. */
charl_status charl__baseline_write(charl__baseline *r, const float *v, int64_t count) CHARL_MUST_CHECK;
charl_status charl__baseline_read(charl__baseline *r, float *v, int64_t count) CHARL_MUST_CHECK;

/** v[i] = the sum over ranks, i < count, in place. Collective on its communicator. MPI_Allreduce
 *  blocks; NCCL is enqueued. Errors: ERR_DEVICE, ERR_COMM. */
charl_status charl__baseline_sum(charl__baseline *r, int64_t count) CHARL_MUST_CHECK;

/** Wait until all sums begun are complete. Blocks. Local. Errors: ERR_DEVICE. */
charl_status charl__baseline_wait(charl__baseline *r) CHARL_MUST_CHECK;

#endif
