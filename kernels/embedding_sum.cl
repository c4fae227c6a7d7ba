/* embedding_sum: the sum over positions that is the gradient of a table of rows by token, where work-groups share rows.
 *
 *   charl_sum_rows  what charl_sum of embedding.cl gives, to the bit, from the same scratch
 *
 * Specialised by   GROUP      work-items of a group, at least M (default 64)
 *                  ROWS       rows of the table for each group (default 8)
 *                  M          slices to add (default 2)
 *                  ROUND      0: nodes of the tree over slices are rounded to bf16 (default: not)
 *                  ACT        type of the rows added; sums are float
 *                  CHARL_VEC  see math.clh
 * Launch           a group of GROUP for each ROWS rows of the table.
 * Algorithm        most tokens of a large table have no position or a few: their rows are shared out among all work-items, which then read
 *                  one or two rows of g and write one. A token with more gets the whole group, which has for each slice some work-items
 *                  with a chain each, and a tree over the slices at the end.
 * Numerics         one chain of additions for each token, slice and column, from 0; the slices in the fixed tree.
 */
#ifndef GROUP
#define GROUP 64
#endif
#ifndef ROWS
#define ROWS 8
#endif
#include "tree.clh"

#define AHEAD 4 /* rows that are read before they are added */
#define FEW   2 /* positions of a token, at most, whose tree is one addition */
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

static inline charl_real load_of(const source in, int at, ulong c)
{
    global const ACT *g = in.g + (ulong)at * in.size + c;

    return in.whole ? charl_read(true, g, 0) : charl_read(false, g, (long)(in.size - c));
}

/* Columns from c on of a row of the table whose token has one or two positions; apart: in different slices. The rest of the tree, and what
 * every chain begins with, is 0. */
CHARL_IN_KERNEL charl_real few_of(const source in, local const int *at, int total, bool apart, ulong c)
{
    const charl_real a = load_of(in, at[0], c) + CHARL_SPLAT(0.0f), b = load_of(in, at[total - 1], c) + CHARL_SPLAT(0.0f);

    if (total == 1 || !apart) {
        return charl_tree_node(total == 1 ? a : a + b, 0);
    }
    return charl_tree_node(charl_tree_node(a, 0) + charl_tree_node(b, 0), 1);
}

/* All columns of a row of the table, by the whole group; begin and stop: places of its token in the M slices. */
CHARL_IN_KERNEL void add_side_by_side(const source in, ulong first, local const int *begin, local const int *stop, global float *out,
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

/* What a group knows of the tokens of its rows. */
typedef struct {
    int begin[ROWS * M], stop[ROWS * M]; /* places in each slice */
    int total[ROWS];                     /* positions in all */
    int at[ROWS * FEW];                  /* where there are few: the rows of g */
    int apart[ROWS];                     /* and whether they are in different slices */
} places;

CHARL_IN_KERNEL void find_places(const source in, global const int *ends, ulong first, ulong v0, ulong rows, local places *p)
{
    const int t = (int)get_local_id(0);

    for (int u = t; u < ROWS * M; u += GROUP) {
        const ulong v = min(v0 + (ulong)(u / M), rows - 1);
        global const int *end = ends + (ulong)(u % M) * (rows + 1);

        p->begin[u] = v > 0 ? end[v - 1] : 0;
        p->stop[u] = end[v];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = t; k < ROWS; k += GROUP) {
        int sum = 0;

        p->apart[k] = 0;
        for (int m = 0; m < M; m++) {
            const ulong s = (first + (ulong)m) * in.positions;
            const int begin = p->begin[k * M + m], count = p->stop[k * M + m] - begin;

            p->apart[k] |= sum == 1 && count == 1;
            for (int i = 0; i < count && sum + i < FEW; i++) {
                p->at[k * FEW + sum + i] = (int)s + in.order[s + (ulong)(begin + i)];
            }
            sum += count;
        }
        p->total[k] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

kernel void charl_sum_rows(global const ACT *g, ulong g_at, global const int *scratch, ulong scratch_at, global float *out,
                           ulong out_at, ulong first, ulong slices, ulong positions, ulong rows, ulong size)
{
    local places p;
    local float sums[GROUP * CHARL_VEC];
    const uint pieces = (uint)((size + CHARL_VEC - 1) / CHARL_VEC);
    const ulong v0 = get_group_id(0) * ROWS;
    const source in = {.g = g + g_at, .order = scratch + scratch_at + slices * (rows + 1), .positions = positions, .size = size,
                       .whole = CHARL_VEC == 8 && size % 8 == 0 && CHARL_IS_ALIGNED(g + g_at)};

    out += out_at + v0 * size;
    find_places(in, scratch + scratch_at + first * (rows + 1), first, v0, rows, &p);
    for (uint u = (uint)get_local_id(0); u < ROWS * pieces; u += GROUP) {
        const int k = (int)(u / pieces), total = p.total[k];
        const ulong c = (ulong)(u % pieces) * CHARL_VEC;

        if (v0 + (ulong)k < rows && total <= FEW) {
            const charl_real sum = total > 0 ? few_of(in, p.at + k * FEW, total, p.apart[k] != 0, c) : CHARL_SPLAT(0.0f);

            charl_store(sum, out + (ulong)k * size + c, (long)(size - c));
        }
    }
    for (int k = 0; k < ROWS && v0 + (ulong)k < rows; k++) {
        if (p.total[k] > FEW) {
            add_side_by_side(in, first, p.begin + k * M, p.stop + k * M, out + (ulong)k * size, sums);
        }
    }
}
