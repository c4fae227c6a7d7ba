#ifndef CHARL_PARALLEL_GRAD_ACCUM_H
#define CHARL_PARALLEL_GRAD_ACCUM_H
/** Gradient accumulation: several forward and backward passes per step, each over some of a rank's slices, for
 *  models whose activations do not fit in memory in one pass.
 *
 *  A pass writes the partial sums of its slices to a separate arena. They are added like the carries of a
 *  binary counter, along the fixed tree over all slices (base/numeric/tree.h). So the gradient arena finally
 *  contains exactly the lanes that a single pass would have produced, bit for bit. Intermediate sums are kept in
 *  further arenas, at most the logarithm of the number of slices.
 *
 *  Passes of the same shape (the same number of slices, in lanes of the same lengths) share a graph. If the numbers
 *  of slices and passes are powers of two, there is one shape; there are never more shapes than twice the slices of
 *  a pass.
 */
#include "base/numeric/tree.h"
#include "tensor/params.h"

typedef struct charl__grad_accum charl__grad_accum;

/** The minimum number of passes for `slices` slices: a graph processes at most CHARL_GRAPH_SLICES. */
int charl__grad_accum_least(int slices);
/** Divide a rank's slices into `n` passes, at least charl__grad_accum_least. Owned. Local. Errors: ERR_CONFIG
 *  when n is more than the slices; ERR_NOMEM. */
charl_status charl__grad_accum_create(const charl_slices *mine, int n, charl__grad_accum **out) CHARL_MUST_CHECK;
void charl__grad_accum_destroy(charl__grad_accum *p); /* NULL is a no-op */

int charl__grad_accum_count(const charl__grad_accum *p);
/** The slices of pass i; no pass has more than the first. */
const charl_slices *charl__grad_accum_slices(const charl__grad_accum *p, int i);
/** Shapes are numbered in the order of the passes: the first has shape 0. */
int charl__grad_accum_shapes(const charl__grad_accum *p);
int charl__grad_accum_shape(const charl__grad_accum *p, int i); /* of pass i */

/** Allocate the arenas, and record the additions; the set has its gradients. Errors: ERR_NOMEM,
 *  ERR_KERNEL, ERR_DEVICE. */
charl_status charl__grad_accum_prepare(charl__grad_accum *p, charl_params *set) CHARL_MUST_CHECK;
/** Number of gradient arenas that this allocates. Local. */
int charl__grad_accum_arenas(const charl__grad_accum *p);
/** The destination of the passes' partial sums: lanes of set->gradient_elements
 *  floats. Borrowed. */
charl__buffer *charl__grad_accum_gradients(const charl__grad_accum *p);
/** Enqueue the additions that follow pass i; after those of the last pass, the gradient arena of the set is
 *  complete. Async. */
charl_status charl__grad_accum_fold(charl__grad_accum *p, int i) CHARL_MUST_CHECK;

/** Add up the loss in the same way: losses[k] is the output of the graph of shape k, a float per lane, in memory
 *  that the next pass overwrites. From now on charl__grad_accum_fold adds it too; after the last pass, *out contains
 *  the rank's lanes. Owned. The graphs must have been compiled. Errors: ERR_NOMEM, ERR_KERNEL, ERR_DEVICE. */
charl_status charl__grad_accum_keep_loss(charl__grad_accum *p, charl_tensor *const *losses,
                                         charl_tensor **out) CHARL_MUST_CHECK;

/** The same for n numbers in host memory: lanes [lanes of pass i][n] are added into slots
 *  [charl__grad_accum_depth][n], of which the first are the rank's lanes after the last pass. */
void charl__grad_accum_fold_numbers(const charl__grad_accum *p, int i, const float *lanes, int n, float *slots);
int charl__grad_accum_depth(const charl__grad_accum *p);

#endif
