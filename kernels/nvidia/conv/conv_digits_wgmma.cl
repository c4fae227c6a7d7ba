/* conv_digits_wgmma: the convolutions of kernels/conv/conv_digits.cl, with its bits, on the tensor cores of NVIDIA devices of compute capability 9.0.
 *
 * Specialised by   GRAD, BIAS  as conv_digits.cl
 *                  LOW    0: tiles of 128 rows and 128 columns, 1: of 64 and 256
 *                  PAIRS  1: with GRAD 0 two neighbouring pixels of a tile, with GRAD 1 two channels, are stored together
 * Arguments        as conv_digits.cl, and `split_k`, whose maps it uses. A tile's columns are with GRAD 0 a box of 2^box_w x 2^box_h pixels of 2^box_n
 *                  images, with GRAD 1 blocks of 64 channels, of one tap after another.
 * Launch           groups of 384 work-items, at most one per compute unit and CHARL_SPLIT_K_GROUPS: group g computes tiles g, g + groups, ...
 * Building         for the target sm_90a: charl__launch.sm90a.min_blocks 1, shared_bytes LOCAL_BYTES + WORDS_BYTES.
 * Algorithm        as gemm_digits_wgmma.cl. The copy engine finds the pixels of a tap in the image, with zeros outside, or shifts the pixels of a
 *                  channel: by multiples of 16 bytes, which it needs, because all samples of a slice are side by side.
 */
#define GRAD 0
#define BIAS 0
#define LOW 0
#define PAIRS 0
#define DIGITS 4
#define BM (LOW ? 64 : 128)
#define BN (LOW ? 256 : 128)
#define BK 64
#define STAGES (LOW ? 2 : 3)

#include "conv/conv_digits_args.h"
#include "integer/digits.clh"
#include "nvidia/ptx/warp.clh"
#include "nvidia/ptx/tensor_map.clh"
#include "nvidia/gemm/roles.clh"

#define LANES 256  /* that multiply, */
#define OTHERS 128 /* and others, one of which copies */
#define LANES_REGISTERS "240"
#define OTHERS_REGISTERS "24"
#define LOCAL_DECLARED 49152
#define WORDS_BYTES 512
#define SPLIT_K_WORDS 2048 /* in front of the maps */
#define MAPS(split_k) ((ulong)(split_k + SPLIT_K_WORDS) + 256 * get_group_id(0)) /* of this group */
#include "nvidia/gemm/digits_sums.clh"

#define BLOCK 64 /* channels of columns */

/* A tile's first row; the first pixel of its box and the image z; with GRAD 1 its first block, and the leaf z. */
typedef struct {
    int i, x, y, z, block;
} place;

static inline int divide_up(int a, int b)
{
    return (a + b - 1) / b;
}

#if GRAD
static inline int blocks_of_tap(const charl__conv_digits_args *t)
{
    return divide_up(t->n, BLOCK);
}
#endif

static inline place place_of(const charl__conv_digits_args *t, int tile)
{
    const int rows = divide_up(t->m, BM);
    int rest = tile / rows;
    place p = {tile % rows * BM, 0, 0, 0, 0};

#if GRAD
    const int columns = divide_up(t->taps_h * t->taps_w * blocks_of_tap(t), BN / BLOCK);

    p.block = rest % columns * (BN / BLOCK);
    p.z = rest / columns;
#else
    const int across = (t->grid_w + (1 << t->box_w) - 1) >> t->box_w, down = (t->grid_h + (1 << t->box_h) - 1) >> t->box_h;

    p.x = rest % across << t->box_w;
    rest /= across;
    p.y = rest % down << t->box_h;
    p.z = rest / down << t->box_n;
#endif
    return p;
}

static inline int steps_of_tap(const charl__conv_digits_args *t)
{
    return divide_up(t->k, BK);
}

static inline int steps_of(const charl__conv_digits_args *t)
{
    return (GRAD ? 1 : t->taps_h * t->taps_w) * steps_of_tap(t);
}

/* Digits of a step of k of a tile, to the stage that begins at `first`. */
CHARL_INLINE void copy_stage(const charl__conv_digits_args *t, place tile, int step, int digits, ulong maps, uint first, uint word)
{
    for (int d = 0; d < digits; d++) {
        const uint to_a = first + d * A_BYTES, to_b = first + DIGITS * A_BYTES + d * B_BYTES;
#if GRAD
        const int k = tile.z / t->parts * t->slice_bytes + tile.z % t->parts * t->k + step * BK, blocks = blocks_of_tap(t);

        copy_box(to_a, maps, k, tile.i, d, 0, word);
        for (int q = 0; q < BN / BLOCK; q++) {
            const int tap = (tile.block + q) / blocks, r = tap / t->taps_w, s = tap - r * t->taps_w;
            const int at = k + (t->shift_h + r * t->step_h) * t->row_bytes + (t->shift_w + s * t->step_w) * t->pixel_bytes;
            const int channel = r < t->taps_h ? (tile.block + q - tap * blocks) * BLOCK : blocks * BLOCK; /* outside: zeros */

            copy_box(to_b + (uint)q * (BLOCK * BK), maps + MAP_BYTES, at, channel, d, 0, word);
        }
#else
        const int each = steps_of_tap(t), tap = step / each, k = (step - tap * each) * BK, r = tap / t->taps_w, s = tap - r * t->taps_w;

        copy_box(to_a, maps, k, tap, tile.i, d, word);
        copy_box(to_b, maps + MAP_BYTES, k, tile.x + t->shift_w + s * t->step_w, tile.y + t->shift_h + r * t->step_h, d * t->n + tile.z, word);
#endif
    }
}

/* What one work-item does: it has the copy engine fill the stages of all tiles of the group. The last digit has no part in the second pass. */
CHARL_INLINE void copy_all(const charl__conv_digits_args *t, ulong maps, uint base)
{
    const int steps = steps_of(t);
    uint stage = 0, parity = 1;

    for (int tile = (int)get_group_id(0); tile < t->tiles; tile += (int)get_num_groups(0)) {
        const place corner = place_of(t, tile);

        for (int turn = 0; turn < PASSES * steps; turn++) {
            const bool second = turn >= steps;
            const int digits = second ? DIGITS - 1 : DIGITS;
            const uint word = FULL(base, stage);

            wait_phase(FREE(base, stage), parity);
            arrive_expecting(word, (uint)digits * (A_BYTES + B_BYTES));
            copy_stage(t, corner, second ? turn - steps : turn, digits, maps, base + stage * STAGE_BYTES, word);
            parity ^= stage == STAGES - 1;
            stage = stage == STAGES - 1 ? 0 : stage + 1;
        }
    }
}

/* The map of a and of b; the digits are the outermost extent, with GRAD 0 of b together with the images. */
static inline void make_map_of(uint at, const charl__conv_digits_args *t, ulong digits, const int is_a)
{
    const ulong digit = (ulong)(is_a ? t->a_digit : t->b_digit);
#if GRAD
    const ulong pitch = (ulong)(t->leaves / t->parts) * (ulong)t->slice_bytes;
    const matrix_map m = {digits, pitch, digit, digit, (uint)pitch, (uint)(is_a ? t->m : t->n), DIGITS};

    make_boxes(at, m, 1, is_a ? (uint4)(BK, BM, 1, 1) : (uint4)(BK, BLOCK, 1, 1), ELEMENT_U8);
#else
    const ulong k = (ulong)t->k;
    const uint taps = (uint)(t->taps_h * t->taps_w);
    const matrix_map weight = {digits, k, taps * k, digit, (uint)k, taps, (uint)t->m};
    const matrix_map image = {digits, k, (ulong)t->image_w * k, digit / (ulong)t->n, (uint)k, (uint)t->image_w, (uint)t->image_h};

    if (is_a) {
        make_boxes(at, weight, DIGITS, (uint4)(BK, 1, BM, 1), ELEMENT_U8);
    } else {
        make_boxes(at, image, (uint)t->n * DIGITS, (uint4)(BK, 1u << t->box_w, 1u << t->box_h, 1u << t->box_n), ELEMENT_U8);
    }
#endif
}

/* A column of a tile: its scale, and where its element of row 0 lies in out; -1: nowhere. */
typedef struct {
    long first;
    int scale;
} column;

static inline column column_of(const charl__conv_digits_args *t, place tile, int j, global const int *scales)
{
    column c = {-1, 0};
#if GRAD
    const int blocks = blocks_of_tap(t), block = tile.block + j / BLOCK, tap = block / blocks, channel = (block - tap * blocks) * BLOCK + j % BLOCK;
    const int taps = t->taps_h * t->taps_w;

    if (tap < taps && channel < t->n) {
        c.first = ((long)tile.z * t->m * taps + tap) * t->n + channel;
        c.scale = scales[(long)(tile.z / t->parts) * t->n + channel];
    }
#else
    const int x = tile.x + (j & ((1 << t->box_w) - 1)), y = tile.y + (j >> t->box_w & ((1 << t->box_h) - 1)), z = tile.z + (j >> (t->box_w + t->box_h));

    if (x < t->grid_w && y < t->grid_h && z < t->n) {
        c.first = ((long)z * t->m * t->grid_h + y) * t->grid_w + x;
        c.scale = scales[z];
    }
#endif
    return c;
}

static inline int row_scale(const charl__conv_digits_args *t, place tile, int i, global const int *scales)
{
    return i < t->m ? scales[GRAD ? (long)(tile.z / t->parts) * t->m + i : i] : 0;
}

/* A pair of neighbouring columns in row i. */
CHARL_INLINE void store_pair(const charl__conv_digits_args *t, global float *out, int i, column left, column right, float x, float y)
{
    const long row = i * (GRAD ? (long)(t->taps_h * t->taps_w) * t->n : (long)t->grid_h * t->grid_w);

    if (i >= t->m) {
        return;
    }
#if PAIRS
    if (left.first >= 0) {
        *(global float2 *)(out + row + left.first) = (float2)(x, y);
    }
    (void)right;
#else
    if (left.first >= 0) {
        out[row + left.first] = x;
    }
    if (right.first >= 0) {
        out[row + right.first] = y;
    }
#endif
}

kernel __attribute__((reqd_work_group_size(LANES + OTHERS, 1, 1))) void
conv_digits_wgmma(global const uchar *a, global const uchar *b, global const float *restrict bias, global float *restrict out,
                  const charl__conv_digits_args t, global float *split_k)
{
    local uchar stages[LOCAL_DECLARED] __attribute__((aligned(1024)));
    const uint base = (uint)(ulong)stages;

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
            if (lane == 0) {
                make_map_of(LOCAL_MAPS(base), &t, (ulong)(a + t.a + t.a_head), 1);
            } else if (lane == 1) {
                make_map_of(LOCAL_MAPS(base) + MAP_BYTES, &t, (ulong)(b + t.b + t.b_head), 0);
            }
            WARP_BARRIER;
            publish_map(MAPS(split_k), LOCAL_MAPS(base));
            publish_map(MAPS(split_k) + MAP_BYTES, LOCAL_MAPS(base) + MAP_BYTES);
            if (lane == 0) {
                copy_all(&t, MAPS(split_k), base);
            }
        }
    } else {
        const int lane = (int)get_local_id(0), steps = steps_of(&t);
        turn next = {0, 0, STAGES};
        int c0[64], c1[64], c2[64];

        ASM volatile("setmaxnreg.inc.sync.aligned.u32 " LANES_REGISTERS ";");
        out += t.out;
        for (int q = (int)get_group_id(0); q < t.tiles; q += (int)get_num_groups(0)) {
            const place tile = place_of(&t, q);
            const int row = tile.i + (LOW ? lane >> 5 & 3 : lane >> 5) * 16 + ((lane & 31) >> 2), left = LOW ? (lane >> 7) * 128 : 0;
            const int upper = row_scale(&t, tile, row, (global const int *)(a + t.a)), lower = row_scale(&t, tile, row + 8, (global const int *)(a + t.a));
            float upper_bias = 0.0f, lower_bias = 0.0f;

            if (BIAS) {
                upper_bias = row < t.m ? (bias + t.bias)[row] : 0.0f;
                lower_bias = row + 8 < t.m ? (bias + t.bias)[row + 8] : 0.0f;
            }
            multiply_tile(&next, base, lane, steps, c0, c1, c2);
#pragma unroll
            for (int i = 0; i < 64; i += 4) {
                const int j = left + i * 2 + (lane & 3) * 2;
                const column p = column_of(&t, tile, j, (global const int *)(b + t.b)), r = column_of(&t, tile, j + 1, (global const int *)(b + t.b));

                store_pair(&t, out, row, p, r, sum_of_digits(c0[i], c1[i], c2[i], upper, p.scale) + upper_bias,
                           sum_of_digits(c0[i + 1], c1[i + 1], c2[i + 1], upper, r.scale) + upper_bias);
                store_pair(&t, out, row + 8, p, r, sum_of_digits(c0[i + 2], c1[i + 2], c2[i + 2], lower, p.scale) + lower_bias,
                           sum_of_digits(c0[i + 3], c1[i + 3], c2[i + 3], lower, r.scale) + lower_bias);
            }
        }
    }
}
