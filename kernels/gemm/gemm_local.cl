/* gemm_local: matrix products on devices whose local memory is memory of its own; see gemm.clh.
 *
 * Specialised by   A_KIND, B_KIND, BIAS and the window: see gemm.clh
 *                  TM, TN   rows and columns of a work-group's tile (default 64)
 *                  PM, PN   of these a work-item's, multiples of 4: it holds PM * PN outputs in registers (default 4)
 *                  BK       depth of the tiles of both operands in local memory (default 16)
 *                  A_V, B_V elements of an operand that are read at a time, 1 or 4: see gemm_local_tiles.clh
 *                  OUT_V    4: rows of out begin at multiples of 4 elements, and there is no EXPR; or 1
 *                  WHOLE_K  1: k is a multiple of BK
 *                  JOIN     1: the columns of all outer products stand side by side, for products of few columns that share A. B_KIND 0 or
 *                           2, n a multiple of 4, a_outer 0
 *                  FOLD     1: product z is the sum of `leaves` products, at most M, in the fixed tree; operands of a leaf lie x_outer
 *                           apart; ROUND as in tree.clh
 * Argument         columns: n, with JOIN of all outer products together
 * Launch           a work-group per tile, of TM / PM * TN / PN work-items. Tiles go by row in a band of BAND rows, column, band, product:
 *                  those that run at a time form a patch, so that they find each other's operands in the cache.
 * Numerics         see gemm.clh; with FOLD the tree of src/base/numeric/tree.h over the leaves. Nothing but speed depends on the tile.
 *
 * There are two pairs of tiles: while one is multiplied, the next is read into registers, then put into the other, with one barrier.
 * What limits a tile of 8 x 8 outputs per work-item is not local memory but reading registers: an fma whose three operands are all new
 * takes longer than one that shares a factor with the fma before. So the outputs of a work-item are taken in a serpentine.
 */
#ifndef FOLD
#define FOLD 0
#endif
#ifndef JOIN
#define JOIN 0
#endif
#ifndef TM
#define TM 64
#define TN 64
#define PM 4
#define PN 4
#define BK 16
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
#include "shared/small_vectors.clh"
#include "gemm/gemm_local_tiles.clh"

/* A patch is 32 work-items, whose outputs are 4 x 4 blocks: with PM = PN = 4, 4 blocks down and 8 across; else as often as needed, a patch
 * apart. Numbered such that of 4 work-items in a row two share rows and two columns: then local memory serves two of them at once. */
#define PATCH_X 8
#define PATCH_Y 4
#define PATCH (PATCH_X * PATCH_Y)
#if LX % PATCH_X != 0 || LY % PATCH_Y != 0
#error "a tile is not whole patches"
#endif

/* The first block of a work-item, in blocks from the corner of the tile. */
CHARL_INLINE int block_row(int lane)
{
    return lane / PATCH / (LX / PATCH_X) * PM + lane % 2 + lane / 16 % 2 * 2;
}

CHARL_INLINE int block_column(int lane)
{
    return lane / PATCH % (LX / PATCH_X) * (2 * PN) + lane / 2 % 8;
}

/* acc[r][c] += A(r) * B(c) at one step; rows and columns of both are a patch apart. */
CHARL_INLINE void multiply(local const float4 *a, local const float4 *b, float acc[PM][PN])
{
    float av[PM], bv[PN];

#pragma unroll
    for (int r = 0; r < PM; r += 4) {
        vstore4(a[r / 4 * PATCH_Y], 0, av + r);
    }
#pragma unroll
    for (int c = 0; c < PN; c += 4) {
        vstore4(b[c / 4 * PATCH_X], 0, bv + c);
    }
#pragma unroll
    for (int r = 0; r < PM; r++) {
#pragma unroll
        for (int i = 0; i < PN; i++) {
            const int c = r % 2 == 0 ? PN - 1 - i : i;

            acc[r][c] = fma(av[r], bv[c], acc[r][c]);
        }
    }
}

/* The first step of the tile after the one that begins at step k. */
CHARL_INLINE int after(int k, int k_all)
{
    return k + BK < k_all ? k + BK : 0;
}

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void gemm_local(
    global const ACT *a, ulong a_at, global const ACT *b, ulong b_at, global const float *bias, ulong bias_at,
    global OUT_T *out, ulong out_at, int m, int n, int k_all, int segments, long a_segment, long b_segment, int inner,
    long a_outer, long a_inner, long b_outer, long b_inner, long out_outer, long out_inner, int leaves, int ih, int iw,
    int pw, int mi, int nj EPILOGUE_ARGS(with, record, draw), int columns)
{
    local float4 as[2][BK * A_PITCH], bs[2][BK * B_PITCH];
    const int lane = (int)get_local_id(0);
    const int across = (columns + TN - 1) / TN, down = (m + TM - 1) / TM;
    const int group = (int)get_group_id(0);
    const int tile = group % (across * down), band = tile / (across * BAND) * BAND, high = min(BAND, down - band);
    const int i0 = (band + tile % (across * BAND) % high) * TM, j0 = tile % (across * BAND) / high * TN;
    const long z = group / (across * down), zo = z / inner, zi = z % inner;
    const int product = (k_all + BK - 1) / BK * segments, tiles = product * (FOLD ? leaves : 1);
    const int bi = block_row(lane), bj = block_column(lane);
    int fetched = 0, multiplied = 0, segment = 0, leaf = 0; /* first steps of tiles; of the one that is fetched next */
    long a_from = 0, b_from = 0;                            /* where its stretch begins */
    const long a_pitch = A_KIND == 1 ? m : 1, b_pitch = B_KIND == 0 ? n : 1; /* elements from a step to the next */
    float acc[PM][PN];
    a_numbers ra[A_LOADS];
    b_numbers rb[B_LOADS];
#if FOLD
    int done = 0;
    float4 level[PM][PN / 4][CHARL_TREE_LEVELS];
#endif

    /* not every specialisation looks at all arguments */
    (void)bias, (void)bias_at, (void)leaves, (void)ih, (void)iw, (void)pw, (void)mi, (void)nj, (void)a_pitch, (void)b_pitch;

    a += a_at + zo * a_outer + zi * a_inner;
    b += b_at + zo * b_outer + zi * b_inner;
    out += out_at + zo * out_outer + zi * out_inner;
    EPILOGUE_MOVE(with, draw, zo * out_outer + zi * out_inner);
    const int i = i0 + A_ROW(lane); /* the first row and column that this work-item reads */
    int j = j0 + B_COL(lane);

    (void)i, (void)j;
#if JOIN
    if (j < columns) {
        b += j / n * b_outer;
        j %= n;
    } else {
        j = n; /* no column */
    }
#endif
#if A_KIND < 2
    global const ACT *from_a[A_LOADS];

    find_a(a, i, A_K(lane), m, k_all, from_a);
#endif
#if B_KIND < 2
    global const ACT *from_b[B_LOADS];

    find_b(b, j, B_K(lane), n, k_all, from_b);
#else
    local image_spot steps[2][BK];
#if B_KIND == 2
    const image_spot column = spot_of_column(j, n, ih, iw, pw);
    local const image_spot *const taps = 0;
#else
    const image_spot column = {0, 0, 0, 0};
    local image_spot taps[TN];

    for (int c = lane; c < TN; c += LANES) {
        taps[c] = spot_of_column(j0 + c, n, ih, iw, pw);
    }
#endif
    if (lane < BK) {
        steps[0][lane] = spot_of_step(lane, k_all, ih, iw, pw);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
#pragma unroll
    for (int r = 0; r < PM; r++) {
#pragma unroll
        for (int c = 0; c < PN; c++) {
            acc[r][c] = 0.0f;
        }
    }
    /* Step t reads tile t into registers, multiplies tile t - 1, and puts tile t into local memory. */
    for (int t = 0; t <= tiles; t++) {
        const bool more = t < tiles;
        const int to = t & 1;

        if (more) {
            const int k = fetched;

            fetched = after(k, k_all);
#if A_KIND < 2
            fetch_a(a, k + A_K(lane), k_all, BK * a_pitch, from_a, ra);
#else
            fetch_taps(a + a_from, i, k + A_K(lane), m, k_all, ra);
#endif
#if B_KIND < 2
            fetch_b(b, k + B_K(lane), k_all, BK * b_pitch, from_b, rb);
#else
            fetch_image(b + b_from, column, taps, steps[to], lane, ih, iw, rb);
            if (lane < BK) { /* of the next tile: read only after the barrier, as those of this tile are read before it */
                steps[1 - to][lane] = spot_of_step(fetched + lane, k_all, ih, iw, pw);
            }
#endif
            if (fetched == 0) { /* the next tile is of another stretch of k */
                const long a_was = a_from, b_was = b_from;

                if (++segment == segments) {
                    segment = 0;
                    leaf++;
                }
                a_from = leaf * a_outer + segment * a_segment;
                b_from = leaf * b_outer + segment * b_segment;
#if A_KIND < 2
#pragma unroll
                for (int r = 0; r < A_LOADS; r++) {
                    from_a[r] += a_from - a_was - (k + BK) * a_pitch;
                }
#endif
#if B_KIND < 2
#pragma unroll
                for (int r = 0; r < B_LOADS; r++) {
                    from_b[r] += b_from - b_was - (k + BK) * b_pitch;
                }
#endif
                (void)a_was, (void)b_was;
            }
        }
        if (t > 0) {
            local const float4 *const ta = as[1 - to] + bi, *const tb = bs[1 - to] + bj;

            if (WHOLE_K || multiplied + BK <= k_all) {
#pragma unroll
                for (int k = 0; k < BK; k++) {
                    multiply(ta + k * A_PITCH, tb + k * B_PITCH, acc);
                }
            } else {
                for (int k = 0; k < k_all - multiplied; k++) {
                    multiply(ta + k * A_PITCH, tb + k * B_PITCH, acc);
                }
            }
            multiplied = after(multiplied, k_all);
#if FOLD
            if (++done == product) { /* of a leaf */
#pragma unroll
                for (int r = 0; r < PM; r++) {
#pragma unroll
                    for (int c = 0; c < PN; c += 4) {
                        charl_tree_add(level[r][c / 4], t / product - 1, vload4(0, acc[r] + c));
                        vstore4(more ? (float4)(0.0f) : charl_tree_sum_of(level[r][c / 4], leaves), 0, acc[r] + c);
                    }
                }
                done = 0;
            }
#endif
        }
        if (more) {
#pragma unroll
            for (int r = 0; r < A_LOADS; r++) {
                put(as[to], A_PITCH, A_ROW(lane) + A_ROWS * r, A_K(lane) + A_KS * r, A_KIND == 1, ra[r]);
            }
#pragma unroll
            for (int r = 0; r < B_LOADS; r++) {
                put(bs[to], B_PITCH, B_COL(lane) + B_COLS * r, B_K(lane) + B_KS * r, B_KIND == 0, rb[r]);
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
#pragma unroll
    for (int r = 0; r < PM; r++) {
        const int row = i0 + 4 * (bi + r / 4 * PATCH_Y) + r % 4;

#pragma unroll
        for (int c = 0; c < PN; c += 4) {
            const int place = j0 + 4 * (bj + c / 4 * PATCH_X), of = JOIN ? place / n : 0, col = place - of * n;
            const long at = of * out_outer + (long)row * n + col;
            float4 sum = vload4(0, acc[r] + c);

            if (row < m && place < columns) {
#if BIAS == 1
                sum += upto4(bias + bias_at + col, n - col);
#elif BIAS == 2
                sum += (float4)(bias[bias_at + zi * m + row]);
#endif
#ifdef EXPR
                charl_store(EPILOGUE(sum, at, n - col, with, record, draw), out + at, n - col);
#elif OUT_V == 4
                give4(sum, out + at);
#else
                give_upto4(sum, out + at, n - col);
#endif
            }
        }
    }
}
