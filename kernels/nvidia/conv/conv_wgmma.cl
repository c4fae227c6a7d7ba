/* conv_wgmma: convolutions of bf16 or f16 on the tensor cores of NVIDIA devices of compute capability 9.0, as matrix products that
 * read the image in place ("implicit GEMM"). Images are channels-last, 8 * chunks channels to a pixel.
 *
 * The image element (y, x, r, s) means is at row y * step.x + shift.x + r * tap.x, column x * step.y + shift.y + s * tap.y: 0 outside.
 *
 *   GRAD 0   forward, and the gradient of the image: out[p][j] = bias[j] + sum over taps (r, s) and channels c of a[p, r, s][c] * b[j][w_first + r * w_step.x + s * w_step.y][c]
 *            p < m: pixels (sample, y, x) of grid; j < n. a: the image; b: rows of ld elements, whose taps have 8 * chunks each.
 *            Pixel p is row (sample, y * out_step.x + out_place.x, x * out_step.y + out_place.y) of out [samples, out_extent, n].
 *   GRAD 1   gradient of the weight: out[z][i][r][s][c] = sum over pixels p of part z of a[p][i] * b[p, r, s][c]
 *            Part z has the k pixels (sample, y, x) of grid from z * k on. a: rows of ld elements; b: the image; i < m; all
 *            8 * chunks channels are stored, as f32, two at a time.
 *
 * Specialised by   GRAD, BIAS (0, 1), ACT, IS_F16, OUT_T, STAGES, OUT_BY_8: see gemm_wgmma.cl
 *                  BN        columns of a tile: 128 or 256, with GRAD 0 also 64
 *                  LOW       1: tiles of 64 rows and 2 BN columns; with GRAD 1 and BN 128
 *                  OVERLAP   1: the products of a stage begin before those of the stage before have ended
 * Launch           groups of 256 work-items, as many as run at a time or fewer: group g computes tiles g, g + groups, ... of 128 x BN, or 64 x 2 BN.
 * Building         as gemm_wgmma.cl.
 * Algorithm        that of gemm_wgmma.cl; a chunk of 16 bytes is 8 channels of one pixel at one tap, or zeros. Chunks of k run over the
 *                  channels of a tap, then over the taps, so a stage may have several taps.
 * Numerics         a sum is a chain of instructions in ascending k, each adding 16 products, the last ones 0 beyond k: its bits depend on
 *                  the operands' values, channels and taps (GRAD 1: pixels of a part) alone, not on the tile or the samples beside it.
 *                  A product with a 0 outside the image is added too.
 */
#define GRAD 0
#define OVERLAP 0
#define A_KIND GRAD
#define B_KIND (!GRAD)

#include "nvidia/gemm/tile_parameters.clh"
#include "nvidia/ptx/wgmma.clh"
#include "nvidia/ptx/copy.clh"
#include "nvidia/ptx/warp.clh"
#include "nvidia/gemm/tile_store.clh"
#include "nvidia/gemm/wgmma_stages.clh"

#define AHEAD (STAGES - 1 - OVERLAP)
/* GRAD 1: bytes from this work-item's first chunk of an operand to its chunk in block n of 64 rows or columns and in the first or second half of k. */
#define PLACE_OF(n, half) ((n) * BLOCK + (half) * (BLOCK / 2))
#include "nvidia/conv/conv_args.h"
#include "nvidia/conv/conv_window.clh"
#if GRAD
#include "nvidia/conv/conv_pixels.clh"
#else
#include "nvidia/conv/conv_taps.clh"
#endif
#include "nvidia/conv/conv_tiles.clh"
#include "nvidia/gemm/copy_next.clh"

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
conv_wgmma(global const ACT *a, global const ACT *b, global const float *bias, global OUT_T *out, const window t)
{
    local uchar stages[LOCAL_DECLARED] __attribute__((aligned(1024)));
    const uint base = (uint)(ulong)stages;
    const int lane = (int)get_local_id(0), chunk = lane & 7, row = lane >> 3;
    const uint mine = base + (uint)(row * 128 + ((chunk ^ (row & 7)) << 4));
    const int steps = steps_of_tile(&t);
    copying next = {.a = a + t.a, .b = b + t.b, .coming = (int)get_group_id(0) - (int)get_num_groups(0), .to = mine, .row = row, .chunk = chunk};
    const int part = LOW ? lane >> 7 : 0; /* of the columns */
    uint use = 0; /* offset of the stage that is used next */
    float c[BN / 2];

    bias += t.bias;
    out += t.out;
#pragma nounroll
    for (int i = 0; i < AHEAD; i++) {
        copy_next(&t, &next);
    }
    for (int tile = (int)get_group_id(0); tile < t.tiles; tile += (int)get_num_groups(0)) {
#pragma unroll
        for (int i = 0; i < BN / 2; i++) {
            c[i] = 0.0f;
        }
#pragma nounroll
        for (int i = 0; i < steps; i++) {
            const ulong x = ROWS_AT(base + use, (LOW ? 0 : lane)), y = COLUMNS_AT(base + use + (uint)(part * (BN / 64) * BLOCK));

            /* The stage has arrived, and is seen by the instruction; no work-item still reads what is overwritten below. */
            ASM volatile("cp.async.wait_group %0;\nfence.proxy.async.shared::cta;" ::"n"(AHEAD - 1) : "memory");
#if !OVERLAP
            ASM volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#endif
            ASM volatile("bar.sync 0;" ::: "memory");
            ASM volatile(WGMMA_STAGE : SUMS(c) : "l"(x), "l"(y), "r"(1) : "memory");
            copy_next(&t, &next);
#if OVERLAP
            ASM volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory"); /* the stage that is overwritten next is read */
#endif
            use = AFTER(use);
        }
        ASM volatile("wgmma.wait_group.sync.aligned 0;" : SUMS(c)::"memory"); /* names the sums, so that none is read before */

        const results to = begin_store(&t, tile, out, (lane >> 5) % (BM / 16) * 16, lane);

#pragma unroll
        for (int y = 0; y < BN / 16; y++) {
            store_sums(&t, &to, part * BN + 16 * y, c + 8 * y, bias, lane);
        }
    }
}
