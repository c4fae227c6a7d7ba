/* embedding_sum: the sum over positions that is the gradient of a table of rows by token, where work-groups share rows.
 *
 *   charl_sum_rows  what charl_sum of embedding.cl gives, to the bit, from the same scratch
 *
 * Specialised by   GROUP      work-items of a group, at least M (default 64)
 *                  ROWS       rows of the table for each group (default 8)
 *                  M          slices to add (default 2)
 *                  ROUND      0: nodes of the tree over slices are rounded to bf16 (default: not)
 *                  MANY       positions of a token from which on its slices are added side by side (default 16)
 *                  ACT        type of the rows added; sums are float
 *                  CHARL_VEC  see math.clh
 * Launch           a group of GROUP for each ROWS rows of the table.
 * Algorithm        most tokens of a large table have no position or a few: their rows are shared out among all work-items. A token with many
 *                  gets the whole group, which has for each slice some work-items with a chain each, and a tree over the slices at the end.
 * Numerics         one chain of additions for each token, slice and column, from 0; the slices in the fixed tree.
 */
#ifndef GROUP
#define GROUP 64
#endif
#ifndef ROWS
#define ROWS 8
#endif
#ifndef MANY
#define MANY 16
#endif
#include "tree.clh"

#define AHEAD 4 /* rows that are read before they are added */
#define SIDE  (GROUP / M) /* work-items of a slice, where slices are added side by side */

/* What all work-items know: rows of the slices and their places in `order`. */
typedef struct {
    global const ACT *g;
    global const int *order;
    ulong positions, size;
    bool whole; /* as charl_read's */
} source;

/* From column c on of the rows at order[i .. stop - 1] of slice s, in this order. */
static inline charl_real sum_of(bool whole, const source in, ulong s, int i, int stop, ulong c)
{
    global const ACT *g = in.g + s * in.positions * in.size + c;
    global const int *order = in.order + s * in.positions;
    charl_real sum = CHARL_SPLAT(0.0f), row[AHEAD];

    for (; i < stop; i += AHEAD) {
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            row[k] = charl_read(whole, g + (ulong)order[min(i + k, stop - 1)] * in.size, (long)(in.size - c));
        }
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            if (i + k < stop) {
                sum = sum + row[k];
            }
        }
    }
    return sum;
}

static inline charl_real chain_of(const source in, ulong s, int i, int stop, ulong c)
{
    return in.whole ? sum_of(true, in, s, i, stop, c) : sum_of(false, in, s, i, stop, c);
}

/* Columns from c on of a row of the table; begin and stop: places of its token in the M slices. */
static inline charl_real row_of(const source in, ulong first, local const int *begin, local const int *stop, ulong c)
{
    charl_real level[CHARL_TREE_LEVELS];

    for (int i = 0; i < M; i++) {
        charl_tree_add(level, i, chain_of(in, first + (ulong)i, begin[i], stop[i], c));
    }
    return charl_tree_sum(level);
}

/* The same for all columns, by the whole group. */
static inline void add_side_by_side(const source in, ulong first, local const int *begin, local const int *stop, global float *out,
                                    local float *sums)
{
    const int t = (int)get_local_id(0), leaf = t / SIDE;

    for (ulong block = 0; block < in.size; block += SIDE * CHARL_VEC) {
        const ulong c = block + (ulong)(t % SIDE) * CHARL_VEC;
        float v[CHARL_VEC];

        if (leaf < M && c < in.size) {
            const charl_real sum = chain_of(in, first + (ulong)leaf, begin[leaf], stop[leaf], c);

            CHARL_VSTORE(sum, v);
            for (int j = 0; j < CHARL_VEC; j++) {
                sums[t * CHARL_VEC + j] = v[j];
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (t < SIDE && c < in.size) {
            charl_real level[CHARL_TREE_LEVELS];

            for (int i = 0; i < M; i++) {
                for (int j = 0; j < CHARL_VEC; j++) {
                    v[j] = sums[(i * SIDE + t) * CHARL_VEC + j];
                }
                charl_tree_add(level, i, CHARL_VLOAD(v));
            }
            charl_store(charl_tree_sum(level), out + c, (long)(in.size - c));
        }
        barrier(CLK_LOCAL_MEM_FENCE); /* sums have been read */
    }
}

/* Where the tokens of the group's rows stand in each slice, and how many positions each has in all. */
static inline void find_places(global const int *ends, ulong v0, ulong rows, local int *begin, local int *stop, local int *total)
{
    const int t = (int)get_local_id(0);

    for (int u = t; u < ROWS * M; u += GROUP) {
        const ulong v = min(v0 + (ulong)(u / M), rows - 1);
        global const int *end = ends + (ulong)(u % M) * (rows + 1);

        begin[u] = v > 0 ? end[v - 1] : 0;
        stop[u] = end[v];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = t; k < ROWS; k += GROUP) {
        int sum = 0;

        for (int u = k * M; u < k * M + M; u++) {
            sum += stop[u] - begin[u];
        }
        total[k] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

kernel void charl_sum_rows(global const ACT *g, ulong g_at, global const int *scratch, ulong scratch_at, global float *out,
                           ulong out_at, ulong first, ulong slices, ulong positions, ulong rows, ulong size)
{
    local int begin[ROWS * M], stop[ROWS * M], total[ROWS];
    local float sums[GROUP * CHARL_VEC];
    const uint pieces = (uint)((size + CHARL_VEC - 1) / CHARL_VEC);
    const ulong v0 = get_group_id(0) * ROWS;
    const source in = {.g = g + g_at, .order = scratch + scratch_at + slices * (rows + 1), .positions = positions, .size = size,
                       .whole = CHARL_VEC == 8 && size % 8 == 0 && CHARL_IS_ALIGNED(g + g_at)};

    out += out_at + v0 * size;
    find_places(scratch + scratch_at + first * (rows + 1), v0, rows, begin, stop, total);
    for (uint u = (uint)get_local_id(0); u < ROWS * pieces; u += GROUP) {
        const int k = (int)(u / pieces);
        const ulong c = (ulong)(u % pieces) * CHARL_VEC;

        if (v0 + (ulong)k < rows && total[k] < MANY) {
            const charl_real sum = total[k] > 0 ? row_of(in, first, begin + k * M, stop + k * M, c) : CHARL_SPLAT(0.0f);

            charl_store(sum, out + (ulong)k * size + c, (long)(size - c));
        }
    }
    for (int k = 0; k < ROWS && v0 + (ulong)k < rows; k++) {
        if (total[k] >= MANY) {
            add_side_by_side(in, first, begin + k * M, stop + k * M, out + (ulong)k * size, sums);
        }
    }
}
