/* conv_patch: what conv_wgmma.cl computes with GRAD 0, with its bits, for windows of 3 x 3 neighbouring pixels, stride 1 and images of 64 or 128 channels.
 *
 * Operands and arguments are those of conv_wgmma.cl; tap.x and tap.y are 1 or -1.
 *
 * Specialised by   BIAS, ACT, IS_F16, OUT_T, OUT_BY_8: see gemm_wgmma.cl
 *                  HALVES   64 channels of the image, once or twice
 * Launch           groups of 512 work-items, one per compute unit or fewer. A tile is 8 x 8 pixels of a sample and 64 columns. Group g computes tiles of
 *                  the columns from 64 * (g mod blocks) on, of which there are `blocks` times 64.
 * Building         for the target sm_90a: charl__launch.sm90a.min_blocks 1, shared_bytes LOCAL_BYTES.
 * Algorithm        The weights of the group's columns are copied once and stay in local memory. Of the image a tile needs 10 x 10 pixels, its patch; the
 *                  copy engine brings it once for all taps, with zeros outside the image, where conv_wgmma.cl copies every tap's pixels. Three teams of
 *                  four warps multiply, each its own tiles, so that one multiplies while another stores; one more work-item starts the copies.
 *                  A row of the patch is a pixel. Eight pixels of a tile's row are eight consecutive rows of the operand, and the next eight are ten rows
 *                  further. A tap shifts all of them; the swizzle depends on the address, so the first may be any row.
 * Numerics         as conv_wgmma.cl: the order of taps and channels is the same.
 */
#define A_KIND 0
#define B_KIND 1
#define BN 64
#define HALVES 1

#include "nvidia/gemm/tile_parameters.clh"
#include "nvidia/ptx/wgmma.clh"
#include "nvidia/ptx/warp.clh"
#include "nvidia/ptx/tensor_map.clh"
#include "nvidia/gemm/tile_store.clh"
#include "nvidia/gemm/roles.clh"
#include "nvidia/conv/conv_args.h"
#include "nvidia/conv/conv_window.clh"

#define SIDE 8            /* pixels of a tile's row and column, */
#define REACH (SIDE + 2)  /* and of a patch's */
#define ROW_BYTES 128     /* 64 channels of a pixel */
#define PATCH_BYTES (REACH * REACH * ROW_BYTES)
#define PATCH_STEP 13312  /* a multiple of 1024 */
#define TEAMS 3
#define AHEAD (3 - HALVES) /* patches of a team in local memory */
#define WEIGHT_BYTES (9 * HALVES * BLOCK)
#define LOCAL_DECLARED 49152 /* as much as the front end allows */
#define PATCH_AT(base, i) (base + WEIGHT_BYTES + (uint)(i) * (HALVES * PATCH_STEP)) /* i = team * AHEAD + its stage */
#define WORDS_AT(base) PATCH_AT(base, TEAMS * AHEAD)
#define FULL(base, i) (WORDS_AT(base) + 16 * (uint)(i))
#define FREE(base, i) (FULL(base, i) + 8)
#define WEIGHTS_HERE(base) FULL(base, TEAMS * AHEAD)
#define LOCAL_MAPS(base) (WORDS_AT(base) + 128)
#define LOCAL_BYTES (LOCAL_MAPS(0) + 2 * MAP_BYTES)
#define PATCH_DESCRIPTOR (((ulong)1 << 62) | ((ulong)(REACH * ROW_BYTES >> 4) << 32) | ((ulong)1 << 16))
#define SPLIT_K_WORDS 2048 /* in front of the maps */

/* The tiles of a group: first, first + step, ...; its teams take them in turn. */
typedef struct {
    int columns; /* the first of the group's */
    int first, step, tiles;
} share;

static inline share share_of_group(const window *t)
{
    const int blocks = (t->n + BN - 1) / BN, g = (int)get_group_id(0), block = g % blocks;
    const share s = {BN * block, g / blocks, ((int)get_num_groups(0) - block + blocks - 1) / blocks, t->tiles / blocks};

    return s;
}

/* Its first pixel. */
typedef struct {
    int sample, y, x;
} corner;

static inline corner corner_of(const window *t, int tile)
{
    const int across = (t->grid.y + SIDE - 1) / SIDE, area = (t->grid.x + SIDE - 1) / SIDE * across, rest = tile % area;
    const corner c = {tile / area, rest / across * SIDE, rest % across * SIDE};

    return c;
}

/* Starts the copies of the weights, and of each patch as soon as a place for it is free. */
static inline void copy_all(const window *t, const share *s, ulong maps, uint base)
{
    const int top = t->shift.x + min(2 * t->tap.x, 0), left = t->shift.y + min(2 * t->tap.y, 0);
    int stage = 0;
    uint parity = 1;

    arrive_expecting(WEIGHTS_HERE(base), WEIGHT_BYTES);
#pragma nounroll
    for (int i = 0; i < 9 * HALVES; i++) {
        const int tap = i / HALVES, at = t->w_first + tap / 3 * t->w_step.x + tap % 3 * t->w_step.y;

        copy_box(base + (uint)i * BLOCK, maps + MAP_BYTES, 64 * (at * HALVES + i % HALVES), s->columns, 0, 0, WEIGHTS_HERE(base));
    }
    for (int tile = s->first, team = 0; tile < s->tiles; tile += s->step) {
        const corner c = corner_of(t, tile);
        const int i = team * AHEAD + stage;

        wait_phase(FREE(base, i), parity);
        arrive_expecting(FULL(base, i), HALVES * PATCH_BYTES);
#pragma unroll
        for (int half_ = 0; half_ < HALVES; half_++) {
            copy_box(PATCH_AT(base, i) + (uint)half_ * PATCH_STEP, maps, 64 * half_, c.x + left, c.y + top, c.sample, FULL(base, i));
        }
        team = team == TEAMS - 1 ? 0 : team + 1;
        if (team == 0) {
            parity ^= stage == AHEAD - 1;
            stage = stage == AHEAD - 1 ? 0 : stage + 1;
        }
    }
}

/* The sums of a tile whose patch begins at `patch`. */
static inline void multiply(const window *t, float *c, uint base, uint patch)
{
#pragma unroll
    for (int i = 0; i < BN / 2; i++) {
        ASM volatile("mov.f32 %0, 0f00000000;" : "=f"(c[i])); /* else the assembler waits for products before loops */
    }
#pragma unroll
    for (int tap = 0; tap < 9; tap++) {
        const int r = t->tap.x > 0 ? tap / 3 : 2 - tap / 3, q = t->tap.y > 0 ? tap % 3 : 2 - tap % 3;

#pragma unroll
        for (int h = 0; h < HALVES; h++) {
            const ulong x = PATCH_DESCRIPTOR | (ulong)((patch + (uint)(h * PATCH_STEP + (r * REACH + q) * ROW_BYTES)) >> 4);
            const ulong y = DESCRIPTOR | (ulong)((base + (uint)(tap * HALVES + h) * BLOCK) >> 4);

            ASM volatile(WGMMA_STAGE : SUMS(c) : "l"(x), "l"(y), "r"(1) : "memory");
        }
    }
    ASM volatile("wgmma.wait_group.sync.aligned 0;" : SUMS(c)::"memory"); /* names the sums, so that none is read before */
}

/* Row of out of the pixel in column x of a row of out's, or one that is nowhere. */
static inline int out_row(const window *t, corner c, int y, int x)
{
    return c.y + y < t->grid.x && c.x + x < t->grid.y ? (c.sample * t->out_extent.x + c.y + y) * t->out_extent.y + c.x + x : INT_MAX;
}

static inline void store_tile(const window *t, corner p, int columns, const float *c, global const float *bias, global OUT_T *out, int lane)
{
    const int warp = lane >> 5, x = (lane & 31) >> 2;
    const int upper = out_row(t, p, 2 * warp, x), lower = out_row(t, p, 2 * warp + 1, x);

#pragma unroll
    for (int i = 0; i < BN / 16; i++) {
        const int j = columns + 16 * i;
        float4 first = (float4)(c[8 * i], c[8 * i + 1], c[8 * i + 4], c[8 * i + 5]);
        float4 second = (float4)(c[8 * i + 2], c[8 * i + 3], c[8 * i + 6], c[8 * i + 7]);

        if (BIAS) {
            first += bias_16(bias, j, t->n, lane);
            second += bias_16(bias, j, t->n, lane);
        }
        store_16(elements_at(out), upper, j, INT_MAX, t->n, first, lane);
        store_16(elements_at(out), lower, j, INT_MAX, t->n, second, lane);
    }
}

kernel __attribute__((reqd_work_group_size(128 * (TEAMS + 1), 1, 1))) void
conv_patch(global const ACT *a, global const ACT *b, global const float *bias, global OUT_T *out, const window t, global float *split_k)
{
    local uchar places[LOCAL_DECLARED] __attribute__((aligned(1024)));
    const uint base = (uint)(ulong)places;
    const share s = share_of_group(&t);
    const int team = warp_number() / 4;

    if (get_local_id(0) == 0) {
        for (int i = 0; i < TEAMS * AHEAD; i++) {
            begin_phases(FULL(base, i), 1);
            begin_phases(FREE(base, i), 4);
        }
        begin_phases(WEIGHTS_HERE(base), 1);
        ASM volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    ASM volatile("bar.sync 0;" ::: "memory");
    if (warp_number() == 4 * TEAMS) {
        const ulong maps = (ulong)(split_k + SPLIT_K_WORDS) + 2 * MAP_BYTES * get_group_id(0);
        const int lane = (int)get_local_id(0) - 128 * TEAMS;
        const ulong pixel = 16 * (ulong)t.chunks, row = pixel * (ulong)t.image.y;

        if (lane == 0) {
            const matrix_map m = {(ulong)(a + t.a), pixel, row, row * (ulong)t.image.x, (uint)t.chunks * 8, (uint)t.image.y, (uint)t.image.x};

            make_map(LOCAL_MAPS(base), m, 64, REACH, REACH, IS_F16);
        } else if (lane == 1) {
            const matrix_map m = {(ulong)(b + t.b), 2 * (ulong)t.ld, 16, 16, (uint)t.ld, (uint)t.n, 1};

            make_map(LOCAL_MAPS(base) + MAP_BYTES, m, 64, BN, 1, IS_F16);
        }
        WARP_BARRIER;
        publish_map(maps, LOCAL_MAPS(base));
        publish_map(maps + MAP_BYTES, LOCAL_MAPS(base) + MAP_BYTES);
        if (lane == 0) {
            copy_all(&t, &s, maps, base);
        }
    } else if (team < TEAMS) {
        const int lane = (int)get_local_id(0) & 127;
        int stage = 0;
        uint parity = 0;
        float c[BN / 2];

        wait_phase(WEIGHTS_HERE(base), 0);
        for (int tile = s.first + team * s.step; tile < s.tiles; tile += TEAMS * s.step) {
            const int i = team * AHEAD + stage;

            wait_phase(FULL(base, i), parity);
            multiply(&t, c, base, PATCH_AT(base, i));
            if ((lane & 31) == 0) {
                arrive(FREE(base, i));
            }
            store_tile(&t, corner_of(&t, tile), s.columns, c, bias + t.bias, out + t.out, lane);
            parity ^= stage == AHEAD - 1;
            stage = stage == AHEAD - 1 ? 0 : stage + 1;
        }
    }
}
