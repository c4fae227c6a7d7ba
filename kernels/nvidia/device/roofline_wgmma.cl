/* roofline_wgmma: what the tensor cores of compute capability 9.0 can do, operands in local memory and nothing to copy. The yardstick
 * of benchmarks.
 *
 * Specialised by   IS_F16  1: f16, 0: bf16
 * Launch           groups of 256 work-items: two of four warps multiply 64 x 256 x 64 `rounds` times each, so a group does
 *                  2 * 2 * 64 * 256 * 64 * rounds flop. Operands are random in [-1, 1), as power, and with it the clock, depends on
 *                  what is multiplied. Each work-item writes the sum of its results.
 * Building         as gemm_wgmma.cl: sm90a.shared_bytes of at least LOCAL_DECLARED.
 */
#define IS_F16 0
#define A_KIND 0
#define B_KIND 1
#define BN 256

#include "nvidia/ptx/wgmma.clh"

#define LANES 256
#define LOCAL_DECLARED 49152 /* two blocks of A, four of B */

/* Two values of [-1, 1) as the operands have them. */
static inline uint random_pair(uint position)
{
    uint w[4] = {position, 0, 0, 0}, both;

    charl_philox(w, 1, 2);
    ASM("cvt.rn." TYPE "x2.f32 %0, %1, %2;"
        : "=r"(both)
        : "f"((float)(int)w[0] * 0x1p-31f), "f"((float)(int)w[1] * 0x1p-31f));
    return both;
}

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void roofline_wgmma(global float *out, ulong out_at, int rounds)
{
    local uint blocks[LOCAL_DECLARED / 4] __attribute__((aligned(1024)));
    const uint base = (uint)(ulong)blocks;
    const int lane = (int)get_local_id(0);
    const ulong x = DESCRIPTOR | ((base + (uint)(lane >> 7) * BLOCK) >> 4);
    const ulong y = DESCRIPTOR | ((base + 2 * BLOCK) >> 4);
    float c[BN / 2], sum = 0.0f;

    for (int i = lane; i < LOCAL_DECLARED / 4; i += LANES) {
        blocks[i] = random_pair((uint)i);
    }
#pragma unroll
    for (int i = 0; i < BN / 2; i++) {
        c[i] = 0.0f;
    }
    ASM volatile("fence.proxy.async.shared::cta;\nbar.sync 0;" ::: "memory");
#pragma nounroll
    for (int r = 0; r < rounds; r++) {
        ASM volatile(WGMMA_STAGE : SUMS(c) : "l"(x), "l"(y), "r"(1) : "memory");
        ASM volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    }
    ASM volatile("wgmma.wait_group.sync.aligned 0;" : SUMS(c)::"memory");
#pragma unroll
    for (int i = 0; i < BN / 2; i++) {
        sum += c[i];
    }
    out[out_at + get_global_id(0)] = sum;
}
