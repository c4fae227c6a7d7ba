/* gemm_vector: matrix products on CPUs; see gemm.clh.
 *
 * Specialised by   A_KIND, B_KIND, BIAS and the window: see gemm.clh
 *                  MR, NR  rows and columns of a micro-tile: 4 or 8, and 16 or 32, what the vectors of the device hold (default 8, 32)
 *                  FOLD    1: product z is the sum of `leaves` products in the fixed tree; operands of a leaf lie x_outer apart
 *                  ROUND   with FOLD: nodes of 2^ROUND leaves and more are rounded to bf16 (default: none)
 * Launch           one work-item per mi * MR rows and nj * NR columns of one product, groups of 1; by column, row, product. For CPUs:
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
#define NR 32
#endif
#include "draw.clh"
#include "gemm_epilogue.clh"
#include "gemm.clh"

#define KC 256 /* depth of a packed block */
#define LEVELS 13 /* 64 slices of 64 parts */
/* A block is mi * MR rows and nj * NR columns, as large as a level-2 cache holds with its operands, so that these are seldom read. */
#define MI (384 / MR)
#define NJ (384 / NR)
#define TILES (FOLD ? MI / 2 : MI * NJ) /* mi * nj is at most this */
#define SIZE (MR * NR)
#define ALIGNED __attribute__((aligned(64)))

#if MR == 8
#define ROWS(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)
#else
#define ROWS(F) F(0) F(1) F(2) F(3)
#endif

#if NR == 32
#define SECOND(x)       x
#define SECOND_COMMA(x) , x
#else
#define SECOND(x)
#define SECOND_COMMA(x)
#endif

#include "vectors.clh"
#include "gemm_memory.clh"
#include "gemm_image.clh"
#if B_KIND == 1 || B_KIND == 3
#include "transpose16.clh"
#endif
#include "gemm_pack.clh"

#if FOLD
/* A node of 2^l leaves as it is kept. */
static inline float16 node(float16 sum, int l)
{
    return l >= ROUND ? as_float16(CHARL_BF16_KEPT(as_uint16(sum))) : sum;
}
#endif

/* Where the sum of a leaf goes: on top of the levels in `carried`, in ascending order, as a binary counter carries, then to level `to`, or
 * to acc where that is LEVELS. */
typedef struct {
    uint carried;
    int to;
} carry;

static inline carry carry_of(int leaf, int leaves)
{
    const bool last = leaf + 1 == leaves;
    const carry c = {(uint)(last ? leaf : leaf & ~(leaf + 1)), last ? LEVELS : popcount(leaf & ~(leaf + 1))};

    return c;
}

/* acc[MR][NR] = (begins ? 0 : acc) + packed A @ packed B; all of acc in registers. With FOLD, where a leaf ends: carry. */
static inline void micro(const float *ap, const float *bp, float *acc, int kc, bool begins, bool ends, float *level, carry c)
{
#define NAME(r) float16 x##r = (float16)(0.0f) SECOND_COMMA(y##r = (float16)(0.0f));
#define TAKE(r)                                                                                                        \
    x##r = charl_load16(acc + r * NR);                                                                                 \
    SECOND(y##r = charl_load16(acc + r * NR + 16);)
#define MAC(r)                                                                                                         \
    {                                                                                                                  \
        const float16 s = (float16)(ap[PACKED(r, k)]);                                                                 \
        x##r = fma(s, b0, x##r);                                                                                       \
        SECOND(y##r = fma(s, b1, y##r);)                                                                               \
    }
#define ROUNDED(r)                                                                                                     \
    x##r = node(x##r, 0);                                                                                              \
    SECOND(y##r = node(y##r, 0);)
#define CARRY(r)                                                                                                       \
    x##r = node(charl_load16(level + l * SIZE + r * NR) + x##r, l + 1);                                                \
    SECOND(y##r = node(charl_load16(level + l * SIZE + r * NR + 16) + y##r, l + 1);)
#define GIVE(r)                                                                                                        \
    charl_store16(x##r, acc + r * NR);                                                                                 \
    SECOND(charl_store16(y##r, acc + r * NR + 16);)
    ROWS(NAME)
    if (!begins) {
        ROWS(TAKE)
    }
    for (int k = 0; k < kc; k++) {
        const float16 b0 = charl_load16(bp + k * NR) SECOND_COMMA(b1 = charl_load16(bp + k * NR + 16));

        ROWS(MAC)
    }
#if FOLD
    if (ends) {
#if ROUND == 0
        ROWS(ROUNDED)
#endif
        for (int l = 0; c.carried >> l != 0; l++) {
            if ((c.carried >> l) & 1) {
                ROWS(CARRY)
            }
        }
        acc = c.to < LEVELS ? level + c.to * SIZE : acc;
    }
#else
    (void)ends, (void)level, (void)c;
#endif
    ROWS(GIVE)
}

kernel void gemm_vector(GEMM_ARGS)
{
    float ap[MI * PANEL] ALIGNED, bp[NJ * KC * NR] ALIGNED, acc[TILES * SIZE] ALIGNED, level[LEVELS * TILES * SIZE * FOLD + 1] ALIGNED;
    pixel_block px;
    const int cols = (n + nj * NR - 1) / (nj * NR), rows = (m + mi * MR - 1) / (mi * MR);
    const long item = (long)get_global_id(0);
    const int j0 = (int)(item % cols) * nj * NR, i0 = (int)(item / cols % rows) * mi * MR;
    const long z = item / cols / rows, zo = z / inner, zi = z % inner;
    const int mj = min(nj, (n - j0 + NR - 1) / NR), mm = min(mi, (m - i0 + MR - 1) / MR); /* micro-tiles that exist */
    const int blocks = max((k_all + KC - 1) / KC, 1), steps = segments * blocks;

    (void)bias, (void)bias_at; /* not every specialisation looks at all arguments */

    a += a_at + zo * a_outer + zi * a_inner;
    b += b_at + zo * b_outer + zi * b_inner;
    out += out_at + zo * out_outer + zi * out_inner;
    EPILOGUE_MOVE(zo * out_outer + zi * out_inner);
    for (int leaf = 0; leaf < leaves; leaf++) {
        const carry to = carry_of(leaf, leaves);

        for (int step = 0; step < steps; step++) {
            const int k0 = step % blocks * KC, kc = min(KC, k_all - k0);
            const long segment = step / blocks;
            global const ACT *sa = a + leaf * a_outer + segment * a_segment;
            global const ACT *sb = b + leaf * b_outer + segment * b_segment;

            pack_a(ap, sa, i0, mm, k0, kc, m, k_all);
            pack_b(bp, sb, j0, mj, k0, kc, n, k_all, ih, iw, pw, &px);
            for (int tile = 0; tile < mj * mm; tile++) {
                micro(ap + tile % mm * PANEL, bp + tile / mm * KC * NR, acc + tile * SIZE, kc, step == 0, step + 1 == steps,
                      level + tile * LEVELS * SIZE, to);
            }
        }
    }
    for (int tile = 0; tile < mj * mm; tile++) {
        const int row0 = i0 + tile % mm * MR, col0 = j0 + tile / mm * NR;

        for (int e = 0; e < SIZE / 16; e++) { /* vectors of acc */
            const int i = row0 + e / (NR / 16), col = col0 + e % (NR / 16) * 16, left = n - col;
            const long at = (long)i * n + col;
            float16 v = charl_load16(acc + tile * SIZE + 16 * e);

            if (i >= m || left <= 0) {
                continue;
            }
#if BIAS == 2
            v += (float16)(bias[bias_at + zi * m + i]);
#endif
#ifdef EXPR
#if BIAS == 1
            v += charl_load(bias + bias_at + col, left);
#endif
            charl_store(EPILOGUE(v, at, left), out + at, left);
#else
            if (left >= 16) {
#if BIAS == 1
                v += charl_load16(bias + bias_at + col);
#endif
                store16(v, out + at);
                continue;
            }
            float edge[16];

            charl_store16(v, edge);
            for (int c = 0; c < left; c++) {
#if BIAS == 1
                edge[c] += bias[bias_at + col + c];
#endif
                charl_put(edge[c], out + at + c);
            }
#endif
        }
    }
}
