#ifndef CHARL_BASE_PARALLEL_H
#define CHARL_BASE_PARALLEL_H
/** A loop over all processors, for work before a training starts, while its device is idle.
 */
#include <stdint.h>

#include "base/error.h"

/** work(ctx, i) once for every i in [0, n), in any order, on as many threads as there are
 *  processors, including the caller's; returns when all are done. If a thread cannot be started,
 *  the others do its work. Overhead: some 20 us per thread; none for n < 2. Thread-safe if
 *  work is. */
void charl__parallel(int64_t n, void (*work)(void *ctx, int64_t i), void *ctx);

/** The same on at most `threads` threads, including the caller's, and no more than there are processors. */
void charl__parallel_by(int threads, int64_t n, void (*work)(void *ctx, int64_t i), void *ctx);

/** Like charl__parallel_by, for work that can fail. Every i is done; returns the status, with its message, of the smallest i that failed. */
charl_status charl__parallel_try(int threads, int64_t n, charl_status (*work)(void *ctx, int64_t i),
                                 void *ctx) CHARL_MUST_CHECK;

#endif
