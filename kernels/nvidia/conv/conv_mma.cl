/* conv_mma: convolutions of bf16 or f16 on the tensor cores of NVIDIA devices of compute capability 8.0 and higher.
 *
 * Formulas, operands and arguments are those of conv_wgmma.cl.
 *
 * Specialised by   GRAD, BIAS, ACT, IS_F16, OUT_T, STAGES, OUT_BY_8: see conv_wgmma.cl
 *                  BN        columns of a tile: 128, with GRAD 0 also 64
 * Launch           groups of 128 work-items, as many as run at a time or fewer: group g computes tiles g, g + groups, ... of 128 x BN.
 * Algorithm        operands are copied as in conv_wgmma.cl, to where gemm_mma.cl has them (mma_tiles.clh), and multiplied as there.
 * Numerics         a sum is a chain of instructions in ascending k, each adding 16 products, the last ones 0 beyond k; how an instruction adds is
 *                  up to the device. As with conv_wgmma.cl, its bits depend on the operands' values, channels and taps (GRAD 1: pixels of a
 *                  part) alone, not on the tile or the samples beside it. They are not those of conv_wgmma.cl.
 */
#define GRAD 0
#define A_KIND GRAD
#define B_KIND (!GRAD)

#include "nvidia/gemm/tile_parameters.clh"
#include "nvidia/ptx/warp.clh"
#include "nvidia/ptx/copy.clh"
#include "nvidia/ptx/local.clh"
#include "nvidia/ptx/mma.clh"
#include "nvidia/gemm/tile_store.clh"
#include "nvidia/gemm/mma_tiles.clh"

#define AHEAD (STAGES - 1)
/* GRAD 1: bytes from this work-item's first chunk in a panel to its chunk in block n of 64 rows or columns and in the first or second half of k. */
#define PLACE_OF(n, half) (128 * (n) + PANEL / 2 * (half))
#include "nvidia/conv/conv_args.h"
#include "nvidia/conv/conv_window.clh"
#if GRAD
#include "nvidia/conv/conv_pixels.clh"
#else
#include "nvidia/conv/conv_taps.clh"
#endif
#include "nvidia/conv/conv_tiles.clh"
#include "nvidia/gemm/copy_next.clh"

#define ACROSS (GRAD ? 8 : BK / 8) /* chunks beside each other that are copied at a time */

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
conv_mma(global const ACT *a, global const ACT *b, global const float *bias, global OUT_T *out, const window t)
{
    local uchar stages[LOCAL_BYTES] __attribute__((aligned(1024)));
    const address base = LOCAL_ADDRESS(stages);
    const int lane = (int)get_local_id(0), chunk = lane % ACROSS, row = lane / ACROSS;
    const address mine = base + place_of_chunk(GRAD, row, chunk);
    const int warp_i = (lane >> 6) * 64, warp_j = (lane >> 5 & 1) * (BN / 2);
    const uint place_a = place_of_fragment(GRAD, warp_i, lane & 31),
               place_b = place_of_fragment(GRAD, warp_j, lane & 31);
    const int steps = steps_of_tile(&t);
    copying next = {.a = a + t.a, .b = b + t.b, .coming = (int)get_group_id(0) - (int)get_num_groups(0), .to = mine, .row = row, .chunk = chunk};
    uint use = 0; /* offset of the stage that is used next */
    fragments x;
    float c[SUMS_EACH];

    bias += t.bias;
    out += t.out;
#pragma nounroll
    for (int i = 0; i < AHEAD; i++) {
        copy_next(&t, &next);
    }
    ARRIVED_BUT(AHEAD - 1);
    load_part(&x, 0, base + use, place_a, place_b);
    for (int tile = (int)get_group_id(0); tile < t.tiles; tile += (int)get_num_groups(0)) {
#pragma unroll
        for (int i = 0; i < SUMS_EACH; i++) {
            c[i] = 0.0f;
        }
#pragma nounroll
        for (int i = 0; i < steps; i++) {
            load_part(&x, 1, base + use, place_a, place_b);
            copy_next(&t, &next);
            multiply_part(c, &x, 0);
            use = AFTER(use);
            ARRIVED_BUT(AHEAD - 1);
            load_part(&x, 0, base + use, place_a, place_b); /* of the next stage, also where that is another tile's, or none */
            multiply_part(c, &x, 1);
        }
#pragma unroll
        for (int r = 0; r < 4; r++) {
            const results to = begin_store(&t, tile, out, warp_i + 16 * r, lane);

#pragma unroll
            for (int y = 0; y < FRAGMENTS; y++) {
                store_sums(&t, &to, warp_j + 16 * y, c + 8 * (r * FRAGMENTS + y), bias, lane);
            }
        }
    }
}
