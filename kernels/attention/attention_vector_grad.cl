/* attention_vector_grad: the gradient of attention_vector.cl, on CPUs.
 *
 *   dv[k] = sum over q of p[q][k] f[q][k] gout[q]      ds = scale p (f (gout . v) - delta)      f: the factor of dropout
 *   dk[k] = sum over q of ds[q][k] q[q]                dq[q] = sum over k of ds[q][k] k[k]      delta = gout . out (- glse)
 *
 * Specialised by   ACT, D, CAUSAL, DROP, STARTS, DOCUMENTS, WINDOW, LENGTHS, CROSS, SOFTCAP: see attention.clh; CHARL_VEC; GLSE  1: there is a gradient glse of lse
 * Launch           one work-item per key head of a row of the batch, groups of 1. The keys are lanes, LANES at a time; for each the
 *                  queries of all its heads go by. dq grows in global memory from one block of keys to the next: in place, or
 *                  in sums [B, T, heads * D], f32, where ACT would round it each time.
 * Numerics         see attention.clh.
 */
#define GLSE 0
#include "attention/attention_args.h"
#include "attention/attention.clh"
#include "shared/philox.clh"
#if CHARL_VEC == 16
#include "shared/transpose16.clh"
#endif
#include "attention/attention_lanes.clh"

/* x[r] += ds[r] * key for queries r from `from` on; those of ds are LANES apart. */
CHARL_IN_KERNEL void add_key(charl_real x[8], const float *ds, charl_real key, const int from)
{
#pragma unroll
    for (int r = from; r < 8; r++) {
        x[r] = fma(CHARL_SPLAT(ds[r * LANES]), key, x[r]);
    }
}

/* sums[i] += sum over keys j < n_k of ds[i][j] * keys[j] for 8 queries from i on, of which `left` exist; from 0 if `first`, to dq if
 * `last`.
 * CAUSAL: query i + r sees keys j <= i + r + diagonal. */
static inline void add_queries(global float *sums, long sums_pitch, global ACT *dq, long pitch, const float *ds,
                               const float *keys, int n_k, int left, int seen, bool first, bool last)
{
    for (int c = 0; c < D; c += CHARL_VEC) {
        charl_real x[8];
        int j = 0;

#pragma unroll
        for (int r = 0; r < 8; r++) {
            x[r] = first || r >= left ? CHARL_SPLAT(0.0f) : charl_load(sums + r * sums_pitch + c, D - c);
        }
        for (; j < min(seen, n_k); j++) {
            add_key(x, ds + j, CHARL_VLOAD(keys + j * DP + c), 0);
        }
#pragma unroll
        for (int from = 1; from < 8; from++) {
            if (j < n_k) {
                add_key(x, ds + j, CHARL_VLOAD(keys + j * DP + c), from);
                j++;
            }
        }
#pragma unroll
        for (int r = 0; r < 8; r++) {
            if (r < left) {
                if (last) {
                    charl_store(x[r], dq + r * pitch + c, D - c);
                } else {
                    charl_store(x[r], sums + r * sums_pitch + c, D - c);
                }
            }
        }
    }
}

#if DROP
/* Random bits of the weights of queries q and q + 1 for keys k0 + l, from l = 0 and l = LANES on. */
static inline void draw_two_rows(uint bits[4 * CHARL_VEC], ulong block, int t_keys, ulong key, ulong step)
{
    const ulong blocks = (ulong)((t_keys + 3) / 4);
    ulong position[CHARL_VEC];
    words word[4];

    for (int l = 0; l < CHARL_VEC; l++) {
        position[l] = block + (ulong)(l / (LANES / 4)) * blocks + (ulong)(l % (LANES / 4));
    }
    draw_blocks(key, step, CHARL_VLOAD(position), word);
    in_order(word, bits);
}
#endif

/* One query's scores and products with gout become its weights and their gradients, for CHARL_VEC keys. */
static inline void differentiate(float *p, float *ds, charl_int seen, float row_lse, float delta, float scale, float inner,
                                 charl_real factor)
{
    const charl_real s = limited(CHARL_VLOAD(p), inner);
    const charl_real w = charl_exp(fma(s, CHARL_SPLAT(scale), CHARL_SPLAT(-row_lse)));
    const charl_real dw = times_slope(w * (factor * CHARL_VLOAD(ds) - delta) * scale, s, inner);

    CHARL_VSTORE(CAUSAL || LENGTHS ? select(CHARL_SPLAT(0.0f), w * factor, seen) : w * factor, p);
    CHARL_VSTORE(CAUSAL || LENGTHS ? select(CHARL_SPLAT(0.0f), dw, seen) : dw, ds);
}

kernel void attention_vector_grad(global const ACT *gout, global const ACT *qkv, global const ACT *kv, global const float *lse, global const float *dots, global const float *glse,
        global float *sums, global ACT *dqkv, global ACT *dkv, global const int *mask, global const uint *record, const charl__attention_args args)
{
    const int t_all = args.t_all, t_keys = args.t_keys, heads = args.heads, kv_heads = args.kv_heads;
    float keys[DP * LANES], values[DP * LANES], dk[DP * LANES], dv[DP * LANES], key_rows[LANES * DP];
    float query_rows[LANES * DP], gout_rows[LANES * DP], p[LANES * LANES], ds[LANES * LANES];
    const int columns = query_columns(&args), kv_columns = key_columns(&args), group = heads / kv_heads;
    const int b = (int)(get_global_id(0) / (ulong)kv_heads), head = (int)(get_global_id(0) % (ulong)kv_heads);
    const int n_keys = keys_of(mask + args.mask, b, t_keys);
    const long pitch = (long)columns * D, kv_pitch = (long)kv_columns * D, out_pitch = (long)heads * D;
    const long sums_pitch = sizeof(ACT) == sizeof(float) ? pitch : out_pitch;
    const charl_real one[2] = {CHARL_SPLAT(1.0f), CHARL_SPLAT(1.0f)};

    const random numbers = random_of(record, &args);

    (void)numbers;
    if (!GLSE) {
        (void)glse;
    }
#if STARTS
    global const int *const start = mask + args.mask;

#endif
    gout += args.gout;
    qkv += args.qkv;
    kv = CROSS ? kv + args.kv : qkv;
    dqkv += args.dqkv;
    dkv = CROSS ? dkv + args.dkv : dqkv;
    sums = sizeof(ACT) == sizeof(float) ? (global float *)dqkv : sums + args.sums;
    for (int k0 = 0; k0 < t_keys; k0 += LANES) {
        const int n_k = min(LANES, t_keys - k0), n_seen = min(n_k, n_keys - k0);
        const long k_at = element(b, t_keys, k0, kv_columns, heads_before_keys(&args) + head), v_at = k_at + (long)kv_heads * D;

        pack_panel(keys, kv + k_at, kv_pitch, n_k);
        pack_panel(values, kv + v_at, kv_pitch, n_k);
        pack_rows(key_rows, kv + k_at, kv_pitch, n_k);
        for (int i = 0; i < DP * LANES; i += CHARL_VEC) {
            CHARL_VSTORE(CHARL_SPLAT(0.0f), dk + i);
            CHARL_VSTORE(CHARL_SPLAT(0.0f), dv + i);
        }
        for (int h = head * group; h < (head + 1) * group; h++) {
            for (int q0 = CAUSAL ? k0 : 0; q0 < queries_of(k0 + n_k - 1, t_all) && n_seen > 0; q0 += LANES) {
                const int n = min(LANES, t_all - q0), masked = CAUSAL && q0 == k0 ? n : 0;
                const bool first = k0 == (WINDOW ? max(q0 + 1 - WINDOW, 0) / LANES * LANES : 0);
                const bool last = sizeof(ACT) != sizeof(float) && (CAUSAL ? q0 == k0 : k0 + LANES >= n_keys);
                global ACT *dq = dqkv + element(b, t_all, q0, columns, h);
                global float *sum =
                    sums + (sums_pitch == pitch ? element(b, t_all, q0, columns, h) : element(b, t_all, q0, heads, h));
                const ulong row = (ulong)(((long)b * heads + h) * t_all + q0);

                pack_rows(query_rows, qkv + element(b, t_all, q0, columns, h), pitch, n);
                pack_rows(gout_rows, gout + element(b, t_all, q0, heads, h), out_pitch, n);
                dot_rows(query_rows, keys, p, n);
                dot_rows(gout_rows, values, ds, n);
#if DROP
                uint bits[4 * CHARL_VEC];
#endif
                for (int i = 0; i < n; i++) {
                    float delta = dots[args.dots + (ulong)(((long)b * t_all + q0 + i) * heads + h)];

                    if (GLSE) {
                        delta -= glse[args.glse + row + (ulong)i];
                    }
#if DROP
                    if (i % 2 == 0) {
                        draw_two_rows(bits, weight_block(args.first_row + (ulong)b, h, q0 + i, k0, heads, t_all, t_keys), t_keys, numbers.key,
                                      numbers.step);
                    }
#endif
                    for (int side = 0; side < LANES; side += CHARL_VEC) {
                        charl_real factor = CHARL_SPLAT(1.0f);
                        charl_int seen = lane_numbers(side) <= (CAUSAL ? i + q0 - k0 : n_seen - 1);

                        if (CAUSAL && side > i + q0 - k0) {
                            continue; /* these are not used */
                        }
#if STARTS
                        seen = seen & (lane_numbers(side) >= first_key(start, b, t_all, q0 + i) - k0);
#endif
#if DROP
                        factor = select(CHARL_SPLAT(0.0f), CHARL_SPLAT(args.keep_scale),
                                        CHARL_VLOAD(bits + i % 2 * LANES + side) >> 8 >= args.threshold);
#endif
                        differentiate(p + i * LANES + side, ds + i * LANES + side, seen, lse[args.lse + row + (ulong)i],
                                      delta, args.scale, args.inner, factor);
                    }
                }
                add_rows_masked(dv, gout_rows, p, 0, masked, 0, false);
                add_rows(dv, gout_rows, p, masked, n);
                add_rows_masked(dk, query_rows, ds, 0, masked, 0, false);
                add_rows(dk, query_rows, ds, masked, n);
                for (int i = 0; i < n; i += 8) {
                    add_queries(sum + i * sums_pitch, sums_pitch, dq + i * pitch, pitch, ds + i * LANES, key_rows,
                                n_seen, n - i, CAUSAL ? i + q0 - k0 + 1 : n_seen, first, last);
                }
            }
        }
#if LENGTHS
        clear_lanes(dk, n_seen);
        clear_lanes(dv, n_seen);
#endif
        unpack_panel(dk, one, dkv + k_at, kv_pitch, n_k);
        unpack_panel(dv, one, dkv + v_at, kv_pitch, n_k);
    }
}
