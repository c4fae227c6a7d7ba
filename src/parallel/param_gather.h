#ifndef CHARL_PARALLEL_PARAM_GATHER_H
#define CHARL_PARALLEL_PARAM_GATHER_H
/** dist.shard = parameters: graphs get the parameters that they need from the ranks that have them (autograd/gather.c), by way of host memory.
 *
 *  A rank copies its parts to the host once after every change. When a graph needs a block, the parts of all ranks are on their way: they were asked for
 *  when the graph needed the block before, and the device computes that block meanwhile. They are written to the device in the order of its launches.
 */
#include "parallel/data_parallel.h"

/** For dp->params, which is divided and placed. Blocks. Collective; agreed. Errors: ERR_NOMEM, ERR_COMM. */
charl_status charl__param_gather_create(charl_data_parallel *dp, charl__param_gather **out) CHARL_MUST_CHECK;
void charl__param_gather_destroy(charl__param_gather *s); /* NULL is a no-op. Collective */

/** A charl__gather_fn; ctx is the charl__param_gather. Collective. */
charl_status charl__param_gather_run(void *ctx, const charl__gathered *block, int n, const charl__gathered *next,
                                     int n_next) CHARL_MUST_CHECK;

#endif
