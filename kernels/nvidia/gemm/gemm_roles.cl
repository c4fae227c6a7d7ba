/* gemm_roles: the products of gemm_wgmma.cl with its bits, in tiles of 128 x 256, by work-groups whose warps have different tasks.
 *
 * Specialised by   as gemm_wgmma.cl, with BN 256, and
 *                  SPLIT       1: the last tiles are shared out in equal parts: see tile_order.clh
 *                  WHOLE_ROWS  1: out, of a half type, is stored through local memory: see tile_rows.clh; not with A_SUMS
 *                  ROWS_BY_16  with it, 1: every row of out begins at a multiple of 16 bytes
 *                  EDGE        64 or 128: the last tile of a row has so many columns, of which only the last ones are not there; only those are
 *                              copied and multiplied
 *                  LEVELS      > 0: out is the sum over 2^LEVELS products, in the fixed tree: see roles_fold.clh; `inner` is 1, there is no
 *                              EXPR, no SPLIT and no WHOLE_ROWS
 *                  LOCAL_LEVEL 1: with LEVELS, A_KIND 1 and B_KIND 0: the nodes of one leaf are in local memory, and a stage is 32 of k
 * Launch           groups of 384 work-items, one per compute unit or fewer, which share the tiles out as they go: see
 *                  roles_deal.clh. The word COUNT of `split_k` is 0 before and after. Rows of both operands begin at multiples of 16 bytes; k > 0.
 * Building         for the target sm_90a: charl__launch.sm90a.min_blocks 1, shared_bytes LOCAL_BYTES + WORDS_BYTES, with WHOLE_ROWS
 *                  8 * ROWS_BYTES more, with LOCAL_LEVEL 4 * LEVEL more.
 * Algorithm        gemm_wgmma.cl's, but eight warps do nothing but multiply and store, 64 rows per four. Of four others one starts the copies, by one work-item
 *                  and as many stages ahead as there are, and three add up A where that is wanted. An instruction of the
 *                  tensor cores holds its warp up until those before it have begun, so warps that multiply do nothing else (warp
 *                  specialisation, as in CUTLASS). Stages change hands by two words each: roles.clh.
 * Numerics         as gemm_wgmma.cl.
 */
#define ROWS_BY_16 1
#define BN 256
#define STAGES 4
#define EDGE 0
#define LEVELS 0
#define LOCAL_LEVEL 0
#define BK (LOCAL_LEVEL ? 32 : 64)

#include "nvidia/gemm/tile_parameters.clh"
#include "gemm/gemm_args.h"
#include "gemm/gemm_epilogue.clh"
#include "nvidia/ptx/wgmma.clh"
#include "nvidia/ptx/warp.clh"
#include "nvidia/ptx/tensor_map.clh"
#include "nvidia/gemm/tile_store.clh"
#include "nvidia/gemm/tile_rows.clh"
#include "nvidia/gemm/roles.clh"
#include "nvidia/gemm/wgmma_stages.clh"

#define WARPS_HAVE_ROLES
#define OTHERS 128 /* work-items that do not multiply: */
#define ADDERS 96  /* three warps add up A where that is wanted, */
#define COPIER 96  /* and of the fourth one work-item copies */
/* 384 work-items begin with 168 registers each; two of the three groups of four warps get more once the third has returned some: 2 x + y <= 504. */
#define LANES_REGISTERS "216"
#define OTHERS_REGISTERS "72"
#define IS_EDGE(n, j) (EDGE > 0 && (n) - (j) <= EDGE)
#if EDGE > 0
#define MULTIPLY WGMMA_STAGE_OR_EDGE
#else
#define MULTIPLY WGMMA_STAGE
#endif
#define BARRIER(lane) ASM volatile("bar.sync %0, 128;" ::"r"(1 + (lane >> 7)) : "memory") /* of four warps that multiply */
#define WORDS_BYTES 512 /* of stages, 64, DEALS_BYTES, and two maps */
#define FULL(base, s) (base + LOCAL_BYTES + 8 * (s))
#define FREE(base, s) (base + LOCAL_BYTES + 8 * STAGES + 8 * (s))
#define LOCAL_MAPS(base) (base + LOCAL_BYTES + 256)
#define BEHIND_WORDS(base) (base + LOCAL_BYTES + WORDS_BYTES)
#define WARP_ROWS(base, lane) (BEHIND_WORDS(base) + (uint)(lane >> 5) * ROWS_BYTES) /* never with A_SUMS */
#include "nvidia/gemm/tile_order.clh"
#include "nvidia/gemm/roles_fold.clh"
#include "nvidia/gemm/roles_deal.clh"
#include "nvidia/gemm/roles_copy.clh"
#include "nvidia/gemm/tile_epilogue.clh"
#include "nvidia/gemm/tile_end.clh"
#include "nvidia/gemm/roles_sums.clh"

kernel __attribute__((reqd_work_group_size(LANES + OTHERS, 1, 1))) void
gemm_roles(global const ACT *a, global const ACT *b, global const float *restrict bias, global OUT_T *restrict out EPILOGUE_ARGS(with),
           const charl__gemm_args x, global float *a_sums, global float *split_k, global float *levels)
{
    local uchar stages[LOCAL_DECLARED] __attribute__((aligned(1024)));
    const uint base = (uint)(ulong)stages, deals = base + LOCAL_BYTES + 16 * STAGES;
    const product p = product_of(&x);
    const epilogue_operands beside = EPILOGUE_OF(with, x);

    if (get_local_id(0) == 0) {
        for (uint s = 0; s < STAGES; s++) {
            begin_phases(FULL(base, s), 1);
            begin_phases(FREE(base, s), (LANES + A_SUMS * ADDERS) / 32);
        }
        for (uint i = 0; i < DEALS; i++) {
            begin_phases(DEALT(deals, i), 1);
        }
        ASM volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    ASM volatile("bar.sync 0;" ::: "memory");
    if (warp_number() >= LANES / 32) {
        const int lane = (int)get_local_id(0) - LANES;

        ASM volatile("setmaxnreg.dec.sync.aligned.u32 " OTHERS_REGISTERS ";");
        if (warp_number() == (LANES + COPIER) / 32) {
            const bool is_a = lane == COPIER;

            if (lane < COPIER + 2) {
                make_map(LOCAL_MAPS(base) + MAP_BYTES * (uint)(lane - COPIER),
                         is_a ? map_of((ulong)(a + x.a), A_KIND == 1, x.m, x.k, x.a_pitch, x.a_inner, x.a_outer)
                              : map_of((ulong)(b + x.b), B_KIND == 0, x.n, x.k, x.b_pitch, x.b_inner, x.b_outer),
                         64, is_a ? BOX_Y(A_KIND == 1) : BOX_Y(B_KIND == 0), 1, IS_F16);
            }
            WARP_BARRIER;
            publish_map(A_MAP(MAPS(split_k)), LOCAL_MAPS(base));
            publish_map(B_MAP(MAPS(split_k)), LOCAL_MAPS(base) + MAP_BYTES);
            if (lane == COPIER) {
                copying next = {.maps = MAPS(split_k),
                             .a_inner = x.a_inner != 0,
                             .a_outer = x.a_outer != 0,
                             .b_inner = x.b_inner != 0,
                             .b_outer = x.b_outer != 0,
                             .base = base};
                dealing d = {.count = COUNT(split_k), .deals = deals, .leaf = -1};

                copy_all(&p, &next, &d);
            }
        }
#if A_SUMS
        else {
            add_up_a(&p, a_sums + x.a_sums, deals, split_k, base, lane);
        }
#endif
        (void)a_sums;
    } else {
        const int lane = (int)get_local_id(0);
        uint use = 0, use_parity = 0; /* the stage that is used next, and its parity */
        float c[BN / 2];

        ASM volatile("setmaxnreg.inc.sync.aligned.u32 " LANES_REGISTERS ";");
        bias += x.bias;
        out += x.out;
        for (int q = 0;; q++) {
            const piece now = piece_dealt(deals, q);
            uint last = STAGES;
            const int is_edge = IS_EDGE(p.n, place_of(&p, now.tile).j);

            if (now.tile < 0) {
                break;
            }

            prefetch_beside(&p, now, &beside, lane);
            begin_sums(now, c, split_k, lane);
#pragma nounroll
            for (int t = now.from; t < now.to; t++) {
                const ulong rows = ROWS_AT(base + use * STAGE_BYTES, lane), columns = COLUMNS_AT(base + use * STAGE_BYTES);

                wait_phase(FULL(base, use), use_parity);
                ASM volatile(MULTIPLY : SUMS(c) : "l"(rows), "l"(columns), "r"(1), "r"(is_edge) : "memory");
                ASM volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory"); /* the stage before is read */
                if (last < STAGES && (lane & 31) == 0) {
                    arrive(FREE(base, last));
                }
                last = use;
                use_parity ^= use == STAGES - 1;
                use = use == STAGES - 1 ? 0 : use + 1;
            }
            ASM volatile("wgmma.wait_group.sync.aligned 0;" : SUMS(c)::"memory"); /* names the sums, so that none is read before */
            if ((lane & 31) == 0) {
                arrive(FREE(base, last));
            }
            if (!pass_sums_on(&p, now, c, split_k, lane) && fold_leaf(&p, now, c, levels + x.levels, base, lane)) {
                end_tile(&p, place_of(&p, sum_of(&p, now.tile)), c, bias, &beside, out, WARP_ROWS(base, lane), lane);
            }
        }
    }
}
