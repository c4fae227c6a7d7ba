/* embedding_sum: the sum over positions that is the gradient of a table of rows by token, where work-groups share rows.
 *
 *   charl_sum_many  for tokens with more than FEW positions what charl_sum of embedding.cl gives, to the bit, from the same scratch; of the
 *                   others, where they are
 *   charl_sum_few   the rows of those
 *
 * Specialised by   GROUP      work-items of a group, at least M (default 64)
 *                  ROWS       rows of the table for each group of charl_sum_many, at most (default 8)
 *                  FEW        2; 0: charl_sum_many does all (default 2)
 *                  M          slices to add (default 2)
 *                  ROUND      0: nodes of the tree over slices are rounded to bf16 (default: not)
 *                  ACT        type of the rows added; sums are float
 *                  CHARL_VEC  see math.clh
 * Launch           charl_sum_many: a multiple of `parts` groups of GROUP, which cover the rows with ROWS each; every group has columns
 *                  in its part, of SIDE * CHARL_VEC at a time. charl_sum_few: groups of GROUP that cover all vectors.
 * Algorithm        most tokens of a large table have no position or a few: their rows are shared out among all work-items, which then read
 *                  one or two rows of g and write one. A token with more gets a whole group, which has for each slice some work-items
 *                  with a chain each, and a tree over the slices at the end. Frequent tokens stand side by side in many tables: a
 *                  group has rows that are far apart.
 * Numerics         one chain of additions for each token, slice and column, from 0; the slices in the fixed tree.
 */
#define GROUP 64
#define ROWS 8
#define FEW 2
#include "shared/tree.clh"

#define AHEAD 4 /* rows that are read before they are added */
#define SIDE  (GROUP / M) /* work-items of a slice, where slices are added side by side */

/* Where a token's positions are, as rows of g: x is the first's, or NO_ROW or MANY; y the second's, or NO_ROW, or APART(it) where that is in
 * another slice. */
#define NO_ROW   (-1)
#define MANY     (-2)
#define APART(p) (-2 - (p))

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

/* Part `part` of `parts` of the columns of a row of the table, by the whole group; begin and stop: places of its token in the M slices. */
CHARL_IN_KERNEL void add_side_by_side(const source in, ulong first, local const int *begin, local const int *stop, ulong part, ulong parts,
                                      global float *out, local float sums[static GROUP * CHARL_VEC])
{
    const int t = (int)get_local_id(0), leaf = t / SIDE;

    for (ulong block = part * SIDE * CHARL_VEC; block < in.size; block += parts * SIDE * CHARL_VEC) {
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

/* What a group knows of its rows. */
typedef struct {
    int begin[ROWS * M], stop[ROWS * M]; /* places in each slice */
    int2 at[ROWS * M];                   /* rows of g at the first two of them */
    int total[ROWS];                     /* positions in all */
} places;

/* Row number k of a group is v0 + k * step. */
CHARL_IN_KERNEL void find_places(const source in, global const int *ends, ulong first, ulong v0, ulong step, ulong rows, local places *p)
{
    for (int u = (int)get_local_id(0); u < ROWS * M; u += GROUP) {
        const ulong v = v0 + (ulong)(u / M) * step, s = (first + (ulong)(u % M)) * in.positions;
        global const int *end = ends + (ulong)(u % M) * (rows + 1);
        const int begin = v > 0 && v < rows ? end[v - 1] : 0, stop = v < rows ? end[v] : 0;

        p->begin[u] = begin;
        p->stop[u] = stop;
        if (FEW > 0 && begin < stop) {
            p->at[u] = (int2)((int)s + in.order[s + (ulong)begin], (int)s + in.order[s + (ulong)min(begin + 1, stop - 1)]);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* Of row k, which becomes known to charl_sum_few. */
CHARL_IN_KERNEL int2 place_of(local places *p, int k)
{
    int2 place = (int2)(NO_ROW, NO_ROW);
    int total = 0;

    for (int u = k * M; u < (k + 1) * M; u++) {
        const int count = p->stop[u] - p->begin[u];

        if (count > 0 && total == 0) {
            place = (int2)(p->at[u].x, count > 1 ? p->at[u].y : NO_ROW);
        } else if (count > 0) {
            place.y = APART(p->at[u].x);
        }
        total += count;
    }
    p->total[k] = total;
    return total > FEW ? (int2)(MANY, NO_ROW) : place;
}

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void charl_sum_many(
    global const ACT *g, ulong g_at, global const int *scratch, ulong scratch_at, global int *found, ulong found_at, global float *out,
    ulong out_at, ulong first, ulong slices, ulong positions, ulong rows, ulong size, ulong parts)
{
    local places p;
    local float sums[GROUP * CHARL_VEC];
    const ulong v0 = get_group_id(0) / parts, part = get_group_id(0) % parts, step = get_num_groups(0) / parts;
    const source in = {.g = g + g_at, .order = scratch + scratch_at + slices * (rows + 1), .positions = positions, .size = size,
                       .whole = CHARL_VEC == 8 && size % 8 == 0 && CHARL_IS_ALIGNED(g + g_at)};

    find_places(in, scratch + scratch_at + first * (rows + 1), first, v0, step, rows, &p);
    for (int k = (int)get_local_id(0); FEW > 0 && k < ROWS; k += GROUP) {
        const int2 place = place_of(&p, k);

        if (part == 0 && v0 + (ulong)k * step < rows) {
            ((global int2 *)(found + found_at))[v0 + (ulong)k * step] = place;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < ROWS && v0 + (ulong)k * step < rows; k++) {
        if (FEW == 0 || p.total[k] > FEW) {
            add_side_by_side(in, first, p.begin + k * M, p.stop + k * M, part, parts, out + out_at + (v0 + (ulong)k * step) * size, sums);
        }
    }
}

static inline charl_real load_of(bool whole, global const ACT *g, int row, ulong size, ulong c)
{
    return charl_read(whole, g + (ulong)row * size + c, (long)(size - c)) + CHARL_SPLAT(0.0f); /* as every chain begins */
}

/* Columns from c on of a row of the table whose token has one position or two. The rest of the tree, and what every chain begins with, is 0. */
static inline charl_real few_of(bool whole, global const ACT *g, int2 at, ulong size, ulong c)
{
    const int second = at.y >= 0 ? at.y : at.y == NO_ROW ? at.x : APART(at.y);
    const charl_real a = load_of(whole, g, at.x, size, c), b = load_of(whole, g, second, size, c);

    if (at.y >= NO_ROW) {
        return charl_tree_node(at.y == NO_ROW ? a : a + b, 0);
    }
    return charl_tree_node(charl_tree_node(a, 0) + charl_tree_node(b, 0), 1);
}

/* Vector number u of the table. */
static inline void put_few(bool whole, global const ACT *g, global const int2 *found, global float *out, uint u, uint rows, ulong size)
{
    const uint pieces = (uint)((size + CHARL_VEC - 1) / CHARL_VEC), v = u / pieces;
    const ulong c = (ulong)(u % pieces) * CHARL_VEC;

    if (v < rows && found[v].x != MANY) {
        const charl_real sum = found[v].x != NO_ROW ? few_of(whole, g, found[v], size, c) : CHARL_SPLAT(0.0f);

        charl_store(sum, out + v * size + c, (long)(size - c));
    }
}

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void charl_sum_few(
    global const ACT *g, ulong g_at, global const int *found, ulong found_at, global float *out, ulong out_at, ulong rows, ulong size)
{
    const uint u = (uint)get_global_id(0);
    global const int2 *at = (global const int2 *)(found + found_at);

    g += g_at;
    if (CHARL_VEC == 8 && size % 8 == 0 && CHARL_IS_ALIGNED(g)) {
        put_few(true, g, at, out + out_at, u, (uint)rows, size);
    } else {
        put_few(false, g, at, out + out_at, u, (uint)rows, size);
    }
}
