#ifndef CHARL_BASE_NUMERIC_TREE_H
#define CHARL_BASE_NUMERIC_TREE_H
/** The fixed binary tree in which all sums over the batch are added: pure arithmetic, without
 *  devices or ranks.
 *
 *  The global batch has `total` equal slices, the leaves. node(lo, k) covers slices [lo, lo + 2^k),
 *  clipped at total; its value is node(lo, k-1) + node(lo + 2^(k-1), k-1), or the left child
 *  unchanged if the right one would start at total or beyond. A rank owns a contiguous
 *  block of slices; its maximal aligned subtrees are its lanes. The total has the same bits,
 *  whichever rank adds up a subtree. As loops, over m leaves that start at an aligned slice:
 *
 *      for (int step = 1; step < m; step *= 2)
 *          for (int i = 0; i + step < m; i += 2 * step)
 *              leaf[i] += leaf[i + step];                           the sum is leaf[0]
 *
 *  No state: thread-safe.
 */
#include <stdbool.h>
#include <stdint.h>

#include "charl/slices.h"

/* Partial sums that are held at once, for up to CHARL_MAX_SLICES leaves; and floats of each during the addition. */
enum { CHARL_TREE_DEPTH = 14, CHARL_TREE_BLOCK = 1024 };

/** leaf[dst] += leaf[src] */
typedef struct charl__tree_add {
    int dst, src;
} charl__tree_add;

/** Whether a and b have the same number of slices in lanes of the same lengths, wherever they are in their batches. */
bool charl__slices_are_alike(const charl_slices *a, const charl_slices *b);

/** Fold part[0..m), each n floats, in tree order into part[0]; all others are overwritten. m >= 1.
 *  The parts are the slices of one lane, or of the whole batch. */
void charl__tree_fold(float *const *part, int m, int64_t n);

/** Whether slices [lo, middle) and [middle, hi) are the two children of a node of the tree over `total`. */
bool charl__tree_are_siblings(int total, int lo, int middle, int hi);

/** The adds that complete the sum from all lanes of all ranks, which start at slices lo[0] = 0 <
 *  lo[1] < ... < lo[n-1] and together cover the batch, in the order of a binary counter: code that applies them in order
 *  holds at most CHARL_TREE_DEPTH partial sums at a time. The sum ends in leaf 0. adds has room for n - 1; returns the
 *  number of adds (n - 1). */
int charl__tree_combine(int total, const int *lo, int n, charl__tree_add *adds);

/** Destination of the sum of a and b while the adds of charl__tree_combine are applied: the place of an operand that is a sum already, else a new
 *  one. `used` places hold sums; of two sums the second is the last. */
float *charl__tree_place(float (*place)[CHARL_TREE_BLOCK], int *used, const float *a, const float *b);

/** out[i] = the tree over leaf[0..m)[i], i < n, by the adds of charl__tree_combine; the leaves are
 *  only read, so they may be in memory that others read too. out overlaps no leaf, except that it
 *  may be one itself. Needs 90 KB of stack. */
void charl__tree_apply(const charl__tree_add *adds, int m, const float *const *leaf, int64_t n, float *out);

/** The same for leaves in bf16 (base/numeric/bf16.h): every node is added in f32 and rounded to bf16. If
 *  leaves are sums themselves, all their nodes must have been rounded. */
void charl__tree_apply_bf16(const charl__tree_add *adds, int m, const uint16_t *const *leaf, int64_t n, uint16_t *out);

#endif
