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
#include "gemm/gemm_epilogue.clh"
#include "nvidia/ptx/wgmma.clh"
#include "nvidia/ptx/copy.clh"
#include "nvidia/ptx/warp.clh"
#include "nvidia/gemm/tile_store.clh"
#include "nvidia/gemm/wgmma_stages.clh"

#define AHEAD (STAGES - 1)
#define A_STRIDE(pitch) (A_KIND == 1 ? 128 * (ulong)pitch : 128) /* bytes from a stage to the next */
#define B_STRIDE(pitch) (B_KIND == 0 ? 128 * (ulong)pitch : 128)
#define COPY_ROWS (LANES / 8)
#include "nvidia/gemm/tile_copy.clh"
#include "nvidia/gemm/wgmma_sums.clh"
#include "nvidia/gemm/tile_order.clh"
#include "nvidia/gemm/tile_epilogue.clh"
#include "nvidia/gemm/tile_end.clh"

/* Copies the next stage, in the order of this group's pieces, to the place `fill`, and advances; nothing after the last one. coming: the piece
 * that is copied, of `pieces`; k_left: of it; corner: of its tile. Of operand a: its address in memory, a_outer, a_inner and a_pitch, and where this
 * work-item's chunks begin, chunks_a for a `chunks` of that name; b likewise. */
#define COPY_NEXT(a, b, m, n, k, inners, steps, tiles, pieces, coming, k_left, corner, chunks, fill, mine, row, chunk) \
    if (k_left <= 0 && ++coming < pieces) {                                                                            \
        const piece next = PIECE(coming, steps, tiles, 0);                                                             \
                                                                                                                       \
        k_left = min(k - next.from * BK, (next.to - next.from) * BK);                                                  \
        corner = place_of(next.tile, m, n, inners);                                                                    \
        chunks##_a = find_chunks(0, A_KIND == 1, (ulong)(a + corner.outer * a##_outer + corner.inner * a##_inner), corner.i, m, \
                                 a##_pitch, row, chunk) + (ulong)(next.from) * A_STRIDE(a##_pitch);                    \
        chunks##_b = find_chunks(0, B_KIND == 0, (ulong)(b + corner.outer * b##_outer + corner.inner * b##_inner), corner.j, n, \
                                 b##_pitch, row, chunk) + (ulong)(next.from) * B_STRIDE(b##_pitch);                    \
    }                                                                                                                  \
    if (coming < pieces) {                                                                                             \
        COPY_FOUR(0, mine + fill, chunks##_a.lo, A_KIND == 1, A_BY_16, corner.i, m, k_left, row, chunk);               \
        COPY_FOUR(0, mine + fill + A_BLOCKS * BLOCK, chunks##_b.lo, B_KIND == 0, B_BY_16, corner.j, n, k_left, row, chunk); \
        chunks##_a += A_STRIDE(a##_pitch);                                                                             \
        chunks##_b += B_STRIDE(b##_pitch);                                                                             \
        k_left -= BK;                                                                                                  \
    }                                                                                                                  \
    COMMIT_COPIES;                                                                                                     \
    fill = AFTER(fill)

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
gemm_wgmma(global const ACT *a, ulong a_at, global const ACT *b, ulong b_at, global const float *restrict bias,
           ulong bias_at, global OUT_T *restrict out, ulong out_at, int m, int n, int k, int a_pitch, int b_pitch,
           int inner, int tiles, long a_outer, long a_inner, long b_outer, long b_inner, long out_outer,
           long out_inner EPILOGUE_ARGS(with, record, draw) A_SUMS_ARGS(a_sums))
{
    local uchar stages[LOCAL_DECLARED] __attribute__((aligned(1024)));
    const uint base = (uint)(ulong)stages;
    const int lane = (int)get_local_id(0), chunk = lane & 7, row = lane >> 3;
    const uint mine = base + (uint)(row * 128 + ((chunk ^ (row & 7)) << 4));
    const int steps = max((k + BK - 1) / BK, 1), pieces = PIECES(steps, tiles, 0);
    int coming = -1; /* piece of the next copy */
    int k_left = 0;
    uint fill = 0, use = 0; /* offsets of the stages that are copied and used next */
    place corner = {0, 0, 0, 0};
    ulong8 from_a = 0, from_b = 0;
    float c[BN / 2];

    a += a_at;
    b += b_at;
    out += out_at;
    EPILOGUE_MOVE(with, draw, 0);
    PREPARE_A_SUMS(s, with_a_sums);
#pragma nounroll
    for (int t = 0; t < AHEAD; t++) {
        COPY_NEXT(a, b, m, n, k, inner, steps, tiles, pieces, coming, k_left, corner, from, fill, mine, row, chunk);
    }
    for (int q = 0; q < pieces; q++) {
        const piece now = PIECE(q, steps, tiles, 0);

        PREFETCH_BESIDE(now, with, out, m, n, inner, steps, lane);
        BEGIN_A_SUMS(now, s, with_a_sums, m, n, inner);
        no_sums(c);
#pragma nounroll
        for (int t = now.from; t < now.to; t++) {
            const ulong x = ROWS_AT(base + use, lane), y = COLUMNS_AT(base + use);

            /* The stage has arrived, and is seen by the instruction; no work-item still reads what is overwritten below. */
            ASM volatile("cp.async.wait_group %0;\nfence.proxy.async.shared::cta;" ::"n"(AHEAD - 1) : "memory");
            ASM volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
            ASM volatile("bar.sync 0;" ::: "memory");
            ASM volatile(WGMMA_STAGE : SUMS(c) : "l"(x), "l"(y), "r"(1) : "memory");
            ADD_A_SUMS(base + use, s, with_a_sums, lane);
            COPY_NEXT(a, b, m, n, k, inner, steps, tiles, pieces, coming, k_left, corner, from, fill, mine, row, chunk);
            use = AFTER(use);
        }
        ASM volatile("wgmma.wait_group.sync.aligned 0;" : SUMS(c)::"memory"); /* names the sums, so that none is read before */

        const place done = place_of(now.tile, m, n, inner);

        STORE_A_SUMS(done, a_sums, s, with_a_sums, base, m, inner, lane);
        END_TILE(done, c, bias, with, out, m, n, base, lane);
    }
}
