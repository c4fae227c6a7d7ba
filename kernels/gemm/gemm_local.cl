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
 *                  CHARL_VEC 4
 * Launch           a work-group per tile, of TM / PM * TN / PN work-items. Tiles go by row in a band of BAND rows, column, band, product:
 *                  those that run at a time form a patch, so that they find each other's operands in the cache.
 * Numerics         see gemm.clh; with FOLD the tree of src/base/numeric/tree.h over the leaves. Nothing but speed depends on the tile.
 *
 * There are two pairs of tiles: while one is multiplied, the next is read into registers, then put into the other, with one barrier.
 * What limits a tile of 8 x 8 outputs per work-item is not local memory but reading registers: an fma whose three operands are all new
 * takes longer than one that shares a factor with the fma before. So the outputs of a work-item are taken in a serpentine.
 */
#define FOLD 0
#define JOIN 0
#define TM 64
#define TN 64
#define PM 4
#define PN 4
#define BK 16
#define OUT_V 1
#include "shared/rng.clh"
#include "gemm/gemm_args.h"
#include "gemm/gemm_epilogue.clh"
#include "gemm/gemm.clh"
#include "shared/tree.clh"

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

/* The sums of a work-item. Where the product folds, those of a leaf, whose nodes wait in levels. */
typedef struct {
    float acc[PM][PN];
    float4 level[PM][PN / 4][CHARL_TREE_LEVELS];
} sums;

/* acc[r][c] += A(r) * B(c) at one step; rows and columns of both are a patch apart. */
CHARL_INLINE void multiply(sums *x, local const float4 *a, local const float4 *b)
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

            x->acc[r][c] = fma(av[r], bv[c], x->acc[r][c]);
        }
    }
}

/* The group's tile: its corner and its product. */
typedef struct {
    int i0, j0;
    long outer, inner;
} corner;

CHARL_INLINE corner corner_of(const charl__gemm_args *p, int group)
{
    const int across = (p->columns + TN - 1) / TN, down = (p->m + TM - 1) / TM;
    const int tile = group % (across * down), band = tile / (across * BAND) * BAND, high = min(BAND, down - band);
    const long z = group / (across * down);
    const corner c = {(band + tile % (across * BAND) % high) * TM, tile % (across * BAND) / high * TN, z / p->inner, z % p->inner};

    return c;
}

CHARL_INLINE void begin_sums(sums *x)
{
#pragma unroll
    for (int r = 0; r < PM; r++) {
#pragma unroll
        for (int c = 0; c < PN; c++) {
            x->acc[r][c] = 0.0f;
        }
    }
}

/* Adds the products of `steps` steps of a tile. */
CHARL_INLINE void add_tile(sums *x, local const float4 *a, local const float4 *b, int steps)
{
    if (WHOLE_K || steps >= BK) {
#pragma unroll
        for (int k = 0; k < BK; k++) {
            multiply(x, a + k * A_PITCH, b + k * B_PITCH);
        }
    } else {
        for (int k = 0; k < steps; k++) {
            multiply(x, a + k * A_PITCH, b + k * B_PITCH);
        }
    }
}

/* The leaf is complete: to the tree with it. After the last of `leaves` the sums are those of the tree. */
CHARL_INLINE void end_leaf(sums *x, int leaf, int leaves)
{
#pragma unroll
    for (int r = 0; r < PM; r++) {
#pragma unroll
        for (int c = 0; c < PN; c += 4) {
            charl_tree_add(x->level[r][c / 4], leaf, vload4(0, x->acc[r] + c));
            vstore4(leaf + 1 < leaves ? (float4)(0.0f) : charl_tree_sum_of(x->level[r][c / 4], leaves), 0, x->acc[r] + c);
        }
    }
}

/* Stores four outputs of a row, of the columns that stand side by side those from `place` on: with their bias, through the epilogue. */
CHARL_INLINE void store4(const charl__gemm_args *p, float4 sum, int row, int place, long inner, global const float *bias, global OUT_T *out,
                         const epilogue_operands *with)
{
    const int of = JOIN ? place / p->n : 0, col = place - of * p->n, left = p->n - col;
    const long at = of * p->out_outer + (long)row * p->n + col;

    if (row >= p->m || place >= p->columns) {
        return;
    }
    if (BIAS == 1) {
        sum += upto4(bias + col, left);
    } else if (BIAS == 2) {
        sum += (float4)(bias[inner * p->m + row]);
    }
    if (HAS_EPILOGUE) {
        charl_store(epilogue(sum, with, at, left), out + at, left);
    } else if (OUT_V == 4) {
        give4(sum, out + at);
    } else {
        give_upto4(sum, out + at, left);
    }
}

CHARL_INLINE void store(const charl__gemm_args *p, const sums *x, corner tile, int bi, int bj, global const float *bias, global OUT_T *out,
                        const epilogue_operands *with)
{
#pragma unroll
    for (int r = 0; r < PM; r++) {
#pragma unroll
        for (int c = 0; c < PN; c += 4) {
            store4(p, vload4(0, x->acc[r] + c), tile.i0 + 4 * (bi + r / 4 * PATCH_Y) + r % 4, tile.j0 + 4 * (bj + c / 4 * PATCH_X), tile.inner, bias, out,
                   with);
        }
    }
}

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void gemm_local(global const ACT *a, global const ACT *b, global const float *bias,
                                                                         global OUT_T *out EPILOGUE_ARGS(with), const charl__gemm_args p)
{
    local float4 as[2][BK * A_PITCH], bs[2][BK * B_PITCH];
    local image_spot steps[2][IMAGE_STEPS], taps[IMAGE_TAPS];
    const int lane = (int)get_local_id(0), bi = block_row(lane), bj = block_column(lane);
    const corner tile = corner_of(&p, (int)get_group_id(0));
    const long first = tile.outer * p.out_outer + tile.inner * p.out_inner;
    const epilogue_operands beside = epilogue_at(EPILOGUE_OF(with, p), first);
    const int leaf_tiles = (p.k + BK - 1) / BK * p.segments, tiles = leaf_tiles * (FOLD ? p.leaves : 1);
    position next = {0, 0, 0, 0, 0};
    int left = p.k, done = 0; /* of the tile that is multiplied: steps to the end of its stretch, and tiles of its leaf before it */
    reading_a from_a;
    reading_b from_b;
    sums x;

    begin_sums(&x);
    begin_a(&from_a, a + p.a + tile.outer * p.a_outer + tile.inner * p.a_inner, &p, tile.i0, lane);
    begin_b(&from_b, b + p.b + tile.outer * p.b_outer + tile.inner * p.b_inner, &p, tile.j0, lane, steps[0], taps);
    /* Turn t reads tile t into registers, multiplies tile t - 1, and puts tile t into local memory. */
    for (int t = 0; t <= tiles; t++) {
        const int to = t & 1;
        const bool more = t < tiles;

        if (more) {
            const position now = next;

            fetch_a(&from_a, &p, now, lane);
            fetch_b(&from_b, &p, now, lane, steps[to], taps);
            if (advance(&p, &next)) {
                jump_a(&from_a, &p, now, next);
                jump_b(&from_b, &p, now, next);
            }
            find_steps(&p, next.k, lane, steps[1 - to]); /* read only after the barrier, as those of this tile are read before it */
        }
        if (t > 0) {
            add_tile(&x, as[1 - to] + bi, bs[1 - to] + bj, left);
            left = left > BK ? left - BK : p.k;
            if (FOLD && ++done == leaf_tiles) {
                end_leaf(&x, t / leaf_tiles - 1, p.leaves);
                done = 0;
            }
        }
        if (more) {
            put_a(&from_a, lane, as[to]);
            put_b(&from_b, lane, bs[to]);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
    store(&p, &x, tile, bi, bj, bias + p.bias, out + p.out + first, &beside);
}
