/* reduce_slices: sums of EXPR(a, b) over [leaves, n, inner], where one chunk of reduce.cl covers a slice of the batch: the sums of slices
 * meet in the same launch, in the tree of src/base/numeric/tree.h.
 *
 *   charl_fold_rows       inner = 1: out [1]
 *   charl_fold_columns    out [inner]; or out [inner / 2] and out2 [inner / 2]
 *
 * Specialised by   as reduce.clh
 *                  LEAVES     room for so many slices (default 1); ROUND as in tree.clh
 *                  OUTPUTS    results of charl_fold_columns: 1 or 2 (default 1)
 *                  FOLD_COLUMNS, FOLD_LEAVES   extents of a work-group of charl_fold_columns; not defined: work-items have whole columns
 * Launch           src/autograd/launch/rows.c.
 * Numerics         of a slice as reduce.cl, out of that sum * scale.
 */
#define FOURTHS_AHEAD 16
#define LEAVES 1
#define OUTPUTS 1
#include "reduce/reduce.clh"

#define M LEAVES
#include "shared/tree.clh"

/* One work-group for all. */
kernel void charl_fold_rows(OPERANDS(a, b), global float *out, ulong out_at, int leaves, ulong n, float scale, float p, float q)
{
    global const A_T *a = a_ptr + a_at;
    global const B_T *b = B_PTR(b);
    charl_real level[CHARL_TREE_LEVELS];

#if CHARL_ROW_ITEMS == 1
    for (int leaf = 0; leaf < leaves; leaf++) {
        const float sum = sum_chunk(a + leaf * n, b + leaf * n, (int)n, 0, 0, p, q) * scale;

        charl_tree_add(level, leaf, CHARL_SPLAT(sum));
    }
    out[out_at] = charl_lane0(charl_tree_sum_of(level, leaves));
#else
    local charl_row_scratch scratch;
    local float part[LEAVES];
    const int item = (int)get_local_id(0), t = item % CHARL_ROW_ITEMS;

    for (int first = 0; first < leaves; first += CHARL_ROW_GROUP / CHARL_ROW_ITEMS) {
        const int leaf = first + item / CHARL_ROW_ITEMS, count = leaf < leaves ? (int)n : 0;
        const float sum = sum_chunk(a + leaf * n, b + leaf * n, count, t, &scratch, p, q);

        if (t == 0 && leaf < leaves) {
            part[leaf] = sum * scale;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int leaf = 0; item == 0 && leaf < leaves; leaf++) {
        charl_tree_add(level, leaf, CHARL_SPLAT(part[leaf]));
    }
    if (item == 0) {
        out[out_at] = charl_lane0(charl_tree_sum_of(level, leaves));
    }
#endif
}

#if OUTPUTS > 1
#define OUT_OPERANDS(out, out2)    global float *out, ulong out##_at, global float *out2, ulong out2##_at
#define OUTPUT(is_two, out, out2) ((is_two) ? out2 + out2##_at : out + out##_at)
#else
#define OUT_OPERANDS(out, out2)    global float *out, ulong out##_at
#define OUTPUT(is_two, out, out2) (out + out##_at)
#endif

#ifdef FOLD_COLUMNS
/* Accumulator k of 4 of a column, as sum_columns has it. */
static inline float sum_fourth(global const A_T *a, global const B_T *b, ulong at, int k, int rows, ulong inner, float p, float q)
{
    float acc = 0.0f;
    int r = k;

    for (; r + 4 * (FOURTHS_AHEAD - 1) < rows; r += 4 * FOURTHS_AHEAD) {
        float v[FOURTHS_AHEAD];

#pragma unroll
        for (int i = 0; i < FOURTHS_AHEAD; i++) {
            v[i] = charl_lane0(value_of(true, a, b, at + (ulong)(r + 4 * i) * inner, 0, p, q));
        }
#pragma unroll
        for (int i = 0; i < FOURTHS_AHEAD; i++) {
            acc = acc + v[i];
        }
    }
    for (; r < rows; r += 4) {
        acc = acc + charl_lane0(value_of(true, a, b, at + (ulong)r * inner, 0, p, q));
    }
    return acc;
}
#endif

/* Columns of [leaves, n, inner], `width` of them for each output. Work-groups of FOLD_COLUMNS columns, by 4 accumulators, by FOLD_LEAVES
 * leaves at a time; without FOLD_COLUMNS work-items of `span` columns. */
kernel void charl_fold_columns(OPERANDS(a, b), OUT_OPERANDS(out, out2), int leaves, ulong n, ulong width, ulong span, float scale, float p, float q)
{
    global const A_T *a = a_ptr + a_at;
    global const B_T *b = B_PTR(b);
    const ulong inner = OUTPUTS * width;
    charl_real level[CHARL_TREE_LEVELS];

#ifdef FOLD_COLUMNS
    local float part[LEAVES][4][FOLD_COLUMNS];
    const int item = (int)get_local_id(0), c = item % FOLD_COLUMNS, k = item / FOLD_COLUMNS % 4, first = item / FOLD_COLUMNS / 4;
    const ulong groups = (width + FOLD_COLUMNS - 1) / FOLD_COLUMNS, output = get_group_id(0) / groups;
    const ulong col = get_group_id(0) % groups * FOLD_COLUMNS + c;

    (void)span;
    for (int leaf = first; leaf < leaves && col < width; leaf += FOLD_LEAVES) {
        part[leaf][k][c] = sum_fourth(a, b, leaf * n * inner + output * width + col, k, (int)n, inner, p, q);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < FOLD_COLUMNS && col < width) {
        for (int leaf = 0; leaf < leaves; leaf++) {
            const float sum = (part[leaf][0][c] + part[leaf][2][c]) + (part[leaf][1][c] + part[leaf][3][c]);

            charl_tree_add(level, leaf, sum * scale);
        }
        OUTPUT(output > 0, out, out2)[col] = charl_tree_sum_of(level, leaves);
    }
#else
    const ulong end = (ulong)leaves * n * inner, spans = (width + span - 1) / span, output = get_global_id(0) / spans;
    const ulong begin = get_global_id(0) % spans * span;

    for (ulong col = begin; output < OUTPUTS && col < min(begin + span, width); col += CHARL_VEC) {
        for (int leaf = 0; leaf < leaves; leaf++) {
            const charl_real sum = sum_columns(a, b, leaf * n * inner + output * width + col, end, (int)n, inner, p, q);

            charl_tree_add(level, leaf, sum * scale);
        }
        charl_store(charl_tree_sum_of(level, leaves), OUTPUT(output > 0, out, out2) + col, (long)(width - col));
    }
#endif
}
