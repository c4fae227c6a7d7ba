#ifndef CHARL_SLICES_H
#define CHARL_SLICES_H
/** How ranks divide the batch.
 *
 *  The global batch has `total` equal slices, a property of the training and never of the ranks.
 *  Everything that is summed over the batch is one partial sum per slice, added in one fixed binary
 *  tree over the slices, so the number of ranks does not change a bit. A rank owns a contiguous
 *  block of slices:
 *
 *      charl_slices mine;
 *      charl_slices_block(8, charl_comm_rank(comm), charl_comm_size(comm), &mine);
 *      rows = batch_size / mine.total * mine.count;        of the global batch, on this rank
 *      first_row = batch_size / mine.total * mine.first;
 *      charl_graph_create(dev, &mine, &graph);
 *
 *  No state: thread-safe.
 */
#include <stdint.h>

#include "charl/status.h"

CHARL_BEGIN_DECLS

enum {
    CHARL_MAX_SLICES = 4096, /* of a batch */
    CHARL_GRAPH_SLICES = 64, /* of one graph: a trainer with more runs one several times, and adds up */
    CHARL_MAX_LANES = 24     /* of one rank */
};

/** The slices [first, first + count) of one rank. Its lanes are the largest subtrees of the tree
 *  that it can add up alone: lane j covers the slices [lane_lo[j], lane_hi[j]). */
typedef struct charl_slices {
    int total, first, count;
    int n_lanes;
    int lane_lo[CHARL_MAX_LANES], lane_hi[CHARL_MAX_LANES];
} charl_slices;

/** The block of rank `rank` of `size`: slices [floor(total*rank/size), floor(total*(rank+1)/size)).
 *  Local. Errors: ERR_CONFIG  more ranks than slices, or total is not in 1..CHARL_MAX_SLICES. */
charl_status charl_slices_block(int total, int rank, int size, charl_slices *out) CHARL_MUST_CHECK;

/** Any contiguous block, for ranks of unequal speed. count may be 0: no lanes. Local.
 *  Errors: ERR_INVALID. */
charl_status charl_slices_range(int total, int first, int count, charl_slices *out) CHARL_MUST_CHECK;

/** out[i] = a random number in [0, 1), i < n: a function of seed, step, row and i alone. With `row` counted in the
 *  global batch, ranks that draw for their own rows draw what one rank would. Local. */
void charl_random(uint64_t seed, int64_t step, int64_t row, float *out, int64_t n);

CHARL_END_DECLS

#endif
