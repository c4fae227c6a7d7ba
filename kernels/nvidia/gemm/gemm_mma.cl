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
 *                  an instruction adds is the device's affair. So the bits of an element depend on its row of A, column of B and k alone.
 *                  They are neither those of the portable kernels nor those of gemm_wgmma.cl.
 */
#include "nvidia/gemm/tile_parameters.clh"
#include "gemm/gemm_epilogue.clh"
#include "nvidia/ptx/warp.clh"
#include "nvidia/ptx/copy.clh"
#include "nvidia/ptx/local.clh"
#include "nvidia/ptx/mma.clh"
#include "nvidia/gemm/tile_store.clh"

#define BM 128
#define BK (64 / SIZE)
#define LANES 128
#define SUMS_EACH 128
#define AHEAD (STAGES - 1)
#define BARRIER ASM volatile("bar.sync 0;" ::: "memory")
#include "nvidia/gemm/mma_tiles.clh"
#include "nvidia/gemm/mma_sums.clh"
#include "nvidia/gemm/tile_order.clh"
#include "nvidia/gemm/tile_next.clh"
#include "nvidia/gemm/tile_epilogue.clh"

#define STAGE_BYTES (2 * PANEL)
#define LOCAL_BYTES (STAGES * STAGE_BYTES)
#define A_STRIDE (A_KIND == 1 ? 64 * (ulong)a_pitch : 64) /* bytes from a stage to the next */
#define B_STRIDE (B_KIND == 0 ? 64 * (ulong)b_pitch : 64)
#define AFTER(stage) ((stage) == LOCAL_BYTES - STAGE_BYTES ? 0 : (stage) + STAGE_BYTES)

#define FIND_A(first, from) from_a = find_chunks(A_KIND == 1, first, corner.i, m, a_pitch, lane) + (ulong)(from) * A_STRIDE
#define FIND_B(first, from) from_b = find_chunks(B_KIND == 0, first, corner.j, n, b_pitch, lane) + (ulong)(from) * B_STRIDE
#define COPY_STAGE                                                                                                     \
    COPY_PANEL(base + fill, from_a, A_KIND == 1, A_BY_16, corner.i, m);                                                \
    COPY_PANEL(base + fill + PANEL, from_b, B_KIND == 0, B_BY_16, corner.j, n);                                        \
    from_a += A_STRIDE;                                                                                                \
    from_b += B_STRIDE

/* Fragments of 32 bytes of k, step 0 or 1 of a stage, for products that are made while those of the next are loaded. */
#define LOAD(step)                                                                                                     \
    _Pragma("unroll") for (uint r = 0; r < 4; r++)                                                                     \
    {                                                                                                                  \
        rows[step][r] = fragment(A_KIND == 1, base + use, place_a, r, step);                                           \
        columns[step][r] = fragment(B_KIND == 0, base + use + PANEL, place_b, r, step);                                \
    }
#define MULTIPLY_ALL(step)                                                                                             \
    _Pragma("unroll") for (int r = 0; r < 4; r++)                                                                      \
    {                                                                                                                  \
        rows[step][r] = factors(rows[step][r]);                                                                        \
        columns[step][r] = factors(columns[step][r]);                                                                  \
    }                                                                                                                  \
    ADD_A_SUMS(rows[step]);                                                                                            \
    _Pragma("unroll") for (int x = 0; x < 16; x++)                                                                     \
    {                                                                                                                  \
        MULTIPLY(c + 8 * x, rows[step][x / 4], columns[step][x % 4].x, columns[step][x % 4].z);                        \
        MULTIPLY(c + 8 * x + 4, rows[step][x / 4], columns[step][x % 4].y, columns[step][x % 4].w);                    \
    }

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
gemm_mma(PRODUCT_ARGS)
{
    local uchar stages[LOCAL_BYTES] __attribute__((aligned(1024)));
    const address base = LOCAL_ADDRESS(stages);
    const int lane = (int)get_local_id(0), warp_i = (lane >> 6) * 64, warp_j = (lane >> 5 & 1) * 64;
    const uint place_a = place_of_fragment(A_KIND == 1, warp_i, lane & 31);
    const uint place_b = place_of_fragment(B_KIND == 0, warp_j, lane & 31);
    const int steps = max((k + BK - 1) / BK, 1), pieces = PIECES;
    int coming = -1; /* piece of the next copy */
    int k_left = 0;
    uint fill = 0, use = 0; /* offsets of the stages that are copied and used next */
    place corner = {0, 0, 0, 0};
    ulong4 from_a = 0, from_b = 0;
    uint4 rows[2][4], columns[2][4];
    float c[SUMS_EACH]; /* 4 of each 16 x 8, of which there are 4 x 8 */

    a += a_at;
    b += b_at;
    out += out_at;
    EPILOGUE_MOVE(0);
    PREPARE_A_SUMS;
    (void)bias, (void)bias_at; /* not every specialisation has one */
#pragma nounroll
    for (int t = 0; t < AHEAD; t++) {
        COPY_NEXT;
    }
    ARRIVED_BUT(AHEAD - 1);
    LOAD(0);
    for (int q = 0; q < pieces; q++) {
        const piece now = PIECE(q);

        PREFETCH_BESIDE(now);
        BEGIN_A_SUMS(now);
        BEGIN_SUMS(now);
#pragma nounroll
        for (int t = now.from; t < now.to; t++) {
            LOAD(1);
            COPY_NEXT;
            MULTIPLY_ALL(0);
            use = AFTER(use);
            ARRIVED_BUT(AHEAD - 1);
            LOAD(0); /* of the next stage, also where that is another tile's, or none */
            MULTIPLY_ALL(1);
        }
        PASS_SUMS_ON(now);

        const place done = place_of(now.tile, m, n, inner);
        const long first = done.outer * out_outer + done.inner * out_inner;

        STORE_A_SUMS(done);

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
            upper = EPILOGUE_16(first, i, j, upper, BESIDE_16(first, i, j));
            lower = EPILOGUE_16(first, i + 8, j, lower, BESIDE_16(first, i + 8, j));
            store_16(out + first, i, j, m, n, upper, lane);
            store_16(out + first, i + 8, j, m, n, lower, lane);
        }
    }
}
