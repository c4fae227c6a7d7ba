/* gemm_digits_wgmma: the products of gemm_digits.cl, with its bits, on the tensor cores of NVIDIA devices of compute capability 9.0.
 *
 * Specialised by   BIAS, OUT_T, OUT_BY_8, OUT_BY_16, EXPR   as gemm_wgmma.cl; DIGITS as gemm_digits.cl
 * Arguments        as gemm_digits.cl, and `split_k`, whose maps it uses.
 * Launch           groups of 384 work-items, at most one per compute unit and MOST_GROUPS: group g computes tiles g, g + groups, ... of 128 x 128.
 * Building         for the target sm_90a: charl__launch.sm90a.min_blocks 1, shared_bytes LOCAL_BYTES + WORDS_BYTES.
 * Algorithm        roles as in gemm_roles.cl. A stage is BK of k of all digits of 128 rows and 128 columns, so that a digit that is copied once
 *                  is multiplied several times: digits_sums.clh.
 */
#define DIGITS 4
#define SPLIT 0
#define WHOLE_ROWS 0
#define BN 128
#define BK 64
#define STAGES (12 / DIGITS)
#define A_SUMS 0

#include "nvidia/gemm/tile_parameters.clh"
#include "gemm/gemm_args.h"
#include "gemm/gemm_epilogue.clh"
#include "integer/digits.clh"
#include "nvidia/ptx/warp.clh"
#include "nvidia/ptx/tensor_map.clh"
#include "nvidia/gemm/tile_store.clh"
#include "nvidia/gemm/roles.clh"

#define BM 128
#define LANES 256  /* that multiply, */
#define OTHERS 128 /* and others, one of which copies */
#define LANES_REGISTERS "240"
#define OTHERS_REGISTERS "24"
#define WARPS_HAVE_ROLES
#define LOCAL_DECLARED 49152
#define WORDS_BYTES 512
#define MAPS(split_k) ((ulong)(split_k + WORDS) + 256 * get_group_id(0)) /* of this group */
#define BARRIER(lane) ASM volatile("bar.sync %0, 128;" ::"r"(1 + (lane >> 7)) : "memory")
#include "nvidia/gemm/tile_order.clh"
#include "nvidia/gemm/tile_epilogue.clh"
#include "nvidia/gemm/tile_end.clh"
#include "nvidia/gemm/digits_sums.clh"

/* What one work-item does: it has the copy engine fill the stages of all tiles of the group. The last digit has no part in the second pass. */
CHARL_INLINE void copy_all(const product *p, ulong maps, uint base, bool shares_a, bool shares_b)
{
    uint stage = 0, parity = 1;

    for (int q = 0; q < pieces_of(p); q++) {
        const place corner = place_of(p, piece_of(p, q).tile);
        const int a_matrix = shares_a ? 0 : corner.outer, b_matrix = shares_b ? 0 : corner.outer;

        for (int turn = 0; turn < PASSES * p->steps; turn++) {
            const bool second = turn >= p->steps;
            const int k = (second ? turn - p->steps : turn) * BK;
            const int digits = second ? DIGITS - 1 : DIGITS;
            const uint word = FULL(base, stage), first = base + stage * STAGE_BYTES;

            wait_phase(FREE(base, stage), parity);
            arrive_expecting(word, (uint)digits * (A_BYTES + B_BYTES));
            for (int d = 0; d < digits; d++) {
                copy_box(first + d * A_BYTES, maps, k / 2, corner.i, d, a_matrix, word);
                copy_box(first + DIGITS * A_BYTES + d * B_BYTES, maps + MAP_BYTES, k / 2, corner.j, d, b_matrix, word);
            }
            parity ^= stage == STAGES - 1;
            stage = stage == STAGES - 1 ? 0 : stage + 1;
        }
    }
}

static inline matrix_map map_of(ulong digits, int rows, int pitch, long outer)
{
    const matrix_map m = {digits, (ulong)pitch, (ulong)rows * (ulong)pitch, outer ? (ulong)outer : 16, (uint)pitch / 2, (uint)rows, ANY_NUMBER};

    return m;
}

static inline int scale_at(global const int *scales, int matrix, int rows, int row)
{
    return row < rows ? scales[(long)matrix * rows + row] : 0;
}

kernel __attribute__((reqd_work_group_size(LANES + OTHERS, 1, 1))) void
gemm_digits_wgmma(global const uchar *a, global const uchar *b, global const float *restrict bias, global OUT_T *restrict out EPILOGUE_ARGS(with),
                  const charl__gemm_args x, global float *split_k)
{
    local uchar stages[LOCAL_DECLARED] __attribute__((aligned(1024)));
    const uint base = (uint)(ulong)stages;
    const product p = product_of(&x);

    if (get_local_id(0) == 0) {
        for (uint s = 0; s < STAGES; s++) {
            begin_phases(FULL(base, s), 1);
            begin_phases(FREE(base, s), LANES / 32);
        }
        ASM volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    ASM volatile("bar.sync 0;" ::: "memory");
    if (warp_number() >= LANES / 32) {
        const int lane = (int)get_local_id(0) - LANES;

        ASM volatile("setmaxnreg.dec.sync.aligned.u32 " OTHERS_REGISTERS ";");
        if (warp_number() == LANES / 32) {
            if (lane < 2) {
                make_map(LOCAL_MAPS(base) + MAP_BYTES * (uint)lane,
                         lane == 0 ? map_of((ulong)(a + x.a + x.a_inner), x.m, x.a_pitch, x.a_outer)
                                   : map_of((ulong)(b + x.b + x.b_inner), x.n, x.b_pitch, x.b_outer),
                         BK / 2, BM, 1, 0);
            }
            ASM volatile("bar.warp.sync 0xffffffff;" ::: "memory");
            publish_map(MAPS(split_k), LOCAL_MAPS(base));
            publish_map(MAPS(split_k) + MAP_BYTES, LOCAL_MAPS(base) + MAP_BYTES);
            if (lane == 0) {
                copy_all(&p, MAPS(split_k), base, x.a_outer == 0, x.b_outer == 0);
            }
        }
    } else {
        const int lane = (int)get_local_id(0);
        const epilogue_operands beside = EPILOGUE_OF(with, x);
        turn t = {0, 0, STAGES};
        int c0[64], c1[64], c2[64];

        ASM volatile("setmaxnreg.inc.sync.aligned.u32 " LANES_REGISTERS ";");
        bias += x.bias;
        out += x.out;
        for (int q = 0; q < pieces_of(&p); q++) {
            const piece now = piece_of(&p, q);
            const place tile = place_of(&p, now.tile);
            const int row = tile.i + (lane >> 5) * 16 + ((lane & 31) >> 2), a_matrix = x.a_outer == 0 ? 0 : tile.outer;
            const int upper = scale_at((global const int *)(a + x.a), a_matrix, p.m, row);
            const int lower = scale_at((global const int *)(a + x.a), a_matrix, p.m, row + 8);
            float c[64];

            prefetch_beside(&p, now, &beside, lane);
            multiply_tile(&t, base, lane, p.steps, c0, c1, c2);
#pragma unroll
            for (int i = 0; i < 64; i++) {
                const int column = tile.j + i / 4 * 8 + (lane & 3) * 2 + (i & 1);
                const int scale = scale_at((global const int *)(b + x.b), x.b_outer == 0 ? 0 : tile.outer, p.n, column);

                c[i] = sum_of_digits(c0[i], c1[i], c2[i], i & 2 ? lower : upper, scale);
            }
            end_tile(&p, tile, c, bias, &beside, out, 0, lane);
        }
    }
}
