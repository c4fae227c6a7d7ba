/* gemm_local: matrix products on devices whose local memory is memory of its own; see gemm.clh.
 *
 * Specialised by   A_KIND, B_KIND, BIAS and the window: see gemm.clh
 *                  TM, TN   rows and columns of a work-group's tile (default 64)
 *                  PM, PN   of these a work-item's, multiples of 4: it holds PM * PN outputs in registers (default 4)
 *                  BK       depth of the tiles of both operands in local memory (default 16)
 *                  BUFFERS  2: one pair of tiles is filled while the other is multiplied, with one barrier per pair; or 1
 *                  A_V, B_V elements of an operand that are read at a time, 1 or 4: see gemm_tiles.clh
 *                  OUT_V    4: rows of out begin at multiples of 4 elements, and there is no EXPR; or 1
 *                  FOLD     1: product z is the sum of `leaves` products, at most M, in the fixed tree; operands of a leaf lie x_outer
 *                           apart; ROUND as in tree.clh
 * Launch           a work-group per tile, of TM / PM * TN / PN work-items. Tiles go by row in a band of BAND rows, column, band, product:
 *                  those that run at a time form a patch, so that they find each other's operands in the cache. A work-item's outputs are
 *                  4 x 4 blocks, as many apart as there are work-items: neighbours then read neighbours in local memory.
 * Numerics         see gemm.clh; with FOLD the tree of src/base/tree.h over the leaves. Nothing but speed depends on the tile.
 */
#ifndef FOLD
#define FOLD 0
#endif
#ifndef TM
#define TM 64
#define TN 64
#define PM 4
#define PN 4
#define BK 16
#define BUFFERS 1
#endif
#ifndef OUT_V
#define OUT_V 1
#endif
#include "shared/rng.clh"
#include "gemm/gemm_epilogue.clh"
#include "gemm/gemm.clh"
#if FOLD
#include "shared/tree.clh"
#endif

#define BAND 16
#define LX (TN / PN) /* work-items along a row of the tile */
#define LY (TM / PM)
#define LANES (LX * LY)
#include "gemm/gemm_tiles.clh"

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void gemm_local(GEMM_ARGS)
{
    local float4 as[BUFFERS * BK * A_PITCH], bs[BUFFERS * BK * B_PITCH];
    const int lane = (int)get_local_id(0), tx = lane % LX, ty = lane / LX;
    const int cols = (n + TN - 1) / TN, rows = (m + TM - 1) / TM;
    const int group = (int)get_group_id(0);
    const int tile = group % (cols * rows), band = tile / (cols * BAND) * BAND, high = min(BAND, rows - band);
    const int i0 = (band + tile % (cols * BAND) % high) * TM, j0 = tile % (cols * BAND) / high * TN;
    const long z = group / (cols * rows), zo = z / inner, zi = z % inner;
    const int steps = (k_all + BK - 1) / BK;
    const long product = (long)steps * segments;
    const int i = i0 + A_ROW, j = j0 + B_COL; /* what this work-item brings in first */
    /* From one step to the next, and from one of its elements to the next. */
    const long a_step = A_KIND == 1 ? (long)BK * m : BK, b_step = B_KIND == 0 ? (long)BK * n : BK;
    const long a_next = A_KIND == 1 ? (long)A_KS * m : (long)A_ROWS * k_all;
    const long b_next = B_KIND == 0 ? (long)B_KS * n : (long)B_COLS * k_all;
    int k0 = 0, segment = 0, leaf = 0, left = k_all; /* of what is brought in; of what is multiplied */
    float4 acc[PM][PN / 4];
    A_NUMBERS ra[A_LOADS];
    B_NUMBERS rb[B_LOADS];
#if FOLD
    long done = 0;
    float4 level[PM][PN / 4][CHARL_TREE_LEVELS];
#endif

    /* not every specialisation looks at all arguments */
    (void)bias, (void)bias_at, (void)leaves, (void)ih, (void)iw, (void)pw, (void)mi, (void)nj;
    (void)a_step, (void)b_step, (void)a_next, (void)b_next;

    a += a_at + zo * a_outer + zi * a_inner;
    b += b_at + zo * b_outer + zi * b_inner;
    out += out_at + zo * out_outer + zi * out_inner;
    EPILOGUE_MOVE(zo * out_outer + zi * out_inner);
#if A_KIND == 0
    a += (long)i * k_all + A_K;
#elif A_KIND == 1
    a += (long)A_K * m + i;
#endif
#if B_KIND == 0
    b += (long)B_K * n + j;
#elif B_KIND == 1
    b += (long)j * k_all + B_K;
#elif B_KIND == 2
    const spot column = spot_of_pixel(j, pw);
#else
    spot column[B_LOADS];
#pragma unroll
    for (int r = 0; r < B_LOADS; r++) {
        column[r] = spot_of_tap(j + B_COLS * r, ih, iw);
    }
#endif
    global const ACT *ta = a, *tb = b;

#pragma unroll
    for (int r = 0; r < PM; r++) {
#pragma unroll
        for (int c = 0; c < PN / 4; c++) {
            acc[r][c] = (float4)(0.0f);
        }
    }
    /* Step t brings tile t to registers, multiplies tile t - 1, and puts tile t into local memory. */
    for (long t = 0; t <= product * (FOLD ? leaves : 1); t++) {
        const bool more = t < product * (FOLD ? leaves : 1);
        local float4 *const to_a = as + (BUFFERS == 2 ? (int)(t & 1) * (BK * A_PITCH) : 0);
        local float4 *const to_b = bs + (BUFFERS == 2 ? (int)(t & 1) * (BK * B_PITCH) : 0);

        if (more) {
#pragma unroll
            for (int r = 0; r < A_LOADS; r++) {
                ra[r] = a_at_step(A_KIND == 2 ? ta : ta + r * a_next, i + A_ROWS * r, k0 + A_K + A_KS * r, m, k_all);
            }
#if B_KIND == 3
            const spot pixel = spot_of_pixel(k0 + B_K, pw);
#endif
#pragma unroll
            for (int r = 0; r < B_LOADS; r++) {
                rb[r] = (B_NUMBERS)(0.0f);
                if (j + B_COLS * r < n && k0 + B_K + B_KS * r < k_all) {
#if B_KIND < 2
                    rb[r] = CHARL_GLUE(TAKE_, B_V)(tb + r * b_next);
#elif B_KIND == 2
                    rb[r] = image_at(tb, column, spot_of_tap(k0 + B_K + B_KS * r, ih, iw), ih, iw);
#else
                    rb[r] = image_at(tb, column[r], pixel, ih, iw);
#endif
                }
            }
            k0 += BK;
#if A_KIND < 2
            ta += a_step;
#endif
#if B_KIND < 2
            tb += b_step;
#endif
            if (k0 >= k_all) {
                k0 = 0;
                segment++;
                if (FOLD && segment == segments) {
                    segment = 0;
                    leaf++;
                }
                ta = a + leaf * a_outer + segment * a_segment;
                tb = b + leaf * b_outer + segment * b_segment;
            }
        }
        if (t > 0) {
            local const float4 *const from_a = as + (BUFFERS == 2 ? (int)(~t & 1) * (BK * A_PITCH) : 0) + ty;
            local const float4 *const from_b = bs + (BUFFERS == 2 ? (int)(~t & 1) * (BK * B_PITCH) : 0) + tx;
            const int kc = min(left, BK);

#define STEP(k)                                                                                                        \
    {                                                                                                                  \
        float4 av[PM / 4], bv[PN / 4];                                                                                 \
        _Pragma("unroll") for (int r = 0; r < PM / 4; r++)                                                             \
        {                                                                                                              \
            av[r] = from_a[(k) * A_PITCH + LY * r];                                                                    \
        }                                                                                                              \
        _Pragma("unroll") for (int c = 0; c < PN / 4; c++)                                                             \
        {                                                                                                              \
            bv[c] = from_b[(k) * B_PITCH + LX * c];                                                                    \
        }                                                                                                              \
        _Pragma("unroll") for (int r = 0; r < PM / 4; r++)                                                             \
        {                                                                                                              \
            _Pragma("unroll") for (int c = 0; c < PN / 4; c++)                                                         \
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
            left = left > BK ? left - BK : k_all;
#if FOLD
            if (++done == product) { /* of a leaf */
#pragma unroll
                for (int r = 0; r < PM; r++) {
#pragma unroll
                    for (int c = 0; c < PN / 4; c++) {
                        charl_tree_add(level[r][c], (int)(t / product) - 1, acc[r][c]);
                        acc[r][c] = more ? (float4)(0.0f) : charl_tree_sum_of(level[r][c], leaves);
                    }
                }
                done = 0;
            }
#endif
#if BUFFERS == 1
            barrier(CLK_LOCAL_MEM_FENCE);
#endif
        }
        if (more) {
#pragma unroll
            for (int r = 0; r < A_LOADS; r++) {
                A_PUT(to_a, A_PITCH, A_ROW + A_ROWS * r, A_K + A_KS * r, ra[r]);
            }
#pragma unroll
            for (int r = 0; r < B_LOADS; r++) {
                B_PUT(to_b, B_PITCH, B_COL + B_COLS * r, B_K + B_KS * r, rb[r]);
            }
        }
    }
#pragma unroll
    for (int r = 0; r < PM; r++) {
        const int row = i0 + r / 4 * (4 * LY) + ty * 4 + r % 4;

#pragma unroll
        for (int c = 0; c < PN / 4; c++) {
            const int col = j0 + c * (4 * LX) + tx * 4;
            const long at = (long)row * n + col;

            if (row < m && col < n) {
#if BIAS == 1
                acc[r][c] += upto4(bias + bias_at + col, n - col);
#elif BIAS == 2
                acc[r][c] += (float4)(bias[bias_at + zi * m + row]);
#endif
#ifdef EXPR
                charl_store(EPILOGUE(acc[r][c], at, n - col), out + at, n - col);
#elif OUT_V == 4
                give4(acc[r][c], out + at);
#else
                give_upto4(acc[r][c], out + at, n - col);
#endif
            }
        }
    }
}
