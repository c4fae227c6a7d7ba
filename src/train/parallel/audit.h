#ifndef CHARL_TRAIN_PARALLEL_AUDIT_H
#define CHARL_TRAIN_PARALLEL_AUDIT_H
/** dist.audit: at every Nth step, look for a device that computes wrong values without an error.
 *
 *  Before the step each rank computes the gradient of the next rank's slices, and in the step that of its own, as
 *  always. The gradients must be equal, bit for bit, and so must the weights and the sums of gradients on all ranks.
 *  Where two ranks differ, a third one computes the slices as well, and two of the three are right. Alone, a rank
 *  computes its own slices twice.
 *
 *  An audit changes no bit of the training: what it computes does not change persistent state, and the results used
 *  are those of the step itself.
 *
 *  Batch norm adds up over all ranks in the middle of a step. These sums are taken once, in a run of each rank's own
 *  slices, and used in the others. So an error shows only where it is made: what a rank gave to the sums is compared,
 *  too.
 */
#include "parallel/grad_reducer.h"

struct charl__trainer;
struct charl__replica;

typedef struct charl__audit charl__audit;

/** r->audit, where the configuration asks for one and the run is no replay; r has its slices and its reducer. Local.
 *  Errors: ERR_CONFIG where the ranks' devices or slices are not alike; ERR_NOMEM. */
charl_status charl__audit_create(struct charl__replica *r) CHARL_MUST_CHECK;
/** Once the graphs are compiled. Errors: ERR_CONFIG where a rank cannot compute the gradients of another one. Local. */
charl_status charl__audit_check(const struct charl__replica *r) CHARL_MUST_CHECK;
void charl__audit_destroy(charl__audit *a); /* NULL is a no-op */

/* Hooks of a training graph, in place of those of the reducer; ctx is the audit. */
charl_status charl__audit_collective(void *ctx, charl_tensor *lanes, charl_tensor *sum) CHARL_MUST_CHECK;
charl_status charl__audit_ready(void *ctx, int64_t begin, int64_t count) CHARL_MUST_CHECK;

/** By how many slices the next run of the graphs is moved; 0 for a NULL. */
int charl__audit_shift(const charl__audit *a);
/** Whether the next run computes a gradient that is only compared; false for NULL. */
bool charl__audit_is_trial(const charl__audit *a);

/** Whether the next step is audited. */
bool charl__audit_is_due(const struct charl__trainer *t);
/** Compute what other ranks compute in the next step, before its batch is delivered. The loader stands at that step
 *  afterwards. Collective. Errors: not known to other ranks. */
charl_status charl__audit_begin(struct charl__trainer *t) CHARL_MUST_CHECK;
/** After the graphs of a step: take the hash of this rank's gradient, if the step is audited. Blocks. Local. */
charl_status charl__audit_take(struct charl__trainer *t) CHARL_MUST_CHECK;
/** Before the update: compare with the other ranks, if the step is audited. Where they differ, rank 0 also renames the
 *  checkpoints later than the last audit that found no difference, so that training does not continue from them.
 *  Blocks. Collective. Errors: ERR_AUDIT, known to all ranks, with the ranks that differ, their hosts and devices;
 *  ERR_COMM, ERR_DEVICE. Cost: reads gradients, their sum and the weights, and adds the gradients up once more. */
charl_status charl__audit_compare(struct charl__trainer *t) CHARL_MUST_CHECK;

/** Audits so far, and the seconds they took. 0 for NULL. */
int64_t charl__audit_count(const charl__audit *a);
double charl__audit_seconds(const charl__audit *a);

#endif
