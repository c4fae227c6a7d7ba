/* gemm_small: matrix products too small to fill a device with the tiles of gemm_local; see gemm.clh.
 *
 * Specialised by   A_KIND, B_KIND 0 or 1, and BIAS: see gemm.clh
 *                  FOLD    1: product z is the sum of `leaves` products, at most M, in the fixed tree; operands of a leaf lie x_outer
 *                          apart; ROUND as in tree.clh
 *                  A_SUMS  1, with FOLD: the sums of A over k go to a_sums [m], per leaf as charl_fold_columns of reduce.cl adds a column of
 *                          up to 256 rows, over the leaves in the tree
 * Launch           256 work-items per tile of 32 x 32, in groups of 256; tiles go by column, row, product. What such a product waits
 *                  for is memory: so tiles are deep, and a tile is on its way while the one before it is multiplied. A work-item
 *                  holds four outputs, neighbours in a column: what a warp reads of local memory is then one row of B's tile and
 *                  one float4 of A's.
 * Numerics         see gemm.clh; with FOLD the tree of src/base/tree.h over the leaves.
 */
#ifndef FOLD
#define FOLD 0
#endif
#include "draw.clh"
#include "gemm_epilogue.clh"
#include "gemm.clh"
#if FOLD
#include "tree.clh"
#endif

#ifndef A_SUMS
#define A_SUMS 0
#endif
#if A_SUMS
#define A_SUMS_ARGS , global float *a_sums, ulong a_sums_at
#else
#define A_SUMS_ARGS
#endif

#define TILE 32
#define BK 64
#define LANES 256
#define LOADS (TILE * BK / LANES) /* elements of each operand that a work-item brings in per tile */
#define A_PITCH (TILE + 4) /* whole float4 */
#define B_PITCH (TILE + 1)
#define PER 4 /* outputs of a work-item */

/* Which element of its operand's tile work-item `lane` brings in r-th: lanes run along the operand's contiguous direction. */
#if A_KIND == 1
#define A_ROW(r) (lane % TILE)
#define A_K(r) (lane / TILE + (LANES / TILE) * (r))
#else
#define A_ROW(r) (lane / BK + (LANES / BK) * (r))
#define A_K(r) (lane % BK)
#endif
#if B_KIND == 0
#define B_COL(r) (lane % TILE)
#define B_K(r) (lane / TILE + (LANES / TILE) * (r))
#else
#define B_COL(r) (lane / BK + (LANES / BK) * (r))
#define B_K(r) (lane % BK)
#endif

/* Element (row, d) of an operand that is [row][k] or, transposed, [k][row], and whose k goes on, after k_all, `stride` further. */
static inline float load_at(global const ACT *x, int row, int rows, bool transposed, int d, int depth, int k_all, long stride)
{
    if (row >= rows || d >= depth) {
        return 0.0f;
    }
    if (depth == k_all || (transposed && stride == (long)k_all * rows)) { /* no parts, or one after another */
        return charl_get(x + (transposed ? (long)d * rows + row : (long)row * k_all + d));
    }
    const int part = d / k_all, k = d - part * k_all;

    return charl_get(x + part * stride + (transposed ? (long)k * rows + row : (long)row * k_all + k));
}

/* acc += A's four rows at k times B's column. */
#define STEP(k) acc = fma(as[(k) * (A_PITCH / 4) + ty], (float4)(bs[(k) * B_PITCH + tx]), acc)

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void gemm_small(GEMM_ARGS A_SUMS_ARGS)
{
    local float4 as[BK * A_PITCH / 4];
    local float bs[BK * B_PITCH];
    local float *const as1 = (local float *)as;
    const int lane = (int)get_local_id(0), tx = lane % TILE, ty = lane / TILE;
    const int cols = (n + TILE - 1) / TILE, rows = (m + TILE - 1) / TILE;
    const long group = (long)get_group_id(0);
    const int j0 = (int)(group % cols) * TILE, i0 = (int)(group / cols % rows) * TILE;
    const long z = group / cols / rows, zo = z / inner, zi = z % inner;
    const int depth = k_all * (FOLD ? leaves : segments);
    const long a_part = FOLD ? a_outer : a_segment, b_part = FOLD ? b_outer : b_segment;
    float4 acc = (float4)(0.0f);
    float ra[LOADS], rb[LOADS], sum[PER];
#if FOLD
    float level[PER][CHARL_TREE_LEVELS];
    int leaf = 0, left = k_all; /* the leaf being added up, and what it still lacks */
#endif
#if A_SUMS
    const bool adds = j0 == 0 && lane < TILE; /* a row of A each */
    float column[4] = {0.0f, 0.0f, 0.0f, 0.0f}, column_level[CHARL_TREE_LEVELS];
#endif

    /* not every specialisation looks at all arguments */
    (void)bias, (void)bias_at, (void)ih, (void)iw, (void)pw, (void)mi, (void)nj, (void)leaves, (void)segments;

    a += a_at + zo * a_outer + zi * a_inner;
    b += b_at + zo * b_outer + zi * b_inner;
    out += out_at + zo * out_outer + zi * out_inner;
    EPILOGUE_MOVE(zo * out_outer + zi * out_inner);
    /* One step more than there are tiles: step t brings in tile t while tile t - 1 is multiplied. */
    for (int k0 = 0; k0 < depth + BK; k0 += BK) {
        if (k0 < depth) {
#pragma unroll
            for (int r = 0; r < LOADS; r++) {
                ra[r] = load_at(a, i0 + A_ROW(r), m, A_KIND == 1, k0 + A_K(r), depth, k_all, a_part);
                rb[r] = load_at(b, j0 + B_COL(r), n, B_KIND == 0, k0 + B_K(r), depth, k_all, b_part);
            }
        }
        if (k0 > 0) {
            const int kc = min(depth - (k0 - BK), BK);
            int k = 0;

            barrier(CLK_LOCAL_MEM_FENCE);
#if FOLD
            while (k < kc) {
                const int end = min(kc, k + left);

#if A_SUMS
                for (int u = k, row = k_all - left; adds && u < end; u++, row++) {
#pragma unroll
                    for (int c = 0; c < 4; c++) {
                        column[c] = c == row % 4 ? column[c] + as1[u * A_PITCH + lane] : column[c];
                    }
                }
#endif
                left -= end - k;
#pragma unroll 8
                for (; k < end; k++) {
                    STEP(k);
                }
                if (left == 0) {
                    vstore4(acc, 0, sum);
#pragma unroll
                    for (int r = 0; r < PER; r++) {
                        charl_tree_add(level[r], leaf, sum[r]);
                    }
#if A_SUMS
                    charl_tree_add(column_level, leaf, (column[0] + column[2]) + (column[1] + column[3]));
#pragma unroll
                    for (int c = 0; c < 4; c++) {
                        column[c] = 0.0f;
                    }
#endif
                    leaf++;
                    acc = (float4)(0.0f);
                    left = k_all;
                }
            }
#else
            for (; k + 16 <= kc; k += 16) {
#pragma unroll
                for (int u = 0; u < 16; u++) {
                    STEP(k + u);
                }
            }
            for (; k < kc; k++) {
                STEP(k);
            }
#endif
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        if (k0 < depth) {
#pragma unroll
            for (int r = 0; r < LOADS; r++) {
                as1[A_K(r) * A_PITCH + A_ROW(r)] = ra[r];
                bs[B_K(r) * B_PITCH + B_COL(r)] = rb[r];
            }
        }
    }
#if A_SUMS
    if (adds && i0 + lane < m) {
        a_sums[a_sums_at + i0 + lane] = charl_tree_sum_of(column_level, leaves);
    }
#endif
    vstore4(acc, 0, sum);
#pragma unroll
    for (int r = 0; r < PER; r++) {
        const int i = i0 + PER * ty + r, j = j0 + tx;
        const long at = (long)i * n + j;

#if FOLD
        sum[r] = charl_tree_sum_of(level[r], leaves);
#endif
        if (i < m && j < n) {
#if BIAS == 1
            sum[r] += bias[bias_at + j];
#elif BIAS == 2
            sum[r] += bias[bias_at + zi * m + i];
#endif
#ifdef EXPR
            charl_store(EPILOGUE(sum[r], at, n - j), out + at, n - j);
#else
            charl_put(sum[r], out + at);
#endif
        }
    }
}
