/* gemm_local: matrix products on devices whose local memory is memory of its own; see gemm.clh.
 *
 * Specialised by   A_KIND, B_KIND, BIAS and the window: see gemm.clh
 *                  TILE    rows and columns of a work-group's tile, 64 or 128
 *                  FOLD    1: product z is the sum of `leaves` products, at most M, in the fixed tree; operands of a leaf lie x_outer
 *                          apart; ROUND as in tree.clh
 * Launch           256 work-items per tile, in groups of 256; tiles go by column, row, product. Both operands' tiles lie in local
 *                  memory, 16 deep, and a work-item holds TILE / 16 squared outputs in registers.
 * Numerics         see gemm.clh; with FOLD the tree of src/base/tree.h over the leaves.
 */
#ifndef FOLD
#define FOLD 0
#endif
#ifndef TILE
#define TILE 64
#endif
#include "draw.clh"
#include "gemm_epilogue.clh"
#include "gemm.clh"
#if FOLD
#include "tree.clh"
#endif

#define BK 16
#define LANES 256
#define PER (TILE / 16)           /* outputs of a work-item in each direction */
#define LOADS (TILE * BK / LANES) /* elements of each operand that a work-item brings in per tile */
#define PITCH (TILE / 4 + 1)      /* float4 per k in local memory */

/* Which element of its operand's tile work-item `lane` brings in r-th: lanes run along the operand's contiguous direction. */
#if A_KIND == 1
#define A_ROW(r) (lane % TILE)
#define A_K(r) (lane / TILE + (LANES / TILE) * (r))
#else
#define A_ROW(r) (lane / BK + (LANES / BK) * (r))
#define A_K(r) (lane % BK)
#endif
#if B_KIND == 0 || B_KIND == 2
#define B_COL(r) (lane % TILE)
#define B_K(r) (lane / TILE + (LANES / TILE) * (r))
#else
#define B_COL(r) (lane / BK + (LANES / BK) * (r))
#define B_K(r) (lane % BK)
#endif

static inline float load_a(global const ACT *a, int i, int k, int m, int k_all)
{
    if (i >= m || k >= k_all) {
        return 0.0f;
    }
#if A_KIND == 0
    return charl_get(a + (long)i * k_all + k);
#elif A_KIND == 1
    return charl_get(a + (long)k * m + i);
#else
    return charl_get(a + ((long)(k / TAPS) * m + i) * TAPS + k % TAPS);
#endif
}

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void gemm_local(GEMM_ARGS)
{
    local float4 as[BK][PITCH], bs[BK][PITCH];
    local float *const as1 = (local float *)as;
    local float *const bs1 = (local float *)bs;
    const int lane = (int)get_local_id(0), tx = lane % 16, ty = lane / 16;
    const int cols = (n + TILE - 1) / TILE, rows = (m + TILE - 1) / TILE;
    const long group = (long)get_group_id(0);
    const int j0 = (int)(group % cols) * TILE, i0 = (int)(group / cols % rows) * TILE;
    const long z = group / cols / rows, zo = z / inner, zi = z % inner;
    const int steps = (k_all + BK - 1) / BK;
    const long product = (long)steps * segments, total = product * (FOLD ? leaves : 1);
    float4 acc[PER][PER / 4];
#if FOLD
    float4 level[PER][PER / 4][CHARL_TREE_LEVELS];
#endif
    float ra[LOADS], rb[LOADS];

    /* not every specialisation looks at all arguments */
    (void)bias, (void)bias_at, (void)leaves, (void)ih, (void)iw, (void)pw, (void)mi, (void)nj;

    a += a_at + zo * a_outer + zi * a_inner;
    b += b_at + zo * b_outer + zi * b_inner;
    out += out_at + zo * out_outer + zi * out_inner;
    EPILOGUE_MOVE(zo * out_outer + zi * out_inner);
#if B_KIND == 2
    const spot column = spot_of_pixel(j0 + B_COL(0), pw);
#elif B_KIND == 3
    spot column[LOADS];
#pragma unroll
    for (int r = 0; r < LOADS; r++) {
        column[r] = spot_of_tap(j0 + B_COL(r), ih, iw);
    }
#endif
#pragma unroll
    for (int r = 0; r < PER; r++) {
#pragma unroll
        for (int c = 0; c < PER / 4; c++) {
            acc[r][c] = (float4)(0.0f);
        }
    }
    /* One step more than there are tiles: step t brings in tile t while tile t - 1 is multiplied. */
    for (long t = 0; t <= total; t++) {
        const int k0 = (int)(t % steps) * BK;

        if (t < total) {
#if FOLD
            global const ACT *ta = a + t / product * a_outer + t % product / steps * a_segment;
            global const ACT *tb = b + t / product * b_outer + t % product / steps * b_segment;
#else
            global const ACT *ta = a + (t / steps) * a_segment;
            global const ACT *tb = b + (t / steps) * b_segment;
#endif
#if B_KIND == 3
            const spot pixel = spot_of_pixel(k0 + B_K(0), pw);
#endif

#pragma unroll
            for (int r = 0; r < LOADS; r++) {
                const int j = j0 + B_COL(r), k = k0 + B_K(r);

                ra[r] = load_a(ta, i0 + A_ROW(r), k0 + A_K(r), m, k_all);
                rb[r] = 0.0f;
                if (j < n && k < k_all) {
#if B_KIND == 0
                    rb[r] = charl_get(tb + (long)k * n + j);
#elif B_KIND == 1
                    rb[r] = charl_get(tb + (long)j * k_all + k);
#elif B_KIND == 2
                    rb[r] = image_at(tb, column, spot_of_tap(k, ih, iw), ih, iw);
#else
                    rb[r] = image_at(tb, column[r], pixel, ih, iw);
#endif
                }
            }
        }
        if (t > 0) {
            const int left = k_all - (int)((t - 1) % steps) * BK;
            const int kc = left < BK ? left : BK;

#define STEP(k)                                                                                                        \
    {                                                                                                                  \
        float4 av[PER / 4], bv[PER / 4];                                                                               \
        _Pragma("unroll") for (int c = 0; c < PER / 4; c++)                                                            \
        {                                                                                                              \
            av[c] = as[k][ty + 16 * c];                                                                                \
            bv[c] = bs[k][tx + 16 * c];                                                                                \
        }                                                                                                              \
        _Pragma("unroll") for (int r = 0; r < PER / 4; r++)                                                            \
        {                                                                                                              \
            _Pragma("unroll") for (int c = 0; c < PER / 4; c++)                                                        \
            {                                                                                                          \
                acc[4 * r][c] = fma((float4)(av[r].x), bv[c], acc[4 * r][c]);                                          \
                acc[4 * r + 1][c] = fma((float4)(av[r].y), bv[c], acc[4 * r + 1][c]);                                  \
                acc[4 * r + 2][c] = fma((float4)(av[r].z), bv[c], acc[4 * r + 2][c]);                                  \
                acc[4 * r + 3][c] = fma((float4)(av[r].w), bv[c], acc[4 * r + 3][c]);                                  \
            }                                                                                                          \
        }                                                                                                              \
    }
            barrier(CLK_LOCAL_MEM_FENCE);
            if (kc == BK) {
#pragma unroll
                for (int k = 0; k < BK; k++) {
                    STEP(k)
                }
            } else {
                for (int k = 0; k < kc; k++) {
                    STEP(k)
                }
            }
#if FOLD
            if (t % product == 0) { /* that was the last tile of leaf t / product - 1 */
#pragma unroll
                for (int r = 0; r < PER; r++) {
#pragma unroll
                    for (int c = 0; c < PER / 4; c++) {
                        charl_tree_add(level[r][c], (int)(t / product) - 1, acc[r][c]);
                        acc[r][c] = t < total ? (float4)(0.0f) : charl_tree_sum_of(level[r][c], leaves);
                    }
                }
            }
#endif
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        if (t < total) {
#pragma unroll
            for (int r = 0; r < LOADS; r++) {
                as1[A_K(r) * (PITCH * 4) + A_ROW(r)] = ra[r];
                bs1[B_K(r) * (PITCH * 4) + B_COL(r)] = rb[r];
            }
        }
    }
#pragma unroll
    for (int r = 0; r < PER; r++) {
        const int i = i0 + (r / 4) * 64 + ty * 4 + r % 4;

#pragma unroll
        for (int c = 0; c < PER / 4; c++) {
            const int j = j0 + c * 64 + tx * 4;
#ifdef EXPR
            const long at = (long)i * n + j;

            if (i < m) {
#if BIAS == 1
                acc[r][c] += charl_load(bias + bias_at + j, n - j);
#elif BIAS == 2
                acc[r][c] += (float4)(bias[bias_at + zi * m + i]);
#endif
                charl_store(EPILOGUE(acc[r][c], at, n - j), out + at, n - j);
            }
#else
            const float v[4] = {acc[r][c].x, acc[r][c].y, acc[r][c].z, acc[r][c].w};

#pragma unroll
            for (int e = 0; e < 4; e++) {
                if (i < m && j + e < n) {
#if BIAS == 1
                    charl_put(v[e] + bias[bias_at + j + e], out + (long)i * n + j + e);
#elif BIAS == 2
                    charl_put(v[e] + bias[bias_at + zi * m + i], out + (long)i * n + j + e);
#else
                    charl_put(v[e], out + (long)i * n + j + e);
#endif
                }
            }
#endif
        }
    }
}
