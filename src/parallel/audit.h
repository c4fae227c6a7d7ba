#ifndef CHARL_PARALLEL_AUDIT_H
#define CHARL_PARALLEL_AUDIT_H
/** charl_data_parallel_audit: detects a device that computes wrong values without an error.
 *
 *  Before the step each rank computes the gradient of the next rank's slices, and in the step that of its own, as
 *  always. The gradients must be equal, bit for bit, and so must the weights and the sums of gradients on all ranks.
 *  If two ranks differ, a third one computes the slices as well, and the majority is right. With one rank, it
 *  computes its own slices twice.
 *
 *  An audit changes no bit of the training: its runs do not change persistent state, and the training uses the results
 *  of the step itself.
 *
 *  Batch norm computes sums over all ranks in the middle of a step. These sums are computed once, in a run of each rank's own
 *  slices, and used in the other runs. So an error is only visible where it occurs: the inputs of the sums are compared
 *  too.
 */
#include "charl/data_parallel.h"

typedef struct charl__audit charl__audit;

/** Create dp->audit if the caller can deliver rows; dp is connected. Local. Errors: ERR_CONFIG  the ranks have different numbers of slices; ERR_NOMEM. */
charl_status charl__audit_create(charl_data_parallel *dp) CHARL_MUST_CHECK;
/** Check a prepared graph with gradients. Local. Errors: ERR_CONFIG  a rank cannot compute the gradients of another one. */
charl_status charl__audit_check(const charl_data_parallel *dp, const charl_graph *g) CHARL_MUST_CHECK;
void charl__audit_destroy(charl__audit *a); /* NULL is a no-op */

/** Whether the graphs run for an audit, or in an audited step; false for NULL. */
bool charl__audit_is_on(const charl__audit *a);
/** Whether the current run computes a gradient that is only compared; false for NULL. */
bool charl__audit_is_trial(const charl__audit *a);
/** A sum in the middle of such a run. */
charl_status charl__audit_sum(charl_data_parallel *dp, charl_tensor *lanes, charl_tensor *sum) CHARL_MUST_CHECK;

/** Call after the passes of a step: hashes this rank's gradient, if the step is audited. Blocks. Local. */
charl_status charl__audit_hash(charl_data_parallel *dp) CHARL_MUST_CHECK;
/** Call after the all-reduce: compares with the other ranks, if the step is audited. Blocks. Collective. Errors: ERR_AUDIT, known to all ranks, with
 *  the ranks that differ, their hosts and devices; ERR_COMM, ERR_DEVICE. */
charl_status charl__audit_compare(charl_data_parallel *dp) CHARL_MUST_CHECK;

#endif
