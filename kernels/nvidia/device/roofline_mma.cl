/* roofline_mma: what the tensor cores of compute capability 8.0 and higher can do, operands in registers and nothing to copy. The
 * yardstick of benchmarks.
 *
 * Specialised by   SIZE, IS_F16  as gemm_mma.cl
 * Launch           groups of 256 work-items: each of eight warps makes 8 products of 16 x 8 by 32 / SIZE `rounds` times, so a group
 *                  does 2 * 8 * 8 * 16 * 8 * 32 / SIZE * rounds flop. Operands are random in [-1, 1). Each work-item writes the sum
 *                  of its results.
 */
#define SIZE 2
#define IS_F16 0

#include "nvidia/ptx/warp.clh"
#include "nvidia/ptx/local.clh"
#include "nvidia/ptx/mma.clh"

#define LANES 256
#define PRODUCTS 8 /* that do not wait for each other */

/* 4 bytes of values of [-1, 1) as the operands have them. */
static inline uint random_word(uint position)
{
    uint w[4] = {position, 0, 0, 0};

    charl_philox(w, 1, 2);
    const float x = (float)(int)w[0] * 0x1p-31f, y = (float)(int)w[1] * 0x1p-31f;

    return SIZE == 4 ? as_tf32(as_uint(x)) : IS_F16 ? pack(x, y, (global const half *)0) : pack(x, y, (global const ushort *)0);
}

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void roofline_mma(global float *out, ulong out_at, int rounds)
{
    const uint first = (uint)get_global_id(0) * 32;
    const uint4 a = (uint4)(random_word(first), random_word(first + 1), random_word(first + 2), random_word(first + 3));
    uint b[2 * PRODUCTS];
    float c[4 * PRODUCTS], sum = 0.0f;

#pragma unroll
    for (int i = 0; i < 2 * PRODUCTS; i++) {
        b[i] = random_word(first + 4 + i);
        c[2 * i] = c[2 * i + 1] = 0.0f;
    }
#pragma nounroll
    for (int r = 0; r < rounds; r++) {
#pragma unroll
        for (int i = 0; i < PRODUCTS; i++) {
            multiply(c + 4 * i, a, b[2 * i], b[2 * i + 1]);
        }
    }
#pragma unroll
    for (int i = 0; i < 4 * PRODUCTS; i++) {
        sum += c[i];
    }
    out[out_at + get_global_id(0)] = sum;
}
