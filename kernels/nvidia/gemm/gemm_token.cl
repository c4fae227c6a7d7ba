/* gemm_token: products of few rows with weights that do not change, as a language model computes them for each token that it generates, on devices
 * of compute capability 9.0: reading the weights takes all the time.
 *
 *   out[i][j] = bias + sum_k A(i, k) * B(k, j)         i < m, j < n; A is plain, B transposed: both are contiguous along k
 *
 * Specialised by   BN        rows of A of a group: 8, 16, 32 or 64
 *                  AHEAD     steps whose weights a work-item has in registers
 *                  ACT, IS_F16, OUT_T, BIAS, EXPR   as in gemm_wgmma.cl
 * Launch           groups of 256 work-items, by 16 columns, rows. Operands and their rows begin at multiples of 16 bytes. No launch that may still run
 *                  writes B or the bias: they are read before earlier launches have ended.
 * Algorithm        every eighth step of 64 of k belongs to the same warp. The instruction's 16 rows are columns of B, its columns are rows of A. Within 32
 *                  of k a lane has 8 that are contiguous in memory: which of them an instruction multiplies does not matter, so operands go
 *                  from memory to registers in pieces of 16 bytes. In the end the sums of the warps are added through local memory.
 * Numerics         eight chains of instructions, added as a tree. The bits of an element depend on its row of A, its column of B and k alone;
 *                  they are not those of the other kernels.
 */
#define BN 8
#define AHEAD 2
#define BIAS 0
#define IS_F16 0
#define OUT_T float
#define SIZE 2 /* bytes of an element, for mma.clh */

#include "gemm/gemm_args.h"
#include "gemm/gemm_epilogue.clh"
#include "nvidia/ptx/warp.clh"
#include "nvidia/ptx/copy.clh"
#include "nvidia/ptx/local.clh"
#include "nvidia/ptx/mma.clh"

#define WARPS 8
#define LANES (32 * WARPS)
#define STEP 64
#define COLUMNS 16
#define PITCH (COLUMNS + 1) /* of sums in local memory */
#define TILES (BN / 8)

/* A lane's part of a step: pieces of columns l / 4 and l / 4 + 8, and of row l / 4 of the first tile of A; each at 8 (l % 4) of k, and
 * 32 further on. */
typedef struct {
    uint4 low[2], high[2], row[2];
} pieces;

/* What a lane reads. */
typedef struct {
    ulong low, high;     /* columns */
    global const ACT *a; /* row l / 4 of the group's first tile */
    int k, k_all;        /* of the warp's first step */
    int rows;            /* from that row on */
} operands;

/* Weights of the warp's t-th step. */
CHARL_INLINE void read_weights(pieces *s, const operands *o, int t)
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int k = o->k + t * WARPS * STEP + 32 * h;

        s->low[h] = read_once(o->low + 2 * (ulong)k, k < o->k_all);
        s->high[h] = read_once(o->high + 2 * (ulong)k, k < o->k_all);
    }
}

/* A's pieces of a tile, for that step. */
CHARL_INLINE void read_row(uint4 *row, const operands *o, int tile, int t)
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int k = o->k + t * WARPS * STEP + 32 * h;
        const bool exists = 8 * tile < o->rows && k < o->k_all;

        row[h] = exists ? *(global const uint4 *)(o->a + (long)(8 * tile) * o->k_all + k) : (uint4)(0);
    }
}

CHARL_INLINE void add_products(float *c, const pieces *s, const uint4 *row)
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const uint4 low = s->low[h], high = s->high[h];

        multiply(c, (uint4)(low.x, high.x, low.y, high.y), row[h].x, row[h].y);
        multiply(c, (uint4)(low.z, high.z, low.w, high.w), row[h].z, row[h].w);
    }
}

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
gemm_token(global const ACT *a, global const ACT *b, global const float *restrict bias, global OUT_T *restrict out EPILOGUE_ARGS(with),
           const charl__gemm_args x)
{
    local float sums[WARPS * 8 * PITCH];
    const int item = (int)get_local_id(0), lane = item & 31, warp = item >> 5;
    const int across = (x.n + COLUMNS - 1) / COLUMNS, group = (int)get_group_id(0);
    const int i0 = group / across * BN, j0 = group % across * COLUMNS, j = j0 + (lane >> 2);
    const int steps = (x.k + STEP - 1) / STEP, mine = (steps - warp + WARPS - 1) / WARPS;
    const int i_own = item * CHARL_VEC / COLUMNS, j_own = j0 + item * CHARL_VEC % COLUMNS; /* of a tile, in the end */
    const epilogue_operands beside = EPILOGUE_OF(with, x);
    charl_real bias_own = CHARL_SPLAT(0.0f);
    float c[TILES][4];
    pieces s[AHEAD];
    operands o = {.a = a + x.a + (long)(i0 + (lane >> 2)) * x.k, .k = warp * STEP + 8 * (lane & 3), .k_all = x.k,
                  .rows = x.m - i0 - (lane >> 2)};

    charl_begin_next();
    out += x.out;
    o.low = (ulong)(b + x.b + (long)min(j, x.n - 1) * x.k);
    o.high = (ulong)(b + x.b + (long)min(j + 8, x.n - 1) * x.k);
#pragma unroll
    for (int e = 0; e < 4 * TILES; e++) {
        c[e / 4][e % 4] = 0.0f;
    }
#pragma unroll
    for (int t = 0; t < AHEAD; t++) {
        read_weights(&s[t], &o, t);
    }
    if (BIAS != 0 && j_own < x.n) {
        bias_own = charl_load(bias + x.bias + j_own, x.n - j_own);
    }
    charl_await_earlier();
#pragma unroll
    for (int t = 0; t < AHEAD; t++) {
        read_row(s[t].row, &o, 0, t);
    }
#pragma nounroll
    for (int first = 0; first < mine; first += AHEAD) {
#pragma unroll
        for (int t = 0; t < AHEAD; t++) { /* beyond the last step, of zeros */
            add_products(c[0], &s[t], s[t].row);
#pragma unroll
            for (int tile = 1; tile < TILES; tile++) {
                uint4 row[2];

                read_row(row, &o, tile, first + t);
                add_products(c[tile], &s[t], row);
            }
            read_weights(&s[t], &o, first + t + AHEAD);
            read_row(s[t].row, &o, 0, first + t + AHEAD);
        }
    }
#pragma unroll
    for (int tile = 0; tile < TILES; tile++) {
        if (i0 + 8 * tile < x.m) {
            const int i = i0 + 8 * tile + i_own;
            local float *own = sums + (warp * 8 + 2 * (lane & 3)) * PITCH + (lane >> 2);

            own[0] = c[tile][0];
            own[PITCH] = c[tile][1]; /* of the next row */
            own[8] = c[tile][2];     /* of column + 8 */
            own[8 + PITCH] = c[tile][3];
            barrier(CLK_LOCAL_MEM_FENCE);
            if (i_own < 8 && i < x.m && j_own < x.n) {
                const long at = (long)i * x.n + j_own, left = x.n - j_own;
                charl_real part[WARPS], sum;

#pragma unroll
                for (int w = 0; w < WARPS; w++) {
                    part[w] = CHARL_VLOAD(sums + (w * 8 + i_own) * PITCH + j_own - j0);
                }
                sum = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
                if (BIAS != 0) {
                    sum += bias_own;
                }
                charl_store(epilogue(sum, &beside, at, left), out + at, left);
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
}
