/* gemm_small: matrix products too small to fill a device with the tiles of gemm_local; see gemm.clh.
 *
 * Specialised by   A_KIND, B_KIND 0 or 1, and BIAS: see gemm.clh
 *                  TILE    16 or 32 rows and columns of a work-group (default 32)
 *                  FOLD    1: product z is the sum of `leaves` products, at most M, in the fixed tree; operands of a leaf lie x_outer
 *                          apart; ROUND as in tree.clh
 *                  A_SUMS  1, with FOLD: the sums of A over k go to a_sums [m], per leaf as charl_fold_columns of reduce_slices.cl adds a column of
 *                          up to 256 rows, over the leaves in the tree
 *                  PAIR    1: gemm_small_pair, another product in the same launch, without epilogue, specialised by the same names with _2;
 *                          the first `groups` work-groups are those of the product without FOLD that the other names describe
 * Launch           groups of TILE * TILE / 4 work-items, one per tile; tiles go by column, row, product. Such products wait for memory, so
 *                  tiles are deep, and the next tile is read while one is multiplied. Both tiles are in local memory with k running fastest;
 *                  a work-item has 2 x 2 outputs, half a tile apart, and reads four k at a time.
 * Numerics         see gemm.clh; with FOLD the tree of src/base/numeric/tree.h over the leaves.
 */
#ifndef TILE
#define TILE 32
#endif
#ifndef FOLD
#define FOLD 0
#endif
#ifndef A_SUMS
#define A_SUMS 0
#endif
#ifndef PAIR
#define PAIR 0
#endif
#include "shared/rng.clh"
#include "gemm/gemm_epilogue.clh"
#include "gemm/gemm.clh"
#include "shared/tree.clh"
#include "gemm/gemm_small_tiles.clh"

/* What is constant in a launch, for each of its products. */
typedef struct {
    bool a_transposed, b_transposed, folds, sums_a, ends; /* ends: with the epilogue, if there is one */
    int bias;
} form;

/* The arguments of a product. */
typedef struct {
    global const ACT *a, *b;
    global const float *bias;
    global OUT_T *out;
    global float *a_sums;
    int m, n, k_all, segments, inner, leaves;
    long a_segment, b_segment, a_outer, a_inner, b_outer, b_inner, out_outer, out_inner;
} product;

/* Tile `group` of p. */
CHARL_INLINE void multiply(const form f, const product p, int group, local float as[static TILE * PITCH],
                     local float bs[static TILE * PITCH] EPILOGUE_ARGS(with, record, draw))
{
    const int lane = (int)get_local_id(0), tx = lane % HALF, ty = lane / HALF;
    const int cols = (p.n + TILE - 1) / TILE, rows = (p.m + TILE - 1) / TILE;
    const int j0 = group % cols * TILE, i0 = group / cols % rows * TILE;
    const int z = group / cols / rows, zo = z / p.inner, zi = z % p.inner;
    const int depth = p.k_all * (f.folds ? p.leaves : p.segments);
    const operand a = operand_of(p.a + zo * p.a_outer + zi * p.a_inner, i0, p.m, depth, p.k_all, f.folds ? p.a_outer : p.a_segment,
                                 f.a_transposed);
    const operand b = operand_of(p.b + zo * p.b_outer + zi * p.b_inner, j0, p.n, depth, p.k_all, f.folds ? p.b_outer : p.b_segment,
                                 !f.b_transposed);
    global OUT_T *const out = p.out + zo * p.out_outer + zi * p.out_inner;
    const bool adds = f.sums_a && j0 == 0 && lane < TILE; /* a row of A each */
    float acc[4] = {0.0f, 0.0f, 0.0f, 0.0f}, va[LOADS], vb[LOADS], level[4][CHARL_TREE_LEVELS];
    float column[4] = {0.0f, 0.0f, 0.0f, 0.0f}, column_level[CHARL_TREE_LEVELS];
    int leaf = 0, left = p.k_all; /* the leaf being added up, and what it still lacks */

    EPILOGUE_MOVE(with, draw, zo * p.out_outer + zi * p.out_inner);
    /* One step more than there are tiles: step t brings in tile t while tile t - 1 is multiplied. */
    for (int k0 = 0; k0 < depth + BK; k0 += BK) {
        if (k0 < depth) {
            bring(a, lane, k0, va);
            bring(b, lane, k0, vb);
        }
        if (k0 > 0) {
            const int kc = min(depth - (k0 - BK), BK);

            barrier(CLK_LOCAL_MEM_FENCE);
            if (!f.folds && kc == BK) {
#pragma unroll 4
                for (int k = 0; k < BK; k += 4) {
                    add_four(k, as + ty * PITCH, bs + tx * PITCH, acc);
                }
            } else if (!f.folds) {
                add(0, kc, as + ty * PITCH, bs + tx * PITCH, acc);
            }
            for (int k = 0; f.folds && k < kc;) {
                const int end = min(kc, k + left);

                if (adds) {
                    add_column(as + lane * PITCH, k, end, p.k_all - left, column);
                }
                add(k, end, as + ty * PITCH, bs + tx * PITCH, acc);
                left -= end - k;
                k = end;
                if (left == 0) {
#pragma unroll
                    for (int r = 0; r < 4; r++) {
                        charl_tree_add(level[r], leaf, acc[r]);
                        acc[r] = 0.0f;
                    }
                    charl_tree_add(column_level, leaf, (column[0] + column[2]) + (column[1] + column[3]));
                    column[0] = column[1] = column[2] = column[3] = 0.0f;
                    leaf++;
                    left = p.k_all;
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        if (k0 < depth) {
            put(a, lane, va, as);
            put(b, lane, vb, bs);
        }
    }
    if (adds && i0 + lane < p.m) {
        p.a_sums[i0 + lane] = charl_tree_sum_of(column_level, p.leaves);
    }
#pragma unroll
    for (int r = 0; r < 4; r++) {
        const int i = i0 + ty + r / 2 * HALF, j = j0 + tx + r % 2 * HALF;
        const long at = (long)i * p.n + j;
        float sum = f.folds ? charl_tree_sum_of(level[r], p.leaves) : acc[r];

        if (i < p.m && j < p.n) {
            if (f.bias > 0) {
                sum += p.bias[f.bias == 1 ? j : zi * p.m + i];
            }
#ifdef EXPR
            if (f.ends) {
                charl_store(EPILOGUE(sum, at, p.n - j, with, record, draw), out + at, p.n - j);
                continue;
            }
#endif
            charl_put(sum, out + at);
        }
    }
}

#if A_SUMS
#define A_SUMS_ARGS(a_sums) , global float *a_sums, ulong a_sums##_at
#define A_SUMS_OF(a_sums)   a_sums + a_sums##_at
#else
#define A_SUMS_ARGS(a_sums)
#define A_SUMS_OF(a_sums) 0
#endif

#if !PAIR
kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void gemm_small(
    global const ACT *a, ulong a_at, global const ACT *b, ulong b_at, global const float *bias, ulong bias_at,
    global OUT_T *out, ulong out_at, int m, int n, int k_all, int segments, long a_segment, long b_segment, int inner,
    long a_outer, long a_inner, long b_outer, long b_inner, long out_outer, long out_inner, int leaves, int ih, int iw,
    int pw, int mi, int nj EPILOGUE_ARGS(with, record, draw) A_SUMS_ARGS(a_sums))
{
    local float as[TILE * PITCH] __attribute__((aligned(16))), bs[TILE * PITCH] __attribute__((aligned(16))); /* read as vectors */
    const form f = {A_KIND == 1, B_KIND == 1, FOLD, A_SUMS, true, BIAS};
    const product p = {a + a_at, b + b_at, bias + bias_at, out + out_at, A_SUMS_OF(a_sums), m, n, k_all, segments, inner, leaves, a_segment,
                       b_segment, a_outer, a_inner, b_outer, b_inner, out_outer, out_inner};

    (void)ih, (void)iw, (void)pw, (void)mi, (void)nj;
    multiply(f, p, (int)get_group_id(0), as, bs EPILOGUE_OPERANDS(with, record, draw));
}
#else
#if A_SUMS_2
#define A_SUMS_ARGS_2(a_sums) , global float *a_sums, ulong a_sums##_at
#define A_SUMS_OF_2(a_sums)   a_sums + a_sums##_at
#else
#define A_SUMS_ARGS_2(a_sums)
#define A_SUMS_OF_2(a_sums) 0
#endif

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void gemm_small_pair(
    global const ACT *a, ulong a_at, global const ACT *b, ulong b_at, global const float *bias, ulong bias_at,
    global OUT_T *out, ulong out_at, int m, int n, int k_all, int segments, long a_segment, long b_segment, int inner,
    long a_outer, long a_inner, long b_outer, long b_inner, long out_outer, long out_inner, int leaves, int ih, int iw,
    int pw, int mi, int nj EPILOGUE_ARGS(with, record, draw), global const ACT *a_2, ulong a_at_2, global const ACT *b_2,
    ulong b_at_2, global const float *bias_2, ulong bias_at_2, global OUT_T *out_2, ulong out_at_2, int m_2, int n_2,
    int k_all_2, int segments_2, long a_segment_2, long b_segment_2, int inner_2, long a_outer_2, long a_inner_2,
    long b_outer_2, long b_inner_2, long out_outer_2, long out_inner_2, int leaves_2, int ih_2, int iw_2, int pw_2,
    int mi_2, int nj_2 A_SUMS_ARGS_2(a_sums_2), int groups)
{
    local float as[TILE * PITCH] __attribute__((aligned(16))), bs[TILE * PITCH] __attribute__((aligned(16))); /* read as vectors */
    const form f = {A_KIND == 1, B_KIND == 1, false, false, true, BIAS};
    const form f_2 = {A_KIND_2 == 1, B_KIND_2 == 1, FOLD_2, A_SUMS_2, false, BIAS_2};
    const product p = {a + a_at, b + b_at, bias + bias_at, out + out_at, 0, m, n, k_all, segments, inner, leaves, a_segment, b_segment,
                       a_outer, a_inner, b_outer, b_inner, out_outer, out_inner};
    const product p_2 = {a_2 + a_at_2, b_2 + b_at_2, bias_2 + bias_at_2, out_2 + out_at_2, A_SUMS_OF_2(a_sums_2), m_2, n_2, k_all_2, segments_2,
                         inner_2, leaves_2, a_segment_2, b_segment_2, a_outer_2, a_inner_2, b_outer_2, b_inner_2, out_outer_2,
                         out_inner_2};
    const int group = (int)get_group_id(0);

    (void)ih, (void)iw, (void)pw, (void)mi, (void)nj;
    (void)ih_2, (void)iw_2, (void)pw_2, (void)mi_2, (void)nj_2;
    /* One call: where both sides of a branch have barriers, not every compiler does the right thing. */
    multiply(group < groups ? f : f_2, group < groups ? p : p_2, group < groups ? group : group - groups, as, bs EPILOGUE_OPERANDS(with, record, draw));
}
#endif
