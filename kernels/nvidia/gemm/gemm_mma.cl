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
#include "gemm/gemm_epilogue.clh"
#include "nvidia/ptx/warp.clh"
#include "nvidia/ptx/copy.clh"
#include "nvidia/ptx/local.clh"
#include "nvidia/ptx/mma.clh"
#include "nvidia/gemm/tile_store.clh"
#include "nvidia/gemm/mma_tiles.clh"

#define AHEAD (STAGES - 1)
#define BARRIER(lane) ASM volatile("bar.sync 0;" ::: "memory")
#include "nvidia/gemm/mma_sums.clh"
#include "nvidia/gemm/tile_order.clh"
#include "nvidia/gemm/tile_epilogue.clh"

#define A_STRIDE(pitch) (A_KIND == 1 ? 64 * (ulong)pitch : 64) /* bytes from a stage to the next */
#define B_STRIDE(pitch) (B_KIND == 0 ? 64 * (ulong)pitch : 64)

/* Copies the next stage, in the order of this group's pieces, to the place `fill`, and advances; nothing after the last one. coming: the piece
 * that is copied, of `pieces`; k_left: of it; corner: of its tile. Of operand a: its address in memory, a_outer, a_inner and a_pitch, and where this
 * work-item's chunks begin, chunks_a for a `chunks` of that name; b likewise. */
#define COPY_NEXT(a, b, m, n, k, inners, steps, tiles, rounds, pieces, coming, k_left, corner, chunks, fill, base, lane) \
    if (k_left <= 0 && ++coming < pieces) {                                                                            \
        const piece next = PIECE(coming, steps, tiles, rounds);                                                        \
                                                                                                                       \
        k_left = min(k - next.from * BK, (next.to - next.from) * BK);                                                  \
        corner = place_of(next.tile, m, n, inners);                                                                    \
        chunks##_a = find_chunks(A_KIND == 1, (ulong)(a + corner.outer * a##_outer + corner.inner * a##_inner), corner.i, m, a##_pitch, \
                                 lane) + (ulong)(next.from) * A_STRIDE(a##_pitch);                                     \
        chunks##_b = find_chunks(B_KIND == 0, (ulong)(b + corner.outer * b##_outer + corner.inner * b##_inner), corner.j, n, b##_pitch, \
                                 lane) + (ulong)(next.from) * B_STRIDE(b##_pitch);                                     \
    }                                                                                                                  \
    if (coming < pieces) {                                                                                             \
        COPY_PANEL(base + fill, chunks##_a, A_KIND == 1, A_BY_16, corner.i, m, k_left, lane);                          \
        COPY_PANEL(base + fill + PANEL, chunks##_b, B_KIND == 0, B_BY_16, corner.j, n, k_left, lane);                  \
        chunks##_a += A_STRIDE(a##_pitch);                                                                             \
        chunks##_b += B_STRIDE(b##_pitch);                                                                             \
        k_left -= BK;                                                                                                  \
    }                                                                                                                  \
    COMMIT_COPIES;                                                                                                     \
    fill = AFTER(fill)

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
gemm_mma(global const ACT *a, ulong a_at, global const ACT *b, ulong b_at, global const float *restrict bias, ulong bias_at,
         global OUT_T *restrict out, ulong out_at, int m, int n, int k, int a_pitch, int b_pitch, int inner, int tiles,
         long a_outer, long a_inner, long b_outer, long b_inner, long out_outer,
         long out_inner EPILOGUE_ARGS(with, record, draw) A_SUMS_ARGS(a_sums) SPLIT_ARGS(rounds, split_k))
{
    local uchar stages[LOCAL_BYTES] __attribute__((aligned(1024)));
    const address base = LOCAL_ADDRESS(stages);
    const int lane = (int)get_local_id(0), warp_i = (lane >> 6) * 64, warp_j = (lane >> 5 & 1) * 64;
    const uint place_a = place_of_fragment(A_KIND == 1, warp_i, lane & 31);
    const uint place_b = place_of_fragment(B_KIND == 0, warp_j, lane & 31);
    const int steps = max((k + BK - 1) / BK, 1), pieces = PIECES(steps, tiles, rounds);
    int coming = -1; /* piece of the next copy */
    int k_left = 0;
    uint fill = 0, use = 0; /* offsets of the stages that are copied and used next */
    place corner = {0, 0, 0, 0};
    ulong4 from_a = 0, from_b = 0;
    uint4 rows[2][4], columns[2][FRAGMENTS];
    float c[SUMS_EACH]; /* 4 of each 16 x 8, of which there are 4 x 8 */

    a += a_at;
    b += b_at;
    out += out_at;
    EPILOGUE_MOVE(with, draw, 0);
    PREPARE_A_SUMS(s, with_a_sums);
    (void)bias, (void)bias_at; /* not every specialisation has one */
#pragma nounroll
    for (int t = 0; t < AHEAD; t++) {
        COPY_NEXT(a, b, m, n, k, inner, steps, tiles, rounds, pieces, coming, k_left, corner, from, fill, base, lane);
    }
    ARRIVED_BUT(AHEAD - 1);
    LOAD(0, base + use, place, rows, columns);
    for (int q = 0; q < pieces; q++) {
        const piece now = PIECE(q, steps, tiles, rounds);

        PREFETCH_BESIDE(now, with, out, m, n, inner, steps, lane);
        BEGIN_A_SUMS(now, s, with_a_sums, m, n, inner, warp_j);
        BEGIN_SUMS(now, c, lane, split_k);
#pragma nounroll
        for (int t = now.from; t < now.to; t++) {
            LOAD(1, base + use, place, rows, columns);
            COPY_NEXT(a, b, m, n, k, inner, steps, tiles, rounds, pieces, coming, k_left, corner, from, fill, base, lane);
            ADD_A_SUMS(rows[0], s, with_a_sums);
            MULTIPLY_ALL(0, c, rows, columns);
            use = AFTER(use);
            ARRIVED_BUT(AHEAD - 1);
            LOAD(0, base + use, place, rows, columns); /* of the next stage, also where that is another tile's, or none */
            ADD_A_SUMS(rows[1], s, with_a_sums);
            MULTIPLY_ALL(1, c, rows, columns);
        }
        PASS_SUMS_ON(now, c, lane, split_k, steps);

        const place done = place_of(now.tile, m, n, inner);
        const long first = done.outer * out_outer + done.inner * out_inner;

        STORE_A_SUMS(done, a_sums, s, with_a_sums, m, inner, warp_i, lane);

#pragma unroll
        for (int x = 0; x < 16; x++) { /* 16 x 16 sums */
            const int i = done.i + warp_i + x / 4 * 16 + ((lane & 31) >> 2), j = done.j + warp_j + x % 4 * 16;
            float4 upper = (float4)(c[8 * x], c[8 * x + 1], c[8 * x + 4], c[8 * x + 5]);
            float4 lower = (float4)(c[8 * x + 2], c[8 * x + 3], c[8 * x + 6], c[8 * x + 7]);

#if BIAS == 1
            const float4 of_columns = bias_16(bias + bias_at, j, n, lane);

            upper += of_columns;
            lower += of_columns;
#elif BIAS == 2
            global const float *const of_rows = bias + bias_at + (long)done.inner * m;

            upper += i < m ? of_rows[i] : 0.0f;
            lower += i + 8 < m ? of_rows[i + 8] : 0.0f;
#endif
            upper = EPILOGUE_16(with, first, i, j, m, n, upper, BESIDE_16(with, first, i, j, m, n, lane), lane);
            lower = EPILOGUE_16(with, first, i + 8, j, m, n, lower, BESIDE_16(with, first, i + 8, j, m, n, lane), lane);
            store_16(out + first, i, j, m, n, upper, lane);
            store_16(out + first, i + 8, j, m, n, lower, lane);
        }
    }
}
