/* gemm_vector: matrix products on CPUs; see gemm.clh.
 *
 * Specialised by   A_KIND, B_KIND, BIAS and the window: see gemm.clh
 *                  MR      rows of a micro-tile, 4 or 8
 *                  FOLD    1: product z is the sum of `leaves` products in the fixed tree; operands of a leaf lie x_outer apart
 *                  ROUND   with FOLD: nodes of 2^ROUND leaves and more are rounded to bf16 (default: none)
 * Launch           one work-item per mi * MR rows and nj * 32 columns of one product, groups of 1; by column, row, product. For CPUs:
 *                  a work-item packs its operands into private memory, which the cache holds, and keeps a micro-tile in vectors.
 * Numerics         see gemm.clh; with FOLD the tree of src/base/tree.h over the leaves.
 */
#ifndef FOLD
#define FOLD 0
#endif
#ifndef ROUND
#define ROUND 99
#endif
#ifndef MR
#define MR 8
#endif
#include "gemm_epilogue.clh"
#include "gemm.clh"

#define NR 32
#define KC 128 /* depth of a packed block */
#if FOLD
#define TILES 12 /* micro-tiles of a block: mi * nj is at most this */
#define LEVELS 13 /* 64 slices of 64 parts */
#else
#define TILES 48
#endif
#define MI 12
#define SIZE (MR * NR)
#define ALIGNED __attribute__((aligned(64)))

#if MR == 8
#define ROWS(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)
#else
#define ROWS(F) F(0) F(1) F(2) F(3)
#endif

#include "vectors.clh"
#include "gemm_memory.clh"
#include "gemm_image.clh"
#if B_KIND == 1 || B_KIND == 3
#include "transpose16.clh"
#endif
#include "gemm_pack.clh"

/* acc[MR][NR] += packed A @ packed B; all of acc in registers. */
static inline void micro(const float *ap, const float *bp, float *acc, int kc)
{
#define TAKE(r) float16 x##r = charl_load16(acc + r * NR), y##r = charl_load16(acc + r * NR + 16);
#define MAC(r)                                                                                                         \
    {                                                                                                                  \
        const float16 s = (float16)(ap[PACKED(r, k)]);                                                                 \
        x##r = fma(s, b0, x##r);                                                                                       \
        y##r = fma(s, b1, y##r);                                                                                       \
    }
#define GIVE(r)                                                                                                        \
    charl_store16(x##r, acc + r * NR);                                                                                 \
    charl_store16(y##r, acc + r * NR + 16);
    ROWS(TAKE)
    for (int k = 0; k < kc; k++) {
        const float16 b0 = charl_load16(bp + k * NR), b1 = charl_load16(bp + k * NR + 16);

        ROWS(MAC)
    }
    ROWS(GIVE)
}

#if FOLD
/* A node of 2^l leaves as it is kept. */
static inline float16 node(float16 sum, int l)
{
    return l >= ROUND ? as_float16(CHARL_BF16_KEPT(as_uint16(sum))) : sum;
}

/* acc = level l + acc or level = acc, over `tiles` micro-tiles. */
static inline void add_level(float *acc, const float *level, int l, int tiles)
{
    for (int v = 0; v < tiles * SIZE / 16; v++) {
        charl_store16(node(charl_load16(level + l * TILES * SIZE + 16 * v) + charl_load16(acc + 16 * v), l + 1), acc + 16 * v);
    }
}

static inline void copy_level(const float *acc, float *level, int tiles)
{
    for (int v = 0; v < tiles * SIZE / 16; v++) {
        charl_store16(charl_load16(acc + 16 * v), level + 16 * v);
    }
}

#endif

kernel void gemm_vector(GEMM_ARGS)
{
    float ap[MI * MR * KC] ALIGNED, bp[KC * NR] ALIGNED, acc[TILES * SIZE] ALIGNED;
#if FOLD
    float level[LEVELS * TILES * SIZE] ALIGNED;
#endif
    pixel_block px;
    const int cols = (n + nj * NR - 1) / (nj * NR), rows = (m + mi * MR - 1) / (mi * MR);
    const long item = (long)get_global_id(0);
    const int j0 = (int)(item % cols) * nj * NR, i0 = (int)(item / cols % rows) * mi * MR;
    const long z = item / cols / rows, zo = z / inner, zi = z % inner;
    const int mj = min(nj, (n - j0 + NR - 1) / NR), mm = min(mi, (m - i0 + MR - 1) / MR); /* micro-tiles that exist */
    const int tiles = mj * mm;

    (void)bias, (void)bias_at; /* not every specialisation looks at all arguments */

    a += a_at + zo * a_outer + zi * a_inner;
    b += b_at + zo * b_outer + zi * b_inner;
    out += out_at + zo * out_outer + zi * out_inner;
    EPILOGUE_MOVE(zo * out_outer + zi * out_inner);
    for (int leaf = 0; leaf < leaves; leaf++) {
        for (int v = 0; v < tiles * SIZE / 16; v++) {
            charl_store16((float16)(0.0f), acc + 16 * v);
        }
        for (int s = 0; s < segments; s++) {
            global const ACT *sa = a + leaf * a_outer + s * a_segment;
            global const ACT *sb = b + leaf * b_outer + s * b_segment;

            for (int k0 = 0; k0 < k_all; k0 += KC) {
                const int kc = min(KC, k_all - k0);

                for (int i = 0; i < mm; i++) {
                    pack_a(ap + i * MR * KC, sa, i0 + i * MR, k0, kc, m, k_all);
                }
#if B_KIND == 3
                pixels(px.h, px.w, px.lines, k0, (kc + 15) / 16 * 16, k_all, iw, pw);
#endif
                for (int j = 0; j < mj; j++) {
                    pack_b(bp, sb, j0 + j * NR, k0, kc, n, k_all, ih, iw, pw, &px);
                    for (int i = 0; i < mm; i++) {
                        micro(ap + i * MR * KC, bp, acc + (j * mm + i) * SIZE, kc);
                    }
                }
            }
        }
#if FOLD
        /* A binary counter: level l holds the sum of 2^l leaves that waits for its right side. */
        int l = 0;

        for (int v = 0; ROUND == 0 && v < tiles * SIZE / 16; v++) {
            charl_store16(node(charl_load16(acc + 16 * v), 0), acc + 16 * v);
        }
        for (; (leaf >> l) & 1; l++) {
            add_level(acc, level, l, tiles);
        }
        if (leaf + 1 < leaves) {
            copy_level(acc, level + l * TILES * SIZE, tiles);
        } else {
            for (l++; leaf >> l != 0; l++) {
                if ((leaf >> l) & 1) {
                    add_level(acc, level, l, tiles);
                }
            }
        }
#endif
    }
    for (int j = 0; j < mj; j++) {
        for (int i = 0; i < mm * MR && i0 + i < m; i++) {
            const float *row = acc + (j * mm + i / MR) * SIZE + i % MR * NR;
            const int col = j0 + j * NR;
            global OUT_T *to = out + (long)(i0 + i) * n + col;
            float16 v0 = charl_load16(row), v1 = charl_load16(row + 16);

#if BIAS == 2
            v0 += (float16)(bias[bias_at + zi * m + i0 + i]);
            v1 += (float16)(bias[bias_at + zi * m + i0 + i]);
#endif
#ifdef EXPR
            const long at = (long)(i0 + i) * n + col, left = n - col;

#if BIAS == 1
            v0 += charl_load(bias + bias_at + col, left);
            v1 += charl_load(bias + bias_at + col + 16, left - 16);
#endif
            charl_store(EPILOGUE(v0, at, left), to, left);
            charl_store(EPILOGUE(v1, at + 16, left - 16), to + 16, left - 16);
#else
            if (col + NR <= n) {
#if BIAS == 1
                v0 += charl_load16(bias + bias_at + col);
                v1 += charl_load16(bias + bias_at + col + 16);
#endif
                store16(v0, to);
                store16(v1, to + 16);
                continue;
            }
            float edge[NR];

            charl_store16(v0, edge);
            charl_store16(v1, edge + 16);
            for (int c = 0; col + c < n; c++) {
#if BIAS == 1
                edge[c] += bias[bias_at + col + c];
#endif
                charl_put(edge[c], to + c);
            }
#endif
        }
    }
}
