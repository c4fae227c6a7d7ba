/* gemm_few_rows: products of few rows on the tensor cores of NVIDIA devices of compute capability 9.0, as a language model computes them for each
 * token: reading B takes all the time.
 *
 *   out[i][j] = bias + sum_k A(i, k) * B(k, j)         i < m <= BN, j < n; A is plain, B transposed: both are contiguous along k
 *
 * Specialised by   BN        rows of A that are multiplied: 8, 16, 32 or 64
 *                  COLUMNS   of a tile: 16, 32 or 64
 *                  SUBS      blocks of BK = 64 of k in a stage
 *                  STAGES    in local memory at a time
 *                  ACT, IS_F16, OUT_T, BIAS, EXPR   as in gemm_wgmma.cl
 * Launch           a group of 128 work-items for every COLUMNS columns. Rows of both operands begin at multiples of 16 bytes.
 * Building         as gemm_wgmma.cl, with LOCAL_BYTES.
 * Algorithm        the transposed product: the instruction's 64 rows are columns of B, its BN columns are rows of A. COLUMNS is less than 64 where
 *                  that many groups would leave compute units idle; the instruction then multiplies whatever follows in local memory as well, and
 *                  what was there before in the place of rows that do not exist. These sums are not stored.
 *                  Stages are copied ahead of their use (cp.async), as many as it takes to hide how far memory is.
 *                  At the end the sums go through local memory, so that rows of out are written by neighbouring work-items.
 * Numerics         the bits of gemm_wgmma.cl: the same instruction adds the same products in the same order of k, with its operands exchanged.
 */
#define A_KIND 0 /* of the instruction */
#define B_KIND 1
#ifndef BN
#define BN 8
#endif
#define COLUMNS 16
#define SUBS 4
#define STAGES 6
#define BIAS 0
#define IS_F16 0
#define OUT_T float

#include "gemm/gemm_args.h"
#include "gemm/gemm_epilogue.clh"
#include "nvidia/ptx/wgmma.clh"
#include "nvidia/ptx/copy.clh"
#include "nvidia/ptx/warp.clh"

#define LANES 128
#define AHEAD (STAGES - 1)
#define SUB_BYTES ((COLUMNS + BN) * 128) /* columns of B, then rows of A: 64 of k each */
#define STAGE_BYTES (SUBS * SUB_BYTES)
#define BEYOND (8192 - 128 * COLUMNS) /* that the instruction reads */
#define LOCAL_BYTES (STAGES * STAGE_BYTES + BEYOND)
#define LOCAL_DECLARED 49152
#define AFTER(stage) ((stage) == (STAGES - 1) * STAGE_BYTES ? 0 : (stage) + STAGE_BYTES)
#define ROW_STEP (LANES / 8) /* a row has 8 chunks of 16 bytes */
#define SUMS_PITCH (COLUMNS + 1)

/* Copies 64 of k from `from` on of up to `rows` rows at x, of which `exist` exist, to a block at `to`: 128-byte swizzle. */
CHARL_INLINE void copy_rows(uint to, const int rows, global const ACT *x, int exist, int k_all, int from, int lane)
{
    const int chunk = lane & 7, k = from + 8 * chunk;

#pragma unroll
    for (int r = 0; r < rows; r += ROW_STEP) {
        const int row = r + (lane >> 3);

        if (row < min(rows, exist)) {
            const ulong at = (ulong)(x + (long)row * k_all + min(k, k_all - 8));

            copy_chunk(to + (uint)(row * 128 + ((chunk ^ (row & 7)) << 4)), at, k < k_all);
        }
    }
}

CHARL_INLINE void copy_stage(uint to, global const ACT *a, global const ACT *b, const charl__gemm_args *x, int j0, int from, int lane)
{
#pragma unroll
    for (int s = 0; s < SUBS; s++) {
        copy_rows(to + s * SUB_BYTES, COLUMNS, b + (long)j0 * x->k, x->n - j0, x->k, from + s * BK, lane);
        copy_rows(to + s * SUB_BYTES + COLUMNS * 128, BN, a, x->m, x->k, from + s * BK, lane);
    }
}

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
gemm_few_rows(global const ACT *a, global const ACT *b, global const float *restrict bias, global OUT_T *restrict out EPILOGUE_ARGS(with),
              const charl__gemm_args x)
{
    local uchar stages[LOCAL_DECLARED] __attribute__((aligned(1024)));
    local float *const sums = (local float *)stages; /* [BN][SUMS_PITCH], in the end */
    const uint base = (uint)(ulong)stages;
    const int lane = (int)get_local_id(0), j0 = (int)get_group_id(0) * COLUMNS;
    const int steps = (x.k + SUBS * BK - 1) / (SUBS * BK);
    const epilogue_operands beside = EPILOGUE_OF(with, x);
    uint fill = 0, use = 0; /* offsets of the stages that are copied and used next */
    float c[BN / 2];

    a += x.a;
    b += x.b;
    bias += x.bias;
    out += x.out;
#pragma unroll
    for (int e = 0; e < BN / 2; e++) {
        c[e] = 0.0f;
    }
#pragma nounroll
    for (int t = 0; t < AHEAD; t++) {
        if (t < steps) {
            copy_stage(base + fill, a, b, &x, j0, t * SUBS * BK, lane);
        }
        COMMIT_COPIES;
        fill = AFTER(fill);
    }
#pragma nounroll
    for (int t = 0; t < steps; t++) {
        /* The stage has arrived, and is seen by the instruction; no work-item still reads what is overwritten below. */
        ASM volatile("cp.async.wait_group %0;\nfence.proxy.async.shared::cta;" ::"n"(AHEAD - 1) : "memory");
        ASM volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        ASM volatile("bar.sync 0;" ::: "memory");
#pragma unroll
        for (int s = 0; s < SUBS; s++) {
            const uint at = base + use + s * SUB_BYTES;
            const ulong columns = DESCRIPTOR | (at >> 4), rows = DESCRIPTOR | ((at + COLUMNS * 128) >> 4);

            ASM volatile(WGMMA_STAGE : SUMS(c) : "l"(columns), "l"(rows), "r"(1) : "memory");
        }
        if (t + AHEAD < steps) {
            copy_stage(base + fill, a, b, &x, j0, (t + AHEAD) * SUBS * BK, lane);
        }
        COMMIT_COPIES;
        fill = AFTER(fill);
        use = AFTER(use);
    }
    ASM volatile("wgmma.wait_group.sync.aligned 0;" : SUMS(c)::"memory"); /* names the sums, so that none is read before */
    ASM volatile("bar.sync 0;" ::: "memory");

    const int column = (lane >> 5) * 16 + ((lane & 31) >> 2), row = 2 * (lane & 3);

#pragma unroll
    for (int e = 0; e < BN / 2; e++) { /* c[e] is of column + 8 for e % 4 >= 2, of the odd row for odd e */
        if (column < COLUMNS) {
            sums[(row + e / 4 * 8 + (e & 1)) * SUMS_PITCH + column + (e & 2) * 4] = c[e];
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int e = lane * CHARL_VEC; e < x.m * COLUMNS; e += LANES * CHARL_VEC) {
        const int i = e / COLUMNS, j = j0 + e % COLUMNS;
        const long at = (long)i * x.n + j, left = x.n - j;

        if (left > 0) {
            charl_real sum = CHARL_VLOAD(sums + i * SUMS_PITCH + e % COLUMNS);

            if (BIAS != 0) {
                sum += BIAS == 1 ? charl_load(bias + j, left) : CHARL_SPLAT(bias[i]);
            }
            charl_store(epilogue(sum, &beside, at, left), out + at, left);
        }
    }
}
