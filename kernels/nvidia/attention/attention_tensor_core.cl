/* attention_tensor_core: attention of bf16 or f16 on the tensor cores of NVIDIA devices; see attention/attention.clh.
 *
 * Specialised by   WGMMA    1: products by the instructions of compute capability 9.0 (ptx/products.clh), 0: by those of 8.0 and higher
 *                           (mma_products.clh)
 *                  IS_F16   0: the operands are bf16, 1: f16
 *                  D        a multiple of 8, at most 128; CAUSAL, DROP, STARTS, DOCUMENTS, WINDOW: see attention/attention.clh
 * Operands         qkv and out begin at multiples of 16 bytes.
 * Launch           groups of LANES; one per ROWS queries of one head; by tile, head, row of the batch. The last queries of a head come first:
 *                  where CAUSAL they have the most keys.
 * Building         WGMMA 1: for the target sm_90a with the local array enlarged to LOCAL_BYTES: charl__launch.sm90a.
 * Algorithm        FlashAttention-2 (Dao, 2023) with the queries in registers: 64 (ROWS) of a group, 16 of a warp. Keys and values come HEIGHT
 *                  at a time, 64, or 32 where 48 KB hold no more; the next are copied while these are used. Two or more groups run on a compute unit at a time, so that one
 *                  multiplies while another computes exponentials.
 * Numerics         online, by HEIGHT keys. Scores are f32 sums of products of tensor cores (gemm_wgmma.cl says what is
 *                  known of those), exponentials those of the device (2 ulp). A weight that enters the product with the values is rounded to the
 *                  type of the operands, unlike the one that the normaliser adds; the factor of dropout is applied to sums. A query's
 *                  bits depend on its row of the batch alone: not on ROWS, the other queries, or how the operands are aligned. What is
 *                  not finite in a value makes NaN of what sees it. Keys before a start weigh 0, and tiles that no query of a group sees
 *                  are passed over.
 */
#define WGMMA 0
#define IS_F16 0
#define LANES 128
#define ROWS  64
#define HEIGHT (WGMMA || D <= 64 ? 64 : 32)

#undef ACT /* whatever the prelude took it for */
#if IS_F16
#define ACT half
#else
#define ACT ushort
#endif

#include "attention/attention_args.h"
#include "attention/attention.clh"
#include "nvidia/ptx/warp.clh"
#include "nvidia/ptx/copy.clh"
#include "nvidia/ptx/local.clh"
#if WGMMA
#include "nvidia/ptx/products.clh"
#else
#define SIZE 2 /* of an element */
#include "nvidia/ptx/mma.clh"
#include "nvidia/attention/mma_products.clh"
#endif
#include "nvidia/attention/attention_blocks.clh"
#include "nvidia/attention/attention_masks.clh"

#define STAGE_BYTES (2 * TILE_BYTES)
#define EDGES       (2 * STAGE_BYTES)
#define LOCAL_BYTES (EDGES + 4 * 64 * DB)

/* Scores of two rows become weights, with the maxima and normalisers brought up to date; returns by what older sums shrink. */
static inline float2 soften(float s[SCORES], float top[2], float sum[2], float factor)
{
    float shrink[2];

#pragma unroll
    for (int h = 0; h < 2; h++) {
        const float before = top[h];
        float shift, added = 0.0f;

#pragma unroll
        for (int i = 0; i < SCORES; i++) {
            top[h] = SUM_ROW(i) == h ? fmax(top[h], s[i]) : top[h];
        }
        top[h] = max_of_row(top[h]);
        shift = (STARTS ? top[h] == -INFINITY : 0) ? 0.0f : top[h] * factor; /* it has not seen a key yet */
        shrink[h] = exp2_near(fma(before, factor, -shift));
#pragma unroll
        for (int i = 0; i < SCORES; i++) {
            if (SUM_ROW(i) == h) {
                s[i] = exp2_near(fma(s[i], factor, -shift));
                added = added + s[i];
            }
        }
        sum[h] = fma(sum[h], shrink[h], added);
    }
    return (float2)(shrink[0], shrink[1]);
}

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
attention_tensor_core(global const ACT *qkv, global ACT *out, global float *lse, global const int *mask, global const uint *record,
        const charl__attention_args args)
{
    const int t_all = args.t_all, heads = args.heads, kv_heads = args.kv_heads;
    local uchar stages[LOCAL_DECLARED] __attribute__((aligned(1024)));
    const address base = LOCAL_ADDRESS(stages);
    const int lane = (int)get_local_id(0);
    const int tiles = (t_all + ROWS - 1) / ROWS, columns = heads + 2 * kv_heads;
    const ulong item = get_group_id(0);
    const int q0 = (tiles - 1 - (int)(item % (ulong)tiles)) * ROWS, h = (int)(item / (ulong)tiles % (ulong)heads);
    const int b = (int)(item / (ulong)tiles / (ulong)heads), hk = heads + h / (heads / kv_heads);
    const int n_k = CAUSAL ? min(q0 + ROWS, t_all) : t_all, n_q = t_all - q0;
    const int row = q0 + row_of_lane(lane); /* and row + 8 */
    const long pitch = (long)columns * D;
    const float factor = args.scale * LOG2E;
    activations keys = qkv + args.qkv + element(b, t_all, 0, columns, hk), values = keys + (long)kv_heads * D;
    float o[DB][32], top[2] = {-INFINITY, -INFINITY}, sum[2] = {0.0f, 0.0f};
    uint words[16 * DB];
    uint use = 0;

    const random numbers = random_of(record, &args);

    (void)mask, (void)numbers;
#if DROP
    const ulong drawn = weight_block(args.first_row + (ulong)b, h, q0 + DRAWN_ROW(lane), 4 * DRAWN_BLOCK(lane), heads, t_all, t_all);
#endif
#if STARTS
    global const int *const start = mask + args.mask;
    const int2 first_of_all = first_keys(start, b, t_all, q0, ROWS, lane);
    const int2 first = (int2)(first_key(start, b, t_all, min(row, t_all - 1)), first_key(start, b, t_all, min(row + 8, t_all - 1)));
    const int k_begin = first_of_all.x & ~63;
#else
    const int k_begin = 0;
#endif
    copy_keys(base, keys, values, pitch, k_begin, t_all, lane);
    load_words(words, qkv + args.qkv + element(b, t_all, q0, columns, h), pitch, n_q, lane);
#pragma unroll
    for (int block = 0; block < DB; block++) {
        clear_sums(o[block]);
    }
#pragma nounroll
    for (int k0 = k_begin; k0 < n_k; k0 += HEIGHT) {
        const address key_tile = base + use, value_tile = key_tile + TILE_BYTES;
        float s[SCORES];
        uint weights[SCORES / 2];
        float2 shrink;

        use ^= STAGE_BYTES;
        ARRIVED;
        if (k0 + HEIGHT < n_k) {
            copy_keys(base + use, keys, values, pitch, k0 + HEIGHT, t_all, lane);
        }
#if CAUSAL
        const bool spoilt = k0 + HEIGHT > q0 && clean_tile(value_tile, base + EDGES, false, lane);

        if (HEIGHT < ROWS && k0 > q0 + 16 * (lane >> 5) + 15) {
            continue; /* the queries of this warp see nothing of it */
        }
#endif
        set_by_row(s, words, key_tile);
        if (DB == 2) {
            add_by_row(s, words + 16, key_tile + BLOCK);
        }
#if DROP
        const uint kept = draw_along(&numbers, drawn + (ulong)(k0 / 4), lane);
#endif
        SETTLE(0, s);
        if (k0 + HEIGHT - 1 > (CAUSAL ? min(q0, t_all - 1) : t_all - 1)) {
#pragma unroll
            for (int i = 0; i < SCORES; i++) {
                const int k = k0 + column_of_lane(lane) + SUM_COLUMN(i), q = row + 8 * SUM_ROW(i);

                s[i] = k <= (CAUSAL ? min(q, t_all - 1) : t_all - 1) ? s[i] : -INFINITY;
            }
        }
#if STARTS
        if (k0 < first_of_all.y) {
            mask_unseen(s, first - k0, -INFINITY, lane);
        }
#endif
        shrink = soften(s, top, sum, factor);
#pragma unroll
        for (int i = 0; i < SCORES; i += 2) {
#if DROP
            s[i] = kept >> i & 1 ? s[i] : 0.0f;
            s[i + 1] = kept >> i & 2 ? s[i + 1] : 0.0f;
#endif
            weights[i / 2] = pack(s[i], s[i + 1], qkv);
        }
#pragma unroll
        for (int block = 0; block < DB; block++) {
#pragma unroll
            for (int i = 0; i < 32; i++) {
                o[block][i] = o[block][i] * (SUM_ROW(i) ? shrink.y : shrink.x);
            }
            add_by_k(o[block], weights, value_tile + (uint)(block * BLOCK));
        }
#pragma unroll
        for (int block = 0; block < DB; block++) {
            SETTLE(0, o[block]);
#if CAUSAL
            if (spoilt) {
                spoil_sums(o[block], base + EDGES + (uint)(256 * block), false, row - k0, lane);
            }
#endif
        }
    }
    sum[0] = sum_of_row(sum[0]);
    sum[1] = sum_of_row(sum[1]);
    global ACT *const to = out + args.out + element(b, t_all, q0, heads, h);
    const float keep = DROP ? args.keep_scale : 1.0f;

#pragma unroll
    for (int block = 0; block < DB; block++) {
        store_sums(o[block], keep / sum[0], keep / sum[1], to, 64 * block, (long)heads * D, n_q, lane);
    }
    if ((lane & 3) < 2 && row + 8 * (lane & 3) < t_all) {
        const bool second = lane & 1;

        lse[args.lse + (ulong)(((long)b * heads + h) * t_all + row + (second ? 8 : 0))] =
            (second ? top[1] : top[0]) * args.scale + charl_log(second ? sum[1] : sum[0]);
    }
}
