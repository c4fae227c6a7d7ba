/* attention_vector: attention on CPUs; see attention.clh and attention_lanes.clh.
 *
 * Specialised by   ACT, D, CAUSAL, DROP, STARTS, DOCUMENTS, WINDOW, LENGTHS, CROSS, SOFTCAP: see attention.clh; CHARL_VEC
 * Launch           one work-item per LANES queries of one head, groups of 1; by block, head, row of the batch. The queries are
 *                  lanes. Scores of a tile of keys, outputs and the tile's rows lie in private memory, which the cache holds.
 * Numerics         see attention.clh.
 */
#include "attention/attention_args.h"
#include "attention/attention.clh"
#include "shared/philox.clh"
#if CHARL_VEC == 16
#include "shared/transpose16.clh"
#endif
#include "attention/attention_lanes.clh"

typedef struct {
    charl_real m[2], sum[2], scale_down[2];
} softmax_state;

#if DROP
/* Factors of weights k .. k + 3 of the queries from q on. */
static inline void draw_weights(charl_real factor[4], ulong block, int t_keys, ulong key, ulong step, uint threshold,
                                float keep_scale)
{
    const ulong blocks = (ulong)((t_keys + 3) / 4);
    ulong position[CHARL_VEC];
    words word[4];

    for (int l = 0; l < CHARL_VEC; l++) {
        position[l] = block + (ulong)l * blocks;
    }
    draw_blocks(key, step, CHARL_VLOAD(position), word);
    for (int w = 0; w < 4; w++) {
        factor[w] = select(CHARL_SPLAT(0.0f), CHARL_SPLAT(keep_scale), word[w] >> 8 >= threshold);
    }
}
#endif

/* Which lanes see row i of a tile, where their first one is `first`. */
static inline charl_int sees(charl_int lane, charl_int first, int i)
{
    if (STARTS) {
        return (lane >= i) & (first <= i);
    } else {
        (void)first;
        return lane >= i;
    }
}

/* Scores block[0 .. n) become weights exp(s - m), masked ones 0; where all of a vector are, they stay as they are. Lane l of a causal tile sees
 * rows i <= l + diagonal, and with STARTS i >= first only. */
static inline void weigh(float *block, int rows, int diagonal, float scale, const charl_int first[2], softmax_state *s)
{
    for (int side = 0; side < 2; side++) {
        const int n = CAUSAL ? min(rows, (side + 1) * CHARL_VEC + diagonal) : rows;
        const charl_int lane = lane_numbers(side * CHARL_VEC) + diagonal;
        float *const column = block + side * CHARL_VEC;
        charl_real part[4], m = s->m[side], shift;

        for (int i = 0; i < n; i++) {
            const charl_real x = CHARL_VLOAD(column + i * LANES);

            m = charl_maximum(m, CAUSAL ? select(CHARL_SPLAT(-INFINITY), x, sees(lane, first[side], i)) : x);
        }
        shift = m * scale;
        if (STARTS) {
            shift = select(shift, CHARL_SPLAT(0.0f), m == -INFINITY); /* it has not seen a key yet */
        }
        for (int w = 0; w < 4; w++) {
            part[w] = CHARL_SPLAT(0.0f);
        }
        for (int i = 0; i < n; i += 4) {
#pragma unroll
            for (int w = 0; w < 4; w++) {
                if (i + w < n) {
                    charl_real p = charl_exp(fma(CHARL_VLOAD(column + (i + w) * LANES), CHARL_SPLAT(scale), -shift));

                    p = CAUSAL ? select(CHARL_SPLAT(0.0f), p, sees(lane, first[side], i + w)) : p;
                    part[w] = part[w] + p;
                    CHARL_VSTORE(p, column + (i + w) * LANES);
                }
            }
        }
        s->scale_down[side] = charl_exp(fma(s->m[side], CHARL_SPLAT(scale), -shift));
        s->sum[side] = s->sum[side] * s->scale_down[side] + ((part[0] + part[1]) + (part[2] + part[3]));
        s->m[side] = m;
    }
}

kernel void attention_vector(global const ACT *qkv, global const ACT *kv, global ACT *out, global float *lse, global const int *mask, global const uint *record,
        const charl__attention_args args)
{
    const int t_all = args.t_all, t_keys = args.t_keys, heads = args.heads, kv_heads = args.kv_heads;
    float queries[DP * LANES], sums[DP * LANES], block[TILE * LANES], rows[TILE * DP];
    const int blocks = (t_all + LANES - 1) / LANES, columns = query_columns(&args), kv_columns = key_columns(&args);
    const ulong item = get_global_id(0);
    const int q0 = (int)(item % (ulong)blocks) * LANES, h = (int)(item / (ulong)blocks % (ulong)heads);
    const int b = (int)(item / (ulong)blocks / (ulong)heads), hk = heads_before_keys(&args) + h / (heads / kv_heads);
    const int n_q = min(LANES, t_all - q0), n_k = CAUSAL ? q0 + n_q : keys_of(mask + args.mask, b, t_keys);
    const long pitch = (long)columns * D, kv_pitch = (long)kv_columns * D;
    softmax_state s;
    charl_real factor[2];
    float row_lse[LANES];
    charl_int first[2] = {0, 0}; /* key that each query sees */
    int k_begin = 0;

#if STARTS
    global const int *const start = mask + args.mask;
    int begin[LANES];

    for (int l = 0; l < LANES; l++) {
        begin[l] = l < n_q ? first_key(start, b, t_all, q0 + l) : q0;
    }
    first[0] = CHARL_VLOAD(begin);
    first[1] = CHARL_VLOAD(begin + CHARL_VEC);
    k_begin = first_key_of(start, b, t_all, q0, n_q) / TILE * TILE;
#endif
    const random numbers = random_of(record, &args);

    (void)numbers;
    qkv += args.qkv;
    kv = CROSS ? kv + args.kv : qkv;
    pack_panel(queries, qkv + element(b, t_all, q0, columns, h), pitch, n_q);
    for (int side = 0; side < 2; side++) {
        s.m[side] = CHARL_SPLAT(-INFINITY);
        s.sum[side] = CHARL_SPLAT(0.0f);
    }
    for (int i = 0; i < DP * LANES; i += CHARL_VEC) {
        CHARL_VSTORE(CHARL_SPLAT(0.0f), sums + i);
    }
    for (int k0 = k_begin; k0 < n_k; k0 += TILE) {
        const charl_int first_here[2] = {first[0] - k0, first[1] - k0};
        const int n = min(TILE, n_k - k0), diagonal = q0 - k0, seen_by_all = CAUSAL ? min(n, diagonal + 1) : n;

        pack_rows(rows, kv + element(b, t_keys, k0, kv_columns, hk), kv_pitch, n);
        dot_rows(rows, queries, block, n);
        for (int i = 0; SOFTCAP && i < n * LANES; i += CHARL_VEC) {
            CHARL_VSTORE(limited(CHARL_VLOAD(block + i), args.inner), block + i);
        }
        weigh(block, n, diagonal, args.scale, first_here, &s);
#if DROP
        for (int i = 0; i < n; i += 4) {
            for (int side = 0; side < 2; side++) {
                charl_real kept[4];
                float *const column = block + i * LANES + side * CHARL_VEC;

                draw_weights(kept, weight_block(args.first_row + (ulong)b, h, q0 + side * CHARL_VEC, k0 + i, heads, t_all, t_keys),
                             t_keys, numbers.key, numbers.step, args.threshold, args.keep_scale);
                for (int w = 0; w < 4; w++) {
                    CHARL_VSTORE(CHARL_VLOAD(column + w * LANES) * kept[w], column + w * LANES);
                }
            }
        }
#endif
        for (int i = 0; k0 > k_begin && i < DP * LANES; i += LANES) {
            CHARL_VSTORE(CHARL_VLOAD(sums + i) * s.scale_down[0], sums + i);
            CHARL_VSTORE(CHARL_VLOAD(sums + i + CHARL_VEC) * s.scale_down[1], sums + i + CHARL_VEC);
        }
        pack_rows(rows, kv + element(b, t_keys, k0, kv_columns, hk + kv_heads), kv_pitch, n);
        add_rows(sums, rows, block, 0, seen_by_all);
        add_rows_masked(sums, rows, block, seen_by_all, n, diagonal, true);
    }
    for (int side = 0; side < 2; side++) {
        factor[side] = 1.0f / s.sum[side];
        CHARL_VSTORE(s.m[side] * args.scale + charl_log(s.sum[side]), row_lse + side * CHARL_VEC);
    }
    unpack_panel(sums, factor, out + args.out + element(b, t_all, q0, heads, h), (long)heads * D, n_q);
    for (int l = 0; l < n_q; l++) {
        lse[args.lse + (ulong)(((long)b * heads + h) * t_all + q0 + l)] = row_lse[l];
    }
}
