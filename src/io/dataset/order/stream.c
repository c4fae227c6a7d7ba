/* Streams of samples. */
#include "io/dataset/order/stream.h"

#include "io/dataset/dataset_private.h"

void charl__stream_init(charl__stream *s, const charl_dataset *ds, charl_split split, charl_shuffle shuffle,
                        uint64_t seed)
{
    charl_dataset_info info;
    charl__stream_part at = {0};

    charl_dataset_get_info(ds, &info);
    *s = (charl__stream){.seed = seed,
                         .n = info.rows[split],
                         .window = info.kind == CHARL_DATASET_TOKENS ? info.x_shape.dim[0] : 0,
                         .shuffle = shuffle,
                         .trains = split == CHARL_SPLIT_TRAIN,
                         .block = info.block_rows,
                         .shuffle_window = info.shuffle_window,
                         .packed = ds->packed > 0,
                         .draws = split == CHARL_SPLIT_TRAIN && shuffle == CHARL_SHUFFLE_ROWS ? ds->draws : NULL,
                         .n_parts = ds->n_parts};
    for (int j = 0; j < ds->n_parts; j++) {
        charl_dataset_get_info(ds->part[j], &info);
        at.rows = info.rows[split];
        at.block_rows = info.block_rows;
        at.shuffle_window = info.shuffle_window;
        s->part[j] = at;
        at.first_row += info.rows[split];
        at.first_place += info.items[split];
        at.block += ds->share[j];
    }
    s->part[s->n_parts] = at;
}

static void order_rows(charl_shuffle shuffle, uint64_t seed, int64_t n, int64_t block, int64_t window, int64_t position,
                       int64_t count, int64_t *out)
{
    if (shuffle == CHARL_SHUFFLE_BLOCKS) {
        charl_order_blocks(seed, n, block, window, position, count, out);
    } else {
        charl_order_rows(seed, n, shuffle == CHARL_SHUFFLE_ROWS, position, count, out);
    }
}

/* Row of a data set at a position of its own stream, as a place in it. */
static int64_t place_of(const charl__stream *s, uint64_t seed, int64_t n, int64_t row, int64_t position)
{
    if (s->window == 0) {
        return row;
    }
    return row * s->window + charl_order_shift(seed, n, s->shuffle && s->trains && !s->packed, position, s->window);
}

/* The sample at a position of a training mix: `slot` determines its set, and its number in the set's part of this block. */
static int64_t mixed_place(const charl__stream *s, int64_t position)
{
    const int64_t slot = charl_order_row(s->seed ^ UINT64_C(0x6d6978), CHARL__MIX_BLOCK, true, position);
    const charl__stream_part *p = s->part;
    int64_t own, row;
    uint64_t seed;

    while (slot >= p[1].block) {
        p++;
    }
    own = position / CHARL__MIX_BLOCK * (p[1].block - p->block) + slot - p->block;
    seed = s->seed + (uint64_t)(p - s->part);
    order_rows(s->shuffle, seed, p->rows, p->block_rows, p->shuffle_window, own, 1, &row);
    return p->first_place + place_of(s, seed, p->rows, row, own);
}

/* A row of the split of a mix, set after set. */
static int64_t row_place(const charl__stream *s, int64_t row)
{
    const charl__stream_part *p = s->part;

    while (row >= p[1].first_row) {
        p++;
    }
    return p->first_place + (row - p->first_row) * s->window;
}

void charl__stream_places(const charl__stream *s, int64_t position, int64_t count, int64_t *out)
{
    if (s->n_parts > 0 && s->trains) {
        for (int64_t i = 0; i < count; i++) {
            out[i] = mixed_place(s, position + i);
        }
        return;
    }
    if (s->draws) {
        charl__order_draws(s->seed, s->n, s->draws, position, count, out);
        return;
    }
    order_rows(s->shuffle, s->seed, s->n, s->block, s->shuffle_window, position, count, out);
    for (int64_t i = 0; i < count; i++) {
        out[i] = s->n_parts > 0 ? row_place(s, out[i]) : place_of(s, s->seed, s->n, out[i], position + i);
    }
}
