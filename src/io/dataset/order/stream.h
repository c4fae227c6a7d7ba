#ifndef CHARL_IO_DATASET_ORDER_STREAM_H
#define CHARL_IO_DATASET_ORDER_STREAM_H
/** The sample at a position of a stream, and its place in the data.
 *
 *  A place is a row of the split or, for tokens, the first token of a window. The stream of a data set is charl_order_rows or charl_order_blocks,
 *  or with draws charl__order_draws, with windows shifted by charl_order_shift for training. The training stream of a mix (charl_dataset_open_mix)
 *  takes samples from each set in proportion to its weight: a block of CHARL__MIX_BLOCK positions contains that many samples of each set, in an order
 *  determined by the seed and the block, and the samples of a set keep the order that they have without the others. So a place depends on the
 *  seed and the position only. Other streams of a mix take one set after another.
 */
#include "charl/dataset.h"

enum { CHARL__MIX_MOST = 32, CHARL__MIX_BLOCK = 10000 };

/** Set j of a mix: its rows; rows and places of the sets before it; its samples in a block are [block, block of set j + 1). */
typedef struct charl__stream_part {
    int64_t rows, first_row, first_place, block;
    int64_t block_rows, shuffle_window;
} charl__stream_part;

typedef struct charl__stream {
    uint64_t seed;
    int64_t n;      /* rows of the split */
    int64_t window; /* 0: not tokens */
    charl_shuffle shuffle;
    bool trains;
    int64_t block, shuffle_window; /* of charl_order_blocks */
    bool packed;                   /* windows begin where documents were packed into them, in every epoch */
    const uint64_t *draws;         /* borrowed: charl__order_draws; NULL: each row once */
    int n_parts;                   /* 0: not a mix */
    charl__stream_part part[CHARL__MIX_MOST + 1];
} charl__stream;

/** The stream of a split; borrows the data set. */
void charl__stream_init(charl__stream *s, const charl_dataset *ds, charl_split split, charl_shuffle shuffle,
                        uint64_t seed);

/** Places of positions [position, position + count). Thread-safe. */
void charl__stream_places(const charl__stream *s, int64_t position, int64_t count, int64_t *out);

/** Rows of positions [position, position + count) if they are drawn with replacement, by the seed, the epoch and the index in it:
 *  row r with the probability (sums[r + 1] - sums[r]) / sums[n].
 *
 *  sums  [n + 1] ascending from 0; sums[n] > 0
 *
 *  Integer arithmetic only: the same on every machine. Thread-safe. */
void charl__order_draws(uint64_t seed, int64_t n, const uint64_t *sums, int64_t position, int64_t count, int64_t *out);

#endif
