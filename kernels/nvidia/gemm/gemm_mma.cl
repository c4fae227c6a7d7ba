/* gemm_mma: matrix products on the tensor cores of NVIDIA devices of compute capability 8.0 and higher; of bf16 or f16, or of f32 whose
 * elements are rounded to tf32 (8 bits of exponent, 10 after the binary point).
 *
 *   out[z][i][j] = bias + sum_k A[z](i, k) * B[z](k, j)         i < m, j < n
 *
 * Specialised by   SIZE      bytes of an element of A and B: 4 for ACT float, else 2; the others as gemm_wgmma.cl
 * Launch           groups of 128 work-items, as many as run at a time or fewer: group g computes tiles g, g + groups, ... of 128 x 128;
 *                  operands as in gemm_wgmma.cl.
 * Algorithm        copies to local memory run AHEAD stages before the products that read them (cp.async), also from one tile to the
 *                  next; each of four warps computes 64 x 64 sums in registers, from 32 bytes of k per instruction (mma.sync).
 *                  Operands are copied as they lie: mma_tiles.clh. Beyond m and n a tile repeats the last rows and columns: their sums
 *                  are not stored. Beyond k it has zeros.
 * Numerics         a sum is a chain of instructions in ascending k, each adding 16 products, or 8 of tf32, the last ones 0 beyond k; how
 *                  an instruction adds is up to the device. So the bits of an element depend on its row of A, column of B and k alone.
 *                  They are neither those of the portable kernels nor those of gemm_wgmma.cl.
 */
#include "nvidia/gemm/tile_parameters.clh"
#include "gemm/gemm_args.h"
#include "gemm/gemm_epilogue.clh"
#include "nvidia/ptx/warp.clh"
#include "nvidia/ptx/copy.clh"
#include "nvidia/ptx/local.clh"
#include "nvidia/ptx/mma.clh"
#include "nvidia/gemm/tile_store.clh"
#include "nvidia/gemm/mma_tiles.clh"

#define AHEAD (STAGES - 1)
#define BARRIER(lane) ASM volatile("bar.sync 0;" ::: "memory")
#include "nvidia/gemm/tile_order.clh"
#include "nvidia/gemm/mma_sums.clh"
#include "nvidia/gemm/copy_operands.clh"
#include "nvidia/gemm/copy_next.clh"
#include "nvidia/gemm/tile_epilogue.clh"

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
gemm_mma(global const ACT *a, global const ACT *b, global const float *restrict bias, global OUT_T *restrict out EPILOGUE_ARGS(with),
         const charl__gemm_args x, global float *a_sums, global float *split_k, global float *levels)
{
    local uchar stages[LOCAL_BYTES] __attribute__((aligned(1024)));
    const address base = LOCAL_ADDRESS(stages);
    const int lane = (int)get_local_id(0), warp_i = (lane >> 6) * 64, warp_j = (lane >> 5 & 1) * 64;
    const uint place_a = place_of_fragment(A_KIND == 1, warp_i, lane & 31);
    const uint place_b = place_of_fragment(B_KIND == 0, warp_j, lane & 31);
    const product p = product_of(&x);
    const epilogue_operands beside = EPILOGUE_OF(with, x);
    copying next = {{a + x.a, x.a_outer, x.a_inner, x.a_pitch, 0}, {b + x.b, x.b_outer, x.b_inner, x.b_pitch, 0}, pieces_of(&p), -1, 0, {0, 0, 0, 0}, base, 0, lane};
    uint use = 0; /* offset of the stage that is used next */
    fragments f;
    sums_of_a sums;
    float c[SUMS_EACH]; /* 4 of each 16 x 8, of which there are 4 x 8 */

    (void)levels;
    bias += x.bias;
    out += x.out;
    sums.wanted = false;
#pragma nounroll
    for (int t = 0; t < AHEAD; t++) {
        copy_next(&p, &next);
    }
    ARRIVED_BUT(AHEAD - 1);
    load_part(&f, 0, base + use, place_a, place_b);
    for (int q = 0; q < next.pieces; q++) {
        const piece now = piece_of(&p, q);

        prefetch_beside(&p, now, &beside, lane);
        begin_a_sums(&p, now, &sums, warp_j);
        begin_sums(now, c, split_k, lane);
#pragma nounroll
        for (int t = now.from; t < now.to; t++) {
            load_part(&f, 1, base + use, place_a, place_b);
            copy_next(&p, &next);
            add_a_sums(&sums, f.rows[0]);
            multiply_part(c, &f, 0);
            use = AFTER(use);
            ARRIVED_BUT(AHEAD - 1);
            load_part(&f, 0, base + use, place_a, place_b); /* of the next stage, also where that is another tile's, or none */
            add_a_sums(&sums, f.rows[1]);
            multiply_part(c, &f, 1);
        }
        if (pass_sums_on(&p, now, c, split_k, lane)) {
            continue;
        }

        const place done = place_of(&p, now.tile);
        const long first = first_of(&p, done);

        store_a_sums(&p, done, &sums, a_sums + x.a_sums, warp_i, lane);

#pragma unroll
        for (int y = 0; y < 16; y++) { /* 16 x 16 sums */
            const int i = done.i + warp_i + y / 4 * 16 + ((lane & 31) >> 2), j = done.j + warp_j + y % 4 * 16;
            float4 upper = (float4)(c[8 * y], c[8 * y + 1], c[8 * y + 4], c[8 * y + 5]);
            float4 lower = (float4)(c[8 * y + 2], c[8 * y + 3], c[8 * y + 6], c[8 * y + 7]);

            if (BIAS == 1) {
                const float4 of_columns = bias_16(bias, j, p.n, lane);

                upper += of_columns;
                lower += of_columns;
            } else if (BIAS == 2) {
                global const float *const of_rows = bias + (long)done.inner * p.m;

                upper += i < p.m ? of_rows[i] : 0.0f;
                lower += i + 8 < p.m ? of_rows[i + 8] : 0.0f;
            }
            upper = epilogue_16(&beside, first, i, j, p.m, p.n, upper, beside_16(&beside, first, i, j, p.m, p.n, lane), lane);
            lower = epilogue_16(&beside, first, i + 8, j, p.m, p.n, lower, beside_16(&beside, first, i + 8, j, p.m, p.n, lane), lane);
            store_16(elements_at(out + first), i, j, p.m, p.n, upper, lane);
            store_16(elements_at(out + first), i + 8, j, p.m, p.n, lower, lane);
        }
    }
}
