/* gemm_wgmma: matrix products of bf16 or f16 on the tensor cores of NVIDIA devices of compute capability 9.0.
 *
 *   out[z][i][j] = bias + sum_k A[z](i, k) * B[z](k, j)         i < m, j < n
 *
 * Specialised by   A_KIND    0 plain a[i * k + l], 1 transposed a[l * m + i]
 *                  B_KIND    0 plain b[l * n + j], 1 transposed b[j * k + l]
 *                  BIAS      0 none, 1 one per column, 2 one per row (and per inner product)
 *                  ACT, IS_F16   element type of A and B: ushort (bf16) and 0, or half and 1; OUT_T that of out
 *                  BN        columns of a tile: 128 (conv_wgmma.cl has others)
 *                  STAGES    tiles of k in local memory at a time
 *                  A_BY_16, B_BY_16   1: every row begins at a multiple of 16 bytes and is copied in chunks of them
 *                  OUT_BY_8  1: every row of out, and of what else lies like it, and the bias begin at a multiple of 8 bytes
 *                  OUT_BY_16 1: of 16 bytes, where they are f32
 *                  A_SUMS    1: sums of A over k are stored too: see wgmma_sums.clh
 *                  EXPR      what becomes of an element before it is stored: see gemm_epilogue.clh
 * Launch           groups of 256 work-items, as many as run at a time or fewer: group g computes tiles g, g + groups, ... of 128 x 128.
 *                  Product z = (outer, inner) starts at outer * x_outer + inner * x_inner; rows of A are a_pitch elements apart, of B
 *                  b_pitch.
 * Building         for the target sm_90a and with the local array enlarged to LOCAL_BYTES, with A_SUMS A_SUMS_BYTES more: charl__launch.sm90a.
 * Algorithm        copies to local memory run AHEAD stages before the products that read them (cp.async), also from one tile to the
 *                  next; two groups of four warps compute 64 rows each from there, 16 of k per instruction (wgmma), sums in registers.
 *                  In local memory an operand is a row of blocks: 64 rows of 128 bytes, whose chunks of 16 bytes are permuted by the
 *                  row, as the instruction reads them ("128-byte swizzle"). A row is 64 values along the operand's contiguous
 *                  direction, so each of the four layouts is copied as it lies and the instruction is told which direction that is.
 *                  Beyond m and n a tile repeats the last rows and columns: their sums are not stored. Beyond k it has zeros.
 * Numerics         a sum is a chain of instructions in ascending k, each adding 16 products, the last ones 0 beyond k; how an instruction
 *                  adds is up to the device, but it is the same for every row, column and BN. So the bits of an element depend on its
 *                  row of A, column of B and k alone: not on m, n, its position, the tile, or how the operands are aligned. They are not
 *                  those of the portable kernels. f32 results are rounded once; an infinity or NaN comes out as one.
 */
#define SPLIT 0
#define WHOLE_ROWS 0

#include "nvidia/gemm/tile_parameters.clh"
#include "gemm/gemm_args.h"
#include "gemm/gemm_epilogue.clh"
#include "nvidia/ptx/wgmma.clh"
#include "nvidia/ptx/copy.clh"
#include "nvidia/ptx/warp.clh"
#include "nvidia/gemm/tile_store.clh"
#include "nvidia/gemm/wgmma_stages.clh"

#define AHEAD (STAGES - 1)
#include "nvidia/gemm/tile_order.clh"
#include "nvidia/gemm/tile_copy.clh"
#include "nvidia/gemm/copy_operands.clh"
#include "nvidia/gemm/copy_next.clh"
#include "nvidia/gemm/wgmma_sums.clh"
#include "nvidia/gemm/tile_epilogue.clh"
#include "nvidia/gemm/tile_end.clh"

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
gemm_wgmma(global const ACT *a, global const ACT *b, global const float *restrict bias, global OUT_T *restrict out EPILOGUE_ARGS(with),
           const charl__gemm_args x, global float *a_sums, global float *split_k, global float *levels)
{
    local uchar stages[LOCAL_DECLARED] __attribute__((aligned(1024)));
    const uint base = (uint)(ulong)stages;
    const int lane = (int)get_local_id(0);
    const product p = product_of(&x);
    const epilogue_operands beside = EPILOGUE_OF(with, x);
    copying next = {{a + x.a, x.a_outer, x.a_inner, x.a_pitch, 0},
                    {b + x.b, x.b_outer, x.b_inner, x.b_pitch, 0},
                    pieces_of(&p),
                    -1,
                    0,
                    {0, 0, 0, 0},
                    place_of_chunks(base, lane),
                    0,
                    lane};
    uint use = 0; /* offset of the stage that is used next */
    sums_of_a sums;
    float c[BN / 2];

    (void)split_k, (void)levels;
    bias += x.bias;
    out += x.out;
    sums.wanted = false;
#pragma nounroll
    for (int t = 0; t < AHEAD; t++) {
        copy_next(&p, &next);
    }
    for (int q = 0; q < next.pieces; q++) {
        const piece now = piece_of(&p, q);

        prefetch_beside(&p, now, &beside, lane);
        begin_a_sums(&p, now, &sums);
        no_sums(c);
#pragma nounroll
        for (int t = now.from; t < now.to; t++) {
            const ulong rows = ROWS_AT(base + use, lane), columns = COLUMNS_AT(base + use);

            /* The stage has arrived, and is seen by the instruction; no work-item still reads what is overwritten below. */
            ASM volatile("cp.async.wait_group %0;\nfence.proxy.async.shared::cta;" ::"n"(AHEAD - 1) : "memory");
            ASM volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
            ASM volatile("bar.sync 0;" ::: "memory");
            ASM volatile(WGMMA_STAGE : SUMS(c) : "l"(rows), "l"(columns), "r"(1) : "memory");
            add_a_sums(&sums, base + use, lane);
            copy_next(&p, &next);
            use = AFTER(use);
        }
        ASM volatile("wgmma.wait_group.sync.aligned 0;" : SUMS(c)::"memory"); /* names the sums, so that none is read before */

        const place done = place_of(&p, now.tile);

        store_a_sums(&p, done, &sums, a_sums + x.a_sums, base, lane);
        end_tile(&p, done, c, bias, &beside, out, 0, lane);
    }
}
