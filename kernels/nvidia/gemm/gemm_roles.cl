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
 *                  roles_deal.clh. The word COUNT of `split_k` is 0 before and after.
 * Building         for the target sm_90a: charl__launch.sm90a.min_blocks 1, shared_bytes LOCAL_BYTES + WORDS_BYTES, with WHOLE_ROWS
 *                  8 * ROWS_BYTES more, with LOCAL_LEVEL 4 * LEVEL more.
 * Algorithm        gemm_wgmma.cl's, but the last four warps copy, as far ahead as there are stages, and add up A where that is wanted, while
 *                  the others multiply and store, 64 rows per four warps. An instruction of the tensor cores holds its warp up until those
 *                  before it have begun, so warps that multiply do nothing else (warp specialisation, as in CUTLASS). Stages change hands
 *                  by two words each: roles.clh.
 * Numerics         as gemm_wgmma.cl.
 */
#ifndef ROWS_BY_16
#define ROWS_BY_16 1
#endif
#ifndef BN
#define BN 256
#endif
#ifndef STAGES
#define STAGES 4
#endif
#ifndef EDGE
#define EDGE 0
#endif
#ifndef LEVELS
#define LEVELS 0
#endif
#ifndef LOCAL_LEVEL
#define LOCAL_LEVEL 0
#endif
#define BK (LOCAL_LEVEL ? 32 : 64)

#include "nvidia/gemm/tile_parameters.clh"
#include "gemm/gemm_epilogue.clh"
#include "nvidia/ptx/wgmma.clh"
#include "nvidia/ptx/copy.clh"
#include "nvidia/ptx/warp.clh"
#include "nvidia/gemm/tile_store.clh"
#include "nvidia/gemm/tile_rows.clh"
#include "nvidia/gemm/roles.clh"
#include "nvidia/gemm/wgmma_stages.clh"

#define WARPS_HAVE_ROLES
#define COPIERS 128
#define AHEAD (STAGES - 1)
#define ALL_BY_16 (A_BY_16 && B_BY_16)
/* 384 work-items begin with 168 registers each; two of three may have more when the third has given theirs back: 2 x + y <= 504. */
#if A_SUMS || !ALL_BY_16
#define LANES_REGISTERS "200"
#define COPIERS_REGISTERS "104"
#else
#define LANES_REGISTERS "208"
#define COPIERS_REGISTERS "88"
#endif
#define COPY_ROWS (COPIERS / 8)
#if EDGE > 0
#define IS_EDGE(n, j) (n - (j) <= EDGE)
#define MULTIPLY WGMMA_STAGE_OR_EDGE
#else
#define IS_EDGE(n, j) 0
#define MULTIPLY WGMMA_STAGE
#endif
#define BARRIER(lane) ASM volatile("bar.sync %0, 128;" ::"r"(1 + (lane >> 7)) : "memory") /* of four warps that multiply */
#define COPIERS_BARRIER ASM volatile("bar.sync 3, 128;" ::: "memory")
#define WORDS_BYTES 256 /* of stages, 64, and DEALS_BYTES */
#define FULL(base, s) (base + LOCAL_BYTES + 8 * (s))
#define FREE(base, s) (base + LOCAL_BYTES + 8 * STAGES + 8 * (s))
#define WARP_ROWS(base, lane) (base + LOCAL_BYTES + WORDS_BYTES + (uint)(lane >> 5) * ROWS_BYTES) /* never with A_SUMS */
#include "nvidia/gemm/tile_copy.clh"
#include "nvidia/gemm/roles_copy.clh"
#include "nvidia/gemm/tile_order.clh"
#include "nvidia/gemm/roles_fold.clh"
#include "nvidia/gemm/roles_deal.clh"
#include "nvidia/gemm/tile_epilogue.clh"
#include "nvidia/gemm/tile_end.clh"
#include "nvidia/gemm/roles_sums.clh"

/* Copies the next stage, in the order of the pieces that this group is dealt, to stage `fill`, and advances; nothing once is_more is false. The dealer
 * deals when at most one more stage of the piece is left. dealt: pieces that are dealt; coming: the piece whose copying begins next; k_left: of the one
 * before it; corner: of its tile. Of operand a: its address in memory, a_outer, a_inner and a_pitch, and this work-item's chunks, chunks_a for a
 * `chunks` of that name; b likewise. */
#define COPY_NEXT(a, b, m, n, k, inners, steps, tiles, rounds, split_k, deals, leaf, dealt, coming, is_more, k_left, corner, chunks, fill, fill_parity, \
                  mine, base, row, chunk, lane)                                                                        \
    if (lane == 0 && k_left <= BK && dealt == coming && is_more) {                                                     \
        dealt = DEAL_MORE(deals, dealt, split_k, leaf, steps, tiles, rounds, m, n);                                    \
    }                                                                                                                  \
    if (k_left <= 0 && is_more) {                                                                                      \
        const piece next = piece_dealt(deals, coming++);                                                               \
                                                                                                                       \
        is_more = next.tile >= 0;                                                                                      \
        if (is_more) {                                                                                                 \
            k_left = min(k - next.from * BK, (next.to - next.from) * BK);                                              \
            corner = place_of(next.tile, m, n, inners);                                                                \
            FIND_A(chunks##_a, (ulong)(a + corner.outer * a##_outer + corner.inner * a##_inner), next.from, corner, m, a##_pitch, row, chunk); \
            FIND_B(chunks##_b, (ulong)(b + corner.outer * b##_outer + corner.inner * b##_inner), next.from, corner, n, b##_pitch, row, chunk); \
        }                                                                                                              \
    }                                                                                                                  \
    if (is_more) {                                                                                                     \
        wait_phase(FREE(base, fill), fill_parity ^ 1);                                                                 \
        COPY_A(mine + fill * STAGE_BYTES, chunks##_a, corner, m, k_left, row, chunk);                                  \
        COPY_B(mine + fill * STAGE_BYTES + A_BLOCKS * BLOCK, chunks##_b, corner, n, k_left, row, chunk);               \
        k_left -= BK;                                                                                                  \
        arrive_with_copies(FULL(base, fill));                                                                          \
        if (!ALL_BY_16) {                                                                                              \
            arrive(FULL(base, fill));                                                                                  \
        }                                                                                                              \
        fill_parity ^= fill == STAGES - 1;                                                                             \
        fill = fill == STAGES - 1 ? 0 : fill + 1;                                                                      \
    }

kernel __attribute__((reqd_work_group_size(LANES + COPIERS, 1, 1))) void
gemm_roles(global const ACT *a, ulong a_at, global const ACT *b, ulong b_at, global const float *restrict bias,
           ulong bias_at, global OUT_T *restrict out, ulong out_at, int m, int n, int k, int a_pitch, int b_pitch,
           int inner, int tiles, long a_outer, long a_inner, long b_outer, long b_inner, long out_outer,
           long out_inner EPILOGUE_ARGS(with, record, draw) A_SUMS_ARGS(a_sums) TILE_ARGS(rounds, split_k) FOLD_ARGS(levels))
{
    local uchar stages[LOCAL_DECLARED] __attribute__((aligned(1024)));
    const uint base = (uint)(ulong)stages, deals = base + LOCAL_BYTES + 16 * STAGES;
    const int steps = max((k + BK - 1) / BK, 1);
    uint use = 0, use_parity = 0; /* the stage that is used next, and its parity */

    if (get_local_id(0) == 0) {
        for (uint s = 0; s < STAGES; s++) {
            begin_phases(FULL(base, s), ALL_BY_16 ? COPIERS : 2 * COPIERS);
            begin_phases(FREE(base, s), LANES / 32 + (A_SUMS ? COPIERS / 32 : 0));
        }
        for (uint i = 0; i < DEALS; i++) {
            begin_phases(DEALT(deals, i), 1);
        }
        ASM volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    ASM volatile("bar.sync 0;" ::: "memory");
    if (warp_number() >= LANES / 32) {
        const int lane = (int)get_local_id(0) - LANES, chunk = lane & 7, row = lane >> 3;
        const uint mine = base + (uint)(row * 128 + ((chunk ^ (row & 7)) << 4));
        int coming = 0, dealt = 0; /* pieces that copying has begun, and that are dealt */
        int k_left = 0;
        bool is_more = true;
        uint fill = 0, fill_parity = 0;
        place corner = {0, 0, 0, 0};
        PREPARE_DEAL(leaf, rounds);
        CHUNKS_OF_A(from_a);
        CHUNKS_OF_B(from_b);

        ASM volatile("setmaxnreg.dec.sync.aligned.u32 " COPIERS_REGISTERS ";");
        a += a_at;
        b += b_at;
        PREPARE_A_SUMS(s, share, first_chunk, n);
#pragma nounroll
        for (int t = 0; t < AHEAD; t++) {
            COPY_NEXT(a, b, m, n, k, inner, steps, tiles, rounds, split_k, deals, leaf, dealt, coming, is_more, k_left, corner, from, fill, fill_parity,
                      mine, base, row, chunk, lane);
        }
        for (int q = 0;; q++) {
            const piece now = piece_dealt(deals, q);

            if (now.tile < 0) {
                break;
            }
            BEGIN_A_SUMS(now, s, share, first_chunk, m, n, inner, split_k, lane);
#pragma nounroll
            for (int t = now.from; t < now.to; t++) {
                ADD_A_SUMS(s, share, first_chunk, use, use_parity, base, lane);
                COPY_NEXT(a, b, m, n, k, inner, steps, tiles, rounds, split_k, deals, leaf, dealt, coming, is_more, k_left, corner, from, fill, fill_parity,
                          mine, base, row, chunk, lane);
            }
            END_A_SUMS(now, a_sums, s, share, first_chunk, steps, m, n, inner, split_k, fill, fill_parity, base, lane);
        }
        ASM volatile("cp.async.wait_all;" ::: "memory");
    } else {
        const int lane = (int)get_local_id(0);
        float c[BN / 2];

        ASM volatile("setmaxnreg.inc.sync.aligned.u32 " LANES_REGISTERS ";");
        out += out_at;
        EPILOGUE_MOVE(with, draw, 0);
        for (int q = 0;; q++) {
            const piece now = piece_dealt(deals, q);
            uint last = STAGES;
            const int is_edge = IS_EDGE(n, place_of(now.tile, m, n, inner).j);

            if (now.tile < 0) {
                break;
            }

            PREFETCH_BESIDE(now, with, out, m, n, inner, steps, lane);
            BEGIN_SUMS(now, c, lane, split_k);
#pragma nounroll
            for (int t = now.from; t < now.to; t++) {
                const ulong x = ROWS_AT(base + use * STAGE_BYTES, lane), y = COLUMNS_AT(base + use * STAGE_BYTES);

                wait_phase(FULL(base, use), use_parity);
                ASM volatile("fence.proxy.async.shared::cta;" ::: "memory");
                ASM volatile(MULTIPLY : SUMS(c) : "l"(x), "l"(y), "r"(1), "r"(is_edge) : "memory");
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
            PASS_SUMS_ON(now, c, lane, split_k, steps);
            FOLD_LEAF(now, c, levels, m, n, base, lane);
            END_TILE(place_of(SUM_OF(now.tile, m, n), m, n, inner), c, bias, with, out, m, n, base, lane);
        }
    }
}
