/* gemm_vector: matrix products on CPUs; see gemm.clh.
 *
 * Specialised by   A_KIND, B_KIND, BIAS and the window: see gemm.clh
 *                  MR, NR  rows and columns of a micro-tile: 4 or 8, and 16 or 32, what the vectors of the device hold (default 8, 32)
 *                  AMX     1: bf16 on the matrix unit of x86, see x86/gemm/gemm_amx_micro.clh; MR and NR are 16 or 32 (default 0)
 *                  MI, TILES, KEPT  mi, mi * nj and, with FOLD, mi * nj times the levels of the tree are at most this (default 48, 1152, 288)
 *                  IN_PLACE  1: the rows of A (A_KIND 0) are read where they lie: float, at least MR of them; with AMX whole blocks of 32 steps
 *                  SWAP    1: out is stored transposed, [n, m], and BIAS means columns or rows of what is stored (default 0)
 *                  FOLD    1: product z is the sum of `leaves` products in the fixed tree; operands of a leaf lie x_outer apart
 *                  ROUND   with FOLD: nodes of 2^ROUND leaves and more are rounded to bf16 (default: none)
 * Launch           one work-item per mi * MR rows and nj * NR columns of one product, groups of 1; by column, row, product. For CPUs:
 *                  a work-item packs its operands into private memory, which the cache holds, and keeps a micro-tile in vectors.
 * Numerics         see gemm.clh, with AMX gemm_amx_micro.clh; with FOLD the tree of src/base/numeric/tree.h over the leaves.
 */
#define FOLD 0
#define ROUND 99
#define MR 8
#define NR 32
#define MI 48
#define TILES (24 * MI)
#define KEPT (6 * MI * FOLD)
#define IN_PLACE 0
#define AMX 0
#define SWAP 0
#include "shared/rng.clh"
#include "gemm/gemm_args.h"
#include "gemm/gemm_epilogue.clh"
#include "gemm/gemm.clh"

/* A block is mi * MR rows and nj * NR columns: its rows of A, packed, are what a level-2 cache holds; a panel of B is packed when its turn
 * comes and lies in the level-1 cache while all rows are multiplied with it; sums come and go. All are on the stack of a thread, which may
 * have no more than 2 MiB. */
#define KC (AMX ? 512 : 256) /* depth of a packed block */
#define SIZE (MR * NR)
#define ALIGNED __attribute__((aligned(64)))

#include "prelude/vectors.clh"
#include "gemm/gemm_vector_memory.clh"
#if B_KIND == 1 || B_KIND == 3 || (AMX && A_KIND == 1) || SWAP
#include "shared/transpose16.clh"
#endif
#include "gemm/gemm_vector_image.clh"
#include "gemm/gemm_vector_tile.clh"
#if AMX
#include "x86/amx/tiles.clh"
#include "x86/gemm/gemm_amx_pack.clh"
#include "x86/gemm/gemm_amx_micro.clh"
#else
#include "gemm/gemm_vector_pack.clh"
#include "gemm/gemm_vector_micro.clh"
#endif

/* Results [col, col + 16) of row i, of which `left` exist, to their place. */
static inline void put16(float16 v, int i, int col, int left, const target *t, const epilogue_operands *with)
{
    const long at = (long)i * t->pitch + col;

    if (BIAS == 2) {
        v += (float16)(t->bias[i]);
    }
#if HAS_EPILOGUE
    if (BIAS == 1) {
        v += charl_load(t->bias + col, left);
    }
    charl_store(epilogue(v, with, at, left), t->out + at, left);
#else
    (void)with;
    if (left >= 16) {
        if (BIAS == 1) {
            v += charl_load16(t->bias + col);
        }
        store16(v, t->out + at);
        return;
    }
    float edge[16];

    charl_store16(v, edge);
    for (int c = 0; c < left; c++) {
        if (BIAS == 1) {
            edge[c] += t->bias[col + c];
        }
        charl_put(edge[c], t->out + at + c);
    }
#endif
}

/* Sums of a micro-tile to their place. */
static inline void finish(const float *acc, const target *t, const epilogue_operands *with)
{
#if SWAP
    for (int block = 0; block < SIZE / 256; block++) {
        const int r = block / SIDES * 16, c = block % SIDES * 16, first = max(t->skip - r, 0), left = min(t->rows - r, 16) - first;
        float16 v[16];
        float lanes[32];

        for (int l = 0; l < 16; l++) {
            v[l] = charl_load16(acc + (r + l) * NR + c);
        }
        transpose16(v);
        for (int l = 0; l < min(t->left - c, 16) && left > 0; l++) {
            charl_store16(v[l], lanes);
            put16(charl_load16(lanes + first), t->col + c + l, t->row + r + first, left, t, with);
        }
    }
#else
    if (t->skip == 0 && t->rows == MR && t->left >= NR) {
        for (int e = 0; e < SIZE / 16; e++) {
            put16(charl_load16(acc + 16 * e), t->row + e / SIDES, t->col + e % SIDES * 16, 16, t, with);
        }
        return;
    }
    for (int e = 0; e < SIZE / 16; e++) { /* vectors of acc */
        const int r = e / SIDES, c = e % SIDES * 16;

        if (r >= t->skip && r < t->rows && c < t->left) {
            put16(charl_load16(acc + 16 * e), t->row + r, t->col + c, t->left - c, t, with);
        }
    }
#endif
}

kernel void gemm_vector(global const ACT *a, global const ACT *b, global const float *bias, global OUT_T *out EPILOGUE_ARGS(with), const charl__gemm_args p)
{
    packed_b bp[PANEL_B] ALIGNED;
    float acc[TILES * SIZE] ALIGNED, level[KEPT * SIZE + 1] ALIGNED;
#if !IN_PLACE
    packed_a ap[MI * PANEL] ALIGNED;
#endif
    pixel_block px;
    const int m = p.m, n = p.n, k_all = p.k;
    const long cols = (n + p.nj * NR - 1L) / (p.nj * NR), rows = (m + p.mi * MR - 1L) / (p.mi * MR);
    const long item = (long)get_global_id(0);
    const int j0 = (int)(item % cols) * p.nj * NR, i0 = (int)(item / cols % rows) * p.mi * MR;
    const long z = item / cols / rows, zo = z / p.inner, zi = z % p.inner;
    const int mj = min(p.nj, (n - j0 + NR - 1) / NR), mm = min(p.mi, (m - i0 + MR - 1) / MR); /* micro-tiles that exist */
    const int blocks = max((k_all + KC - 1) / KC, 1), steps = p.segments * blocks;
    const int levels = FOLD ? 32 - clz(p.leaves - 1) : 0;
    const bool single = steps == 1; /* no sums wait for a further step */
    const long first = zo * p.out_outer + zi * p.out_inner;
    const epilogue_operands beside = epilogue_at(EPILOGUE_OF(with, p), first);

    a += p.a + zo * p.a_outer + zi * p.a_inner;
    b += p.b + zo * p.b_outer + zi * p.b_inner;
    out += p.out + first;
#if AMX
    begin_tiles(min(m, MR));
#endif
    for (int leaf = 0; leaf < p.leaves; leaf++) {
        const carry to = carry_of(leaf, p.leaves);

        for (int step = 0; step < steps; step++) {
            const int k0 = step % blocks * KC, kc = min(KC, k_all - k0);
            const long segment = step / blocks;
            const bool ends = step + 1 == steps, known = ends && leaf + 1 == p.leaves;
            global const ACT *sa = a + leaf * p.a_outer + segment * p.a_segment;
            global const ACT *sb = b + leaf * p.b_outer + segment * p.b_segment;

#if !IN_PLACE
            pack_a(ap, sa, i0, mm, k0, kc, m, k_all);
#endif
#if B_KIND == 3
            find_pixels(&px, k0, kc, k_all, p.ih, p.iw, p.pw);
#endif
            for (int tile = 0; tile < mj * mm; tile++) {
                const int i = tile % mm, j = tile / mm, top = i0 + i * MR, row = IN_PLACE ? min(top, max(m - MR, 0)) : top;
                const target t = {row, j0 + j * NR, top - row, min(MR, m - row), n - j0 - j * NR, SWAP ? m : n, out,
                                  bias + p.bias + (BIAS == 2 ? zi * (SWAP ? n : m) : 0)};
                const bool whole = AMX + HAS_EPILOGUE == 0 && known && t.skip == 0 && t.rows == MR && t.left >= NR;
                float *const sums = acc + (single ? 0 : tile * SIZE);

#if B_KIND == 0
                if (j + 1 < mj) {
                    fetch_panel(sb, t.col + NR, k0, kc, n, i, mm);
                }
#endif
                if (i == 0) {
                    pack_panel(bp, sb, t.col, k0, kc, n, k_all, p.ih, p.iw, p.pw, &px);
                }
#if IN_PLACE
                micro(sa + (long)row * k_all + k0, k_all,
#else
                micro(ap + i * PANEL, KC,
#endif
                      bp, sums, kc, step == 0, ends, level + tile * levels * SIZE, to, whole, &t);
                if (known && !whole) {
                    finish(sums, &t, &beside);
                }
            }
        }
    }
#if AMX
    end_tiles();
#endif
}
