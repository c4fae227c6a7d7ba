/* reduce: sums of EXPR(a, b) over one extent of [outer, n, inner].
 *
 * The extent is cut into chunks, each summed in a fixed pattern; the host runs the kernel again over the chunk sums until one is left.
 *
 *   charl_reduce_rows     inner = 1: chunks of 4096, the row pattern of rows.clh. out [outer, chunks]
 *   charl_reduce_columns  chunks of 256 rows: row r of a chunk goes to accumulator r mod 4, in ascending order; then
 *                         (0 + 2) + (1 + 3). out [outer, chunks, inner]
 *
 * Where one chunk covers a slice of the batch, the sums of slices meet in the same launch, in the tree of src/base/tree.h:
 *
 *   charl_fold_rows       inner = 1: out [1]
 *   charl_fold_columns    out [inner]
 *
 * Specialised by   N_IN       operands: 1 or 2 (default 1)
 *                  EXPR       expression of a and b, as in map.cl, and the numbers p, q (default a)
 *                  A_T, B_T   element types of the operands (default float); sums are float
 *                  LEAVES     room for so many slices, with charl_fold_*; ROUND as in tree.clh
 *                  FOLD_COLUMNS, FOLD_LEAVES   extents of a work-group of charl_fold_columns; not defined: groups of 1
 *                  CHARL_VEC  CHARL_ROW_ITEMS  CHARL_ROW_ACCS  see rows.clh
 * Launch           rows: src/autograd/op_common/rows.c. columns: 1-D, each work-item sums `span` columns of a chunk.
 * Numerics         the order depends on n, and on whether inner is 1, only. out = sum * scale.
 */
#ifndef N_IN
#define N_IN 1
#endif
#ifndef EXPR
#define EXPR a
#endif
#ifndef A_T
#define A_T float
#endif
#ifndef B_T
#define B_T float
#endif
#define ROW_CHUNK    4096
#define COLUMN_CHUNK 256
#define AHEAD        (CHARL_VEC > 1 ? 4 : 16)

#if N_IN > 1
#define OPERANDS global const A_T *a_ptr, ulong a_at, global const B_T *b_ptr, ulong b_at
#define B_PTR    b_ptr + b_at
#else
#define OPERANDS global const A_T *a_ptr, ulong a_at
#define B_PTR    0
#endif

/* EXPR at CHARL_VEC elements from i on, of which `left` exist; whole, a constant: all of them. */
static inline charl_real value_of(bool whole, global const A_T *a_ptr, global const B_T *b_ptr, ulong i, long left, float p, float q)
{
    const charl_real a = whole ? charl_whole(a_ptr + i) : charl_load(a_ptr + i, left);
#if N_IN > 1
    const charl_real b = whole ? charl_whole(b_ptr + i) : charl_load(b_ptr + i, left);
#endif
    (void)b_ptr; /* where EXPR does not use them */
    (void)p;
    (void)q;
    return CHARL_SPLAT(EXPR);
}

static inline charl_real value(global const A_T *a, global const B_T *b, ulong i, long left, float p, float q)
{
    return value_of(false, a, b, i, left, p, q);
}

static inline float sum_chunk(global const A_T *a, global const B_T *b, int n, int t, local float *scratch, float p, float q)
{
    charl_real acc[CHARL_ROW_ACCS];

    for (int k = 0; k < CHARL_ROW_ACCS; k++) {
        acc[k] = CHARL_SPLAT(0.0f);
    }
    for (int block = 0; block < n; block += CHARL_ROW_WIDTH) {
#pragma unroll
        for (int k = 0; k < CHARL_ROW_ACCS; k++) {
            const int j = charl_row_at(block, k, t);

            if (j < n) {
                acc[k] = acc[k] + charl_keep(value(a, b, (ulong)j, n - j, p, q), n - j, 0.0f);
            }
        }
    }
    return charl_row_sum(acc, scratch);
}

kernel void charl_reduce_rows(OPERANDS, global float *out, ulong out_at, ulong rows, ulong per_item, ulong n, ulong chunks,
                              float scale, float p, float q)
{
    global const A_T *a = a_ptr + a_at;
    global const B_T *b = B_PTR;

#if CHARL_ROW_ITEMS == 1
    const ulong first = get_global_id(0) * per_item;

    for (ulong u = first; u < min(first + per_item, rows); u++) {
        const ulong begin = u % chunks * ROW_CHUNK, at = u / chunks * n + begin;
        const int count = (int)min(n - begin, (ulong)ROW_CHUNK);

        out[out_at + u] = sum_chunk(a + at, b + at, count, 0, 0, p, q) * scale;
    }
#else
    (void)per_item;
    local float scratch[CHARL_ROW_SCRATCH];
    const int t = (int)get_local_id(0) % CHARL_ROW_ITEMS;
    const ulong u = get_group_id(0) * (CHARL_ROW_GROUP / CHARL_ROW_ITEMS) + get_local_id(0) / CHARL_ROW_ITEMS;
    const ulong begin = u % chunks * ROW_CHUNK, at = u / chunks * n + begin;
    const int count = u < rows ? (int)min(n - begin, (ulong)ROW_CHUNK) : 0;
    const float sum = sum_chunk(a + at, b + at, count, t, scratch, p, q);

    if (u < rows && t == 0) {
        out[out_at + u] = sum * scale;
    }
#endif
}

/* CHARL_VEC columns from `at` on, over `rows` rows; `end` is that of the operand. */
static inline charl_real sum_columns(global const A_T *a, global const B_T *b, ulong at, ulong end, int rows, ulong inner, float p,
                                     float q)
{
    charl_real acc[4];

    for (int k = 0; k < 4; k++) {
        acc[k] = CHARL_SPLAT(0.0f);
    }
    int r = 0;

    /* Many rows are read before the first is added: nothing is decided in between. */
    for (; r + AHEAD <= rows && at + (ulong)(r + AHEAD - 1) * inner + CHARL_VEC <= end; r += AHEAD) {
        charl_real v[AHEAD];

#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            v[k] = value_of(true, a, b, at + (ulong)(r + k) * inner, 0, p, q);
        }
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            acc[k % 4] = acc[k % 4] + v[k];
        }
    }
    for (; r < rows; r += 4) {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            if (r + k < rows) { /* beyond inner it reads on into the next row: those lanes are not written */
                const ulong i = at + (ulong)(r + k) * inner;

                acc[k] = acc[k] + value(a, b, i, (long)(end - i), p, q);
            }
        }
    }
    return (acc[0] + acc[2]) + (acc[1] + acc[3]);
}

kernel void charl_reduce_columns(OPERANDS, global float *out, ulong out_at, ulong outer, ulong n, ulong inner, ulong chunks,
                                 ulong span, float scale, float p, float q)
{
    global const A_T *a = a_ptr + a_at;
    global const B_T *b = B_PTR;
    const ulong spans = (inner + span - 1) / span, unit = get_global_id(0) / spans; /* (outer, chunk) */
    const ulong first = get_global_id(0) % spans * span, begin = unit % chunks * COLUMN_CHUNK;
    const int rows = (int)min(n - begin, (ulong)COLUMN_CHUNK);

    if (unit >= outer * chunks) {
        return;
    }
    for (ulong col = first; col < min(first + span, inner); col += CHARL_VEC) {
        const ulong at = (unit / chunks * n + begin) * inner + col, end = outer * n * inner;
        const charl_real sum = sum_columns(a, b, at, end, rows, inner, p, q) * scale;

        charl_store(sum, out + out_at + unit * inner + col, (long)(inner - col));
    }
}

#ifdef LEAVES
#define M LEAVES
#include "tree.clh"

/* One work-group for all. */
kernel void charl_fold_rows(OPERANDS, global float *out, ulong out_at, int leaves, ulong n, float scale, float p, float q)
{
    global const A_T *a = a_ptr + a_at;
    global const B_T *b = B_PTR;
    charl_real level[CHARL_TREE_LEVELS];

#if CHARL_ROW_ITEMS == 1
    for (int leaf = 0; leaf < leaves; leaf++) {
        const float sum = sum_chunk(a + leaf * n, b + leaf * n, (int)n, 0, 0, p, q) * scale;

        charl_tree_add(level, leaf, CHARL_SPLAT(sum));
    }
    out[out_at] = charl_lane0(charl_tree_sum_of(level, leaves));
#else
    local float scratch[CHARL_ROW_GROUP], part[LEAVES];
    const int item = (int)get_local_id(0), t = item % CHARL_ROW_ITEMS;

    for (int first = 0; first < leaves; first += CHARL_ROW_GROUP / CHARL_ROW_ITEMS) {
        const int leaf = first + item / CHARL_ROW_ITEMS, count = leaf < leaves ? (int)n : 0;
        const float sum = sum_chunk(a + leaf * n, b + leaf * n, count, t, scratch, p, q);

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

/* Work-groups of FOLD_COLUMNS columns by FOLD_LEAVES leaves at a time; without work-groups `span` columns each. */
kernel void charl_fold_columns(OPERANDS, global float *out, ulong out_at, int leaves, ulong n, ulong inner, ulong span,
                               float scale, float p, float q)
{
    global const A_T *a = a_ptr + a_at;
    global const B_T *b = B_PTR;
    const ulong end = (ulong)leaves * n * inner;
    charl_real level[CHARL_TREE_LEVELS];

#ifdef FOLD_COLUMNS
    local float part[LEAVES][FOLD_COLUMNS];
    const int c = (int)get_local_id(0) % FOLD_COLUMNS, first = (int)get_local_id(0) / FOLD_COLUMNS;
    const ulong col = get_group_id(0) * FOLD_COLUMNS + c;

    (void)span;
    for (int leaf = first; leaf < leaves && col < inner; leaf += FOLD_LEAVES) {
        part[leaf][c] = sum_columns(a, b, leaf * n * inner + col, end, (int)n, inner, p, q) * scale;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (first == 0 && col < inner) {
        for (int leaf = 0; leaf < leaves; leaf++) {
            charl_tree_add(level, leaf, part[leaf][c]);
        }
        out[out_at + col] = charl_tree_sum_of(level, leaves);
    }
#else
    const ulong begin = get_global_id(0) * span;

    for (ulong col = begin; col < min(begin + span, inner); col += CHARL_VEC) {
        for (int leaf = 0; leaf < leaves; leaf++) {
            const charl_real sum = sum_columns(a, b, leaf * n * inner + col, end, (int)n, inner, p, q);

            charl_tree_add(level, leaf, sum * scale);
        }
        charl_store(charl_tree_sum_of(level, leaves), out + out_at + col, (long)(inner - col));
    }
#endif
}
#endif
