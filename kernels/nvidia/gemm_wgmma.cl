/* gemm_wgmma: matrix products of bf16 or f16 on the tensor cores of NVIDIA devices of compute capability 9.0.
 *
 *   out[z][i][j] = bias + sum_k A[z](i, k) * B[z](k, j)         i < m, j < n
 *
 * Specialised by   A_KIND    0 plain a[i * k + l], 1 transposed a[l * m + i]
 *                  B_KIND    0 plain b[l * n + j], 1 transposed b[j * k + l]
 *                  BIAS      0 none, 1 one per column, 2 one per row (and per inner product)
 *                  ACT, IS_F16   element type of A and B: ushort (bf16) and 0, or half and 1; OUT_T that of out
 *                  BN        columns of a tile, 128 or 256
 *                  STAGES    tiles of k in local memory at a time
 *                  OVERLAP   1: the products of a stage are waited for one stage later
 *                  A_BY_16, B_BY_16   1: every row begins at a multiple of 16 bytes and is copied in chunks of them
 *                  OUT_PAIRS 1: n and every product's first element are even
 * Launch           256 work-items per tile of 128 x BN; product z = (outer, inner) starts at outer * x_outer + inner * x_inner.
 * Building         for the target sm_90a and with the local array enlarged to LOCAL_BYTES: charl_launch.local_bytes.
 * Algorithm        copies to local memory run AHEAD stages before the products that read them (cp.async); two groups of four warps
 *                  compute 64 rows each from there, 16 of k per instruction (wgmma), sums in registers. In local memory an operand is
 *                  a row of blocks: 64 rows of 128 bytes, whose chunks of 16 bytes are permuted by the row, as the instruction reads
 *                  them ("128-byte swizzle"). A row is 64 values along the operand's contiguous direction, so each of the four layouts
 *                  is copied as it lies and the instruction is told which direction that is.
 * Numerics         a sum is a chain of instructions in ascending k, each adding 16 products, the last ones 0 beyond k; how an instruction
 *                  adds is the device's affair, but it is the same for every row, column and BN. So the bits of an element depend on its
 *                  row of A, column of B and k alone: not on m, n, its position, the tile, or how the operands are aligned. They are not
 *                  those of the portable kernels. f32 results are rounded once; an infinity or NaN comes out as one.
 */
#ifndef A_KIND
#define A_KIND 0
#endif
#ifndef B_KIND
#define B_KIND 0
#endif
#ifndef BIAS
#define BIAS 0
#endif
#ifndef IS_F16
#define IS_F16 0
#endif
#ifndef OUT_T
#define OUT_T float
#endif
#ifndef BN
#define BN 128
#endif
#ifndef STAGES
#define STAGES 3
#endif
#ifndef OVERLAP
#define OVERLAP 0
#endif
#ifndef A_BY_16
#define A_BY_16 1
#endif
#ifndef B_BY_16
#define B_BY_16 1
#endif
#ifndef OUT_PAIRS
#define OUT_PAIRS 1
#endif

#include "nvidia/wgmma.clh"

#define BM 128
#define BK 64
#define LANES 256
#define A_BLOCKS (BM / 64)
#define B_BLOCKS (BN / 64)
#define STAGE_BYTES ((A_BLOCKS + B_BLOCKS) * BLOCK)
#define LOCAL_BYTES (STAGES * STAGE_BYTES)
#define LOCAL_DECLARED 49152 /* as much as the front end allows */
#define AHEAD (STAGES - 1 - OVERLAP)
#define STRIP 16 /* rows of tiles that go together, so that what runs at a time shares operands in the cache */

/* 16 bytes to local memory: the first `bytes` from `from`, zeros behind them. */
static inline void copy_chunk(uint to, ulong from, uint bytes, const int by_16)
{
    if (by_16) {
        ASM volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
    } else {
        global const ushort *const x = (global const ushort *)from;
        uint w[4];

#pragma unroll
        for (uint i = 0; i < 4; i++) {
            w[i] = bytes > 4 * i ? (uint)x[2 * i] : 0u;
            w[i] |= bytes > 4 * i + 2 ? (uint)x[2 * i + 1] << 16 : 0u;
        }
        ASM volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3])
                     : "memory");
    }
}

/* A work-item's share of one operand's stage: chunk `chunk` of rows row, row + 32 of every block. rows_are_k: a row is 64 of m or n at
 * one k, else 64 of k at one m or n; `left` and `k_left` are what the operand still has from the tile's corner on; step: bytes
 * from a row to the 32nd after it. */
static inline void copy_share(uint to, ulong from, ulong step, int row, int chunk, int left, int k_left, const int blocks,
                              const int rows_are_k, const int by_16)
{
#pragma unroll
    for (int j = 0; j < 2 * blocks; j++) {
        const int r = row + (rows_are_k ? 32 * (j & 1) : 32 * j);
        const int there = rows_are_k ? left - 64 * (j / 2) - 8 * chunk : k_left - 8 * chunk;
        const uint bytes = r < (rows_are_k ? k_left : left) ? 2u * (uint)clamp(there, 0, 8) : 0u;
        const ulong at = rows_are_k ? from + (j & 1) * step + 128 * (ulong)(j / 2) : from + (ulong)j * step;

        copy_chunk(to + (uint)(j / 2 * BLOCK + (j & 1) * (BLOCK / 2)), at, bytes, by_16);
    }
}

CHARL_OVERLOAD void put_pair(float x, float y, global float *p)
{
    *(global float2 *)p = (float2)(x, y);
}

CHARL_OVERLOAD void put_pair(float x, float y, global ushort *p)
{
    uint both;

    ASM("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(y), "f"(x));
    *(global uint *)p = both;
}

CHARL_OVERLOAD void put_pair(float x, float y, global half *p)
{
    uint both;

    ASM("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(y), "f"(x));
    *(global uint *)p = both;
}

/* out[i][j] and out[i][j + 1] */
static inline void store(global OUT_T *out, int i, int j, int m, int n, float x, float y)
{
    global OUT_T *const p = out + (long)i * n + j;

#if OUT_PAIRS
    if (i < m && j < n) {
        put_pair(x, y, p);
    }
#else
    if (i < m && j < n) {
        charl_put(x, p);
    }
    if (i < m && j + 1 < n) {
        charl_put(y, p + 1);
    }
#endif
}

/* What a copy of stage t needs: where this work-item's share is. */
#define COPY(t)                                                                                                        \
    copy_share(mine + (uint)((t) % STAGES) * STAGE_BYTES, from_a, step_a, row, chunk, m - i0, k - (t)*BK, A_BLOCKS,    \
               A_KIND == 1, A_BY_16);                                                                                  \
    copy_share(mine + (uint)((t) % STAGES) * STAGE_BYTES + A_BLOCKS * BLOCK, from_b, step_b, row, chunk, n - j0,       \
               k - (t)*BK, B_BLOCKS, B_KIND == 0, B_BY_16);                                                            \
    from_a += A_KIND == 1 ? 2 * step_a : 2 * BK;                                                                       \
    from_b += B_KIND == 0 ? 2 * step_b : 2 * BK

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
gemm_wgmma(global const ACT *a, ulong a_at, global const ACT *b, ulong b_at, global const float *bias, ulong bias_at,
           global OUT_T *out, ulong out_at, int m, int n, int k, int inner, long a_outer, long a_inner, long b_outer,
           long b_inner, long out_outer, long out_inner)
{
    local uchar stages[LOCAL_DECLARED] __attribute__((aligned(1024)));
    const uint base = (uint)(ulong)stages;
    const int lane = (int)get_local_id(0), chunk = lane & 7, row = lane >> 3, half_tile = lane >> 7;
    const uint mine = base + (uint)(row * 128 + ((chunk ^ (row & 7)) << 4));
    const int rows = (m + BM - 1) / BM, cols = (n + BN - 1) / BN, steps = (k + BK - 1) / BK;
    const long z = (long)get_group_id(0) / ((long)rows * cols), zo = z / inner, zi = z % inner;
    const int at = (int)((long)get_group_id(0) - z * rows * cols), first = at / (STRIP * cols) * STRIP;
    const int high = min(rows - first, STRIP), within = at - first * cols;
    const int i0 = (first + within % high) * BM, j0 = within / high * BN;
    const long lda = A_KIND == 1 ? m : k, ldb = B_KIND == 0 ? n : k;
    const ulong step_a = 64 * (ulong)lda, step_b = 64 * (ulong)ldb;
    ulong from_a = (ulong)(a + a_at + zo * a_outer + zi * a_inner + (A_KIND == 1 ? i0 + row * lda : (i0 + row) * lda) + 8 * chunk);
    ulong from_b = (ulong)(b + b_at + zo * b_outer + zi * b_inner + (B_KIND == 0 ? j0 + row * ldb : (j0 + row) * ldb) + 8 * chunk);
    float c[BN / 2];

    (void)bias, (void)bias_at; /* not every specialisation has one */
#pragma unroll
    for (int i = 0; i < BN / 2; i++) {
        c[i] = 0.0f;
    }
    for (int t = 0; t < AHEAD; t++) {
        if (t < steps) {
            COPY(t);
        }
        ASM volatile("cp.async.commit_group;" ::: "memory");
    }
    for (int t = 0; t < steps; t++) {
        const uint stage = base + (uint)(t % STAGES) * STAGE_BYTES;
        const ulong x = DESCRIPTOR | ((stage + (uint)half_tile * BLOCK) >> 4), y = DESCRIPTOR | ((stage + A_BLOCKS * BLOCK) >> 4);

        /* Stage t has arrived, and is seen by the instruction; nobody reads the stage that is overwritten below any more. */
        ASM volatile("cp.async.wait_group %0;\nfence.proxy.async.shared::cta;" ::"n"(AHEAD - 1) : "memory");
#if !OVERLAP
        ASM volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#endif
        ASM volatile("bar.sync 0;" ::: "memory");
        ASM volatile(WGMMA_64 : SUMS : "l"(x), "l"(y), "r"(1) : "memory");
#if OVERLAP
        ASM volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
#endif
        if (t + AHEAD < steps) {
            COPY(t + AHEAD);
        }
        ASM volatile("cp.async.commit_group;" ::: "memory");
    }
    ASM volatile("wgmma.wait_group.sync.aligned 0;" : SUMS::"memory"); /* names the sums, so that none is read before */

    out += out_at + zo * out_outer + zi * out_inner;
#if BIAS
    bias += bias_at;
#endif
    const int i = i0 + (lane >> 5) * 16 + ((lane & 31) >> 2);
#pragma unroll
    for (int j = 0; j < BN / 8; j++) {
        const int col = j0 + 8 * j + 2 * (lane & 3);
        float4 sum = (float4)(c[4 * j], c[4 * j + 1], c[4 * j + 2], c[4 * j + 3]);

#if BIAS == 1
        sum.xz += col < n ? bias[col] : 0.0f;
        sum.yw += col + 1 < n ? bias[col + 1] : 0.0f;
#elif BIAS == 2
        sum.xy += i < m ? bias[zi * m + i] : 0.0f;
        sum.zw += i + 8 < m ? bias[zi * m + i + 8] : 0.0f;
#endif
        store(out, i, col, m, n, sum.x, sum.y);
        store(out, i + 8, col, m, n, sum.z, sum.w);
    }
}
