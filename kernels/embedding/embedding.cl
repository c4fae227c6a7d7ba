/* embedding: rows of a table by token, and the sum over positions that is the table's gradient.
 *
 *   charl_lookup  out[p] = weight[token[p]]; NaN for a token outside 0 .. vocab - 1
 *   charl_sort    the positions of each slice, ordered by token and then by position: a counting sort
 *   charl_sum     out[v] = sum of g[p] over the positions p of token v: in ascending order within a slice, the M slices from
 *                 `first` on in the fixed tree
 *
 * charl_sort leaves ints for charl_sum, [slices][vocab + 1] ends, then [slices][positions] positions within the slice: those
 * of token v stand at end[v - 1] .. end[v] - 1 (from 0 for v = 0). Tokens outside the table count as token `vocab`, which
 * charl_sum does not visit.
 *
 * Specialised by   GROUP      work-items that sort a slice together (default 1)
 *                  M          slices to add (default 2)
 *                  ROUND      0: nodes of the tree over slices are rounded to bf16 (default: not)
 *                  ACT        type of the table and the rows; sums are float
 *                  CHARL_VEC  see math.clh
 * Launch           charl_lookup, charl_sum: column_chunks.clh.
 *                  charl_sort: one work-group of GROUP for each slice.
 * Numerics         one chain of additions for each token, slice and column, from 0.
 */
#define GROUP 1
#include "shared/column_chunks.clh"
#include "shared/tree.clh"

kernel void charl_lookup(global const int *token, ulong token_at, global const ACT *weight, ulong weight_at, global ACT *out,
                         ulong out_at, ulong vocab, ulong rows, ulong size, ulong span)
{
    CHARL_EACH_CHUNK(u, rows, size, span)
    {
        const ulong p = CHARL_CHUNK_ROW(u, size), c = CHARL_CHUNK_COLUMN(u, size);
        const int v = token[token_at + p];
        const long left = (long)(size - c);
        charl_real row = CHARL_SPLAT(NAN);

        if (v >= 0 && (ulong)v < vocab) {
            row = charl_load(weight + weight_at + (ulong)v * size + c, left);
        }
        charl_store(row, out + out_at + p * size + c, left);
    }
}

/* How many earlier work-items of the group hold the same token as this one, and whether a later one does. The group
 * comes together; those without a position hold -1. */
static inline int rank_among(local int held[static GROUP], int v, bool *is_last)
{
    const int t = (int)get_local_id(0);
    int rank = 0;

    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE); /* `held` has been read, counters have been written */
    held[t] = v;
    barrier(CLK_LOCAL_MEM_FENCE);
    *is_last = v >= 0;
    for (int i = 0; i < GROUP; i++) {
        rank += i < t && held[i] == v;
        *is_last = *is_last && (i <= t || held[i] != v);
    }
    return rank;
}

/* end[v] = the sum of end[0 .. v - 1]: each work-item has a stretch of the table. */
static inline void exclusive_scan(global int *end, int n, local int held[static GROUP])
{
    const int t = (int)get_local_id(0), stretch = (n + GROUP - 1) / GROUP;
    const int first = min(t * stretch, n), stop = min(first + stretch, n);
    int sum = 0;

    for (int v = first; v < stop; v++) {
        sum += end[v];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    held[t] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    sum = 0;
    for (int i = 0; i < t; i++) {
        sum += held[i];
    }
    for (int v = first; v < stop; v++) {
        const int count = end[v];

        end[v] = sum;
        sum += count;
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
}

/* A block of GROUP positions at a time, so that only the order within a block needs care: a token's last work-item moves its
 * counter for all of them, and nothing is atomic. */
kernel void charl_sort(global const int *token, ulong token_at, global int *scratch, ulong scratch_at, ulong slices, int positions,
                       int vocab)
{
    local int held[GROUP];
    const int t = (int)get_local_id(0), n = vocab + 1;
    const ulong s = get_group_id(0);
    global int *end = scratch + scratch_at + s * (ulong)n;
    global int *order = scratch + scratch_at + slices * (ulong)n + s * (ulong)positions;

    token += token_at + s * (ulong)positions;
    for (int v = t; v < n; v += GROUP) {
        end[v] = 0;
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (int place = 0; place < 2; place++) { /* first count, then place */
        for (int block = 0; block < positions; block += GROUP) {
            const int p = block + t, any = p < positions ? token[p] : -1;
            const int v = p >= positions ? -1 : any < 0 || any >= vocab ? vocab : any;
            bool is_last;
            const int rank = rank_among(held, v, &is_last);

            if (place && v >= 0) {
                order[end[v] + rank] = p;
            }
            barrier(CLK_GLOBAL_MEM_FENCE); /* all have read their counters */
            if (is_last) {
                end[v] += rank + 1;
            }
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
        if (!place) {
            exclusive_scan(end, n, held);
        }
    }
}

/* The rows of g at order[i .. stop - 1], in this order. */
static inline charl_real sum_of(global const ACT *g, global const int *order, int i, int stop, ulong size, long left)
{
    charl_real sum = CHARL_SPLAT(0.0f);

    for (; i < stop; i++) {
        sum = sum + charl_load(g + (ulong)order[i] * size, left);
    }
    return sum;
}

kernel void charl_sum(global const ACT *g, ulong g_at, global const int *scratch, ulong scratch_at, global float *out, ulong out_at,
                      ulong first, ulong slices, ulong positions, ulong rows, ulong size, ulong span)
{
    CHARL_EACH_CHUNK(u, rows, size, span)
    {
        const ulong v = CHARL_CHUNK_ROW(u, size), c = CHARL_CHUNK_COLUMN(u, size);
        const long left = (long)(size - c);
        charl_real level[CHARL_TREE_LEVELS];

        for (int leaf = 0; leaf < M; leaf++) {
            const ulong s = first + (ulong)leaf;
            global const int *end = scratch + scratch_at + s * (rows + 1);
            global const int *order = scratch + scratch_at + slices * (rows + 1) + s * positions;
            const int i = v > 0 ? end[v - 1] : 0;
            global const ACT *rows_of = g + g_at + s * positions * size + c;

            charl_tree_add(level, leaf, sum_of(rows_of, order, i, end[v], size, left));
        }
        charl_store(charl_tree_sum(level), out + out_at + v * size + c, left);
    }
}
