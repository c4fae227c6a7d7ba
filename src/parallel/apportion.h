#ifndef CHARL_PARALLEL_APPORTION_H
#define CHARL_PARALLEL_APPORTION_H
/** The number of slices of the batch for each rank of unequal speed. Pure arithmetic: equal inputs give
 *  equal results on every rank. */

/** count[r] = slices of rank r of `size`, `least` to `most` each and `total` together, so that the
 *  slowest finishes as soon as possible: the largest count[r] * cost[r] is within 5 % of the
 *  minimum.
 *
 *  cost   [size]  seconds that a slice takes, positive; the same for every slice of a rank
 *  count  [size]  written
 *
 *  Within these 5 % blocks end at the coarsest boundaries. A block has a lane (base/numeric/tree.h) for
 *  each of its maximal aligned subtrees, and the all-reduce transfers as many copies of the
 *  gradients as there are lanes: 64 slices divided 43 to 21 have 4 and 3 of them, 44 to 20 have 3
 *  and 2, and differ by 2 % of a step.
 *
 *  size * least <= total <= size * most, and total <= CHARL_MAX_SLICES. Local. Deterministic. Cost: total * size * log(total)
 *  comparisons. */
void charl__apportion(int total, int least, int most, int size, const double *cost, int *count);

/** The largest count[r] * cost[r]. Local. */
double charl__apportion_time(int size, const double *cost, const int *count);

#endif
